#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# bench.sh JSON: what tracing costs under TCG. Boots the Linux guest of the tests and runs a program in
# it, on the unchanged QEMU, on ours with tracing off, and on ours while everything is captured from
# outside. The time is QEMU's own processor time, so that other load matters less; medians of ROUNDS (5),
# taken in turn.
set -eu -o pipefail

json=${1:?usage: bench.sh JSON}
build=${BUILD:-build}
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
dir=${QEMU_DIR:-$cache/qemu}
lab=$cache/lab
here=vmm/qemu/linux
rounds=${ROUNDS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
TIMEFORMAT='%U %S'

model=max,vendor=GenuineIntel
declare -A jobs=(
    [boot]=true
    [program]='for i in 0 1 2 3 4 5 6 7 8 9; do work & wait; work & wait; work & wait; work & wait; done'
)

guest() { # JOB CPU [ARGUMENT...]
    local job=$1 cpu=$2
    shift 2
    linux_run run 600 "$cpu" "$@" <<<"${jobs[$job]}"
}

captured() { # JOB
    qmp_pipes "$work/qmp"
    guest "$1" "$model,vpt-profile=icelake-server" -S -chardev "pipe,id=qmp,path=$work/qmp" \
        -mon chardev=qmp,mode=control &
    qmp_open "$work/qmp"
    qmp "{\"execute\": \"x-vpt-start\", \"arguments\": {\"file\": \"$work/capture\"}}" >/dev/null
    qmp '{"execute": "cont"}' >/dev/null
    wait $!
    qmp_close
}

measure() { # HOW JOB: seconds
    local how=$1 job=$2 out
    out=$({ time case $how in
        stock) qemu=$dir/stock/qemu-system-x86_64 guest "$job" "$model" ;;
        off) qemu=$dir/build/qemu-system-x86_64 guest "$job" "$model,vpt-profile=icelake-server" ;;
        on) qemu=$dir/build/qemu-system-x86_64 captured "$job" ;;
        esac >/dev/null 2>"$work/errors"; } 2>&1) || { cat "$work/errors" >&2; return 1; }
    awk '{ printf "%.3f\n", $1 + $2 }' <<<"$out"
}

median() {
    sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

linux_prepare
for job in boot program; do
    for ((round = 0; round < rounds; round++)); do
        for how in stock off on; do
            measure "$how" "$job" >>"$work/$job.$how"
        done
    done
    stat -c %s "$work/capture.0" >"$work/$job.bytes"
    qemu=$dir/build/qemu-system-x86_64 guest "$job" "$model,vpt-profile=icelake-server" \
        -plugin "$build/qemu/execlog.so,count=$work/$job.insns" >/dev/null
done

results=()
for job in boot program; do
    stock=$(median "$work/$job.stock") off=$(median "$work/$job.off") on=$(median "$work/$job.on")
    insns=$(cat "$work/$job.insns") bytes=$(cat "$work/$job.bytes")
    results+=("$(jq -n --arg job "$job" --argjson stock "$stock" --argjson off "$off" --argjson on "$on" \
        --argjson insns "$insns" --argjson bytes "$bytes" \
        '{($job): {stock_s: $stock, off_s: $off, on_s: $on, insns: $insns, trace_bytes: $bytes,
          off_vs_stock: ($off / $stock), on_vs_stock: ($on / $stock),
          bits_per_insn: (8 * $bytes / $insns)}}')")
done
mkdir -p "$(dirname "$json")"
printf '%s\n' "${results[@]}" | jq -s --argjson rounds "$rounds" '
    add as $jobs | {rounds: $rounds, jobs: $jobs,
        off_vs_stock: ([$jobs[].off_vs_stock] | max),
        on_vs_stock: ([$jobs[].on_vs_stock] | max),
        bits_per_insn: ([$jobs[].bits_per_insn] | max)}' >"$json"
jq -r '.jobs | to_entries[] | "\(.key): stock \(.value.stock_s) s, off \(.value.off_vs_stock)x, on \(.value.on_vs_stock)x, \(.value.bits_per_insn) bits per instruction"' "$json"
