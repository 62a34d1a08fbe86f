#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# perf.data, with stock perf as the witness: what it records is read, and what vpt writes it decodes.
# Needs $BUILD/vpt and the guests of vmm/tests/guests. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034 # of lib.sh: a perf.data may have several things to complain of
several_lines=yes
traces=${VPT_TRACES:-../shared/traces}

# same NAME A B
same() {
    if [ "$2" = "$3" ]; then
        pass "$1"
    else
        fail "$1" "'$2' is not '$3'"
    fi
}

# Stock perf, whatever wrapper stands in front of it for other kernels.
perf=$(command -v perf || true)
if [ -n "$perf" ] && ! "$perf" --version >/dev/null 2>&1; then
    perf=
fi

flamegraph=${FLAMEGRAPH:-/usr/share/perl5/Devel/NYTProf/flamegraph.pl}

# ---- What stock perf records ----

# counts_of_perf FILE: how many records of each type perf finds; counts_of_vpt FILE: those of vpt.
counts_of_perf() {
    "$perf" report -D -i "$1" 2>/dev/null | grep -aoE 'PERF_RECORD_[A-Z0-9_]+' |
        grep -avE '_(COMPRESSED|MISC.*)$' | sed 's/^PERF_RECORD_//' | sort | uniq -c
}
counts_of_vpt() {
    "$vpt" dump --records "$1" | awk '{ print $2 }' | sort | uniq -c
}

recorded() {
    local name=$1 file=$2 inside
    inside=$(($(stat -c %s "$file") / 16))
    inside=$((8 * inside + 3)) # records are multiples of 8 bytes
    same "$name: the records that perf finds" "$(counts_of_vpt "$file")" "$(counts_of_perf "$file")"
    expect "$name: refused, with its events" 3 'no Intel PT in it; events: cpu-clock.*; [0-9]+ records' \
        "$vpt" decode "$file"
    expect "$name: dump" 3 'no Intel PT in it' "$vpt" dump "$file"
    expect "$name: cut off" 3 ': at 0x[0-9a-f]+: ' "$vpt" dump --records <(head -c "$inside" "$file")
    head -c 300 "$file" >"$work/cut"
    expect "$name: cut off early" 3 ': at 0x[0-9a-f]+: ' "$vpt" decode "$work/cut"
}

load=(sh -c 'for i in 1 2 3; do ls -lR /usr/share/doc /etc >/dev/null 2>&1; done; true')
if [ -z "$perf" ]; then
    skip 'files of stock perf, and records from a pipe' 'no perf'
elif ! "$perf" record -q -e cpu-clock -o "$work/plain" -- "${load[@]}" 2>"$work/err"; then
    skip 'files of stock perf, and records from a pipe' "it cannot record here: $(head -n 1 "$work/err")"
else
    recorded 'plain file' "$work/plain"
    if "$perf" record -q -z -e cpu-clock -o "$work/zstd" -- "${load[@]}" 2>"$work/err"; then
        recorded 'compressed file' "$work/zstd"
    else
        skip 'compressed file' 'this perf has no zstd'
    fi
    "$perf" record -q -e cpu-clock -o - -- "${load[@]}" >"$work/pipe" 2>/dev/null
    recorded 'pipe' "$work/pipe"
    "$perf" record -q --switch-events -e cpu-clock,task-clock -o "$work/switch" -- "${load[@]}" 2>/dev/null
    recorded 'two events and context switches' "$work/switch"
    same 'records from a pipe' "$("$vpt" dump --records /dev/stdin <"$work/pipe" | wc -l)" \
        "$("$vpt" dump --records "$work/pipe" | wc -l)"
fi
: >"$work/empty"
expect 'records of no perf.data' 3 'not a perf.data' "$vpt" dump --records "$work/empty"
printf '2ELIFREP\0\0\0\0\0\0\0\20' >"$work/big"
expect 'big-endian' 3 'big-endian' "$vpt" decode "$work/big"

# ---- What vpt writes ----

# decoded NAME FILE INSTRUCTIONS: perf and vpt find that many in FILE.
decoded() {
    local name=$1 file=$2 want=$3
    expect "$name: vpt decodes it" 0 '' "$vpt" decode "$file"
    same "$name: instructions by vpt" "$(grep -cE '^[0-9a-f]{16} ' "$work/out")" "$want"
    grep -E '^[0-9a-f]{16} ' "$work/out" | cut -c 1-16 >"$work/ours"
    if [ -z "$perf" ]; then
        skip "$name: perf script" 'no perf'
        return
    fi
    "$perf" script -i "$file" --itrace=i0nse -F ip >"$work/theirs" 2>"$work/err"
    same "$name: perf has no error" "$(grep -c 'instruction trace error' "$work/theirs" "$work/err" |
        cut -d : -f 2 | sort -u)" 0
    awk '{ printf "%16s\n", $1 }' "$work/theirs" | tr ' ' 0 >"$work/their-ips"
    same "$name: instructions by perf" "$(wc -l <"$work/their-ips")" "$want"
    if cmp -s "$work/ours" "$work/their-ips"; then
        pass "$name: the same path by perf"
    else
        fail "$name: the same path by perf" "$(diff "$work/ours" "$work/their-ips" | head -n 1)"
    fi
}

# formats NAME FILE INSTRUCTIONS: what other programs make of each format.
formats() {
    local name=$1 file=$2 want=$3
    "$vpt" decode --format perf --clock insns "$file" >"$work/perf.txt"
    same "$name: lines of --format perf" "$(grep -c ' instructions: ' "$work/perf.txt")" "$want"
    "$vpt" decode --format perf-branches "$file" | addresses >"$work/ours"
    if [ -n "$perf" ]; then
        "$perf" script -i "$file" --itrace=b -F ip,addr,sym 2>/dev/null | addresses >"$work/theirs"
        check_same "$name: branches" "$work/ours" "$work/theirs"
    else
        skip "$name: branches" 'no perf'
    fi
    "$vpt" decode --format jsonl "$file" >"$work/jsonl"
    same "$name: jsonl is JSON" "$(jq -r 'select(.type == "insn") | .ip' "$work/jsonl" | wc -l)" "$want"
    "$vpt" decode --format folded --clock insns "$file" >"$work/folded"
    same "$name: folded stacks add up" "$(awk '{ sum += $NF } END { print sum }' "$work/folded")" "$want"
    same "$name: no line of another form" "$(grep -cvE '^[^;]+(;[^;]+)+ [0-9]+$' "$work/folded")" 0
    if [ -r "$flamegraph" ]; then
        same "$name: the flame graph's total" "$(perl "$flamegraph" "$work/folded" |
            sed -n 's/.*<title>all (\([0-9,]*\) samples, 100%.*/\1/p' | tr -d ,)" "$want"
    else
        skip "$name: flame graph" 'no flamegraph.pl (libdevel-nytprof-perl)'
    fi
    "$vpt" decode --format chrome --clock insns "$file" >"$work/chrome"
    same "$name: trace events are as their format wants" "$(strict_says "$work/chrome")" ''
    same "$name: trace events: functions" "$([ "$(jq '[.traceEvents[] | select(.ph == "B")] | length' \
        "$work/chrome")" -gt 0 ] && echo some)" some
    "$vpt" decode --format callgrind --clock insns "$file" >"$work/callgrind"
    if command -v callgrind_annotate >/dev/null; then
        same "$name: callgrind_annotate's total" "$(callgrind_annotate "$work/callgrind" |
            awk '/PROGRAM TOTALS/ { gsub(",", "", $1); print $1 }')" "$want"
    else
        skip "$name: callgrind" 'no callgrind_annotate'
    fi
}

# addresses: 'from to' of each branch line; names differ where a function has several.
addresses() {
    sed -nE 's/.* ([0-9a-f]+) [^ ]+( \([^ ]+\))? =>  *([0-9a-f]+) .*/\1 \3/p'
}

check_same() {
    if [ -s "$2" ] && cmp -s "$2" "$3"; then
        pass "$1"
    else
        fail "$1" "$(diff "$2" "$3" | head -n 2 | tail -n 1)"
    fi
}

# What the trace event format asks for, of the whole and of each event: a list of what is wrong with it.
# shellcheck disable=SC2016 # jq's variables
strict='def integer: type == "number" and . == floor and . >= 0;
  def wrong_event:
    if (.name | type) != "string" then "a name that is no text"
    elif (.pid | integer | not) or (.tid | integer | not) then "pid or tid is no number"
    elif (.ts | type) != "number" or .ts < 0 then "ts is no time"
    elif .ph == "B" then (if (.cat | type) == "string" then empty else "B without a category" end)
    elif .ph == "E" then empty
    elif .ph == "i" then (if .s | IN("g", "p", "t") then empty else "an instant without a scope" end)
    elif .ph == "M" then
      (if (.name | IN("thread_name", "process_name")) and (.args.name | type) == "string" then empty else "M of what?" end)
    else "no such ph: \(.ph)" end;
  def track: "\(.pid)/\(.tid)";
  (if .displayTimeUnit | IN("ns", "ms") then empty else "displayTimeUnit" end),
  (.traceEvents[] | wrong_event),
  (.traceEvents | reduce .[] as $e ({stack: {}, last: {}, named: {}, bad: []};
      ($e | track) as $t
      | if $e.ph == "B" then .stack[$t] += [$e.name]
        elif $e.ph == "E" then
          (if .stack[$t][-1] != $e.name then .bad += ["\($t): \($e.name) ends and did not begin"] else . end)
          | .stack[$t] |= .[:-1]
        else . end
      | if $e.ph == "M" then .named[$t] = true
        elif .named[$t] or $e.ph == "i" then .
        else .bad += ["\($t): no name before its events"] end
      | if $e.ts < (.last[$t] // 0) then .bad += ["\($t): time goes back"] else . end
      | .last[$t] = $e.ts)
    | .bad[], (.stack | to_entries[] | select(.value | length > 0) | "\(.key): \(.value[0]) never ends"))'
strict_says() { # FILE: the first of it, or nothing
    jq -r "$strict" "$1" 2>&1 | head -n 1
}
# The checker itself.
for event in '"ph":"B","name":"f","pid":1,"tid":1,"ts":1,"cat":"c"' '"ph":"E","name":"f","pid":1,"tid":1,"ts":1' \
    '"ph":"B","pid":1,"tid":1,"ts":1,"cat":"c"' '"ph":"i","name":"f","pid":1,"tid":1,"ts":1' \
    '"ph":"M","name":"f","pid":1,"tid":1,"ts":1,"args":{"name":"f"}' '"ph":"X","name":"f","pid":1,"tid":1,"ts":1' \
    '"ph":"i","name":"f","pid":1,"tid":"1","ts":1,"s":"t"' '"ph":"i","name":"f","pid":1,"tid":1,"ts":-1,"s":"t"'; do
    printf '{"displayTimeUnit":"ns","traceEvents":[{%s}]}' "$event" >"$work/event"
    if [ -n "$(strict_says "$work/event")" ]; then
        pass "trace events: refused: $event"
    else
        fail "trace events: refused: $event" 'it was not'
    fi
done

need_backend 'perf.data that vpt writes'
expect 'run a traced guest' 0 '' "$vpt" run --verify --trace-out "$work/loop.pt" "$guests/traced-loop.elf"
executed=$(sed -n 's/^path: identical (\([0-9]*\) instructions.*/\1/p' "$work/out")
expect 'convert a guest trace' 0 '' "$vpt" convert --name loop "$work/loop.pt" "$work/loop.perf"
decoded 'guest' "$work/loop.perf" "$executed"
formats 'guest' "$work/loop.perf" "$executed"
hello=$traces/hello-timed
if [ -r "$hello/pt.bin" ]; then
    expect 'convert a trace of hardware' 0 '' "$vpt" convert --image "$hello/hello" --tsc-ctc 168:2 \
        --mtc-freq 3 "$hello/pt.bin" "$work/hello.perf"
    decoded 'hardware' "$work/hello.perf" 59225
    formats 'hardware' "$work/hello.perf" 59225
    if [ -n "$perf" ]; then # hello runs for 140,000 ticks; perf takes a tick for a nanosecond here
        "$vpt" decode --format perf "$work/hello.perf" | awk '{ print $3 }' >"$work/ours"
        "$perf" script -i "$work/hello.perf" --itrace=i0ns -F comm,tid,time,ip 2>/dev/null |
            awk '{ print $3 }' >"$work/theirs"
        same 'hardware: times are those of perf within 5 us, and do not go back' \
            "$(paste "$work/ours" "$work/theirs" | awk '{ d = $1 - $2; if (d < 0) d = -d
                if (d > 0.000005 || $1 + 0 < last) bad++; last = $1 + 0 } END { print NR, bad + 0 }')" \
            '59225 0'
    else
        skip 'hardware: times are those of perf' 'no perf'
    fi
    expect 'convert a perf.data' 0 '' "$vpt" convert "$work/hello.perf" "$work/again.perf"
    decoded 'hardware, again' "$work/again.perf" 59225
    # The buffer of CPU 3 instead of a thread: 40 bytes into its AUXTRACE record.
    cp "$work/hello.perf" "$work/cpu.perf"
    at=$((0x$("$vpt" dump --records "$work/cpu.perf" | awk '$2 == "AUXTRACE" { print $1 }') + 40))
    printf '\3\0\0\0' | dd of="$work/cpu.perf" bs=1 seek="$at" conv=notrunc status=none
    expect 'the buffer of a CPU' 0 '' "$vpt" decode --format perf "$work/cpu.perf"
    same 'the buffer of a CPU: instructions of the process' \
        "$(grep -cE '^ +vpt +1 \[003\] ' "$work/out")" 59225
    for format in folded chrome callgrind jsonl; do
        expect "the buffer of a CPU: $format" 0 '' "$vpt" decode --format "$format" "$work/cpu.perf"
    done
    # The same again, 30,000 ticks later, as another thread: a TSC packet at 0x16 has the time.
    later=$((0x$(dd if="$hello/pt.bin" bs=1 skip=23 count=7 status=none | od -An -tx1 | tr -d ' \n' |
        sed -E 's/(..)(..)(..)(..)(..)(..)(..)/\7\6\5\4\3\2\1/') + 30000))
    cp "$hello/pt.bin" "$work/later.bin"
    chmod u+w "$work/later.bin"
    printf '%014x' "$later" | sed -E 's/(..)(..)(..)(..)(..)(..)(..)/\\x\7\\x\6\\x\5\\x\4\\x\3\\x\2\\x\1/' |
        xargs -0 printf | dd of="$work/later.bin" bs=1 seek=23 conv=notrunc status=none
    expect 'convert two traces' 0 '' "$vpt" convert --image "$hello/hello" --tsc-ctc 168:2 \
        --mtc-freq 3 "$hello/pt.bin" "$work/later.bin" "$work/two.perf"
    expect 'decode two traces by time' 0 '' "$vpt" decode --format perf "$work/two.perf"
    same 'two traces: times do not go back, threads take turns' \
        "$(awk '$3 + 0 < last { back++ } { last = $3 + 0 } $2 != tid { turns++ } { tid = $2 }
            END { print NR, back + 0, (turns > 20) }' "$work/out")" '118450 0 1'
    for thread in 1 2; do
        awk -v tid="$thread" '$2 == tid { print $5 }' "$work/out" >"$work/thread$thread"
    done
    check_same 'two traces: each thread ran its path' "$work/thread1" "$work/thread2"
    expect 'MTC without a ratio' 2 'tsc-ctc is needed' "$vpt" convert --image "$hello/hello" \
        "$hello/pt.bin" "$work/x"
    there=$work/root/$(realpath "$hello/hello")
    mkdir -p "$(dirname "$there")"
    cp "$hello/hello" "$there"
    chmod u+w "$there"
    sed "s|$(realpath "$hello" | cut -c 1-4)|/nil|g" "$work/hello.perf" >"$work/moved.perf"
    expect 'files that are not there' 3 'the code that ran there is not known' \
        "$vpt" decode "$work/moved.perf"
    expect '--symfs' 0 '' "$vpt" decode --symfs "$work/root" "$work/hello.perf"
    id=$(readelf -n "$there" 2>/dev/null | sed -n 's/.*Build ID: //p')
    if [ -n "$id" ]; then
        mkdir -p "$work/cache/.build-id/${id:0:2}/${id:2}"
        cp "$there" "$work/cache/.build-id/${id:0:2}/${id:2}/elf"
        "${CC:-gcc}" -Wl,--build-id=0x1234 -o "$there" -x c - <<<'int main(void) { return 0; }'
        expect 'another build' 3 'not the file that ran' "$vpt" decode --symfs "$work/root" \
            --buildid-dir "$work" "$work/hello.perf"
        expect '--buildid-dir' 0 '' "$vpt" decode --symfs "$work/root" --buildid-dir "$work/cache" \
            "$work/hello.perf"
    else
        skip 'build ids' 'hello has none'
    fi
else
    skip 'traces of hardware' "not in $traces"
fi
expect 'unknown format' 2 'no format' "$vpt" decode --format xml "$work/loop.perf"
expect 'unknown clock' 2 'takes insns' "$vpt" decode --clock sun "$work/loop.perf"
# ---- The folder of vpt record ----

mkdir -p "$work/recording" && cp "$work/loop.perf" "$work/recording/perf.data"
echo '{"vpt-map": 1, "vms": [{"name": "a", "vcpus": [{"tid": 1, "tsc_offset": 5}]}]}' >"$work/recording/map"
same 'a folder of vpt record' "$("$vpt" decode "$work/recording" 2>/dev/null | grep -cE '^[0-9a-f]{16} ')" \
    "$("$vpt" decode "$work/loop.perf" 2>/dev/null | grep -cE '^[0-9a-f]{16} ')"
echo '{"vpt-map": 1, "vms": [{"name": "a"}]}' >"$work/recording/map"
expect 'a folder whose map is wrong' 3 'neither "vmcs" nor "vcpus"' "$vpt" decode "$work/recording"
echo '{"vpt-map": 1, "host": {"memory": {"raw": "map"}}}' >"$work/recording/map"
expect 'a folder whose map names memory' 3 'only --map may' "$vpt" decode "$work/recording"
expect 'record: no folder' 2 'takes one FOLDER' "$vpt" record
expect 'record: --panic without a ring' 2 'is for --snapshot' "$vpt" record --panic x "$work/x"
expect 'record: --buffer' 2 'power of two' "$vpt" record --buffer 3M "$work/x"
expect 'record: --size' 2 'a number of bytes' "$vpt" record --size many "$work/x"
if [ ! -e /sys/bus/event_source/devices/intel_pt ]; then
    expect 'record: without Intel PT' 4 'See vpt check' "$vpt" record "$work/x"
    check 'check: what can be recorded' test "$("$vpt" check --json | jq -c '[.record.possible,
        (.record.findings | length > 4), any(.record.findings[]; .state == "bad")]')" = '[false,true,true]'
fi

expect 'convert nothing' 3 'No such file' "$vpt" convert "$work/nofile" "$work/x"
expect 'convert without code' 3 'no --image' "$vpt" convert "$work/empty" "$work/x"
expect 'convert to nowhere' 3 'No such file' "$vpt" convert "$work/loop.pt" "$work/none/x"
expect 'convert --help' 0 '' "$vpt" convert --help
size=$(stat -c %s "$work/loop.perf")
for part in 20 120 260 $((size / 2)) $((size - 10)); do
    head -c "$part" "$work/loop.perf" >"$work/cut"
    expect "$part bytes of $size" 3 ': at 0x' "$vpt" decode "$work/cut"
done

summary
