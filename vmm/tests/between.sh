#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt report --between. Its witness is the executed path of a guest, searched by awk; of times, what
# vpt decode says of each block. Ends with 'N passed, N failed, N skipped'.
# shellcheck disable=SC2016 # $ stands in programs of awk and jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=vmm/tests/host-and-vm.sh
. "$(dirname "$0")/host-and-vm.sh"
saved=$(dirname "$0")/saved

for file in guest.elf guest.pt guest.pt.path; do
    check "there is $file" bash -c "gzip -dc $saved/$file.gz >$work/$file"
done
cp "$saved/guest.pt.json" "$work/"
od -An -tu8 -v -w8 "$work/guest.pt.path" | awk '$1 < 9e18 { print $1 }' >"$work/path"

# spans FROM TO: from the path 'COUNT LEAST MEDIAN MOST ALL UNENDED'.
spans() {
    awk -v from="$1" -v to="$2" '
        $1 == to && open { print count; open = 0 }
        $1 == from { unended += open; open = 1; count = 0 }
        open { count++ }
        END { print "unended", unended + open }' "$work/path" | sort -n | awk '
        $1 == "unended" { unended = $2; next }
        { length_of[++n] = $1; all += $1 }
        END { print n, length_of[1], length_of[int((n + 1) / 2)], length_of[n], all, unended }'
}
# told FROM,TO: the same from vpt.
told() {
    "$vpt" report --json --between "$1" "$work/guest.pt" |
        jq -r '[.count, (.instructions | .least, .median, .most, .total), .unended] | map(tostring) | join(" ")'
}
address_of() {
    echo $((0x$(nm "$work/guest.elf" | awk -v name="$1" '$3 == name { print $1 }')))
}
odd=$(address_of odd)
even=$(address_of even)
for points in odd,even even,odd odd,odd even,even; do
    from=$(address_of "${points%,*}")
    to=$(address_of "${points#*,}")
    check "$points: as it was executed" test "$(told "$points")" = "$(spans "$from" "$to")"
done
check 'addresses are as good' test "$(told "$odd,$(printf '%#x' "$even")")" = "$(told odd,even)"
# In the midst of blocks: instructions behind the entry, which are no entries themselves.
behind() { awk -v at="$1" 'was == at && $1 != at + 0 { print $1; exit } { was = $1 }' "$work/path"; }
from=$(behind "$odd")
to=$(behind "$even")
check 'in the midst of blocks' test "$(told "$from,$to")" = "$(spans "$from" "$to")"
check 'in one block, forwards' test "$(told "$odd,$from")" = "$(spans "$odd" "$from")"
check 'and backwards' test "$(told "$from,$odd")" = "$(spans "$from" "$odd")"
check 'there is something to compare' test "$(spans "$odd" "$even" | cut -d ' ' -f 1)" -gt 2

"$vpt" report --json --between odd,odd "$work/guest.pt" >"$work/json"
check 'functions have all instructions' jq -e '([.functions[].instructions] | add) == .instructions.total
    and ([.functions[] | select(.function == "odd") | .count] == [.count])' "$work/json"
check 'no time where none is told' jq -e 'has("time") | not' "$work/json"
expect 'text' 0 '' "$vpt" report --between odd,odd "$work/guest.pt"
check 'says how often' grep -q "^from odd to odd: $(jq .count "$work/json") times\$" "$work/out"
expect 'some of the functions' 0 '' "$vpt" report --json --between odd,odd --symbol odd "$work/guest.pt"
check 'are shown' jq -e '[.functions[].function] == ["odd"]' "$work/out"

# ---- Times, and who ran ----
sed 's/4/5/' "$work/a.json" >"$work/b.json"
cp "$work/a" "$work/b"
"$vpt" decode --map "$work/map.json" --blocks --json "$work/a" "$work/b" |
    jq -cs 'map(select(.type == "block" and .cpu == 4))' >"$work/blocks"
report=("$vpt" report --map "$work/map.json" --json)
expect 'times' 0 '' "${report[@]}" --between one,two "$work/a"
check 'between the blocks' jq -e --slurpfile blocks "$work/blocks" \
    '(reduce $blocks[0][] as $block ({since: null, all: []};
        if $block.symbol == "one" then .since = $block.time
        elif $block.symbol == "two" and .since then .all += [$block.time - .since] | .since = null
        else . end) | .all) as $all
    | .count == ($all | length) and .time.total == ($all | add) and .time.most == ($all | max)
    and .time.least == ($all | min) and .count > 1 and .time.total > 0 and .time_unit == "ticks"' "$work/out"
mv "$work/out" "$work/json"
expect 'two processors' 0 '' "${report[@]}" --between one,two "$work/a" "$work/b"
check 'have spans of their own' jq -es '.[0].count * 2 == .[1].count and .[0].time.total * 2 == .[1].time.total' \
    "$work/json" "$work/out"
expect 'a point that only another reaches' 3 "nothing ran at 'one'" "${report[@]}" --between one,two --vm small "$work/a"
expect 'a filter' 0 '' "${report[@]}" --between guest_two,guest_two --vm small "$work/a"
check 'leaves out what others ran meanwhile' jq -e '[.functions[].function] == ["guest_two"]' "$work/out"
"${report[@]}" --between guest_two,guest_two "$work/a" >"$work/out"
check 'and without it, they are there' jq -e '[.functions[].function] | sort == ["guest_two", "one"]' "$work/out"

# ---- A gap, and what goes wrong ----
head -c 9000 "$work/guest.pt" >"$work/cut.pt"
tail -c +9100 "$work/guest.pt" >>"$work/cut.pt"
cp "$work/guest.pt.json" "$work/cut.pt.json"
first=$(head -n 1 "$work/path")
last=$(awk '!seen[$1]++ { new = $1 } END { print new }' "$work/path")
expect 'without a gap' 0 '' "$vpt" report --json --between "$first,$last" "$work/guest.pt"
check 'one way leads through all of it' jq -e '.count == 1 and .broken == 0' "$work/out"
expect 'with a gap' 3 'errors' "$vpt" report --json --between "$first,$last" "$work/cut.pt"
check 'none does, and that is said' jq -e '.count == 0 and .broken == 1 and .functions == []' "$work/out"
expect 'no such point' 3 "nothing ran at 'nowhere'" "$vpt" report --between odd,nowhere "$work/guest.pt"
expect 'one point' 2 'takes two functions' "$vpt" report --between odd "$work/guest.pt"
expect 'an empty one' 2 'takes two functions' "$vpt" report --between odd, "$work/guest.pt"
expect 'no number' 2 'takes two functions' "$vpt" report --between 0xodd,even "$work/guest.pt"
expect 'a table' 2 'neither --by' "$vpt" report --between odd,even --by vm "$work/guest.pt"

summary
