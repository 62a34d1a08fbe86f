#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What VMX in TCG costs: a Linux guest boots to its shell under kvm_intel with extended page tables, and,
# in turn, under kvm-amd on SVM with nested paging. The medians of ROUNDS (3) count, of the processor
# time that QEMU takes from the start of the inner QEMU to the shell of its guest.
#
# The bound is 1.25 times. Processor time, not time: other load on the machine matters little.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
rounds=${ROUNDS:-3}
boot_s=900
most=125 # per cent
ticks=$(getconf CLK_TCK)
declare -A cpus=([vmx]='max,vendor=GenuineIntel,+vmx' [svm]='EPYC,+svm,+npt') seconds=([vmx]='' [svm]='')

skip_all "time of a nested boot on VMX and on SVM"

# Of the QEMU that runs, in ticks. timeout has it as its child.
processor_time() {
    local child
    child=$(pgrep -P "$outer" -f qemu-system | head -n 1)
    sed 's/.*) //' "/proc/${child:-$outer}/stat" | awk '{ print $12 + $13 }'
}

# wait_for PATTERN: on the console; the time is in $now then.
wait_for() {
    until grep "$1" "$work/console" >/dev/null 2>&1; do
        sleep 0.05
        kill -0 "$outer" 2>/dev/null || return 1
    done
    now=$(processor_time)
}

# boot KIND: one more of ${seconds[KIND]}, in hundredths.
boot() {
    local from=0 good=no
    nested_cpu=${cpus[$1]}
    rm -f "$work/console"
    (nested_machine "$boot_s") &
    outer=$!
    wait_for '^begins' && from=$now && wait_for '^shell: done' && good=yes
    wait "$outer"
    [ $good = yes ] || { tail -n 5 "$work/console" "$work/qemu"; return 1; }
    seconds[$1]+="$(((now - from) * 100 / ticks)) "
}

all() {
    for ((round = 0; round < rounds; round++)); do
        boot vmx && boot svm || return 1
    done
}

median() { # NUMBERS
    tr ' ' '\n' <<<"$1" | grep . | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

guest_of shell-init
nested_prepare "$lab/vmlinuz" "$work/guest.cpio" <<'JOB'
echo begins
/qemu -L /bios -accel kvm -machine pc -m 256 -cpu host -display none -nodefaults -no-reboot \
    -serial stdio -kernel /vmlinuz -initrd /guest.cpio \
    -append "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init" </dev/null
JOB
if all >"$work/why" 2>&1; then
    vmx=$(median "${seconds[vmx]}") svm=$(median "${seconds[svm]}")
    echo "    hundredths of a second: VMX ${seconds[vmx]}, SVM ${seconds[svm]}"
    echo "    medians: VMX $vmx, SVM $svm, ratio $((vmx * 100 / svm)) %"
    check "a nested boot on VMX takes at most $most % of the time on SVM" test $((vmx * 100)) -le $((svm * most))
else
    fail_with 'a nested boot on VMX and on SVM' "$work/why"
fi
summary
