#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host records itself and its guests by `vpt record`: Debian's kernel with its own driver of Intel PT
# and kvm_intel, stock perf, and two VMs, on our QEMU with VMX in TCG. One VM is Debian's kernel on a QEMU
# of its own, whose code and names come from its memory as vpt record took it. The other one sets its TSC
# ahead again and again, and its code is given. What was recorded decodes to what QEMU's plugin interface
# saw run, instruction by instruction; who ran is checked by pages of memory, and when by QEMU's TSC. Which
# VM is which comes from what vpt record gathered: threads, and offsets of TSCs with each change of them.
# The same holds when the trace's VMCS packets are taken away, so that only NR and threads tell. `vpt demux`
# takes the recording apart: each VM's trace has what QEMU saw that VM run, and nothing of anybody else.
#
# Each setting of the packets is a run: plain, without RET compression, and with Event Trace, where VM
# exits by reason have to be as many as KVM's own tracepoint counted.
#
#   hosts.sh [SETTING...]     plain noretcomp events
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes for each setting.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"
# shellcheck disable=SC2034 # guest.sh uses them
linux_mib=1536 linux_disk=1G
boot_s=1800
least=10000000   # instructions that are attributed, for each setting
compared=2000000 # of them, as text
[ $# -gt 0 ] || set -- plain noretcomp events
settings=("$@")
kinds=(runs 'has a map with two VMs' 'decodes to what ran, who and when' 'decodes so without VMCS packets'
    'tells changes of the TSC offset' 'is read by perf' 'is decoded by vpt as a folder' 'has a report of both VMs'
    'is taken apart')

need_perf
need_execlog
cases=()
for setting in "${settings[@]}"; do
    cases+=("${kinds[@]/#/($setting) }")
done
skip_all 'vpt record of a host with two guests' "${cases[@]}"

# The VMs stand still while the recording begins and ends, so that KVM's counter and the trace see the
# same exits. While it goes on, no process begins or ends, whose code could not be found in memory later:
# the shell reads and counts by itself. vpt stands still when it has begun perf and has not yet told it
# to record, since the outer host's log begins there. At the end, it takes the memory of one VM, which has
# to go on for that: the log has ended then.
# shellcheck disable=SC2016
job=$host_words'
mount -t debugfs debugfs /sys/kernel/debug
renice -n 5 -p $$ # it counts, and the VMs shall run more than that
counter=/sys/kernel/tracing/events/kvm/kvm_exit
vpt run --mem 16M --timeout 0 --append "notrace rounds=1000000001 tick=5000000 tsc=1000000000000" /demo.elf >/out/vm 2>&1 &
vms=$!
/qemu -L /bios -accel kvm -machine pc -m 128 -cpu host -display none -nodefaults -no-reboot \
    -name debian,debug-threads=on -qmp unix:/tmp/debian,server=on,wait=off -serial file:/out/debian \
    -kernel /vmlinuz -initrd /guest.cpio -append "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init" \
    </dev/null >/out/qemu-of-debian 2>&1 &
debian=$!
vms="$vms $debian"
until grep rounds /out/vm && grep busy /out/debian; do sleep 1; done
vpt record --buffer 64M --config "TERMS" --memory /tmp/debian /out/recording >/out/said 2>&1 &
record=$!
until [ -e /out/recording/perf.log ]; do sleep 0.1; done
kill -STOP $record $vms
until grep disabled /out/recording/perf.log; do sleep 0.1; done
echo "hist:keys=exit_reason:size=256" >$counter/trigger && echo counts
sleep 1
echo ready >/dev/ttyS0
counts 20000
kill -CONT $record
logged enabled
kill -CONT $vms
counts COUNT
kill -STOP $vms
counts 100
echo done >/dev/ttyS0
counts 400
kill -INT $record
logged "enabled*disabled"
echo over >/dev/ttyS0
cat $counter/hist >/out/hist
kill -CONT $debian
until [ -e /out/recording/guest-$debian.core.map ] || ! kill -0 $record; do sleep 0.1; done
kill -STOP $debian
echo taken >/dev/ttyS0
wait $record
echo "record $?"
kill -KILL $vms'

prepare() {
    cp "$build/qemu/work" "$work/first"
    cp "$build/qemu/work" "$work/second"
    guest_of busy-init "$work/first" "$work/second"
    nested_qemu "$work/root"
    host_prepare "$host_image" "$lab/vmlinuz" "$work/guest.cpio"
}

# Memory is that of the recording's end, and the log goes on until perf records no more.
records() {
    local terms='' cpu=$host_cpu
    case $setting in
        noretcomp) terms=noretcomp=1 ;;
        events) terms=event=1 cpu=${host_cpu/icelake-server/gracemont} ;;
    esac
    sed "s/TERMS/$terms/; s/COUNT/${COUNT:-500}/" <<<"$job" | linux_job "$setting"
    rm -f "$work/qmp".* "$work/begin" "$work/log" "$work/times" "$work/memory" "$work/capture"*
    qmp_pipes "$work/qmp"
    (linux_machine "$setting" "$boot_s" "$cpu" \
        -icount shift=2,sleep=off -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,times=$work/times,when=$work/begin,pages=on") &
    machine=$!
    qmp_open "$work/qmp"
    host_says ready && qmp stop && touch "$work/begin" &&
        qmp x-vpt-start '"file": "'"$work/capture"'"' &&
        qmp cont && host_says 'done' && qmp stop &&
        qmp_memory "$work/memory" "$linux_mib" && qmp cont && host_says over &&
        qmp stop && rm "$work/begin" && qmp x-vpt-stop &&
        qmp cont
    wait "$machine"
    qmp_close
    linux_result "$setting" && tail -n 12 "$out/log" && cat "$out/said" && [ -s "$data" ] &&
        grep -q '^record 0' "$out/log" && grep -x 'nothing was lost' "$out/said"
}

# Which VM is which is in the map that vpt record left, with memory and names of Debian. The code of the
# host is memory, that of the other VM its images.
map() {
    local cr3s others
    perf script --dump-raw-trace -i "$recording/perf.data" >"$work/dump" 2>/dev/null
    "$build/qemu/perf_aux" "$data" 0 "$host_image" "$work/host.pt" &&
        host_clock "$work/dump" "$work/host.pt.json" || return 1
    mapfile -t others < <(jq -r '.vms[] | select(.name == "debian").processes[].cr3 |
        if type == "array" then .[] else . end' "$recording/map")
    mapfile -t cr3s < <(host_cr3s "$work/host.pt" "${others[@]}")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VM: ${cr3s[*]}"; return 1; }
    jq '.vms[].vcpus' "$recording/map"
    jq '(.vms[] | select(.name != "debian")) |= '"$(host_processes "${cr3s[@]}")" \
        "$recording/map" >"$work/vms" && cp guest-tests/build/{demo,sort,hash}.elf "$recording/" &&
        cp "$work/vms" "$recording/map" &&
        jq --arg memory "$work/memory" '.host = {memory: {raw: $memory, address: 0, paging: "4-level"}}' \
            "$work/vms" >"$map" && jq -e '.vms | length == 2' "$map" &&
        jq -e 'all(.vms[].vcpus[]; .tsc_offset)' "$map"
}

# decodes [--strip]: each VM, its processes, the host's kernel and its processes have a share.
decodes() {
    local who
    "$build/qemu/perf_whose" "$@" "$data" "$map" 0 "$work/whose.pt" >"$work/compared" &&
        cp "$work/host.pt.json" "$work/whose.pt.json" || return 1
    "$build/qemu/compare" --map "$map" --pages --times "$work/times" "$work/whose.pt" "$work/log" \
        >>"$work/compared" 2>&1
    host_compared "$least" && grep -q ', 0 unknown$' "$work/compared" || return 1
    for who in 'host kernel' 'host processes' 'VM vpt-[0-9]* '{kernel,sort,hash} \
        'VM debian '{kernel,first,second}; do
        grep -qE "$who: [0-9]{4,} instructions on [1-9][0-9]* pages\$" "$work/compared" || return 1
    done
}

stripped() {
    decodes --strip && grep -qE '^[1-9][0-9]* VMCS packets stripped$' "$work/compared" &&
        grep -q ': 0 by both, 0 by VMCS, ' "$work/compared"
}

# Each interrupt of the VM's timer is one, as KVM's tracepoint told. Without them, times are wrong.
offsets() {
    jq '.tsc_offsets' "$recording/record.json"
    jq -e '.tsc_offsets > 0' "$recording/record.json" &&
        jq -e '.vms[] | select(.name != "debian") | .vcpus | length > 1' "$recording/map" &&
        jq '.vms[].vcpus |= map(select(.from | not))' "$map" >"$recording/unchanged.map" &&
        "$build/qemu/perf_whose" "$data" "$recording/unchanged.map" 0 "$work/unchanged.pt" &&
        cp "$work/host.pt.json" "$work/unchanged.pt.json" || return 1
    "$build/qemu/compare" --map "$recording/unchanged.map" --pages --times "$work/times" "$work/unchanged.pt" \
        "$work/log" | tee "$work/why-not"
    grep '^different: .* branches at TSC' "$work/why-not"
}

# Stock perf finds the packets in what stands in the folder.
perf_reads() {
    local pips
    pips=$("$build/vpt" dump "$work/host.pt" | grep -c ' PIP ')
    echo "$pips PIP packets by vpt, $(grep -c 'PIP 0x' "$work/dump") by perf"
    [ "$pips" -gt 0 ] && [ "$pips" = "$(grep -c 'PIP 0x' "$work/dump")" ]
}

# By its own files: kernel and modules of the kcore folder, processes by the copies in the folder.
folder() {
    host_ips "$compared" --symfs "$work/root" "$recording" >"$work/of-folder"
    host_ips "$compared" --map "$map" "$work/whose.pt" >"$work/of-memory"
    wc -l "$work/of-folder" "$work/of-memory"
    cmp "$work/of-folder" "$work/of-memory" && [ "$(wc -l <"$work/of-folder")" -eq "$compared" ]
}

reported() {
    local name
    "$build/vpt" report --symfs "$work/root" "$recording" >"$work/report" 2>"$work/report.err"
    head -n 40 "$work/report" "$work/report.err"
    for name in $(jq -r '.vms[].name' "$work/vms") first second; do
        grep -qF "$name" "$work/report" || return 1
    done
}

# Of what compare found, which is what QEMU saw run, each VM has its part, and no address, CR3, VMCS pointer
# or time that is not its own. One of each is planted, and found.
apart() {
    local vm name sum
    "$build/vpt" demux --json --symfs "$work/root" --out "$out/guests" "$recording" >"$work/apart" &&
        jq . "$work/apart" && jq -e '.unknown_instructions == 0' "$work/apart" || return 1
    for vm in 1 2; do
        name=$(jq -r ".vms[$vm - 1].name" "$map")
        sum=$(sed -nE "s/^VM $name .*: ([0-9]+) instructions on .*/\1/p" "$work/compared" |
            awk '{ sum += $1 } END { print sum + 0 }')
        jq -e ".traces[] | select(.vm == $vm) | .instructions == $sum" "$work/apart" &&
            "$build/tests/foreign" "$map" "$work/whose.pt" "$vm" "$out/guests" || return 1
    done
}

# Stock perf is the third to decode what was taken apart. It knows nothing of CR3 and of code that changes,
# so it gets parts in which each address is one thing: a VM's kernel, and each process. They are all of it.
by_perf() {
    local parts=(--kernel) part vm count sums=(0 0 0)
    mapfile -t -O 1 parts < <(jq -r '.vms[].processes[].cr3 | if type == "array" then .[] else . end |
        "--user --cr3 \(.)"' "$recording/map" | sort -u)
    for part in "${parts[@]}"; do
        rm -rf "$out/part"
        # shellcheck disable=SC2086 # options and a value
        "$build/vpt" demux $part --symfs "$work/root" --out "$out/part" "$recording" >/dev/null || return 1
        for vm in 1 2; do
            rm -rf "$out/code"
            "$build/vpt" convert --code "$out/code" "$out/part/$vm.0" "$out/part.data" || return 1
            "$build/vpt" decode --insns "$out/part/$vm.0" | sed -nE 's/^0*([0-9a-f]+) .*/\1/p' >"$out/ours"
            perf script -i "$out/part.data" --itrace=i0nse -F ip | sed 's/^ *//; s/ *$//' >"$out/theirs"
            count=$(wc -l <"$out/ours")
            echo "VM $vm $part: $count instructions, $(wc -l <"$out/theirs") by perf"
            cmp "$out/ours" "$out/theirs" || return 1
            sums[vm]=$((sums[vm] + count))
        done
    done
    rm -rf "$out/part" "$out/part.data" "$out/code" "$out/ours" "$out/theirs"
    for vm in 1 2; do
        jq -e ".traces[] | select(.vm == $vm) | .instructions == ${sums[vm]}" "$work/apart" || return 1
    done
}

# exits_of: VM exits by reason, as EVD packets say; counted: as KVM's tracepoint did.
exits() {
    "$build/vpt" dump "$work/host.pt" | sed -nE 's/.* EVD VM-exit reason .*: (0x[0-9a-f]+)$/\1/p' | sort | uniq -c |
        while read -r count reason; do
            echo "$((reason & 0xffff)) $count"
        done | sort -n >"$work/exits"
    sed -nE 's/^\{ exit_reason: *([0-9]+)[^}]*\} hitcount: *([0-9]+)$/\1 \2/p' "$out/hist" | sort -n \
        >"$work/counted"
    paste "$work/exits" "$work/counted"
    [ -s "$work/exits" ] && cmp "$work/exits" "$work/counted"
}

prepare
for setting in "${settings[@]}"; do
    out=$work/$setting
    recording=$out/recording
    map=$recording/whole.map
    data=$recording/perf.data/data
    name="vpt record of a host with two guests ($setting)"
    check "$name runs" records
    check "$name has a map with two VMs" map
    check "$name decodes to what ran, who and when" decodes
    sed 's/^/    /' "$work/compared"
    check "$name decodes so without VMCS packets" stripped
    head -n 2 "$work/compared" | sed 's/^/    /'
    check "$name tells changes of the TSC offset" offsets
    check "$name is read by perf" perf_reads
    check "$name is decoded by vpt as a folder" folder
    check "$name has a report of both VMs" reported
    check "$name is taken apart" apart
    [ "$setting" != plain ] || check "$name is taken apart into what perf finds" by_perf
    [ "$setting" != events ] || check "$name has the VM exits that KVM counted" exits
done
summary
