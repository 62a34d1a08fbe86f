#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux with kvm_intel, on VMX in TCG, boots a guest of its own, each with two processors; a capture from
# outside sees both systems, with the code that they run and no image of any. The trace of each processor
# decodes to what QEMU's plugin interface saw run, at least 100 million instructions in all: the inner
# guest's kernel, which patches itself, and the host's kernel and QEMU between. The capture begins after
# some thousand VM exits, amid that boot.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped. A few
# minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
nested_cpu=max,vendor=GenuineIntel,+vmx,-la57
capture_bytes=${CAPTURE_BYTES:-16000000}
least=100000000 # instructions
boot_s=1200

need_execlog
skip_all "a nested boot on kvm_intel, captured"

# captured BYTES: they have run so far, both processors together; or the inner guest is done.
captured() {
    local bytes=0
    while [ "$bytes" -lt "$1" ] && ! grep '^inner status' "$work/console" >/dev/null; do
        sleep 0.1
        bytes=$(qmp x-vpt-query | jq '[.return[].bytes] | add') || return 1
    done
}

boots() {
    qmp_pipes "$work/qmp"
    (nested_machine "$boot_s" -smp 2 -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,blocks=$work/log,when=$work/begin") &
    outer=$!
    qmp_open "$work/qmp"
    nested_says '^begins' && qmp stop && touch "$work/begin" &&
        qmp x-vpt-start '"file": "'"$work/trace"'", "code": true' &&
        qmp cont && captured "$capture_bytes" && qmp stop &&
        qmp x-vpt-stop && qmp quit
    wait "$outer"
    qmp_close
    cat "$work/console" "$work/qemu"
    [ -s "$work/trace.0" ] && [ -s "$work/trace.1" ]
}

decodes() { # VCPU
    "$build/qemu/compare" "$work/trace.$1" "$work/log.$1" "$work/log.table" >"$work/compared.$1" 2>&1
    cat "$work/compared.$1"
    grep ', 0 errors, 0 bytes lost' "$work/compared.$1" && grep -x identical "$work/compared.$1"
}

many() {
    cat "$work"/compared.?
    [ "$(awk '/ instructions, / { sum += $1 } END { print sum + 0 }' "$work"/compared.?)" -ge $least ]
}

# The inner guest ran on both, as packets tell: outside of it NR is 0.
both_sides() {
    "$build/vpt" parts --json "$work/trace.$1" >"$work/parts" && jq -es 'any(.[]; .nr) and any(.[]; .nr | not)' "$work/parts"
}

guest_of shell-init
nested_prepare "$lab/vmlinuz" "$work/guest.cpio" <<'JOB'
mount -t debugfs debugfs /sys/kernel/debug
(until [ "$(cat /sys/kernel/debug/kvm/exits)" -gt 5000 ]; do
    sleep 0.1
done
echo begins) &
/qemu -L /bios -accel kvm -machine pc -m 256 -smp 2 -cpu host -display none -nodefaults -no-reboot \
    -serial file:/out/inner -kernel /vmlinuz -initrd /guest.cpio \
    -append "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init" </dev/null
echo "inner status $?"
JOB
check 'a nested boot on kvm_intel is captured' boots
for vcpu in 0 1; do
    check "a nested boot on kvm_intel: processor $vcpu decodes to what ran" decodes $vcpu
    grep ' instructions, ' "$work/compared.$vcpu"
    check "a nested boot on kvm_intel: processor $vcpu ran host and guest" both_sides $vcpu
done
check "a nested boot on kvm_intel: at least $least instructions" many
summary
