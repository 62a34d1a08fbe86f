# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: our QEMU with a bare-metal guest, as the tests of such guests have it.

# bare_machine SECONDS PROPERTIES IMAGE [ARGUMENT...]: in place of this shell. PROPERTIES are those of
# -cpu. The exit status is twice the guest's, and 1 (isa-debug-exit), or timeout's: 124, or 137 if QEMU
# did not end on its first signal. If slowly is not empty, each instruction is translated by itself; tb_mib
# is how much memory translations may take.
bare_machine() {
    local seconds=$1 properties=$2 image=$3 accel=(-accel "tcg${tb_mib:+,tb-size=$tb_mib}")
    shift 3
    if [ -n "${slowly:-}" ] && "${qemu:?}" --version | grep -q 'version 7'; then
        accel+=(-singlestep)
    elif [ -n "${slowly:-}" ]; then # since 8.1
        accel=(-accel "tcg,one-insn-per-tb=on")
    fi
    exec timeout -k 10 "$seconds" "${qemu:?}" -L /usr/share/seabios -L /usr/share/qemu -machine q35 "${accel[@]}" \
        -cpu "max,vendor=GenuineIntel,$properties" -m 64 -display none -nodefaults -no-reboot \
        -debugcon stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$image" "$@"
}
