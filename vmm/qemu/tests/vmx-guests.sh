#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux as a guest of kvm_intel, which runs unchanged on VMX in TCG: Debian's kernel boots to its shell
# with extended page tables and with KVM's shadow ones, with and without VPID and "unrestricted guest",
# on one processor and on two, which TCG runs in a thread each or by turns. vpt's own guests run there
# as well (vpt run --lab-vmx).
#
#   vmx-guests.sh [NAME...]     only guests of these names
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
nested_cpu=max,vendor=GenuineIntel,+vmx
boot_s=${BOOT_S:-1800}
guest_s=900 # by the lab's clock

# Name, options of kvm_intel (a plus sign is a space), processors of the guest.
guests='ept ept=1 1
ept-two ept=1 2
no-vpid vpid=0 1
restricted unrestricted_guest=0 1
shadow ept=0 1
shadow-two ept=0 2
shadow-no-vpid ept=0+vpid=0 1'
by_turns='ept-two ept=1 2
shadow-two ept=0 2'

if [ $# -gt 0 ]; then
    names=$(printf '%s|' "$@")
    guests=$(grep -E "^(${names%|}) " <<<"$guests")
    by_turns=$(grep -E "^(${names%|}) " <<<"$by_turns")
fi
skip_all "guests of kvm_intel"

# A line of $guests each, on standard input: the lab's job.
job() {
    local name options cpus
    echo 'rmmod kvm_intel'
    while read -r name options cpus; do
        cat <<JOB
insmod /modules/kvm-intel.ko ${options//+/ }
timeout $guest_s /qemu -L /bios -accel kvm -machine pc -m 256 -smp $cpus -cpu host -display none -nodefaults -no-reboot \
    -serial file:/out/$name -kernel /vmlinuz -initrd /guest.cpio \
    -append "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init" >/out/$name.qemu 2>&1 </dev/null
echo "status \$?" >>/out/$name.qemu
rmmod kvm_intel || echo "kvm_intel is in use" >>/out/$name.qemu
echo "$name"
JOB
    done
    echo 'dmesg >/out/dmesg'
}

# reached NAME CPUS: the shell, with its work done; QEMU ended well, and nobody complained.
reached() {
    local out=$work/out.d
    cat "$out/$1.qemu" "$out/$1"
    tr -d '\r' <"$out/$1" >"$work/said"
    [ "$(cat "$out/$1.qemu")" = 'status 0' ] && grep -x "shell: $2 processors" "$work/said" &&
        grep -x 'shell: done' "$work/said" && ! grep '^bad: ' "$work/said"
}

quiet() {
    ! grep -E 'BUG|Oops|Call Trace|soft lockup|vm(read|write|launch|resume|ptrld|clear) failed' "$work/out.d/dmesg"
}

# boot_all HOW LIST: a lab with two processors runs them one after another.
boot_all() {
    local how=$1 list=$2 name options cpus
    [ -n "$list" ] || return 0
    nested_prepare "$lab/vmlinuz" "$work/guest.cpio" < <(job <<<"$list")
    nested_run "$boot_s" -smp 2 >"$work/why" 2>&1 || sed 's/^/    /' "$work/why"
    while read -r name options cpus; do
        check "guest of kvm_intel, $how: $name (${options//+/ }) boots to its shell" reached "$name" "$cpus"
    done <<<"$list"
    check "guests of kvm_intel, $how: the host's kernel complains of nothing" quiet
    rm -rf "$work/out.d" "$work/nested"
}

# vpt_runs IMAGE PATTERN ARGUMENT...
vpt_runs() {
    local image=$1 pattern=$2
    shift 2
    "$build/vpt" run --lab-vmx --timeout 0 "$@" "guest-tests/build/$image.elf" >"$work/run" 2>&1
    cat "$work/run"
    grep -E "$pattern" "$work/run" >/dev/null
}

guest_of shell-init
boot_all 'a thread for each processor' "$guests"
nested_accel=tcg,thread=single
boot_all 'processors by turns' "$by_turns"
if [ $# = 0 ]; then
    export VPT_CACHE=$cache
    check 'vpt run --lab-vmx --verify: the decoded path is the executed one' vpt_runs \
        demo '^path: +identical' --profile skylake --append rounds=2 --verify
    check 'vpt run --lab-vmx: msr-tests' vpt_runs msr-tests '^[1-9][0-9]* passed, 0 failed' \
        --profile icelake-client
fi
summary
