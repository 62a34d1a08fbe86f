#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# test.sh: runs the tests that its arguments name, and adds them up.
#
#   --units 'PROGRAM...'    CUnit programs
#   --scripts 'SCRIPT...'   scripts that end with 'N passed, N failed'
#   --fuzzers 'PROGRAM...'  libFuzzer programs, FUZZ_SECONDS each
#   --guests                guests end to end, on the local KVM and in the lab
#   --valgrind              the CUnit programs under valgrind
#
# As many steps run at once as there are processors (JOBS). Every step has a limit of time, and its
# output goes to $BUILD/test-logs/NAME.log; the end of the log is shown if the step fails. The last
# line is 'N passed, N failed, N skipped'; the status is 0 only if nothing failed.
set -uo pipefail

BUILD=${BUILD:-build}
CC=${CC:-gcc}
JOBS=${JOBS:-$(nproc)}
FUZZ_SECONDS=${FUZZ_SECONDS:-10}
UNIT_LIMIT=${UNIT_LIMIT:-240}   # seconds
SCRIPT_LIMIT=900
GUEST_LIMIT=400
HOSTILE_RUNS=100000 # executions of the fuzzer that plays a hostile guest
HOSTILE_SECONDS=300 # for these
FAILURES_SHOWN=20   # of one step, in the summary

# What tells of a failure in a log: a test's own line; a sanitizer's, with the functions it names; the
# input that a fuzzer found.
FAILURE='^ *\[?FAIL|\.\.\.FAILED|^==[0-9]+== ?ERROR: |: runtime error: |^ +#[0-9]+ .* in .*\.c:[0-9]+|^Base64: |^test\.sh: '

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

vpt=$BUILD/vpt
guests=guest-tests/build
logs=$BUILD/test-logs

passed=0
failed=0
closing=()      # each runner's closing lines
failures=()     # 'NAME: what'
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

# count_pass N, count_fail NAME N, count_skip NAME WHY: what one runner counted. The summary names what
# failed as the log does: where only its end is kept, that is all there is to go by.
count_pass() {
    passed=$((passed + $1))
}
count_fail() {
    local each said=()
    failed=$((failed + $2))
    mapfile -t said < <(grep -aE "$FAILURE" "$log" | head -n "$FAILURES_SHOWN")
    [ ${#said[@]} -gt 0 ] || said=("(status $status, see the end of its log)")
    for each in "${said[@]}"; do
        failures+=("$1: $each")
    done
}
count_skip() {
    skipped+=("$1: $2")
    printf '%-28s skipped: %s\n' "$1" "$2"
}

# queue 'JUDGE...' NAME LIMIT COMMAND...: a step to run, and the function that says what came of it. It finds
# the status in $status, the output in $log, and the seconds in $elapsed.
judges=() names=() limits=() commands=()
queue() {
    judges+=("$1") names+=("$2") limits+=("$3")
    shift 3
    commands+=("$(printf '%q ' "$@")")
}

# begin INDEX: a step of the queue, beside what runs already.
declare -A index_of=() began=()
begin() {
    eval "timeout --kill-after=10 ${limits[$1]} ${commands[$1]}" >"$logs/${names[$1]}.log" 2>&1 </dev/null &
    index_of[$!]=$1
    began[$!]=$SECONDS
}

# judge_next: waits until a step ends, and judges it. What depends on it is queued by its judge.
judge_next() {
    local pid index
    wait -n -p pid "${!index_of[@]}"
    status=$?
    index=${index_of[$pid]}
    elapsed=$((SECONDS - began[$pid]))
    log=$logs/${names[$index]}.log
    unset "index_of[$pid]" "began[$pid]"
    case $status in
    124 | 137) echo "test.sh: stopped after ${limits[$index]} s" >>"$log" ;;
    esac
    eval "${judges[$index]}"
}

# run_queue: all steps, JOBS at a time, in their order.
run_queue() {
    local next=0
    while [ "$next" -lt ${#names[@]} ] || [ ${#index_of[@]} -gt 0 ]; do
        if [ "$next" -lt ${#names[@]} ] && [ ${#index_of[@]} -lt "$JOBS" ]; then
            begin "$next"
            next=$((next + 1))
        else
            judge_next
        fi
    done
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
    local ran=$((p + s))
    closing+=("$1: $line")
    count_pass "$p"
    local each
    while [ "$s" -gt 0 ]; do
        s=$((s - 1))
        IFS= read -r each || each="(its output names no reason)"
        skipped+=("$1: $each")
    done < <(grep -aiE '^ *\[?skip' "$log")
    if [ "$status" = 0 ] && [ "$f" = 0 ] && [ "$ran" -gt 0 ]; then
        verdict "$1" ok "$line"
    else
        count_fail "$1" "$((f > 0 ? f : 1))"
        verdict "$1" FAILED "$line"
    fi
}

# ---- Unit tests -------------------------------------------------------------------------------

unit() { # PROGRAM
    local name=unit-${1##*/}
    queue "summary $name" "$name" $((${#valgrind[@]} ? UNIT_LIMIT * 10 : UNIT_LIMIT)) "${valgrind[@]}" "$1"
}

# summary NAME: CUnit's own says how many tests ran and failed.
summary() {
    local name=$1 ran=0 bad=0
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
    local target=${1##*/} bound
    local name=fuzz-$target corpus=$BUILD/fuzz/corpus/$target
    local seeds=("${target%%-*}/fuzz/corpus/${target#*-}") words=${target%%-*}/fuzz/${target#*-}.dict
    [ -d "${seeds[0]}" ] || seeds=()
    mkdir -p "$corpus" "$BUILD/fuzz/found"
    bound=(-max_total_time="$FUZZ_SECONDS")
    case $target in
    emulation-guest) bound=(-runs="$HOSTILE_RUNS" -max_total_time="$HOSTILE_SECONDS") ;;
    esac
    [ ! -f "$words" ] || bound+=(-dict="$words")
    queue "fuzzed $target" "$name" $((FUZZ_SECONDS * 10 + HOSTILE_SECONDS)) "$1" "${bound[@]}" -timeout=10 -rss_limit_mb=4096 \
        -print_final_stats=1 -artifact_prefix="$BUILD/fuzz/found/$target-" "$corpus" "${seeds[@]}"
}

# fuzzed TARGET: libFuzzer says how often it ran.
fuzzed() {
    local text
    text=$(awk '/^stat::number_of_executed_units:/ { print $2 }' "$log")
    if [ "$1" = emulation-guest ] && [ "$status" = 0 ] && [ "${text:-0}" -lt "$HOSTILE_RUNS" ]; then
        echo "test.sh: fewer than $HOSTILE_RUNS executions" >>"$log"
        status=1
    fi
    single "fuzz-$1" "${text:-0} executions"
}

# ---- Guests end to end ------------------------------------------------------------------------

# guest JUDGE NAME ARGUMENTS...: one `vpt run` that must end with status 0.
guest() {
    local judge=$1 name=$2
    shift 2
    queue "$judge $name" "$name" "$GUEST_LIMIT" "$vpt" run "$@"
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

# traced NAME: the same, and what other decoders say of its trace.
trace=$BUILD/run/test-lab.pt
traced() {
    identical "$1"
    if [ "$status" = 0 ]; then
        queue "single witness 'libipt and libptdec, on the trace of $1'" witness "$GUEST_LIMIT" \
            "$BUILD/tests/witness" "$trace"
    else
        count_skip witness "$1 left no trace to look at"
    fi
}

# Each profile of hardware, in the lab and with Linux, is for `make profiles-test`.
guests_lab() {
    if [ ! -r "$VPT_CACHE/lab/vmlinuz" ]; then
        count_skip "guests in the lab" "no kernel package could be had (make lab)"
        return
    fi
    mkdir -p "$BUILD/run"
    guest traced demo-lab "$guests/demo.elf" --lab --profile skylake --verify --trace-out "$trace"
    if [ -w /dev/kvm ]; then
        guest identical demo-rtit "$guests/demo.elf" --profile silvermont --append rounds=4 --verify
        count_skip "guest tests in the lab" "they run on the local KVM"
        return
    fi
    guest identical demo-rtit-lab "$guests/demo.elf" --lab --profile silvermont --verify
    guest counted msr-tests-lab "$guests/msr-tests.elf" --lab --profile icelake-client
    guest counted packet-tests-lab "$guests/packet-tests.elf" --lab --profile max
    guest counted hostile-tests-lab "$guests/hostile-tests.elf" --lab
    guest counted rtit-tests-lab "$guests/rtit-tests.elf" --lab --profile silvermont
}

guests_kvm() {
    local profile
    if [ ! -w /dev/kvm ]; then
        count_skip "guests on the local KVM" "there is no /dev/kvm that can be written to"
        return
    fi
    for profile in plain broadwell skylake cascade-lake icelake-client icelake-server gracemont max; do
        guest counted "msr-tests-$profile" "$guests/msr-tests.elf" --profile "$profile"
        guest counted "packet-tests-$profile" "$guests/packet-tests.elf" --profile "$profile"
    done
    guest counted hostile-tests "$guests/hostile-tests.elf"
    guest counted rtit-tests "$guests/rtit-tests.elf" --profile silvermont
}

# ---- All --------------------------------------------------------------------------------------

mkdir -p "$logs"
for each in $units; do
    [ "${each##*/}" = witness ] || unit "$each"
done
for each in $scripts; do
    name=${each##*/}
    name=${name%.sh}
    queue "counted $name" "$name" "$SCRIPT_LIMIT" "$each"
done
[ "$with_guests" = no ] || guests_lab
for each in $fuzzers; do
    fuzz "$each"
done
[ "$with_guests" = no ] || guests_kvm
run_queue

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
list Failed "${failures[@]}"
echo
echo "$passed passed, $failed failed, ${#skipped[@]} skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
