#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# test.sh: runs the tests that its arguments name, one step after the other, and adds them up.
#
#   --units 'PROGRAM...'    CUnit programs
#   --scripts 'SCRIPT...'   scripts that end with 'N passed, N failed'
#   --fuzzers 'PROGRAM...'  libFuzzer programs, FUZZ_SECONDS each
#   --guests                guests end to end, on the local KVM and in the lab
#   --valgrind              the CUnit programs under valgrind
#
# Every step has a limit of time, and its output goes to $BUILD/test-logs/NAME.log; the end of the
# log is shown if the step fails. The last line is 'N passed, N failed, N skipped'; the status is
# 0 only if nothing failed.
set -uo pipefail

BUILD=${BUILD:-build}
CC=${CC:-gcc}
FUZZ_SECONDS=${FUZZ_SECONDS:-20}
UNIT_LIMIT=${UNIT_LIMIT:-240}   # seconds
SCRIPT_LIMIT=900
GUEST_LIMIT=400
HOSTILE_RUNS=150000 # executions of the fuzzer that plays a hostile guest

vpt=$BUILD/vpt
guests=guest-tests/build
logs=$BUILD/test-logs

passed=0
failed=0
closing=()      # each runner's closing lines
failed_names=()
skipped=()      # 'NAME: why'

units='' scripts='' fuzzers='' with_guests=no valgrind=()
while [ $# -gt 0 ]; do
    case $1 in
    --units) units=$2 && shift ;;
    --scripts) scripts=$2 && shift ;;
    --fuzzers) fuzzers=$2 && shift ;;
    --guests) with_guests=yes ;;
    --valgrind) valgrind=(valgrind --quiet --leak-check=full --error-exitcode=99) ;;
    *) echo "test.sh: unknown argument: $1" >&2 && exit 2 ;;
    esac
    shift
done

# ---- Steps ------------------------------------------------------------------------------------

# count_pass N, count_fail NAME N, count_skip NAME WHY: what one runner counted.
count_pass() {
    passed=$((passed + $1))
}
count_fail() {
    failed=$((failed + $2))
    failed_names+=("$1")
}
count_skip() {
    skipped+=("$1: $2")
    printf '%-28s skipped: %s\n' "$1" "$2"
}

# step NAME LIMIT COMMAND...: runs a command; its status is in $status, its output in $log.
step() {
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    log=$logs/$name.log
    timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1 </dev/null
    status=$?
    elapsed=$((SECONDS - start))
    case $status in
    124 | 137) echo "test.sh: stopped after $limit s" >>"$log" ;;
    esac
}

# verdict NAME ok|FAILED TEXT: the line of a step, and the end of its log if it failed.
verdict() {
    printf '%-28s %-6s %s (%d s)\n' "$1" "$2" "$3" "$elapsed"
    if [ "$2" != ok ]; then
        echo "---- end of $log (status $status)"
        tail -n 30 "$log"
        echo "----"
    fi
}

# single NAME TEXT: the step was one test; $status decides.
single() {
    if [ "$status" = 0 ]; then
        count_pass 1
        verdict "$1" ok "$2"
    else
        count_fail "$1" 1
        verdict "$1" FAILED "$2"
    fi
}

# counted NAME: the step printed 'N passed, N failed' (and maybe ', N skipped') as its last such line.
counted() {
    local line p f s
    line=$(grep -aoE '[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?' "$log" | tail -n 1)
    if [[ ! $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        count_fail "$1" 1
        verdict "$1" FAILED "no line 'N passed, N failed'"
        return
    fi
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    closing+=("$1: $line")
    count_pass "$p"
    local each
    while [ "$s" -gt 0 ]; do
        s=$((s - 1))
        IFS= read -r each || each="(its output names no reason)"
        skipped+=("$1: $each")
    done < <(grep -aiE '^ *\[?skip' "$log")
    if [ "$status" = 0 ] && [ "$f" = 0 ] && [ "$p" -gt 0 ]; then
        verdict "$1" ok "$line"
    else
        count_fail "$1" "$((f > 0 ? f : 1))"
        verdict "$1" FAILED "$line"
    fi
}

# ---- Unit tests -------------------------------------------------------------------------------

# unit PROGRAM: CUnit's own summary says how many tests ran and failed.
unit() {
    local name=unit-${1##*/} ran=0 bad=0
    step "$name" $((${#valgrind[@]} ? UNIT_LIMIT * 10 : UNIT_LIMIT)) "${valgrind[@]}" "$1"
    read -r ran bad < <(awk '$1 == "tests" { print $3, $5 }' "$log")
    closing+=("$name:" "$(grep -aE -A 3 '^Run Summary:' "$log")")
    local each
    while IFS= read -r each; do
        skipped+=("$name: $each")
    done < <(grep -aoE 'SKIPPED: .*' "$log" | sed 's/passed$//' | sort -u)
    if [ "$status" = 0 ] && [ "${ran:-0}" -gt 0 ] && [ "${bad:-0}" = 0 ]; then
        count_pass "$ran"
        verdict "$name" ok "$ran tests"
    else
        count_pass $((${ran:-0} - ${bad:-0}))
        count_fail "$name" $((${bad:-0} > 0 ? bad : 1))
        verdict "$name" FAILED "${bad:-0} of ${ran:-0} tests failed"
    fi
}

# ---- Fuzzing ----------------------------------------------------------------------------------

# fuzz PROGRAM: libFuzzer for FUZZ_SECONDS, from the seeds beside its source and what it found last
# time. FOLDER-NAME has its seeds in FOLDER/fuzz/corpus/NAME, and perhaps words in FOLDER/fuzz/NAME.dict.
fuzz() {
    local target=${1##*/} bound text
    local name=fuzz-$target corpus=$BUILD/fuzz/corpus/$target
    local seeds=("${target%%-*}/fuzz/corpus/${target#*-}") words=${target%%-*}/fuzz/${target#*-}.dict
    [ -d "${seeds[0]}" ] || seeds=()
    mkdir -p "$corpus" "$BUILD/fuzz/found"
    bound=(-max_total_time="$FUZZ_SECONDS")
    case ${1##*/} in
    emulation-guest) bound=(-runs="$HOSTILE_RUNS" -max_total_time=$((FUZZ_SECONDS * 10))) ;;
    esac
    [ ! -f "$words" ] || bound+=(-dict="$words")
    step "$name" $((FUZZ_SECONDS * 10 + 60)) "$1" "${bound[@]}" -timeout=10 -rss_limit_mb=4096 \
        -print_final_stats=1 -artifact_prefix="$BUILD/fuzz/found/${1##*/}-" "$corpus" "${seeds[@]}"
    text=$(awk '/^stat::number_of_executed_units:/ { print $2 }' "$log")
    if [ "${1##*/}" = emulation-guest ] && [ "$status" = 0 ] && [ "${text:-0}" -lt 100000 ]; then
        echo "test.sh: fewer than 100000 executions" >>"$log"
        status=1
    fi
    single "$name" "${text:-0} executions"
}

# ---- Guests end to end ------------------------------------------------------------------------

# guest NAME ARGUMENTS...: one `vpt run` that must end with status 0.
guest() {
    local name=$1
    shift
    step "$name" "$GUEST_LIMIT" "$vpt" run "$@"
}

# identical NAME: the step is a traced guest, whose decoded path must be the executed one.
identical() {
    local line
    line=$(tail -n 1 "$log")
    case $line in
    'path: identical '*) ;;
    *)
        line="no verdict 'path: identical'"
        [ "$status" != 0 ] || status=1
        ;;
    esac
    single "$1" "$line"
}

guests_all() {
    local trace=$BUILD/run/test-lab.pt profile
    mkdir -p "$BUILD/run"

    if [ -w /dev/kvm ]; then
        for profile in icelake-server broadwell gracemont max; do
            guest "msr-tests-$profile" "$guests/msr-tests.elf" --profile "$profile"
            counted "msr-tests-$profile"
            guest "packet-tests-$profile" "$guests/packet-tests.elf" --profile "$profile"
            counted "packet-tests-$profile"
        done
        guest hostile-tests "$guests/hostile-tests.elf"
        counted hostile-tests
        guest rtit-tests "$guests/rtit-tests.elf" --profile silvermont
        counted rtit-tests
    else
        count_skip "guests on the local KVM" "there is no /dev/kvm that can be written to"
    fi
    if [ ! -r "$VPT_CACHE/lab/vmlinuz" ]; then
        count_skip "guests in the lab" "no kernel package could be had (make lab)"
        return
    fi

    guest demo-lab "$guests/demo.elf" --lab --verify --trace-out "$trace"
    identical demo-lab
    if [ "$status" = 0 ]; then
        step witness "$GUEST_LIMIT" "$BUILD/tests/witness" "$trace"
        single witness "libipt and libptdec, on the trace of demo-lab"
    else
        count_skip witness "demo-lab left no trace to look at"
    fi

    guest msr-tests-lab "$guests/msr-tests.elf" --lab
    counted msr-tests-lab
    guest packet-tests-lab "$guests/packet-tests.elf" --lab --profile max
    counted packet-tests-lab
    guest hostile-tests-lab "$guests/hostile-tests.elf" --lab
    counted hostile-tests-lab
    guest rtit-tests-lab "$guests/rtit-tests.elf" --lab --profile silvermont
    counted rtit-tests-lab
    guest demo-rtit-lab "$guests/demo.elf" --lab --profile silvermont --verify
    identical demo-rtit-lab
}

# ---- All --------------------------------------------------------------------------------------

mkdir -p "$logs"
for each in $units; do
    [ "${each##*/}" = witness ] || unit "$each"
done
for each in $scripts; do
    name=${each##*/}
    step "${name%.sh}" "$SCRIPT_LIMIT" "$each"
    counted "${name%.sh}"
done
for each in $fuzzers; do
    fuzz "$each"
done
[ "$with_guests" = no ] || guests_all

# list TITLE LINE...: nothing without lines.
list() {
    [ $# -gt 1 ] || return 0
    printf '\n%s:\n' "$1"
    shift
    printf '  %s\n' "$@"
}

printf '\nClosing lines:\n'
printf '%s\n' "${closing[@]}"
list Skipped "${skipped[@]}"
list Failed "${failed_names[@]}"
echo
echo "$passed passed, $failed failed, ${#skipped[@]} skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
