#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Long traces: parts of them (--from, --to), pipes, start states, bounded memory. What is found must
# be what is found in the whole trace. Needs $BUILD/vpt and the demonstration guest.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

need_backend 'parts of long traces'
demo=guest-tests/build/demo.elf
trace=$work/demo.pt
backend=()
[ -w /dev/kvm ] || backend=(--lab)
expect 'a trace' 0 '' "$vpt" run "${backend[@]}" --append 'rounds=1 tick=8000' --trace-out "$trace" "$demo"
cp "$trace" "$work/piped.pt"
size=$(stat -c %s "$trace")

# ---- The index ----
expect 'index' 0 '' "$vpt" index "$trace"
expect 'index --json' 0 '' "$vpt" index --json "$trace"
check 'index --json is JSON' jq -es 'length > 0 and all(.[]; .complete)' "$work/out"
mapfile -t psbs < <(jq .offset "$work/out")
mapfile -t tscs < <(jq .tsc "$work/out")
"$vpt" dump --json "$trace" | jq 'select(.type == "PSB") | .offset' >"$work/psbs"
check 'the index has the PSBs of the dump' test "$(printf '%s\n' "${psbs[@]}")" = "$(cat "$work/psbs")"
check 'there are several' test "${#psbs[@]}" -ge 3
expect 'index of a pipe' 3 'needs a file' "$vpt" index <(cat "$trace")
expect 'index of no trace' 3 'no PSB' "$vpt" index "$trace.json"
expect 'index of nothing' 3 'No such file' "$vpt" index "$work/nofile"
expect 'index of two' 2 'takes one trace' "$vpt" index "$trace" "$trace"
expect 'index, unknown option' 2 'unknown option' "$vpt" index --frobnicate "$trace"

# ---- Parts by offset: the lines of the whole whose offset is in the part ----
# part VIEW FROM TO
part() {
    local from=$2 to=$3
    "$vpt" decode "$1" --json --from "$from" --to "$to" "$trace" >"$work/part" 2>"$work/err"
    awk -v from=$((from)) -v to=$((to)) \
        'match($0, /"offset":[0-9]+/) { at = substr($0, RSTART + 9, RLENGTH - 9) + 0
          if (at >= from && at < to) print }' "$work/whole" >"$work/want"
    cmp -s "$work/part" "$work/want"
}
RANDOM=20261
for view in --blocks --insns; do
    "$vpt" decode "$view" --json "$trace" >"$work/whole"
    same=0
    lines=0
    for i in $(seq 14); do
        from=$((RANDOM * 32768 % size))
        [ $((i % 5)) != 0 ] || from=${psbs[$((i / 5))]}
        to=$((from + RANDOM % 3000))
        ! part "$view" "$(printf '%#x' "$from")" "$to" || same=$((same + 1))
        lines=$((lines + $(wc -l <"$work/part")))
    done
    check "decode $view: 14 parts as in the whole" test "$same" = 14
    check "decode $view: there is something in them" test "$lines" -gt 1000
done
"$vpt" dump --json "$trace" >"$work/whole"
same=0
lines=0
for _ in $(seq 10); do
    from=$((RANDOM * 32768 % size))
    to=$((from + RANDOM % 3000))
    "$vpt" dump --json --from "$from" --to "$to" "$trace" >"$work/part"
    jq -c "select(.offset >= $from and .offset < $to)" "$work/whole" >"$work/want"
    ! cmp -s <(jq -c . "$work/part") "$work/want" || same=$((same + 1))
    lines=$((lines + $(wc -l <"$work/part")))
done
check 'dump: 10 parts as in the whole' test "$same" = 10
check 'dump: there is something in them' test "$lines" -gt 1000
for command in dump decode; do
    expect "$command of a part behind the end" 0 'ends in front of --from' "$vpt" "$command" --from 1000000000 "$trace"
    check 'is empty' test ! -s "$work/out"
    expect "$command from a late TSC" 0 'ends in front of --from' \
        "$vpt" "$command" --from tsc:0x7fffffffffffffff "$trace"
    expect "$command of an empty part" 0 '' "$vpt" "$command" --from 5 --to 5 "$trace"
    expect "$command --to in front of --from" 2 'in front of --from' "$vpt" "$command" --from 5 --to 3 "$trace"
done
expect 'a part that ends at once' 0 '' "$vpt" decode --to 0 "$trace"
check 'is empty too' test ! -s "$work/out"

# ---- Parts by time ----
from=${tscs[1]}
to=${tscs[2]}
"$vpt" decode --format perf "$trace" >"$work/whole"
expect 'decode by TSC' 0 '' "$vpt" decode --format perf --from "tsc:$from" --to "tsc:$to" "$trace"
cp "$work/out" "$work/part"
expect 'decode up to a TSC' 0 '' "$vpt" decode --format perf --to "tsc:$to" "$trace"
cat "$work/out" >"$work/three"
expect 'decode from a TSC' 0 '' "$vpt" decode --format perf --from "tsc:$to" "$trace"
cat "$work/out" >>"$work/three"
check 'before and behind are the whole' cmp "$work/three" "$work/whole"
expect 'decode up to another' 0 '' "$vpt" decode --format perf --to "tsc:$from" "$trace"
cat "$work/out" "$work/part" >"$work/three"
expect 'decode from the other' 0 '' "$vpt" decode --format perf --from "tsc:$to" "$trace"
cat "$work/out" >>"$work/three"
check 'before, part and behind are the whole' cmp "$work/three" "$work/whole"
check 'the part is not empty' test -s "$work/part"
expect 'dump by TSC' 0 '' "$vpt" dump --from "tsc:$from" --to "tsc:$to" "$trace"
check 'dump by TSC begins there' grep -q "$(printf 'TSC %#x' "$from")" "$work/out"
check 'dump by TSC ends there' test "$(grep -c "$(printf 'TSC %#x' "$to")" "$work/out")" = 0
for bad in soon tsc: tsc:x time: time:1.2.3 time:99999999999 0x1g -1; do
    expect "decode --from $bad" 2 'from takes' "$vpt" decode --from "$bad" "$trace"
    expect "dump --to $bad" 2 'to takes' "$vpt" dump --to "$bad" "$trace"
done
expect 'seconds of a raw trace' 3 'nothing tells the seconds' "$vpt" decode --from time:1 "$trace"
expect 'seconds of a raw dump' 3 'nothing tells the seconds' "$vpt" dump --from time:1 "$trace"
expect 'a time, and a clock of instructions' 2 'has no times' "$vpt" decode --clock insns --from tsc:1 "$trace"

# ---- perf.data ----
hello=${VPT_TRACES:-../shared/traces}/hello-timed
if [ -r "$hello/pt.bin" ]; then
    expect 'a perf.data' 0 '' "$vpt" convert --image "$hello/hello" --tsc-ctc 168:2 --mtc-freq 3 \
        "$hello/pt.bin" "$work/perf.data"
    "$vpt" decode --format perf "$work/perf.data" >"$work/whole"
    middle=$(awk 'NR == 30000 { sub(":", "", $3); print $3 }' "$work/whole")
    expect 'perf.data: up to a time' 0 '' "$vpt" decode --format perf --to "time:$middle" "$work/perf.data"
    cp "$work/out" "$work/three"
    check 'perf.data: a part up to a time' test "$(wc -l <"$work/three")" -gt 10000
    expect 'perf.data: from a time' 0 '' "$vpt" decode --format perf --from "time:$middle" "$work/perf.data"
    check 'perf.data: a part from a time' test "$(wc -l <"$work/out")" -gt 10000
    cat "$work/out" >>"$work/three"
    check 'perf.data: before and behind are the whole' cmp "$work/three" "$work/whole"
    expect 'perf.data from a pipe' 0 '' "$vpt" decode --format perf <(cat "$work/perf.data")
    check 'perf.data from a pipe is the same' cmp "$work/out" "$work/whole"
    expect 'start state of a perf.data' 2 'is for a raw trace' "$vpt" decode --start-ip 1 "$work/perf.data"
    expect 'dump of a perf.data by TSC' 2 'take offsets' "$vpt" dump --from tsc:1 "$work/perf.data"
else
    skip 'parts of a perf.data' "no $hello (set VPT_TRACES)"
fi

# ---- Sums, decoded in bulk on threads: those of all blocks ----
"$vpt" decode --blocks --json "$trace" |
    jq -cs 'map(select(.type == "block")) | [(map(.insns) | add), length,
        (map({name: (.symbol | sub("\\+0x[0-9a-f]+$"; "")), insns}) | group_by(.name)
         | map([.[0].name, (map(.insns) | add), length]))]' >"$work/want"
for threads in 1 2 7; do
    expect "decode --summary --threads $threads" 0 '' "$vpt" decode --summary --json --threads "$threads" "$trace"
    jq -c '[.instructions, .blocks,
        (.functions | map([.name, .instructions, .blocks]) | sort_by(.[0]))]' "$work/out" >"$work/part"
    check "sums by $threads threads are those of the blocks" cmp "$work/part" "$work/want"
done
expect 'decode --summary of a pipe' 0 '' "$vpt" decode --summary --like "$trace" <(cat "$trace")
check 'sums as text' grep -q "^instructions $(jq '.[0]' "$work/want")$" "$work/out"
expect 'decode --summary of damage' 3 '1 errors' "$vpt" decode --summary --like "$trace" <(cat "$trace"; printf '\331')
expect '--threads without --summary' 2 'is for --summary' "$vpt" decode --threads 2 "$trace"
expect '--clock without --format' 2 'is for --calls, and for a --format' "$vpt" decode --clock insns "$trace"
expect 'bad --threads' 2 'threads takes 1 to 256' "$vpt" decode --summary --threads 0 "$trace"
expect '--summary with a format' 2 'has no --format' "$vpt" decode --summary --format folded "$trace"
expect '--summary of a part' 2 'of a whole trace' "$vpt" decode --summary --from 5 "$trace"

# ---- Pipes ----
for form in --insns --blocks --calls '--format perf' '--format folded' '--format chrome' '--format callgrind'; do
    read -ra words <<<"$form"
    "$vpt" decode "${words[@]}" "$trace" >"$work/whole"
    "$vpt" decode "${words[@]}" --like "$trace" - <"$work/piped.pt" >"$work/part"
    check "decode $form of standard input" cmp "$work/part" "$work/whole"
done
"$vpt" dump "$trace" >"$work/whole"
"$vpt" dump - <"$trace" >"$work/part"
check 'dump of standard input' cmp "$work/part" "$work/whole"
expect 'decode of standard input without code' 3 'no --image' "$vpt" decode -
expect 'decode of an empty pipe' 0 '' "$vpt" decode --like "$trace" -
expect 'a part of a pipe' 0 '' "$vpt" decode --like "$trace" --blocks --from "${psbs[2]}" <(cat "$trace")
"$vpt" decode --blocks --from "${psbs[2]}" "$trace" >"$work/whole"
check 'is the part of the file' cmp "$work/out" "$work/whole"

# What has come is shown before the rest comes.
mkfifo "$work/fifo"
"$vpt" decode --blocks --like "$trace" "$work/fifo" >"$work/part" &
decoder=$!
exec 3>"$work/fifo"
head -c "$((psbs[2] + 200))" "$trace" >&3
"$vpt" decode --blocks --to "${psbs[2]}" "$trace" >"$work/want"
for _ in $(seq 100); do
    early=$(wc -l <"$work/part")
    [ "$early" -lt "$(wc -l <"$work/want")" ] || break
    sleep 0.1
done
check 'a pipe shows what is complete' test "$early" -ge "$(wc -l <"$work/want")"
tail -c "+$((psbs[2] + 201))" "$trace" >&3
exec 3>&-
wait "$decoder"
"$vpt" decode --blocks "$trace" >"$work/whole"
check 'and then the rest' cmp "$work/part" "$work/whole"
check 'which was not there before' test "$early" -lt "$(wc -l <"$work/whole")"

# 300 MB that are no packets, then another trace.
(
    ulimit -v 100000
    { cat "$trace"; head -c 300M /dev/zero | tr '\0' '\331'; cat "$trace"; } |
        "$vpt" decode --blocks --like "$trace" - >"$work/part" 2>"$work/err"
    echo $? >"$work/status"
)
check 'memory does not grow with the trace' test "$(cat "$work/status")" = 3
check 'and what comes behind is decoded' test "$(wc -l <"$work/part")" -gt $(($(wc -l <"$work/whole") * 2 - 10))

# ---- Start states: the rest of a buffer, from a block on that begins with a packet ----
"$vpt" decode --blocks --json "$trace" | jq -c 'select(.type == "block")' >"$work/whole"
# Every 97th of the blocks that need the packet at the offset of the one before: line and offset.
awk 'match($0, /"offset":[0-9]+/) {
    offset = substr($0, RSTART + 9, RLENGTH - 9)
    if (offset != last && ++n % 97 == 0) print NR, last
    last = offset }' "$work/whole" >"$work/cuts"
same=0
differ=0
while read -r first offset; do
    read -r ip cr3 < <(sed -n "${first}p" "$work/whole" | jq -r '"\(.ip) \(.cr3)"')
    tail -c "+$((offset + 1))" "$trace" >"$work/rest.pt"
    "$vpt" decode --blocks --json --like "$trace" --start-ip "$ip" --start-cr3 "$cr3" "$work/rest.pt" \
        2>"$work/err" | head -n 40 >"$work/part"
    # A RET whose CALL was before cannot be followed.
    ! head -n 4 "$work/part" | grep -q 'without its CALL' || continue
    grep '"type":"block"' "$work/part" | jq -c '[.ip, .last_ip, .insns, .symbol]' | head -n 3 >"$work/got"
    sed -n "${first},$((first + 2))p" "$work/whole" | jq -c '[.ip, .last_ip, .insns, .symbol]' >"$work/want"
    if cmp -s "$work/got" "$work/want"; then same=$((same + 1)); else differ=$((differ + 1)); fi
done <"$work/cuts"
check 'start states in the middle: blocks as in the whole' test "$differ" = 0
check 'there were several' test "$same" -ge 5
expect 'bad start state' 2 'start-ip takes' "$vpt" decode --start-ip here "$trace"

summary
