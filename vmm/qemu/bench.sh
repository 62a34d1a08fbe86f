#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# bench.sh JSON: what tracing costs under TCG, on the unchanged QEMU, on ours with tracing off, and on ours
# while everything is captured from outside, without the code that runs and with it: to boot the Linux guest of
# the tests (processor time), and to run a compressor, an interpreter, and a program that is not typical, with an
# indirect CALL in about 36 instructions (their time, as the guest sees it). There are ROUNDS (5). In each, every
# way has three runs, of which the fastest counts. A ratio is the median of those of the rounds, since what is
# compared is minutes apart then, and not half an hour; least and most stand beside. Every other round goes
# backwards, since a run may profit from the one before.
#
# The alternative is single-step: of that last program, by the gdbstub of the unchanged QEMU; and of the demo, by
# `vpt run`, next to QEMU.
set -eu -o pipefail

json=${1:?usage: bench.sh JSON}
build=${BUILD:-build}
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
dir=${QEMU_DIR:-$cache/qemu}
lab=$cache/lab
here=vmm/qemu/linux
rounds=${ROUNDS:-5}
steps=10000 # of the program
demo=guest-tests/build/demo.elf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
TIMEFORMAT='%U %S'

says() { # that it is at work, which takes long
    printf 'bench.sh: %s, %d min so far\n' "$*" $((SECONDS / 60)) >&2
}

model=max,vendor=GenuineIntel
# shellcheck disable=SC2016 # for the guest's shell
functions='
    compressor() { bzip2 -c /usr/bin/perf >/dev/null; }
    interpreter() { awk "BEGIN { for (i = 0; i < 200000; i++) { s += i % 7; a[i % 100] = s } }"; }
    calls() { work compute 1500; }
    ticks() { read -r up idle </proc/uptime && echo "${up%.*}${up#*.}"; }
'
programs=(compressor interpreter calls)
declare -A jobs=(
    [boot]=true
    [programs]="$functions
        for i in 1 2 3; do for job in ${programs[*]}; do
            begin=\$(ticks)
            \$job
            echo \"\$job \$(expr \$(ticks) - \$begin)\" >>/out/times
        done; done"
)
for program in "${programs[@]}"; do
    jobs[$program]="$functions $program"
done

guest() { # JOB CPU [ARGUMENT...]
    local job=$1 cpu=$2
    shift 2
    linux_run run 600 "$cpu" "$@" <<<"${jobs[$job]}"
}

captured() { # JOB CODE [ARGUMENT...]
    qmp_pipes "$work/qmp"
    guest "$1" "$model,vpt-profile=icelake-server" "${@:3}" -S -chardev "pipe,id=qmp,path=$work/qmp" \
        -mon chardev=qmp,mode=control &
    qmp_open "$work/qmp"
    qmp x-vpt-start "\"file\": \"$work/capture\", \"code\": $2" >/dev/null
    qmp cont >/dev/null
    wait $!
    qmp_close
}

difference() { # LESS MORE
    awk -v less="$1" -v more="$2" 'BEGIN { printf "%.15g\n", more - less }'
}

# processor_time COMMAND...: its seconds, its children's among them.
processor_time() {
    local out
    out=$({ time "$@" >"$work/out" 2>"$work/errors"; } 2>&1) || { cat "$work/errors" >&2; return 1; }
    awk '{ printf "%.3f\n", $1 + $2 }' <<<"$out"
}

run() { # HOW JOB
    case $1 in
    stock) qemu=$dir/stock/qemu-system-x86_64 guest "$2" "$model" ;;
    off) qemu=$dir/build/qemu-system-x86_64 guest "$2" "$model,vpt-profile=icelake-server" ;;
    on) qemu=$dir/build/qemu-system-x86_64 captured "$2" false ;;
    code) qemu=$dir/build/qemu-system-x86_64 captured "$2" true ;;
    esac
}

# Seconds for so many steps of the program, from its main().
step_program() {
    linux_job step <<<"${jobs[calls]}"
    (qemu=$dir/stock/qemu-system-x86_64 linux_machine step 600 "$model" -S \
        -gdb "unix:path=$work/gdb,server=on,wait=off" -set drive.disk.cache=unsafe) &
    "$build/qemu/step" "$work/gdb" "$(nm "$build/qemu/work" | awk '$3 == "main" { print $1 }')" "$steps" ||
        { kill $! && return 1; }
    wait $! || true # the client ended it
}

run_demo() { # HOW ROUNDS
    local words="rounds=$2 tick=$tick"
    case $1 in
    off) VPT_QEMU=$dir/build/qemu-system-x86_64 "$build/vpt" qemu --append "$words notrace" "$demo" ;;
    on) VPT_QEMU=$dir/build/qemu-system-x86_64 "$build/vpt" qemu --append "$words" "$demo" ;;
    step) "$build/vpt" run --json --append "$words" "$demo" ;;
    esac
}

# time_demo HOW ROUNDS: seconds for that many more than one.
time_demo() {
    local tick=200000 one many
    [ "$1" != step ] || tick=8000 # of instructions, there
    one=$(processor_time run_demo "$1" 1)
    many=$(processor_time run_demo "$1" "$(($2 + 1))")
    difference "$one" "$many"
}

least() {
    sort -n "$1" | head -n 1
}

median() {
    sort -n "$1" | awk '{ all[NR] = $1 } END { printf "%.15g\n", (all[int((NR + 1) / 2)] + all[int((NR + 2) / 2)]) / 2 }'
}

most() {
    sort -n "$1" | tail -n 1
}

# end_round JOB HOW: the fastest of the three runs that were the last.
end_round() {
    least <(tail -n 3 "$work/$1.$2") >>"$work/$1.$2.rounds"
}

# ratio JOB HOW OTHER: of each round.
ratio() {
    paste "$work/$1.$2.rounds" "$work/$1.$3.rounds" | awk '{ printf "%.15g\n", $1 / $2 }' >"$work/ratios"
    median "$work/ratios"
}

# spread JOB: of each way, least and most, also of what it takes beside the unchanged QEMU.
spread() {
    local how
    for how in stock off on code; do
        ratio "$1" "$how" stock >/dev/null
        jq -n --arg how "$how" --argjson least "$(least "$work/$1.$how")" --argjson most "$(most "$work/$1.$how")" \
            --argjson least_ratio "$(least "$work/ratios")" --argjson most_ratio "$(most "$work/ratios")" \
            '{($how): {least_s: $least, most_s: $most, least_vs_stock: $least_ratio, most_vs_stock: $most_ratio}}'
    done | jq -s add
}

# What a job did behind the boot.
more() { # JOB insns|bytes
    local boot=0
    [ "$1" = boot ] || boot=$(cat "$work/boot.$2")
    difference "$boot" "$(cat "$work/$1.$2")"
}

linux_prepare
hows=(stock off on code)
for ((round = 0; round < rounds; round++)); do
    says "round $((round + 1)) of $rounds: boots"
    for _ in 1 2 3; do
        for how in "${hows[@]}"; do
            processor_time run "$how" boot >>"$work/boot.$how"
        done
    done
    says "round $((round + 1)) of $rounds: programs"
    for how in "${hows[@]}"; do
        run "$how" programs >/dev/null
        while read -r program ticks; do
            awk -v ticks="$ticks" 'BEGIN { print ticks / 100 }' >>"$work/$program.$how"
        done <"$work/run/times"
    done
    for how in "${hows[@]}"; do
        for job in boot "${programs[@]}"; do
            end_round "$job" "$how"
        done
    done
    hows=("${hows[3]}" "${hows[2]}" "${hows[1]}" "${hows[0]}")
done
says "how many instructions those are"
for job in boot "${programs[@]}"; do
    qemu=$dir/build/qemu-system-x86_64 captured "$job" false -plugin "$build/qemu/execlog.so,count=$work/$job.insns"
    stat -c %s "$work/capture.0" >"$work/$job.bytes"
done >/dev/null
declare -A demo_rounds=([off]=10000 [on]=10000 [step]=4)
for ((round = 0; round < rounds; round++)); do
    says "round $((round + 1)) of $rounds: single steps"
    step_program >>"$work/calls.step"
    for how in off on step; do
        time_demo "$how" "${demo_rounds[$how]}" >>"$work/demo.$how"
    done
done
# What the last one stepped, and where.
jq -e --argjson rounds "$((demo_rounds[step] + 1))" '{backend, insns_per_round: (.insns / $rounds)}' \
    "$work/out" >"$work/demo.json"

results=()
for job in boot "${programs[@]}"; do
    stock=$(median "$work/$job.stock") off=$(median "$work/$job.off") on=$(median "$work/$job.on")
    code=$(median "$work/$job.code")
    off_vs_stock=$(ratio "$job" off stock) on_vs_stock=$(ratio "$job" on stock) on_vs_off=$(ratio "$job" on off)
    code_vs_stock=$(ratio "$job" code stock) code_vs_off=$(ratio "$job" code off)
    insns=$(more "$job" insns) bytes=$(more "$job" bytes)
    results+=("$(jq -n --arg job "$job" --argjson stock "$stock" --argjson off "$off" --argjson on "$on" \
        --argjson code "$code" --argjson insns "$insns" --argjson bytes "$bytes" \
        --argjson off_vs_stock "$off_vs_stock" --argjson on_vs_stock "$on_vs_stock" --argjson on_vs_off "$on_vs_off" \
        --argjson code_vs_stock "$code_vs_stock" --argjson code_vs_off "$code_vs_off" \
        --argjson spread "$(spread "$job")" \
        '{($job): {stock_s: $stock, off_s: $off, on_s: $on, on_with_code_s: $code, insns: $insns, trace_bytes: $bytes,
          off_vs_stock: $off_vs_stock, on_vs_stock: $on_vs_stock, on_vs_off: $on_vs_off,
          on_with_code_vs_stock: $code_vs_stock, on_with_code_vs_off: $code_vs_off,
          spread: $spread, bits_per_insn: (8 * $bytes / $insns)}}')")
done
per_round() { # HOW: seconds
    awk -v rounds="${demo_rounds[$1]}" '{ print $1 / rounds }' <<<"$(least "$work/demo.$1")"
}

mkdir -p "$(dirname "$json")"
printf '%s\n' "${results[@]}" | jq -s --argjson rounds "$rounds" --argjson steps "$steps" \
    --argjson stepped "$(least "$work/calls.step")" --slurpfile demo "$work/demo.json" \
    --argjson demo_off "$(per_round off)" --argjson demo_on "$(per_round on)" --argjson demo_step "$(per_round step)" '
    add as $jobs | [$jobs.boot, $jobs.compressor, $jobs.interpreter] as $typical |
    $demo[0].insns_per_round as $insns |
    {
        calls: {
            by: "gdbstub",
            insns_per_s: ($steps / $stepped),
            stock_insns_per_s: ($jobs.calls.insns / $jobs.calls.stock_s),
            on_insns_per_s: ($jobs.calls.insns / $jobs.calls.on_s)
        },
        demo: {
            by: ("vpt run, " + $demo[0].backend),
            insns_per_s: ($insns / $demo_step),
            stock_insns_per_s: ($insns / $demo_off),
            on_insns_per_s: ($insns / $demo_on)
        }
    } | map_values(. + {vs_stock: (.stock_insns_per_s / .insns_per_s)}) as $single_step |
    {rounds: $rounds, jobs: $jobs, single_step: $single_step,
        single_step_vs_stock: ([$single_step[].vs_stock] | min),
        off_vs_stock: ([$typical[].off_vs_stock] | max),
        off_vs_stock_calls: $jobs.calls.off_vs_stock,
        on_vs_stock: ([$typical[].on_vs_stock] | max),
        on_vs_stock_calls: $jobs.calls.on_vs_stock,
        on_vs_off: ([$typical[].on_vs_off] | max),
        on_vs_off_calls: $jobs.calls.on_vs_off,
        on_with_code_vs_stock: ([$typical[].on_with_code_vs_stock] | max),
        on_with_code_vs_stock_calls: $jobs.calls.on_with_code_vs_stock,
        bits_per_insn: ([$typical[].bits_per_insn] | max),
        bits_per_insn_calls: $jobs.calls.bits_per_insn}' >"$json"
# shellcheck disable=SC2016 # for jq
digits='def digits($n): pow(10; $n) as $ten | . * $ten | round / $ten;'
jq -r "$digits"'.jobs | to_entries[] | "\(.key): stock \(.value.stock_s) s, off \(.value.off_vs_stock | digits(3))x, on \(.value.on_vs_stock | digits(3))x (\(.value.on_vs_off | digits(3))x of off), with code \(.value.on_with_code_vs_stock | digits(3))x, \(.value.bits_per_insn | digits(2)) bits per instruction"' "$json"
jq -r "$digits"'.single_step | to_entries[] | "\(.key), single-stepped (\(.value.by)): \(.value.insns_per_s | floor) instructions/s; untraced \(.value.stock_insns_per_s / 1e6 | digits(1)) M/s, traced \(.value.on_insns_per_s / 1e6 | digits(1)) M/s: \(.value.vs_stock | floor)x"' "$json"
