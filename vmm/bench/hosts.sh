#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# hosts.sh FOLDER LIST PROGRAM...: runs each program with --json FOLDER/parts/NAME.json and the traces that the
# file LIST names, one program after the other, and joins what they wrote into FOLDER/hosts.json: one member for
# each, by its name.
set -euo pipefail

folder=$1 list=$2
shift 2
[ $# -gt 0 ] || { echo "hosts: no benchmarks" >&2 && exit 1; }
mkdir -p "$folder/parts"
mapfile -t traces <"$list"

comma=
printf '{' >"$folder/hosts.json.part"
for program in "$@"; do
    name=${program##*/}
    echo "== $name"
    "$program" --json "$folder/parts/$name.json" "${traces[@]}"
    printf '%s\n"%s": ' "$comma" "$name" >>"$folder/hosts.json.part"
    cat "$folder/parts/$name.json" >>"$folder/hosts.json.part"
    comma=,
done
printf '}\n' >>"$folder/hosts.json.part"
mv "$folder/hosts.json.part" "$folder/hosts.json"
echo "written: $folder/hosts.json"
