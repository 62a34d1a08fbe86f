#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vmx-hostile.sh [SEEDS [ROUNDS]]: a hostile VMM in a guest under our QEMU (guest-tests/vmx-hostile.c):
# random VMX instructions, VMCS, EPT and guests, every other one instruction by instruction. A merciful
# one has to pass its own tests at the end, also when it was migrated amid: nothing but its guests'
# memory has changed. A merciless one may end in any way (see seeds.sh). The first seed is FIRST_SEED (1).
# All in real time: the clock of -icount stands still in a guest whose every instruction faults.
#
# About 3 s of processor time for a seed, and up to 8 s more where a merciless one hangs. On a QEMU with sanitizers, see sanitized.sh.
set -u

seeds=${1:-2}
rounds=${2:-200}
first=${FIRST_SEED:-1}
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh
# shellcheck source=vmm/qemu/tests/seeds.sh
. vmm/qemu/tests/seeds.sh
image=guest-tests/build/vmx-hostile.elf
properties=+vmx,
says='hostile VMM'
limit=300 # each timer of a guest waits for a thread of QEMU, which a busy machine lets wait
merciless_limit=${MERCILESS_SECONDS:-8} # a VMM that hangs runs as long

[ -x "$qemu" ] || why='no QEMU (make qemu)'
skip_all 'a hostile VMM under QEMU'

profiles=(max icelake-server broadwell skylake gracemont)
for ((seed = first; seed < first + seeds; seed++)); do
    profile=${profiles[seed % ${#profiles[@]}]}
    slowly=$([ $((seed % 2)) = 0 ] || echo yes)
    merciful "$seed" "$profile"
    merciless "$seed" "$profile"
done
slowly=
rounds=$((4 * rounds)) # so that there are enough left when it has been stopped
if migrated "$first" max; then
    pass "seed $first, migrated: $(grep -a "^$says:" "$work/out")"
else
    fail "seed $first, migrated" "$(tail -qn 3 "$work/from" "$work/out" "$work/answer")"
fi

# refused SEED PROFILE: what was migrated does not fit a processor without VMX.
refused() {
    local properties=''
    (machine "$1" '' "$2" -incoming "exec:cat $work/state") >"$work/out" 2>&1
    [ $? = 1 ] && grep -q 'has no VMX' "$work/out"
}

name='a processor without VMX refuses the state of one in VMX operation'
if ! grep -q 'cpu/tcg_vmx' "$work/state"; then
    skip "$name" 'the guest was not in VMX operation when it was stopped'
elif refused "$first" max; then
    pass "$name"
else
    fail "$name" "$(tail -n 3 "$work/out")"
fi
summary
