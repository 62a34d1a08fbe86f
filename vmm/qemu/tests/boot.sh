#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A Linux guest is captured from outside, from the first instruction of its firmware on, with the code
# that it runs and no image of any: real mode, option ROMs, decompression, a kernel that patches
# itself, modules, programs. The trace decodes to what QEMU's plugin interface saw run.
#
#   boot.sh [--all]     (make boot-test): without --all, only up to some way into the kernel
#
# Needs `make qemu`, the lab's kernel and cpio; without them, every test is named and counted as
# skipped.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh

boot_s=900
some_bytes=14000000 # of trace: the kernel has patched itself by then, and takes interrupts

if [ -n "$why" ]; then
    skip "captured boot of one vCPU, of two: $why"
    summary
    exit
fi

# boot NAME VCPUS: a guest whose capture, log and output are below $work/NAME.
boot() {
    local name=$1 vcpus=$2 guest
    qmp_pipes "$work/qmp"
    linux_run "$name" $boot_s max,vendor=GenuineIntel -smp "$vcpus" -S \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "${EXECLOG:-$build/qemu/execlog.so},blocks=$work/$name.log" <<<'cat /proc/cpuinfo /proc/modules' &
    guest=$!
    qmp_open "$work/qmp"
    qmp '{"execute": "x-vpt-start", "arguments": {"file": "'"$work/$name.pt"'", "code": true}}' &&
        qmp '{"execute": "cont"}' || return 1
    if [ -n "${3:-}" ]; then
        until [ "$(stat -c %s "$work/$name.pt.0")" -ge "$3" ] || ! kill -0 $guest 2>/dev/null; do
            sleep 0.05
        done
        qmp '{"execute": "quit"}'
        wait $guest
        qmp_close
        return 0
    fi
    wait $guest || return 1
    qmp_close
    grep -q '^virtio' "$work/$name/log"
}

# decodes NAME VCPU
decodes() {
    local trace=$work/$1.pt.$2 compared
    ls -s --block-size=K "$trace" "$trace.code" "$work/$1.log.$2"
    compared=$("$build/qemu/compare" "$trace" "$work/$1.log.$2" "$work/$1.log.table") || {
        echo "$compared"
        return 1
    }
    echo "$compared"
    grep -q ', 0 errors, 0 bytes lost' <<<"$compared"
}

# boot_decodes NAME VCPUS [BYTES]
boot_decodes() {
    local name=$1 vcpus=$2 vcpu
    if ! boot "$@" >"$work/why" 2>&1; then
        fail "boot, $name: it comes to its end" "$work/why"
        return
    fi
    for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
        if decodes "$name" "$vcpu" >"$work/why" 2>&1; then
            pass "boot, $name: vCPU $vcpu decodes to what ran"
            grep ' instructions, ' "$work/why"
        else
            fail "boot, $name: vCPU $vcpu decodes to what ran" "$work/why"
        fi
    done
    rm -rf "$work/${name:?}"*
}

linux_prepare
if [ "${1:-}" = --all ]; then
    boot_decodes one 1
    boot_decodes two 2
else
    boot_decodes begun 1 $some_bytes
    skip "boot to the shell, one vCPU and two: make boot-test has them"
fi

summary
