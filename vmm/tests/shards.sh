#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt shard, --shard and vpt merge: what pieces come to is, byte for byte, what one process prints.
# Ends with 'N passed, N failed, N skipped'.
# shellcheck disable=SC2016 # $ stands in programs of jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
saved=$(dirname "$0")/saved

# pieces N TRACE COMMAND...: all N of them, last one first.
pieces() {
    local i n=$1 trace=$2
    shift 2
    rm -rf "$trace.shards"
    for ((i = n; i > 0; i--)); do
        "$vpt" "$@" --shard "$i/$n" "$trace" 2>>"$work/pieces" || return 1
    done
}

# same N TRACE COMMAND...: output, remarks and exit code of one process, and of all pieces together.
same() {
    local n=$1 trace=$2 one all
    shift 2
    "$vpt" "$@" "$trace" >"$work/one" 2>"$work/one.err"
    one=$?
    pieces "$n" "$trace" "$@" || return 1
    "$vpt" merge "$@" "$trace" >"$work/all" 2>"$work/all.err"
    all=$?
    cmp "$work/one" "$work/all" && cmp "$work/one.err" "$work/all.err" && [ "$one" = "$all" ]
}

for file in guest.elf guest.pt; do
    check "there is $file" bash -c "gzip -dc $saved/$file.gz >$work/$file"
done
cp "$saved/guest.pt.json" "$work/"
# The same guest 16 times, so that pieces begin behind other PSBs; a PSB may follow on anything.
for ((i = 0; i < 16; i++)); do cat "$work/guest.pt"; done >"$work/long"
# Damage in the middle, bytes that are gone, and an end amid a packet.
cp "$work/long" "$work/damaged"
for at in 40000 90001 131075 200000; do
    printf '\xff\x02\x02\xff\x00\x55' | dd of="$work/damaged" bs=1 seek="$at" conv=notrunc status=none
done
(head -c 70001 "$work/long" && tail -c +90000 "$work/long" | head -c 111111) >"$work/lost"
# An overflow (33.4.2.16), without what follows it.
(head -c 70001 "$work/long" && printf '\x02\xf3' && tail -c +70002 "$work/long") >"$work/overflow"
for name in long damaged lost overflow; do cp "$work/guest.pt.json" "$work/$name.json"; done

# shellcheck source=vmm/tests/host-and-vm.sh
. "$(dirname "$0")/host-and-vm.sh"
for ((i = 0; i < 64; i++)); do cat "$work/a"; done >"$work/vm"

for trace in guest.pt long damaged lost overflow; do
    for n in 1 2 3 7 16; do
        check "$trace in $n: a summary" same "$n" "$work/$trace" decode --summary --json
        check "$trace in $n: a report" same "$n" "$work/$trace" report --json
    done
    check "$trace in 7: blocks" same 7 "$work/$trace" decode --blocks
    check "$trace in 3: JSON" same 3 "$work/$trace" decode --calls --json
done
for n in 1 2 3 7 16; do
    check "a host and a VM in $n: a report" same "$n" "$work/vm" report --json --map "$work/map.json"
    check "a host and a VM in $n: blocks" same "$n" "$work/vm" decode --blocks --map "$work/map.json"
done
cp "$work/a" "$work/b"
"$vpt" report --map "$work/map.json" "$work/a" "$work/b" >"$work/one" 2>&1
"$vpt" merge report --map "$work/map.json" "$work/a" "$work/b" >"$work/all" 2>&1
check 'several traces, which are not cut' cmp "$work/one" "$work/all"
check 'a form that goes by all of a trace' same 3 "$work/long" decode --format folded

expect 'a plan' 0 '' "$vpt" shard -n 7 --json "$work/long"
check 'without gaps' jq -es --argjson size "$(stat -c %s "$work/long")" 'length == 7 and .[0].begin == 0
    and .[6].end == $size and ([range(6) as $i | .[$i].end == .[$i + 1].begin] | all)
    and (map(.from <= .begin) | all)' "$work/out"

# ---- Pieces that are missing or wrong ----
one=("$vpt" decode --blocks "$work/long")
"${one[@]}" >"$work/one" 2>/dev/null
check 'pieces' pieces 7 "$work/long" decode --blocks
rm "$work/long.shards/3-of-7" "$work/long.shards/6-of-7"
expect 'missing ones are named' 3 '2 of 7 pieces are missing: 3 6;' "$vpt" merge decode --blocks "$work/long"
several_lines=yes
"$vpt" merge --repeat decode --blocks "$work/long" >"$work/all" 2>/dev/null
check 'and decoded' cmp "$work/one" "$work/all"
several_lines=
check 'pieces again' pieces 7 "$work/long" decode --blocks
shards=$work/long.shards
touch -d yesterday "$work/long"
"$vpt" merge decode --blocks "$work/long" >"$work/all" 2>/dev/null
check 'of a trace whose file has another time' cmp "$work/one" "$work/all"
expect 'another command' 3 'a piece of another command' "$vpt" merge decode --blocks --json "$work/long"
cp "$work/long" "$work/kept"
cp "$work/damaged" "$work/long"
expect 'another trace' 3 'a piece of another trace' "$vpt" merge decode --blocks "$work/long"
cp "$work/kept" "$work/long"
cp "$shards/3-of-7" "$work/third"
cp "$shards/4-of-7" "$shards/3-of-7"
expect 'another place' 3 'it is piece 4 of 7' "$vpt" merge decode --blocks "$work/long"
head -c -10 "$work/third" >"$shards/3-of-7"
expect 'one that is cut off' 3 'no piece of a trace, or not all of one' "$vpt" merge decode --blocks "$work/long"
sed 's/"version":"[^"]*"/"version":"0"/' "$work/third" >"$shards/3-of-7"
expect 'another version' 3 'a piece of another version' "$vpt" merge decode --blocks "$work/long"
: >"$shards/3-of-7"
expect 'an empty one' 3 'no piece of a trace, or not all of one' "$vpt" merge decode --blocks "$work/long"
sed 's/"has_time":[01]/"has_time":2/' "$work/third" >"$shards/3-of-7"
expect 'one that says otherwise of time' 3 'does not agree with others' "$vpt" merge decode --blocks "$work/long"
sed 's/"before":[0-9]*/"before":1/' "$work/third" >"$shards/3-of-7"
"$vpt" merge decode --blocks "$work/long" >"$work/all" 2>/dev/null
check 'one that began with what was not so is decoded again' cmp "$work/one" "$work/all"
expect 'no such piece' 2 'shard takes I/N' "$vpt" decode --blocks --shard 8/7 "$work/long"
check 'no piece is left half' bash -c "! ls '$shards' | grep part"
if command -v parallel >/dev/null; then
    rm -r "$shards"
    parallel -j2 "$vpt" decode --blocks --shard '{}/4' "$work/long" ::: 1 2 3 4 </dev/null
    "$vpt" merge decode --blocks "$work/long" >"$work/all" 2>/dev/null
    check 'by GNU parallel' cmp "$work/one" "$work/all"
else
    skip 'by GNU parallel' 'it is not installed'
fi
summary
