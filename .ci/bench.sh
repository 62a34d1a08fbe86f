#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# bench.sh FOLDER PROGRAM...: runs each benchmark with --json FOLDER/parts/NAME.json and joins what they
# wrote into FOLDER/model.json: one member for each program, and the machine they ran on.
set -euo pipefail

folder=$1
shift
mkdir -p "$folder/parts"
[ $# -gt 0 ] || { echo "bench: no benchmarks" >&2 && exit 1; }

parts=()
for program in "$@"; do
    name=${program##*/}
    echo "== $name"
    "$program" --json "$folder/parts/$name.json"
    parts+=("$folder/parts/$name.json")
done

cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
jq -n --arg cpu "$cpu" --arg kernel "$(uname -r)" --argjson cores "$(nproc)" \
    '{machine: {cpu: $cpu, kernel: $kernel, cores: $cores}}
     + ([inputs | {(input_filename | split("/") | last | rtrimstr(".json")): .}] | add)' \
    "${parts[@]}" >"$folder/model.json"
echo "written: $folder/model.json"
