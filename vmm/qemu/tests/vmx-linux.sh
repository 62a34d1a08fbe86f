#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host-wide trace of kvm_intel on any machine: Linux runs on our QEMU with VMX in TCG, vpt runs two
# guests on its KVM at once, and a capture from outside sees kernel, processes, VMs and the VMs'
# processes. All of it decodes to what QEMU's plugin interface saw run, instruction by instruction, and
# who ran is checked by the pages of memory that code came from (see svm-linux.sh). Then it is taken
# apart (docs/demux.md), and each guest's trace has what that guest ran, and nothing of anybody else.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute and a half.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/two-vms.sh
. vmm/qemu/tests/two-vms.sh
capture_bytes=${CAPTURE_BYTES:-4000000}
what='a capture of kvm_intel with two guests'
need_two_vms "$what" runs 'has a map with two VMs' 'decodes to what ran, and who' 'has parts' \
    'taken apart' 'taken apart as a stream' 'taken apart: VM '{1,2} 'taken apart, with filters, by perf'

# Linux boots, and its guests work; then a part of that is captured, and memory as it was at the end.
runs() {
    prepare '' '' <<'END'
sleep 1
echo ready
END
    captures linux "$intel" "$capture_bytes"
}

decodes() {
    same linux "$work/linux.map" && cp "$work/out" "$work/whole"
}

# Each guest's trace has what compare found of the guest in the whole capture, and is what QEMU saw run.
apart() {
    "$vpt" demux --map "$work/linux.map" --out "$work/guests" "$work/linux.0"
}
apart_as_stream() {
    local file
    "$vpt" demux --like "$work/linux.0" --map "$work/linux.map" --out "$work/stream" - < <(cat "$work/linux.0") || return 1
    for file in {1,2}.0{,.code}; do
        cmp "$work/guests/$file" "$work/stream/$file" || return 1
    done
}
insns_of() { # PATTERN
    awk -v who="$1" '$0 ~ who { sum += $(NF - (/ on /? 4 : 1)) } END { print sum + 0 }' "$work/whole"
}
vm_alone() { # VM
    "$BUILD/qemu/compare" --pages "$work/guests/$1.0" "$work/linux.log" >"$work/out" 2>&1 &&
        grep -q '^identical' "$work/out" &&
        [ "$(insns_of "^VM $1 ")" = "$(sed -n 's/ instructions, .*//p' "$work/out")" ] &&
        "$BUILD/tests/foreign" "$work/linux.map" "$work/linux.0" "$1" "$work/guests" >"$work/out" 2>&1
}

# User code of one process of the guest alone, which perf can have the file of.
by_perf() {
    local cr3 name='VM 1 sort'
    cr3=$(jq '.vms[0].processes[0].cr3' "$work/linux.map")
    "$vpt" demux --map "$work/linux.map" --vm 1 --user --cr3 "$cr3" --out "$work/sort" "$work/linux.0" &&
        "$vpt" convert --image guest-tests/build/sort.elf "$work/sort/1.0" "$work/perf.data" &&
        perf script -i "$work/perf.data" --itrace=i0nse -F ip >"$work/ips" || return 1
    grep -c error "$work/ips" && return 1
    [ "$(insns_of "^$name:")" = "$(wc -l <"$work/ips")" ]
}

check "$what runs" runs
check "$what has a map with two VMs" map linux
check "$what decodes to what ran, and who" decodes
sed 's/^/    /' "$work/out"
check "$what has parts" has_parts linux
check "$what taken apart" apart
check "$what taken apart as a stream" apart_as_stream
for vm in 1 2; do
    check "$what taken apart: VM $vm" vm_alone "$vm"
    sed 's/^/    /' "$work/out"
done
if perf --version >/dev/null 2>&1; then
    check "$what taken apart, with filters, by perf" by_perf
else
    skip "$what taken apart, with filters, by perf" 'no perf'
fi
summary
