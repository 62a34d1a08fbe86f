#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# An unmodified Linux with two vCPUs as a guest of our QEMU on KVM (-accel kvm,vpt=on), in the lab: it
# records a program with perf and its own driver, and then one on each vCPU. KVM runs it, but for what
# is traced; that is what TCG executed, by stock perf and by libptdec.
#
# Needs `make qemu`, the lab's kernel, perf and cpio; without them, every test is named and counted as
# skipped. Two machines are emulated, one in the other.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
# shellcheck source=vmm/qemu/linux/decoded.sh
. "$here/decoded.sh"

# Time is the count of the outer machine's instructions. Else, on a busy host, the guest's timer would
# be due again whenever TCG inside TCG is done with it.
by_count=(-icount "shift=0,sleep=off")
boot_s=${BOOT_S:-900}

need_execlog
need_perf
skip_all "Linux guest on KVM," runs KVM probe clock dmesg perf libptdec 'vpt decode' alone 'first vCPU' 'second vCPU'

linux_prepare
linux_job guest <<'JOB'
grep . /sys/bus/event_source/devices/intel_pt/caps/*
taskset 1 perf record -e intel_pt//u -m,16M -o /out/user.data work &&
perf record -m,16M -e intel_pt//u -o /out/alone.data -- sh -c "taskset 2 work & wait" &&
perf record -m,16M -a -e intel_pt//u -o /out/both.data -- sh -c "taskset 1 work & taskset 2 work & wait"
echo "status $?"
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
JOB

# The guest's TSC is the lab's, whose rate is measured there: the guest's PIT is too slow for that, and so
# for what the second vCPU would measure by it.
# Without KVM's clock, as perf knows the time of a trace only if the kernel's own clock is the TSC.
# Without XSAVE, as TCG's SVM, which the lab's KVM stands on, has no intercept of XSETBV: KVM's CPUID would
# not follow XCR0, and Linux warns.
cp "$execlog" "$work/execlog.so"
nested_prepare "$work/guest/initrd" "$lab/vmlinuz" "$work/execlog.so" <<JOB
khz=\$(dmesg | sed -n 's/.*tsc: Detected \([0-9]*\)\.\([0-9]*\) MHz.*/\1\2/p')
mkfifo /console
cat /console >/dev/ttyS0 &
/qemu -L /bios -accel kvm,vpt=on -machine q35,kernel-irqchip=off,smm=off -m 512 -smp 2 \
    -cpu max,vendor=GenuineIntel,-xsave,vpt-profile=icelake-server -display none -nodefaults -no-reboot \
    -serial file:/console -kernel /vmlinuz -initrd /initrd \
    -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable tsc_early_khz=\$khz lpj=\$((khz * 4)) no-kvmclock rdinit=/init" \
    -drive file=/dev/vdb,format=raw,if=none,id=disk -device virtio-blk-pci,drive=disk \
    -plugin /execlog.so,out=/out/log,vcpus=on,from=$from,to=$to >/out/qemu 2>&1
echo "status \$?" >>/out/qemu
cat /out/qemu
JOB

out=$work/guest
runs() {
    nested_run "$boot_s" "${by_count[@]}" \
        -drive "file=$out/disk,format=raw,if=none,id=guest" -device virtio-blk-pci,drive=guest
    cat "$work/console" "$work/qemu"
    mv "$work"/out.d/log.? "$work/" && cp "$work/out.d/qemu" "$out/qemu" && touch "$out/console" &&
        linux_result guest
}
SECONDS=0
check "Linux guest on KVM: it runs its job to the end" runs
echo "    $SECONDS s"
if [ -s "$out/log" ]; then
    split_log "$work/log.0"
    split_log "$work/log.1"
    check "Linux guest on KVM: it is KVM's" contains "$out/dmesg" 'Hypervisor detected: KVM'
    check "Linux guest on KVM: the driver finds what CPUID enumerates" contains "$out/log" 'num_address_ranges:2'
    check "Linux guest on KVM: perf record ends well" contains "$out/log" '^status 0'
    # It is not once the kernel finds two vCPUs whose TSCs are apart.
    check "Linux guest on KVM: its clock is still the TSC" contains "$out/log" '^tsc'
    check "Linux guest on KVM: dmesg is clean" clean "$out/dmesg"
    check "Linux guest on KVM: perf decodes what ran" decoded_is_executed user 0.1
    check "Linux guest on KVM: libptdec decodes what ran" libptdec_agrees user 0.1 log.0
    check "Linux guest on KVM: vpt decodes what perf does" vpt_agrees_with_perf user
    check "Linux guest on KVM: what ran alone on the second vCPU" decoded_is_executed alone 1.1
    check "Linux guest on KVM: what ran on the first vCPU" on_cpu both 0 0.2
    check "Linux guest on KVM: what ran on the second vCPU" on_cpu both 1 1.2
    echo "    $(wc -l <"$out/user.ips") instructions decoded by perf"
fi
summary
