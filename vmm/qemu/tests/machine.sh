# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # not all who source it use all of it
# Sourced: our QEMU with a bare-metal guest, as the tests of such guests have it.

# bare_machine SECONDS PROPERTIES IMAGE [ARGUMENT...]: in place of this shell. PROPERTIES are those of
# -cpu. The exit status is twice the guest's, and 1 (isa-debug-exit), or timeout's: 124, or 137 if QEMU
# did not end on its first signal.
bare_machine() {
    local seconds=$1 properties=$2 image=$3
    shift 3
    exec timeout -k 10 "$seconds" "${qemu:?}" -L /usr/share/seabios -L /usr/share/qemu -machine q35 -accel tcg \
        -cpu "max,vendor=GenuineIntel,$properties" -m 64 -display none -nodefaults -no-reboot \
        -debugcon stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$image" "$@"
}

# So that a guest is slow: each instruction is translated by itself. Since 8.1, this is a property of the
# accelerator; the first one that is named is taken.
one_insn_per_tb=(-singlestep)
if ! "${qemu:?}" --version 2>/dev/null | grep -q 'version 7'; then
    one_insn_per_tb=(-accel "tcg,one-insn-per-tb=on")
fi
