#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# hostile.sh [SEEDS [ROUNDS]]: random trace configurations in guests under our QEMU (guest-tests/torture.c).
# A merciful guest has to pass its own tests at the end, also when it was migrated amid. The trace of a
# merciless one may run over its code, stack and page tables (see seeds.sh). Each seed is one of both
# kinds; the first is FIRST_SEED (1).
#
# About 5 s of processor time for a seed. For QEMU with sanitizers, see sanitized.sh.
set -u

seeds=${1:-2}
rounds=${2:-50000}
first=${FIRST_SEED:-1}
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh
# shellcheck source=vmm/qemu/tests/seeds.sh
. vmm/qemu/tests/seeds.sh
image=guest-tests/build/torture.elf
says=torture

[ -x "$qemu" ] || why='no QEMU (make qemu)'
skip_all 'random trace configurations under QEMU'

kinds=('' merciless)
profiles=(max icelake-server goldmont-plus skylake gracemont)
for ((seed = first; seed < first + seeds; seed++)); do
    profile=${profiles[seed % ${#profiles[@]}]}
    merciful "$seed" "$profile"
    merciless "$seed" "$profile"
    captured "$seed" "$profile" "${kinds[seed % 2]}"
done
if migrated "$first" max; then
    pass "seed $first, migrated: $(grep -a '^torture:' "$work/out")"
else
    fail "seed $first, migrated" "$(tail -qn 3 "$work/from" "$work/out" "$work/answer")"
fi
summary
