#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Debian's kernel in a guest of KVM that gives it Intel PT (pt_mode=1, with the patches): its own driver
# and perf record themselves, and the processor writes the trace through EPT into the guest's memory. All
# of that runs in Linux on our QEMU with VMX in TCG. Each perf.data is brought out, decoded by stock perf,
# by libptdec and by vpt, and has to be what QEMU's plugin interface saw run from outside of both
# systems, instruction by instruction. KVM turns the trace off at each VM exit, and on again behind it:
# no instruction may be lost there, and none may come twice.
#
# Needs `make qemu`, the lab's kernel, perf, cpio and the modules in CACHE/kvm-linux; without them, every
# test is named and counted as skipped. A few minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/decoded.sh
. "$here/decoded.sh"

modules=$cache/kvm-linux
seconds=${KVM_PT_SECONDS:-2400}
least_exits=20 # in the trace of kernel and program
out=$work/guest

need_perf
[ -n "$why" ] || "$qemu" --version | grep -E 'version (7|10)' >/dev/null || why='that QEMU has no VMX'
[ -f "$execlog" ] || why='no plugin (make qemu-tools)'
[ -f "$modules/built" ] || why='no modules of KVM (make kvm-pt)'
skip_all "Linux in a guest of KVM," runs driver dmesg user "kernel and user" exits cyc noretcomp

# The guest's initial file system is that of any Linux guest of ours; the host's has KVM, our QEMU and
# the guest. The guest leaves its archive on the disk, which the host passes on.
prepare() {
    local root=$work/host
    linux_prepare
    linux_job guest
    mkdir -p "$root/bios"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio")
    cp "$modules/patched/kvm.ko" "$modules/patched/kvm-intel.ko" "$root/modules/"
    cp vmm/kvm-linux/guests/init "$root/init"
    strip -o "$root/qemu" "$qemu"
    shared_objects "$root" "$qemu"
    cp -L /usr/share/seabios/bios-256k.bin /usr/share/qemu/{kvmvapic,linuxboot_dma,pvh}.bin "$root/bios/"
    cp "$lab/vmlinuz" "$root/vmlinuz"
    mv "$out/initrd" "$root/guest.cpio"
    cat >"$root/job" <<'END'
for module in $(grep virtio /modules/order); do insmod "/modules/$module"; done
/qemu -L /bios -accel kvm -machine pc -m 640 -cpu host,-vmx -display none -nodefaults -no-reboot \
    -kernel /vmlinuz -initrd /guest.cpio -serial stdio \
    -append 'console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init' \
    -drive file=/dev/vda,format=raw,if=none,id=disk -device virtio-blk-pci,drive=disk </dev/null
echo "guest status $?"
sync
END
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$out/initrd"
}

# Both systems. False: the guest did not come to its end.
machine() {
    # Time is the count of instructions: on a busy host perf would read its buffer too late.
    (linux_machine guest "$seconds" max,vendor=GenuineIntel,+vmx,-la57,vpt-profile=icelake-server \
        -m 2048 -icount shift=3,sleep=off -plugin "$execlog,out=$work/log,from=$from,to=$to")
    cat "$out/console" "$out/qemu"
    linux_result guest && grep '^pt_mode 1' "$out/console" && grep '^guest status 0' "$out/console"
}

# In a trace of kernel and program, packets go off and on again at VM exits only: the guest's own
# interrupts and faults are branches. There are exits for KVM's own sake, behind which the instruction
# begins anew, and those whose instruction KVM emulates.
exits_are_seen() { # NAME
    "$build/qemu/perf_aux" "$out/$1.data/data" 0 "$build/qemu/work" "$out/$1.pt" &&
        "$build/vpt" dump "$out/$1.pt" >"$out/$1.packets" || return 1
    awk -v least=$least_exits '
        $3 == "FUP" { at = $4 }
        $3 == "TIP.PGD" { left = at }
        $3 == "TIP.PGE" && left != "" { exits++; anew += $4 == left; left = "" }
        END { print exits + 0, "VM exits,", anew + 0, "go on where they were"; exit exits < least || !anew }' \
        "$out/$1.packets"
}

# CPUID exits wherever it stands, and KVM does its work: it began, and is in the log, but it did not run.
# The log of each run becomes one without them.
leave_out_cpuid() {
    local run
    objdump -d "$build/qemu/work" | sed -n 's/^ *\([0-9a-f]*\):.*\tcpuid.*/\1/p' >"$work/cpuid"
    [ -s "$work/cpuid" ] || return 1
    for run in "$work"/log.[1-4]; do
        grep -vxFf "$work/cpuid" "$run" >"$work/left" && ! cmp "$work/left" "$run" && mv "$work/left" "$run" || return 1
    done
}

# shellcheck disable=SC2016
prepare <<'END'
grep . /sys/bus/event_source/devices/intel_pt/caps/*
grep -o hypervisor /proc/cpuinfo
perf record -m,16M -e intel_pt//u -o /out/user.data work &&
perf record --kcore -m,16M -e intel_pt// -o /out/kernel.data work &&
perf record -m,16M -e intel_pt/cyc,cyc_thresh=2,mtc_period=3/u -o /out/cyc.data work &&
perf record -m,16M -e intel_pt/noretcomp,tsc=0,mtc=0/u -o /out/noretcomp.data work
echo "status $?"
cat /proc/interrupts
END
if ! machine >"$work/why" 2>&1; then
    fail_with 'Linux in a guest of KVM runs its job' "$work/why"
    summary
    exit
fi
split_log "$work/log"
check 'Linux in a guest of KVM: the program ran four times, and CPUID in it' leave_out_cpuid
check 'Linux in a guest of KVM: the driver finds what CPUID enumerates' contains "$out/log" 'num_address_ranges:2'
check 'Linux in a guest of KVM: perf record ends well, four times' contains "$out/log" '^status 0'
check "Linux in a guest of KVM: the guest's dmesg is clean" clean "$out/dmesg"
check 'Linux in a guest of KVM, user: perf decodes what ran' decoded_is_executed user 1
check 'Linux in a guest of KVM, user: libptdec decodes what ran' libptdec_agrees user 1
check 'Linux in a guest of KVM, kernel and user: perf decodes what ran' decoded_is_executed kernel 2
check 'Linux in a guest of KVM, kernel and user: vpt decodes what perf does' vpt_agrees_with_perf kernel
check 'Linux in a guest of KVM, kernel and user: VM exits are in it' exits_are_seen kernel
check 'Linux in a guest of KVM, cyc: perf decodes what ran' decoded_is_executed cyc 3
check 'Linux in a guest of KVM, noretcomp: perf decodes what ran' decoded_is_executed noretcomp 4
summary
