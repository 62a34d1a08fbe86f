#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt coverage: lines ran as often as gcov counts of the same program, which is compiled once with
# --coverage, and once without to be traced. And --drcov: its file, which drcov.pl reads, has the
# instructions that were stepped, and no others.
#
# Needs $BUILD/vpt and $BUILD/tests/stepped. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
programs=$(cd "$(dirname "$0")/programs" && pwd)
cc=${CC:-gcc}

if ! "$cc" -O0 -g -fPIE -pie -o "$work/ways" "$programs/ways.c" 2>"$work/error"; then
    fail 'coverage' 'its program cannot be built'
    summary
    exit
fi
if ! "$BUILD/tests/stepped" "$work/data" "$work/log" "$work/ways" >"$work/recorded" 2>&1; then
    skip_rest 'coverage' "no program can be single-stepped here: $(tail -n 1 "$work/recorded")"
fi

# ---- drcov ----

expect 'a drcov file' 0 '' "$vpt" coverage --drcov "$work/drcov" "$work/data"
check 'it has what ran, and nothing else' \
    "$(dirname "$0")/drcov.pl" "$work/drcov" "$work/log" "$work/ways"
expect 'of nobody' 3 'nothing ran that counts' "$vpt" coverage --drcov "$work/nobody" --pid 1 "$work/data"
expect 'that cannot be written' 3 'No such file' "$vpt" coverage --drcov "$work/none/drcov" "$work/data"

# ---- Lines ----

"$BUILD/vpt" coverage "$work/data" >"$work/info" 2>"$work/error"
if grep -q 'built without libdw' "$work/error"; then
    skip_rest 'lines of sources' 'this vpt was built without libdw'
fi

main=$(grep -n '^int main' "$programs/ways.c" | cut -d : -f 1)

# "line count" of ways.c, up to main().
our_lines() {
    awk -v main="$main" '/^SF:/ { is_it = /\/ways\.c$/ }
        is_it && /^DA:/ { sub(/^DA:/, ""); sub(/,/, " "); if ($1 < main) print }' "$1" | sort
}

# The same of gcov, of functions that ran: of others vpt coverage has nothing.
gcov_lines() {
    (mkdir -p "$work/gcov" && cd "$work/gcov" && "$cc" -O0 -g --coverage -o ways "$programs/ways.c" &&
        ./ways run && gcov --json-format --stdout ways.gcda) 2>"$work/error" |
        jq -r '.files[] | ([.functions[] | select(.execution_count == 0 or .name == "main").name]) as $unrun |
            .lines[] | select(.function_name as $name | $unrun | index($name) | not) |
            "\(.line_number) \(.count)"' | sort
}
# Lines that both have: "line count count". gcov alone has what begins a function, and labels; debug
# information alone has braces.
lines_are_gcovs() {
    local line others='^ *(case [0-9]+|default):$|^static .*\)$|^[{}]$'
    gcov_lines >"$work/gcov-lines"
    our_lines "$work/info" >"$work/our-lines"
    join "$work/gcov-lines" "$work/our-lines" >"$work/both"
    [ "$(wc -l <"$work/both")" -gt 20 ] && grep -q ' 0 0$' "$work/both" || return 1
    if awk '$2 != $3 { print; wrong = 1 } END { exit !wrong }' "$work/both"; then
        return 1
    fi
    while read -r line _; do
        sed -n "${line}p" "$programs/ways.c" | grep -qE "$others" || { echo "only one has line $line"; return 1; }
    done < <(join -v 1 -v 2 "$work/gcov-lines" "$work/our-lines")
}
check 'each line ran as often as gcov counts' lines_are_gcovs

functions_are_gcovs() {
    (cd "$work/gcov" && gcov --json-format --stdout ways.gcda) 2>"$work/error" |
        jq -r '.files[].functions[] | select(.execution_count > 0 and .name != "main") | "\(.execution_count),\(.name)"' | sort \
            >"$work/gcov-functions"
    awk '/^SF:/ { is_it = /\/ways\.c$/ } is_it && /^FNDA:/ { sub(/^FNDA:/, ""); print }' "$work/info" |
        grep -v ',main$' | sort |
        diff "$work/gcov-functions" - && [ -s "$work/gcov-functions" ]
}
check 'each function was called as often as gcov counts' functions_are_gcovs

lcov_reads() {
    local lines hit
    lines=$(awk -F : '/^LF:/ { sum += $2 } END { print sum }' "$work/info")
    hit=$(awk -F : '/^LH:/ { sum += $2 } END { print sum }' "$work/info")
    lcov --summary "$work/info" >"$work/summary" 2>&1 && grep -q "($hit of $lines lines)" "$work/summary"
}
if command -v lcov >/dev/null; then
    check 'lcov reads it, and has the same sums' lcov_reads
else
    skip 'lcov reads it' 'lcov is not installed'
fi
expect 'another process' 3 'no debug information tells' "$BUILD/vpt" coverage --pid 1 "$work/data"
expect 'no trace' 2 'takes a trace' "$BUILD/vpt" coverage
expect 'no such file' 3 'No such file' "$BUILD/vpt" coverage "$work/none"
summary
