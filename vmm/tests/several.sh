#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt decode of several traces on one time line. Ends with 'N passed, N failed, N skipped'.
# shellcheck disable=SC2016 # $ stands in programs of awk and jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# u56 N: seven little-endian bytes, as a TSC packet holds them.
u56() {
    local i value=$1
    for i in 1 2 3 4 5 6 7; do
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\x$(printf '%02x' $((value & 255)))"
        value=$((value >> 8))
    done
}
# make_trace FIRST STEP COUNT: JMP RAX at 5000H again and again, with a TSC packet before each.
make_trace() {
    local i
    for i in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x19' && u56 "$1"
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x99\x01\x02\x23\x71\x00\x50\x00\x00\x00\x00'
    for ((i = 1; i <= $3; i++)); do
        printf '\x19' && u56 $(($1 + i * $2))
        printf '\x2d\x00\x50'
    done
}
printf '\xff\xe0' >"$work/code.bin"
echo '{ "vpt-map": 1, "host": { "images": [ { "path": "code.bin", "address": "0x5000" } ] } }' >"$work/map.json"
make_trace 1000 100 20 >"$work/a"
make_trace 1050 100 20 >"$work/b"
make_trace 1020 1000 3 >"$work/c"
echo '{ "vpt": 1, "vcpu": 0 }' >"$work/a.json"
echo '{ "vpt": 1, "vcpu": 1 }' >"$work/b.json"
echo '{ "vpt": 1, "processor": 7 }' >"$work/c.json"
decode=("$vpt" decode --map "$work/map.json")

for view in --blocks --insns '--format perf'; do
    read -ra words <<<"$view"
    expect "$view of three processors" 0 '' "${decode[@]}" "${words[@]}" "$work/a" "$work/b" "$work/c"
    mv "$work/out" "$work/all"
    for each in a b c; do
        "${decode[@]}" "${words[@]}" "$work/$each"
    done >"$work/apart"
    check "$view: nothing is lost, nothing is added" diff \
        <(grep -v '== processor' "$work/all" | sed 's/ \[00[0-9]\]//' | grep -v '  == ' | sort) \
        <(sed 's/ \[00[0-9]\]//' "$work/apart" | grep -v '  == ' | sort)
done
expect 'blocks as JSON' 0 '' "${decode[@]}" --blocks --json "$work/a" "$work/b" "$work/c"
check 'by time' jq -es '[.[] | .time] | . == sort' "$work/out"
check 'with the processor of each' jq -es '[.[] | select(.type == "block") | .cpu]
    | group_by(.) | map([.[0], length]) == [[0, 20], [1, 20], [7, 3]]' "$work/out"
check 'in turns' jq -es '[.[] | select(.type == "block" and .cpu < 2) | .cpu] as $cpu
    | [range(1; $cpu | length) | select($cpu[.] != $cpu[. - 1])] | length >= 38' "$work/out"
expect 'a part' 0 '' "${decode[@]}" --blocks --json --from tsc:1500 --to tsc:2000 "$work/a" "$work/b" "$work/c"
check 'of all of them' jq -es 'length > 10 and all(.time >= 1500 and .time < 2000)' "$work/out"
expect 'one after the other' 0 '' "${decode[@]}" --format folded "$work/a" "$work/b" "$work/c"
expect 'calls' 0 '' "${decode[@]}" --calls "$work/a" "$work/b"

# ---- What cannot be together ----
make_trace 1000 0 5 >"$work/still"
expect 'a trace without time' 3 'still does not tell the time' "${decode[@]}" --blocks "$work/a" "$work/still"
expect 'no such trace' 3 'No such file' "${decode[@]}" "$work/a" "$work/nothing"
expect 'standard input' 2 'is alone' "${decode[@]}" "$work/a" -
expect 'sums' 2 'summary is of one trace' "${decode[@]}" --summary "$work/a" "$work/b"
expect 'an offset' 2 'take tsc' "${decode[@]}" --from 16 "$work/a" "$work/b"
expect 'another trace for TRACE.json' 2 'like is of one trace' "${decode[@]}" --like x "$work/a" "$work/b"
"$vpt" convert --image "$vpt" "$work/a" "$work/a.data"
expect 'a perf.data among them' 2 'is alone' "${decode[@]}" "$work/a" "$work/a.data"
echo '{ "vpt": 1, "vcpu": -3 }' >"$work/b.json"
expect 'a number that is no processor' 3 'vcpu: not the number' "${decode[@]}" "$work/a" "$work/b"

summary
