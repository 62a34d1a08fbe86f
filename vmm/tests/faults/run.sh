#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh PROGRAM: vpt's commands on small traces, each of their calls that allocates, opens, reads or
# writes made to fail (faults.c). PROGRAM is vpt with that in it. EVERY=N: only one call site of N;
# SEED=N: other later hits.
# Ends with 'N passed, N failed'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/../lib.sh"
EVERY=${EVERY:-1}
vpt=$1

# where OFFSET: the function and line of a call site.
where() {
    addr2line -e "$vpt" -f "$1" | tr '\n' ' '
}

# faults NAME STATUS ARGUMENT...: a command that ends with this status as long as nothing fails. files
# and input are what it makes and reads. It has no lab to go to where this machine falls short.
files=''
input=/dev/null
seed=${SEED:-0}
faults() {
    local name=$1 status=$2 line
    shift 2
    seed=$((seed + 1)) # so that not the same of each are left out
    VPT_CACHE=$work/none VPT_FAULTS=$work VPT_FAULTS_FILES=$files VPT_FAULTS_INPUT=$input VPT_FAULTS_EXIT=$status \
        VPT_FAULTS_EVERY=$EVERY VPT_FAULTS_SEED=$seed \
        "$vpt" "$@" >"$work/log" 2>&1
    while IFS= read -r line; do
        if [[ $line =~ ^FAIL:\ [a-z_]+\ at\ \+(0x[0-9a-f]+) ]]; then
            echo "FAIL: $name: $(where "${BASH_REMATCH[1]}")${line#FAIL: }"
        elif [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
            echo "$name: $line"
            passed=$((passed + BASH_REMATCH[1]))
            failed=$((failed + BASH_REMATCH[2]))
            files=''
            input=/dev/null
            return
        else
            echo "$line"
        fi
    done <"$work/log"
    echo "FAIL: $name: it did not end by itself"
    failed=$((failed + 1))
    files=''
    input=/dev/null
}

# ---- Something to read ----

if ! "$vpt" run --trace-out "$work/loop.pt" "$guests/traced-loop.elf" >/dev/null 2>&1 </dev/null; then
    skip faults 'no trace can be made here'
    summary
    exit
fi
"$vpt" convert "$work/loop.pt" "$work/loop.data"
cat >"$work/map.json" <<'END'
{ "vpt-map": 1, "vms": [ { "name": "one", "vmcs": "0x7000",
  "processes": [ { "name": "cc", "cr3": "0x5000" } ] } ] }
END

# ---- Commands ----

faults dump 0 dump "$work/loop.pt"
faults 'dump --json' 0 dump --json "$work/loop.pt"
faults 'dump of a perf.data' 0 dump "$work/loop.data"
for view in --insns --calls '--calls --json' --summary '--summary --json' '--summary --threads 3' \
    '--format perf' '--format folded' '--format chrome' '--format callgrind'; do
    read -ra words <<<"$view"
    faults "decode $view" 0 decode "${words[@]}" "$work/loop.pt"
done
input=$work/loop.pt
faults 'decode of a pipe' 0 decode --like "$work/loop.pt" -
for view in --calls '--format chrome'; do
    read -ra words <<<"$view"
    faults "decode $view of a perf.data" 0 decode "${words[@]}" "$work/loop.data"
done
faults index 0 index "$work/loop.pt"
faults parts 0 parts "$work/loop.pt"
faults 'parts with a map' 0 parts --map "$work/map.json" "$work/loop.pt"
files=$work/out.data
faults convert 0 convert "$work/loop.pt" "$work/out.data"
faults profiles 0 profiles
if [ -w /dev/kvm ]; then
    files="$work/new.pt $work/new.pt.json"
    faults run 0 run --trace-out "$work/new.pt" "$guests/traced-loop.elf"
    faults 'run --verify' 0 run --verify --json "$guests/traced-loop.elf"
else
    skip 'faults of vpt run' 'no /dev/kvm'
fi
summary
