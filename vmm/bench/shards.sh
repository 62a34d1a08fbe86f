#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# shards.sh VPT [--json FILE] PREFIX...: how much faster two processes are that decode a half of a trace each, and
# a third that joins them (docs/shards.md), than one process on one thread. PREFIX is of traces that record.c made,
# see decoder/bench/traces.sh.
#
# Processor time counts, so that other work on the machine does not: of the slower half, and of the join behind it.
# That is what it takes if each half has a processor. Each round runs all of them, and the median of the rounds'
# ratios counts. What comes out must be the same. Pieces are for long traces, so that each trace is taken COPIES
# times (20): what each process has to do once is less of them.
set -euo pipefail

vpt=$1
shift
json=
if [ "${1:-}" = --json ]; then
    json=$2
    shift 2
fi
rounds=3
copies=${COPIES:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The code of a trace as a map file (docs/decoder.md): one file for each line of PREFIX.map.
write_map() {
    local prefix=$1 offset=0 address bytes comma=
    rm -f "$work"/code.*
    {
        echo '{ "vpt-map": 1, "host": { "images": ['
        while read -r address bytes _; do
            bytes=$((16#$bytes))
            tail -c +$((offset + 1)) "$prefix.code" | head -c "$bytes" >"$work/code.$address" || true
            echo "$comma{ \"path\": \"code.$address\", \"address\": \"0x$address\" }"
            offset=$((offset + bytes)) comma=,
        done <"$prefix.map"
        echo '] } }'
    } >"$work/map.json"
}

# Runs vpt, whose output goes to $work/NAME, and sets $spent to the processor time that it took, in milliseconds.
run() {
    local name=$1 user system
    shift
    TIMEFORMAT='%U %S'
    { time "$vpt" "$@" >"$work/$name" 2>"$work/error"; } 2>"$work/spent" || {
        cat "$work/error" >&2
        exit 1
    }
    read -r user system <"$work/spent"
    spent=$((10#${user/./} + 10#${system/./}))
}

# One command on the trace of one program: the median of ratios in thousandths, as $ratio.
compare() {
    local name=$1 trace=$work/trace one first second ratios=()
    shift
    local -a words=("$@" --threads 1 --map "$work/map.json")
    for ((i = 0; i < rounds; i++)); do
        rm -rf "$work/shards"
        run one "${words[@]}" "$trace" && one=$spent
        run none "${words[@]}" --shards "$work/shards" --shard 1/2 "$trace" && first=$spent
        run none "${words[@]}" --shards "$work/shards" --shard 2/2 "$trace" && second=$spent
        run all merge --shards "$work/shards" "${words[@]}" "$trace"
        cmp "$work/one" "$work/all"
        ratios+=($((one * 1000 / ((first > second ? first : second) + spent))))
    done
    ratio=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n $((rounds / 2 + 1))p)
    echo "$name: $*: two pieces and their join are $((ratio / 1000)).$(printf %03d $((ratio % 1000))) times as fast (one process: $one ms, pieces: $first and $second ms, join: $spent ms)"
}

members=
for what in report 'decode --summary'; do
    inner=
    for prefix in "$@"; do
        write_map "$prefix"
        for ((i = 0; i < copies; i++)); do cat "$prefix.pt"; done >"$work/trace"
        # shellcheck disable=SC2086 # words of a command
        compare "${prefix##*/}" $what
        inner+="${inner:+, }\"${prefix##*/}\": $((ratio / 1000)).$(printf %03d $((ratio % 1000)))"
    done
    members+="${members:+, }\"two_${what##*-}_vs_one\": {$inner}"
done
[ -z "$json" ] || echo "{$members}" >"$json"
