#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host records itself and its guests by stock parts: Debian's kernel with its own driver of Intel PT and
# kvm_intel, stock perf (perf record -a -e intel_pt//), and two VMs, on our QEMU with VMX in TCG. What perf
# recorded decodes to what QEMU's plugin interface saw run, instruction by instruction; who ran is checked
# by pages of memory, and when by QEMU's TSC (see svm-linux.sh). A capture from outside goes on meanwhile.
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"
boot_s=1200
out=$work/host
least=100000000 # instructions that perf records
compared=5000000  # of them, as text

need_perf
need_execlog
skip_all "a host's perf record -a with two guests of kvm_intel" runs 'has a map with two VMs' \
    'decodes to what ran, who and when' 'is read by perf' 'is decoded by vpt as it stands'

# The VMs stand still while perf begins, which takes seconds. While it records, no process begins or ends,
# whose code could not be found in memory later: the shell counts. Around that, the outer host looks at the
# machine.
# shellcheck disable=SC2016
job=$host_words'
vms=
for rounds in 1000000001 1000000002; do
    vpt run --mem 16M --timeout 0 --append "notrace rounds=$rounds tick=5000000" /demo.elf >/out/vm-$rounds 2>&1 &
    vms="$vms $!"
done
until grep rounds /out/vm-1000000001 && grep rounds /out/vm-1000000002; do sleep 1; done
kill -STOP $vms
mkfifo /tmp/control /tmp/answers
exec 3<>/tmp/control 4<>/tmp/answers
perf --buildid-dir /out/files record --kcore -a -m,64M -D -1 --control fifo:/tmp/control,/tmp/answers -e intel_pt// -o /out/host.data &
perf=$!
ask() {
    echo "$1" >&3
    read -r answer <&4
    echo "$1: $answer"
}
ask ping
kill -CONT $vms
echo ready >/dev/ttyS0
sleep 0.3
ask enable
counts 2800
ask disable
echo done >/dev/ttyS0
sleep 1
kill -KILL $vms
ask stop
wait $perf
echo "perf $?"'

# The log begins with the capture, before perf does, and ends when perf has been disabled.
records() {
    linux_job host <<<"$job"
    qmp_pipes "$work/qmp"
    (linux_machine host "$boot_s" "$host_cpu" \
        -icount shift=2,sleep=off -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,times=$work/times,when=$work/begin,pages=on") &
    machine=$!
    qmp_open "$work/qmp"
    host_says ready && qmp stop && touch "$work/begin" &&
        qmp x-vpt-start '"file": "'"$work/capture"'"' &&
        qmp cont && host_says 'done' && qmp stop && rm "$work/begin" &&
        qmp x-vpt-stop &&
        qmp_memory "$work/memory" "$linux_mib" && qmp cont
    wait "$machine"
    qmp_close
    linux_result host && tail -n 12 "$out/log" && [ -s "$out/host.data/data" ] && grep '^perf 0' "$out/log"
}

# The map that the capture left has the VMs; the code of the host is memory, that of the VMs their images.
map() {
    local cr3s
    perf script --dump-raw-trace -i "$out/host.data" >"$work/dump" 2>/dev/null
    "$build/qemu/perf_aux" "$out/host.data/data" 0 "$host_image" "$work/host.pt" &&
        host_clock "$work/dump" "$work/host.pt.json" || return 1
    mapfile -t cr3s < <(host_cr3s "$work/host.pt")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    cp guest-tests/build/{demo,sort,hash}.elf "$work/" &&
        jq '.vms[] |= '"$(host_processes "${cr3s[@]}")"' | .vms |= [to_entries[] | .value.name = "\(.key + 1)" | .value]' \
            "$work/capture.0.map" >"$work/vms" &&
        jq --arg memory "$work/memory" '.host = {memory: {raw: $memory, address: 0, paging: "4-level"}}' \
            "$work/vms" >"$work/map" && jq -e '.vms | length == 2' "$work/map"
}

decodes() {
    "$build/qemu/compare" --map "$work/map" --pages --times "$work/times" "$work/host.pt" "$work/log" \
        >"$work/compared" 2>&1
    host_compared "$least"
}

# Stock perf finds the VMs' packets that vpt finds. It prints payloads: CR3 without its low 5 bits, VMCS
# pointers without 12.
perf_reads() {
    sed -nE 's/.* (VMCS 0x[0-9a-f]+)$/\1/p; s/.* (PIP 0x[0-9a-f]+) \(NR=([01])\)$/\1 \2/p' "$work/dump" |
        while read -r packet payload nr; do
            [ "$packet" = PIP ] && printf 'PIP 0x%x %s\n' $((payload << 5)) "$nr" ||
                printf 'VMCS 0x%x\n' $((payload << 12))
        done >"$work/by-perf"
    "$build/vpt" dump "$work/host.pt" |
        sed -nE 's/.* (VMCS 0x[0-9a-f]+)$/\1/p; s/.* PIP CR3 (0x[0-9a-f]+)$/PIP \1 0/p; s/.* PIP CR3 (0x[0-9a-f]+).*NR.*$/PIP \1 1/p' >"$work/by-vpt"
    wc -l "$work/by-perf" "$work/by-vpt"
    grep -c '^PIP .* 1$' "$work/by-perf" && cmp "$work/by-perf" "$work/by-vpt"
}

# By its own files: kernel and modules of the kcore folder, processes by their maps, the vDSO by perf's cache.
vpt_decodes_data() {
    host_ips "$compared" --symfs "$work/root" --buildid-dir "$out/files" --map "$work/vms" "$out/host.data" \
        >"$work/of-data"
    host_ips "$compared" --map "$work/map" "$work/host.pt" >"$work/of-memory"
    wc -l "$work/of-data" "$work/of-memory"
    cmp "$work/of-data" "$work/of-memory" && [ "$(wc -l <"$work/of-data")" -eq "$compared" ]
}

host_prepare "$host_image"
check "a host's perf record -a with two guests of kvm_intel runs" records
check "a host's perf record -a with two guests of kvm_intel has a map with two VMs" map
check "a host's perf record -a with two guests of kvm_intel decodes to what ran, who and when" decodes
sed 's/^/    /' "$work/compared"
check "a host's perf record -a with two guests of kvm_intel is read by perf" perf_reads
check "a host's perf record -a with two guests of kvm_intel is decoded by vpt as it stands" vpt_decodes_data
summary
