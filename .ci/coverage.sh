#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# coverage.sh BUILD FOLDER: line and branch coverage of FOLDER/*.c, from a tree in BUILD that was
# compiled with --coverage and whose tests have run. Ends with the line 'lines N %, branches N %'.
set -euo pipefail
build=$1 folder=$2

for source in "$folder"/*.c; do
    gcov --branch-probabilities --object-directory "$build/$folder" --no-output "$source" 2>/dev/null
done | awk -v folder="$folder" '
    function percent(part, whole) { return whole ? 100 * part / whole : 100 }
    /^File / { file = substr($2, 2, length($2) - 2); mine = index(file, folder "/") == 1 && file ~ /\.c$/ }
    mine && /^Lines executed:/ { split($2, p, /[:%]/); n = $4; lines[file] = p[2]; all += n; run += n * p[2] / 100 }
    mine && /^Taken at least once:/ { split($5, p, /[:%]/); sub(/^once:/, "", $4); split($4, q, "%"); n = $NF
        branches[file] = q[1]; ball += n; brun += n * q[1] / 100; mine = 0 }
    END {
        for (file in lines) printf "%-32s lines %6.2f %%   branches %6.2f %%\n", file, lines[file], branches[file] | "sort"
        close("sort")
        printf "lines %.2f %%, branches %.2f %%\n", percent(run, all), percent(brun, ball)
    }'
