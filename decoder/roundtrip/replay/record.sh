#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Records traces on a machine with Intel PT, with several settings of perf, and replays each of them:
#
#   record.sh [--keep FOLDER] [COMMAND [ARGUMENT...]]
#
# COMMAND is `ls /` if none is given; something short is best. The traces go to FOLDER, else to one that
# is removed again. docs/replay.md says what the tables mean and what to send.
#
# Needs perf, a kernel with the PMU intel_pt, and $BUILD/tests/replay. Ends with 'N passed, N failed, N
# skipped'; a setting that the processor or perf refuses is skipped by name.
set -uo pipefail

replay=${BUILD:-$(dirname "$0")/../../../build}/tests/replay
pmu=/sys/bus/event_source/devices/intel_pt
passed=0 failed=0 skipped=0

fail() {
    echo "record.sh: $1" >&2
    exit 2
}

folder=
if [ "${1-}" = --keep ]; then
    folder=${2-}
    [ -n "$folder" ] || fail '--keep needs a folder'
    mkdir -p "$folder" || exit 2
    shift 2
fi
[ $# -gt 0 ] || set -- ls /
[ -e $pmu ] || fail "there is no $pmu: this needs Linux on a processor with Intel PT, and not in a VM"
command -v perf >/dev/null || fail 'perf is not installed'
[ -x "$replay" ] || fail "$replay is not built; 'make replay' does it"
if [ -z "$folder" ]; then
    folder=$(mktemp -d) || exit 2
    trap 'rm -rf "$folder"' EXIT
fi

echo "processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
cpu=$(awk -F: '/^cpu family|^model[[:space:]]*:|^stepping/ { v[++n] = $2 + 0 }
    n == 3 { print v[1] "/" v[2] "/" v[3]; exit }' /proc/cpuinfo)
echo "--cpu $cpu"
grep -m 1 '^microcode' /proc/cpuinfo
grep -H . $pmu/caps/* 2>/dev/null
uname -r
perf --version

# What perf said, without its help.
complaint() {
    sed '/^ *Usage:/,$d; /^[[:space:]]*$/d' "$1" | head -n 6
}

# record NAME EVENT COMMAND...: perf ends with the status of COMMAND, so the file says whether it was done.
record() {
    local name=$1 event=$2 data=$folder/$1.data
    shift 2
    echo
    echo "== $name: $event"
    rm -f "$data"
    perf record --no-buildid-cache --event "$event" --output "$data" -- "$@" \
        >/dev/null 2>"$folder/$name.log" </dev/null
    if [ ! -s "$data" ]; then
        skipped=$((skipped + 1))
        echo "SKIPPED: $name: perf refuses it:"
        complaint "$folder/$name.log"
        return
    fi
    "$replay" --cpu "$cpu" "$data" | tee "$folder/$name.txt"
    if [[ $(tail -n 1 "$folder/$name.txt") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: replay ended without a verdict"
    fi
}

record plain intel_pt/tsc=0,mtc=0,noretcomp=1/u "$@"
record retc intel_pt/tsc=0,mtc=0/u "$@"
record timed intel_pt/tsc,mtc,noretcomp=1/u "$@"
record cycles intel_pt/tsc,mtc,cyc,noretcomp=1/u "$@"
record seldom intel_pt/tsc=0,mtc=0,psb_period=5/u "$@"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
