#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The program replay: what it says of wrong input, and the traces of hardware that stand beside the
# repository:
#
#   replay.sh [FOLDER]
#
# FOLDER is $VPT_TRACES, else ../shared/traces. A trace that is not there is skipped by name. Needs
# $BUILD/tests/replay. Ends with 'N passed, N failed', and ', N skipped' if there are any.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 2

folder=${1:-${VPT_TRACES:-../shared/traces}}
replay=${BUILD:-build}/tests/replay
passed=0 failed=0 skipped=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refuses NAME PATTERN ARGUMENT...: it ends with a status other than 0 and says something like PATTERN.
refuses() {
    local name=$1 pattern=$2
    shift 2
    if ! "$replay" "$@" >"$work/out" 2>&1 </dev/null && grep -qE -e "$pattern" "$work/out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: $(tail -n 1 "$work/out")"
    fi
}

head -c 5000 /dev/zero >"$work/zeros"
: >"$work/empty"
printf 'PERFILE2' >"$work/short.data"
printf 'not an address' >"$work/cache.addr"
head -c 4096 /dev/zero >"$work/cache.dump"
printf '\2\202%.0s' 1 2 3 4 5 6 7 8 >"$work/psb"
printf '\2\43\161\0\20\100\0\0\0\6' >>"$work/psb" # PSBEND, TIP.PGE 401000H, TNT
cp "$work/psb" "$work/filtered"
printf '\41\0\0' >>"$work/filtered" # TIP.PGD with an IP
printf '{"type":"intel-pt"' >"$work/cut.json"
printf '{"type":"intel-pt 2"}' >"$work/other.json"
printf '{"type":"intel-pt","processes":[{"threads":[{"tid":1,"iptTrace":"gone"}]}]}' >"$work/bare.json"

refuses 'no trace' 'no trace is given' --cpu 6/94/3
refuses 'an option that is none' 'no option --cpus' --cpus 6/94/3
refuses 'an option without a value' '--cpu needs a value' --cpu
refuses 'no processor' '--cpu six: not FAMILY/MODEL' --cpu six
refuses 'an ELF file that is not there' 'nowhere: ' --elf nowhere "$work/psb"
refuses 'an ELF file that is none' 'zeros: ' --elf "$work/zeros" "$work/psb"
refuses 'no address of raw code' 'not ADDRESS' --raw "$work/zeros" "$work/psb"
refuses 'raw code behind the end' 'zeros: ' --raw "0x1000,9000:$work/zeros" "$work/psb"
refuses 'a page cache that is none' 'cache.addr' --pages "$work/cache" "$work/psb"
refuses 'a range backwards' 'not FIRST-LAST' --filter 0x2000-0x1000 "$work/psb"
refuses 'five ranges' 'not FIRST-LAST' --filter 1-2 --filter 3-4 --filter 5-6 --filter 7-8 --filter 9-10 "$work/psb"
refuses 'user and kernel' 'exclude each other' --user --kernel "$work/psb"
refuses 'a trace that is not there' 'FAILED: nowhere: ' nowhere
refuses 'an empty trace' 'FAILED: .*empty: ' "$work/empty"
refuses 'no code' 'no code is given' "$work/psb"
refuses 'no PSB' 'no PSB packet' --raw "0x401000:$work/zeros" "$work/zeros"
refuses 'a filter that was not told' 'filtered by addresses' --raw "0x401000:$work/zeros" "$work/filtered"
refuses 'a profile that is none' 'no such profile' --profile atom --raw "0x401000:$work/zeros" "$work/psb"
refuses 'a bundle that is no JSON' 'it is no JSON' "$work/cut.json"
refuses 'a bundle of something else' 'its type is not' "$work/other.json"
refuses 'a bundle without its traces' 'none of its traces' "$work/bare.json"
refuses 'a perf.data without the rest' 'its header' "$work/short.data"
refuses 'a folder without a trace' 'FAILED: .*/data: ' --raw "0x401000:$work/zeros" "$work"
refuses 'code elsewhere' 'nothing of it could be replayed; the first gap at .*: 0x401000$' --raw "0x8000:$work/zeros" "$work/psb"

# The name, the trace, and the options, in which @ stands for the folder.
traces=(
    'hello-timed hello-timed/pt.bin --cpu 6/85/7 --elf @/hello-timed/hello'
    'lldb-single lldb-single/3842849.trace --cpu 6/79/1 --raw 0x400000:@/lldb-single/a.out'
)

for row in "${traces[@]}"; do
    read -r name trace options <<<"$row"
    if [ ! -r "$folder/$trace" ]; then
        skipped=$((skipped + 1))
        echo "SKIPPED: $name: $folder/$trace is not there"
        continue
    fi
    read -ra words <<<"${options//@/"$folder"}"
    text=$("$replay" "${words[@]}" "$folder/$trace")
    echo "$text"
    read -r good _ bad _ < <(tail -n 1 <<<"$text")
    if [[ $good =~ ^[0-9]+$ && $bad =~ ^[0-9]+$ ]]; then
        passed=$((passed + good))
        failed=$((failed + bad))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: replay ended without a verdict"
    fi
done

# accepts NAME ARGUMENT...: the same traces, with their code in other forms.
accepts() {
    local name=$1
    shift
    if "$replay" "$@" >"$work/out" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: $(tail -n 1 "$work/out")"
    fi
}

if [ -r "$folder/hello-timed/pt.bin" ] && [ -x "${BUILD:-build}/vpt" ]; then
    "${BUILD:-build}/vpt" convert --image "$folder/hello-timed/hello" --tsc-ctc 168:2 --mtc-freq 3 \
        --nonturbo-ratio 21 "$folder/hello-timed/pt.bin" "$work/hello.data"
    accepts 'a perf.data, which brings its code' --cpu 6/85/7 "$work/hello.data"
fi
if [ -r "$folder/lldb-single/a.out" ]; then
    printf '\1\0\40\0\0\0\0\0\0\0\100\0\0\0\0\0' >"$work/pages.addr" # one is not there
    { head -c 4096 /dev/zero && head -c 4096 "$folder/lldb-single/a.out"; } >"$work/pages.dump"
    accepts 'a bundle of LLDB' "$folder/lldb-single/trace.json"
    accepts 'a page cache' --cpu 6/79/1 --pages "$work/pages" "$folder/lldb-single/3842849.trace"
fi

# The script that records: on a machine without Intel PT it says so.
if [ ! -e /sys/bus/event_source/devices/intel_pt ]; then
    if text=$(decoder/roundtrip/replay/record.sh 2>&1) || [[ $text != *'this needs Linux on a processor with Intel PT'* ]]; then
        failed=$((failed + 1))
        echo "FAILED: record.sh without Intel PT: $text"
    else
        passed=$((passed + 1))
    fi
fi

if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ]
