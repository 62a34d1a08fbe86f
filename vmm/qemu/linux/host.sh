# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: a Linux host on our QEMU, whose processor has VMX and Intel PT, which runs VMs of vpt and
# records itself and them. Its time is the count of its instructions, where a test wants that.
#
# Needs: guest.sh, and what that needs.

# The processor, and the guest of vpt run.
# shellcheck disable=SC2034 # who sources it uses it
host_cpu=max,vendor=GenuineIntel,vpt-profile=icelake-server,+vmx,-la57
host_image=guest-tests/build/demo.elf

# What a job begins with: KVM is loaded, and two words are known.
#   counts NUMBER: goes on for so long. Nobody sleeps, since the clock of an idle machine leaps.
#   logged PATTERN: waits until what perf has logged matches, in which lines are words in a row.
# shellcheck disable=SC2016,SC2034 # it is the guest's; who sources it uses it
host_words='
for module in irqbypass kvm kvm-intel; do insmod /modules/$module.ko; done
counts() {
    count=0
    while [ $count -lt $1 ]; do count=$((count + 1)); done
}
logged() {
    said=
    until case "$said" in *$1*) ;; *) false ;; esac; do
        said=
        while read -r line; do said="$said $line"; done </out/recording/perf.log
    done
}
'

# host_prepare FILE...: as linux_prepare, with vpt, and these files in the root.
host_prepare() {
    linux_prepare
    cp "$build/vpt" "$work/root/usr/bin/vpt"
    shared_objects "$work/root" "$build/vpt"
    cp "$@" "$work/root/"
    (cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/base.cpio"
}

# host_says WORD: waits for a line of its console. False: the process $machine has ended before.
host_says() {
    until grep "^$1" "$out/console" >/dev/null 2>&1; do
        sleep 0.1
        kill -0 "$machine" 2>/dev/null || return 1
    done
}

# host_clock DUMP JSON: what the driver told perf of the clocks, as perf dumps it, goes to a sidecar.
host_clock() {
    local tsc ctc
    tsc=$(sed -n 's/^ *TSC:CTC numerator *\([0-9]*\)$/\1/p' "$1" | head -n 1)
    ctc=$(sed -n 's/^ *TSC:CTC denominator *\([0-9]*\)$/\1/p' "$1" | head -n 1)
    jq --argjson tsc "$tsc" --argjson ctc "$ctc" --argjson mtc 3 '. + {tsc_ctc: [$ctc, $tsc], mtc_freq: $mtc}' \
        "$2" >"$2.new" && mv "$2.new" "$2"
}

# host_cr3s TRACE [OTHER...]: page tables in a trace that are none of the host's, nor of vpt's guest as it
# boots, nor these others: those of the processes of that guest, in the order in which they were made.
host_cr3s() {
    local trace=$1 cr3
    shift
    for cr3 in "0x$(nm "$host_image" | sed -n 's/ [a-zA-Z] boot_pml4$//p')" "$@"; do
        echo $((cr3))
    done | sort -u >"$work/others"
    "$build/vpt" parts --json "$trace" | jq 'select(.nr) | .cr3' | sort -u |
        while read -r cr3; do echo $((cr3 & ~0xfff)); done | sort -u | comm -23 - "$work/others" | sort -n
}

# host_processes CR3 CR3: what a map file says of that guest, for jq: its code is in files beside the map.
host_processes() {
    echo '(.images = [{path: "demo.elf"}] |
        .processes = [{name: "sort", cr3: '"$1"', images: [{path: "sort.elf"}]},
                      {name: "hash", cr3: '"$2"', images: [{path: "hash.elf"}]}])'
}

# host_ips COUNT ARGUMENT...: the first addresses that vpt decodes; it ends when nobody reads on.
host_ips() {
    local count=$1
    shift
    { "$build/vpt" decode "$@" | sed -nE 's/^([0-9a-f]{16})  .*/\1/p'; } 2>/dev/null | head -n "$count"
}

# host_compared LEAST: the comparison in $work/compared found no difference in so many instructions.
host_compared() {
    cat "$work/compared"
    grep -x identical "$work/compared" &&
        awk -v least="$1" '/ instructions, / { sum = $1 } END { exit !(sum >= least) }' "$work/compared"
}
