#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host-wide trace on any machine: Linux with kvm-amd runs on our QEMU, vpt runs two guests on its KVM
# at once, and a capture from outside sees kernel, processes, VMs and the VMs' processes. All of it
# decodes to what QEMU's plugin interface saw run, instruction by instruction.
#
# The two VMs run the same image: their code stands at the same addresses, and their processes have the
# same CR3 values. Who ran is checked by the pages of memory that code came from, which nothing in the
# trace tells. Each has a TSC of its own frequency; when a branch took place is checked by QEMU's own TSC,
# which -icount makes a count of instructions.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute and a half, most of it QEMU.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/two-vms.sh
. vmm/qemu/tests/two-vms.sh
capture_bytes=${CAPTURE_BYTES:-4000000}
log_more=times=$work/linux.times
what='a capture of Linux with two KVM guests'
need_two_vms "$what" runs 'has a map with two VMs' 'decodes to what ran, and who, and when' \
    'is everybody'\''s' 'has parts' 'with a wrong VM' 'has TSC offsets' 'with wrong TSC offsets'

# Linux boots, and its guests work; then a part of that is captured, and memory as it was at the end.
runs() {
    prepare '--tsc-khz 2500000' '--tsc-khz 400000' <<'END'
mount -t debugfs debugfs /sys/kernel/debug
cd /sys/kernel/debug/kvm
until [ "$(grep -lvx 4294967296 */vcpu0/tsc-scaling-ratio 2>/dev/null | wc -l)" = 2 ]; do
    sleep 0.1
done
for vcpu in */vcpu0; do
    echo "vcpu $(cat "$vcpu/tsc-offset") $(cat "$vcpu/tsc-scaling-ratio")"
done
sleep 1
echo ready
END
    captures linux "$amd" "$capture_bytes"
}

decodes() { # [MAP]
    same linux "${1:-$work/linux.map}" --times "$work/linux.times"
}

# Where the trace names the wrong VM towards its end, all addresses are still right, and the pages are not.
notices_vm() {
    local one other at bytes
    read -r one other < <(jq -r '[.vms[].vmcs[0]] | @tsv' "$work/linux.map")
    # As the packet has it: bits 51:12, low byte first.
    bytes=$(printf '%010x' $((other >> 12)) | sed -E 's/(..)(..)(..)(..)(..)/\\x\5\\x\4\\x\3\\x\2\\x\1/')
    cp "$work/linux.0" "$work/wrong" && cp "$work/linux.0.json" "$work/wrong.json" || return 1
    for at in $("$vpt" dump --json "$work/linux.0" | jq -r --arg vmcs "$(printf 'VMCS 0x%x' "$one")" \
        'select(.text == $vmcs) | .offset' | tail -n 10); do
        printf '%b' "$bytes" | dd of="$work/wrong" bs=1 seek=$((at + 2)) conv=notrunc status=none || return 1
    done
    ! "$BUILD/qemu/compare" --map "$work/linux.map" --pages "$work/wrong" "$work/linux.log" >"$work/out" 2>&1 &&
        grep -q '^different: .* is not of VM [12]' "$work/out"
}

# Offset and ratio of each VM are those that KVM tells; the ratio has 32 fractional bits there.
offsets() {
    jq -r '.vms[] | "vcpu \(.tsc_offset) \(.tsc_multiplier / 65536)"' "$work/linux.map" | sort >"$work/out"
    sed 's/\r$//' "$work/linux.console" | grep -x 'vcpu -[0-9]* [0-9]*' | sort | cmp - "$work/out" &&
        [ "$(wc -l <"$work/out")" = 2 ]
}

# What is true of time with these is not true with others: of branches, or of the guest's code in which
# the capture may begin.
notices_time() {
    local wrong
    for wrong in '.vms[0].tsc_offset += 10000' '.vms[1].tsc_offset -= 10000' 'del(.vms[0].tsc_multiplier)' \
        '.vms[1].tsc_multiplier += 4294967296'; do
        jq "$wrong" "$work/linux.map" >"$work/map.wrong"
        ! decodes "$work/map.wrong" && grep -qE '^different: .*(branches|not executed) at TSC' "$work/out" || return 1
    done
}

# Each of the eight has a share.
everybody() {
    local who
    for who in 'host kernel' 'host processes' 'VM '{1,2}' '{kernel,sort,hash}; do
        grep -qE "^$who: [0-9]{4,} instructions on [1-9][0-9]* pages\$" "$work/out" || return 1
    done
    [ "$(grep -c ' instructions on ' "$work/out")" = 8 ]
}

check "$what runs" runs
check "$what has a map with two VMs" map linux
check "$what decodes to what ran, and who, and when" decodes
sed 's/^/    /' "$work/out"
check "$what is everybody's" everybody
check "$what has parts" has_parts linux
check "$what: a VM that is named wrongly is noticed" notices_vm
echo "    $(tail -n 1 "$work/out")"
check "$what has the TSC offset and ratio that KVM tells" offsets
sed 's/^/    /' "$work/out"
check "$what: wrong TSC offsets and ratios are noticed" notices_time
echo "    $(tail -n 1 "$work/out")"
summary
