#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# VMX in TCG, on our QEMU: every case of vmx-tests, on processors with Intel PT and without. A capture
# from outside sees the VMs of that suite: what it decodes to is what QEMU's plugin interface saw run. So
# is what the traces decode to that the suite takes of itself and of its guests.
#
# vmx.sh [--all]: with --all, more profiles, and instructions that are counted (-icount).
#
# Needs `make qemu`; without it, every test is named and counted as skipped. About half a minute.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/machine.sh
qemu=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}/build/qemu-system-x86_64
image=guest-tests/build/vmx-tests.elf
compare=$BUILD/qemu/compare
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
profiles='max'
[ "${1:-}" != --all ] || profiles='max broadwell skylake icelake-server gracemont'

[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
# shellcheck disable=SC2086 # a list of names
skip_all "vmx-tests," $profiles 'no PT' 'no VMX' capture 'own traces'

# machine NAME CPU [ARGUMENT...]: vmx-tests with its console in NAME.out.
machine() {
    local name=$1 cpu=$2 status=0
    shift 2
    (bare_machine 300 "$cpu" "$image" "$@") >"$work/$name.out" 2>&1 || status=$?
    return $((status / 2))
}

# reports NAME: all of the guest's cases, and no failure.
reports() {
    cp "$work/$1.out" "$work/out"
    grep -E '^(FAIL|    )' "$work/$1.out"
    grep -qE '^[1-9][0-9]{3} passed, 0 failed' "$work/$1.out"
}

counts() {
    echo "    $1: $(tail -n 1 "$work/$1.out" | tr -d '\r')"
}

for profile in $profiles; do
    machine "$profile" "+vmx,vpt-profile=$profile"
    check "vmx-tests on $profile" reports "$profile"
    counts "$profile"
done

# The cases of Intel PT in VMX operation must not all be skips.
traced() {
    grep -c '^PASS: PT, ' "$work/max.out" >"$work/out"
    [ "$(cat "$work/out")" -gt 50 ] && ! grep '^SKIP: PT' "$work/max.out" | grep -v 'no TSC scaling'
}
check 'vmx-tests on max: Intel PT in VMX operation' traced

machine none +vmx
check 'vmx-tests without Intel PT' reports none
absent() {
    grep -qE '^0 passed, 0 failed, 1 skipped' "$work/absent.out"
}
machine absent vpt-profile=max
check 'vmx-tests without VMX: nothing of it is there' absent

# A Broadwell's profile has no tracing in VMX operation, all others have.
ends_trace() {
    grep -l '^PASS: PT, IA32_VMX_MISC\[14\] = 0' "$work"/*.out >"$work/out"
    [ "$(cat "$work/out")" = "$work/broadwell.out" ]
}
if [ "${1:-}" = --all ]; then
    check 'vmx-tests on broadwell: VMXON ends tracing' ends_trace
    machine icount '+vmx,vpt-profile=max' -icount shift=3,sleep=off
    check 'vmx-tests with -icount' reports icount
    counts icount
fi

# ---- Capture from outside ----

ranges=$(readelf -lW "$image" | awk '$1 == "LOAD" && /E 0x[0-9a-f]+$/ { print $3, $6 }' |
    while read -r address bytes; do
        printf '{"first": %u, "last": %u}\n' "$address" $((address + bytes - 1))
    done | paste -sd,)

captures() {
    qmp_pipes "$work/qmp"
    machine outside +vmx,vpt-profile=max -S -plugin "$execlog,out=$work/log" \
        -device "vpt-port,trace=$work/own,image=$image" -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control &
    qmp_open "$work/qmp"
    qmp x-vpt-start "\"file\": \"$work/capture\",
        \"ranges\": [$ranges], \"images\": [{\"path\": \"$(realpath "$image")\"}]" |
        grep -q return && qmp cont >/dev/null
    wait $!
    qmp_close
    reports outside && "$compare" "$work/capture.0" "$work/log" >"$work/out" 2>&1 &&
        grep -q '^identical' "$work/out"
}
check 'vmx-tests: a capture decodes to what ran' captures
echo "    $(grep ' instructions, ' "$work/out")"

# The traces that the suite took of itself and of its guests, one behind the other.
own_traces() {
    "$compare" "$work/own" "$work/log" >"$work/out" 2>&1 && grep '^identical' "$work/out" &&
        [ "$(sed -n 's/.* off \([0-9]*\) times.*/\1/p' "$work/out")" -gt 50 ]
}
check "vmx-tests: the suite's own traces decode to what ran" own_traces
echo "    $(grep ' instructions, ' "$work/out")"

# Concealed or not, a capture sees guests, in the VM of a VMCS.
sees_guests() {
    "$vpt" parts --json "$work/capture.0" >"$work/parts" &&
        jq -es '([.[] | select(.nr)] | length) > 100 and ([.[] | .vmcs // empty] | unique | length) > 0' \
            "$work/parts"
}
check 'vmx-tests: a capture tells of its VMs' sees_guests

summary
