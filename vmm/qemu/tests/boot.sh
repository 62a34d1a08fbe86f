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
more_bytes=3000000  # that a capture takes which begins there
most_bytes=30000000 # of both vCPUs' traces: both have run by then

skip_all "captured boot of one vCPU, of two, twice, in a ring"

ring_bytes=1048576

# boot_begins NAME VCPUS [MEMBER]: of x-vpt-start, besides; $guest.
boot_begins() {
    local name=$1 vcpus=$2
    qmp_pipes "$work/qmp"
    linux_run "$name" $boot_s max,vendor=GenuineIntel -smp "$vcpus" -S \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,blocks=$work/$name.log" <<<'cat /proc/cpuinfo /proc/modules' &
    guest=$!
    qmp_open "$work/qmp"
    qmp x-vpt-start '"file": "'"$work/$name.pt"'", "code": true'"${3:+, $3}" &&
        qmp cont
}

# captured BYTES: the guest has run so far, all its vCPUs together.
captured() {
    local bytes=0
    while [ "$bytes" -lt "$1" ]; do
        sleep 0.05
        bytes=$(qmp x-vpt-query | jq '[.return[].bytes] | add') || return 1
    done
}

quit() {
    qmp quit
    wait "$guest"
    qmp_close
}

# boot NAME VCPUS [BYTES]: a guest whose capture, log and output are below $work/NAME.
boot() {
    boot_begins "$1" "$2" || return 1
    if [ -n "${3:-}" ]; then
        captured "$3" && quit
        return
    fi
    wait "$guest" || return 1
    qmp_close
    grep -q '^virtio' "$work/$1/log"
}

# decodes TRACE LOG VCPU
decodes() {
    local trace=$work/$1.$3 compared
    ls -s --block-size=K "$trace" "$trace.code" "$work/$2.log.$3"
    compared=$("$build/qemu/compare" "$trace" "$work/$2.log.$3" "$work/$2.log.table") || {
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
        fail_with "boot, $name: it comes to its end" "$work/why"
        return
    fi
    for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
        if decodes "$name.pt" "$name" "$vcpu" >"$work/why" 2>&1; then
            pass "boot, $name: vCPU $vcpu decodes to what ran"
            grep ' instructions, ' "$work/why"
        else
            fail_with "boot, $name: vCPU $vcpu decodes to what ran" "$work/why"
        fi
    done
    rm -rf "$work/${name:?}"*
}

# again_decodes VCPUS BYTES: a capture ends after so many bytes, and another one begins. What it knows of the code
# is what it tells itself.
again_decodes() {
    local vcpus=$1 bytes=$2 trace vcpu
    boot_begins again "$vcpus" && captured "$bytes" && qmp x-vpt-stop &&
        qmp x-vpt-start '"file": "'"$work/again.second"'", "code": true' &&
        captured $more_bytes && quit || return 1
    for trace in again.pt again.second; do
        for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
            decodes $trace again $vcpu || return 1
        done
    done
}

# ring_decodes VCPUS BYTES: what rings held after so many bytes and at the end, with the code of it alone.
ring_decodes() {
    local vcpus=$1 bytes=$2 trace vcpu
    boot_begins ring "$vcpus" "\"ring\": $ring_bytes" && captured "$bytes" &&
        qmp x-vpt-save '"file": "'"$work/ring.amid"'"' &&
        captured $((bytes + 3 * ring_bytes)) && quit || return 1
    for trace in ring.amid ring.pt; do
        [ "$(stat -c %s "$work/$trace.0")" = $ring_bytes ] || return 1
        for ((vcpu = 0; vcpu < vcpus; vcpu++)); do
            decodes $trace ring $vcpu || return 1
        done
    done
}

linux_prepare
some=1 bytes=$some_bytes
if [ "${1:-}" = --all ]; then
    boot_decodes one 1
    boot_decodes two 2
    some=2 bytes=$most_bytes
else
    skip "boot to the shell, one vCPU and two: make boot-test has them"
fi

# tell NAME COMMAND...
tell() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then
        pass "$name"
        grep ' instructions, ' "$work/why"
    else
        fail_with "$name" "$work/why"
    fi
}
tell "a capture of a boot, and one that begins when it ends, decode to what ran, on $some vCPU(s)" \
    again_decodes $some $bytes
rm -rf "$work"/again*
tell "rings of 1 MiB decode to the last of what ran, amid a boot and at its end, on $some vCPU(s)" \
    ring_decodes $some $bytes

summary
