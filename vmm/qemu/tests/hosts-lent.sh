#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host records itself by `vpt record --guests` while two guests trace themselves, out of what the
# recorder lends them (vpt run --source host-pt --recorder): Debian's kernel with its own driver of Intel PT
# and kvm_intel, stock perf, on our QEMU with VMX in TCG. What was recorded decodes to what QEMU's plugin
# interface saw run, and what each guest finds in its own buffers is what the recording says of it.
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/parts.sh
. vmm/qemu/tests/parts.sh
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"
vmm_pml4=0x1000 # where vpt run has its page tables, by which an image begins
boot_s=1200
least=10000000  # instructions that are attributed
least_own=50000 # instructions of a guest's own trace that are compared
kinds=(runs 'has a map with two VMs' 'decodes to what ran, who and when' 'is what the '{first,second}' guest traced of itself')
name='vpt record --guests of a host with two guests'

need_perf
need_execlog
skip_all "$name" "${kinds[@]}"

# The recording has begun when the guests do, since it is what they trace themselves by; the log begins
# later, and until then processes may begin and end. From then on, the shell counts by itself. When the
# recording has ended, the guests go on by events of their own.
# shellcheck disable=SC2016
job=$host_words'
mount -t debugfs debugfs /sys/kernel/debug
vpt record --guests --buffer 128M /out/recording >/out/said 2>&1 &
record=$!
until grep -s enabled /out/recording/perf.log; do sleep 0.1; done
vms=
for rounds in 20 21; do
    vpt run --source host-pt --recorder /out/recording/guests --mem 16M --timeout 0 \
        --trace-out /out/own-$rounds.pt --append "rounds=$rounds tick=1000000 output=range" /demo.elf >/out/vm-$rounds 2>&1 &
    vms="$vms $!"
done
until grep rounds /out/vm-20 && grep rounds /out/vm-21; do sleep 0.1; done
kill -STOP $vms
sleep 0.2
echo ready >/dev/ttyS0
counts 400
kill -CONT $vms
counts COUNT
kill -STOP $vms
counts 100
echo done >/dev/ttyS0
counts 400
kill -INT $record
logged Woken
echo over >/dev/ttyS0
wait $record
echo "record $?"
kill -CONT $vms
for vm in $vms; do wait $vm; echo "vm $?"; done'

# Memory is that of the recording's end, and the log goes on until perf records no more.
records() {
    linux_job lent <<<"${job/COUNT/${COUNT:-5000}}"
    qmp_pipes "$work/qmp"
    (linux_machine lent "$boot_s" $host_cpu \
        -icount shift=2,sleep=off -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,times=$work/times,during=$work/begin,pages=on") &
    machine=$!
    qmp_open "$work/qmp"
    host_says ready && qmp stop && touch "$work/begin" &&
        qmp cont && host_says 'done' && qmp stop &&
        qmp_memory "$work/memory" "$linux_mib" && qmp cont && host_says over &&
        qmp stop && rm "$work/begin" && qmp cont
    wait "$machine"
    qmp_close
    linux_result lent && tail -n 12 "$out/log" && cat "$out/said" && [ -s "$data" ] &&
        grep -q '^record 0' "$out/log" && grep -x 'nothing was lost' "$out/said"
}

# Which VM is which is in the map that vpt record left. The code of the host is memory, that of the VMs
# their images.
map() {
    local cr3s
    "$build/qemu/perf_aux" "$data" 0 "$host_image" "$work/host.pt" || return 1
    perf script --dump-raw-trace -i "$recording/perf.data" 2>/dev/null | head -c $((1 << 20)) >"$work/dump"
    host_clock "$work/dump" "$work/host.pt.json" || return 1
    mapfile -t cr3s < <(host_cr3s "$work/host.pt" $vmm_pml4)
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    cp guest-tests/build/{demo,sort,hash}.elf "$work/" && cat "$recording/map" &&
        jq --arg memory "$work/memory" ".vms[] |= $(host_processes "${cr3s[@]}") |"'
            .host = {memory: {raw: $memory, address: 0, paging: "4-level"}}' "$recording/map" >"$work/map" &&
        jq -e '(.vms | length == 2) and all(.vms[].vcpus[]; .tsc_offset)' "$work/map"
}

# Each VM, its processes, the host's kernel and its processes have a share.
decodes() {
    local who
    "$build/qemu/perf_whose" "$data" "$work/map" 0 "$work/whose.pt" >"$work/compared" &&
        cp "$work/host.pt.json" "$work/whose.pt.json" || return 1
    "$build/qemu/compare" --map "$work/map" --pages --times "$work/times" --late "$work/whose.pt" "$work/log" \
        >>"$work/compared" 2>&1
    host_compared "$least" && grep -q ', 0 unknown$' "$work/compared" || return 1
    while read -r who; do
        grep -E "^$who: [0-9]{4,} instructions on [1-9][0-9]* pages\$" "$work/compared" || return 1
    done < <(jq -r '"host kernel", "host processes", "VM \(.vms[].name) \("sort", "hash")"' "$work/map")
}

# What a guest has traced of itself, in its own buffers, against what the recording has of it. Where the
# recording ends, nothing of it is compared any more.
own() { # VM ROUNDS
    grep '^guest buffers: identical' "$out/vm-$2" && grep '^demo: everything held' "$out/vm-$2" || return 1
    images_are_here "$out/own-$2.pt.json"
    [ -d "$work/apart" ] || "$build/vpt" demux --map "$work/map" --out "$work/apart" "$work/whose.pt" || return 1
    "$build/vpt" decode "$work/apart/$1.0" | ips_of_decoded >"$work/of-host"
    "$build/vpt" decode "$out/own-$2.pt" >"$work/own"
    parts_of "$work/of-host" "$least_own" carried <"$work/own"
}

host_prepare "$host_image" guest-tests/build/{sort,hash}.elf
out=$work/lent
recording=$out/recording
data=$recording/perf.data/data
check "$name runs" records
check "$name has a map with two VMs" map
check "$name decodes to what ran, who and when" decodes
sed 's/^/    /' "$work/compared"
check "$name is what the first guest traced of itself" own 1 20
sed 's/^/    /' "$work/why"
check "$name is what the second guest traced of itself" own 2 21
sed 's/^/    /' "$work/why"
summary
