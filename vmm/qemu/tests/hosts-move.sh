#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host with two processors records itself by `vpt record` while two VMs move between them: Debian's kernel
# with its own driver of Intel PT and kvm_intel, stock perf, on our QEMU with VMX in TCG. `vpt demux` puts
# each VM's parts together by the times of both processors: what comes of it is what QEMU's plugin
# interface saw that VM run, instruction by instruction, in its order.
#
# Only the VMs have code at the places that are logged. Whose a page of memory is tells which VM ran: the
# first one goes on by itself until all of its code has run.
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
# shellcheck disable=SC2034 # guest.sh uses it
linux_disk=1G
boot_s=1200
turns=60
least=200000 # instructions of each VM that are compared
name='vpt record of a host with two VMs that move'
kinds=(runs 'is taken apart' 'has what the '{first,second}' VM ran, in its order')

need_perf
need_execlog
skip_all "$name" "${kinds[@]}"

# The VMs stand still while the recording begins and ends, and while the log does. busybox has no code in the
# first page of programs, where the VMs have theirs.
# shellcheck disable=SC2016
job=$host_words'
mount -t debugfs debugfs /sys/kernel/debug
vms=
for rounds in 1000000001 1000000002; do
    vpt run --mem 16M --timeout 0 --append "notrace rounds=$rounds tick=3000000" /demo.elf >/out/vm-$rounds 2>&1 &
    vms="$vms $!"
    until grep -q rounds /out/vm-$rounds; do sleep 0.1; done
done
kill -STOP $vms
vpt record --buffer 128M /out/recording >/out/said 2>&1 &
record=$!
until grep -q enabled /out/recording/perf.log 2>/dev/null; do sleep 0.1; done
echo ready >/dev/ttyS0
sleep 1
/mover TURNS $vms >/dev/ttyS0
echo "mover $?"
kill -INT $record
wait $record
echo "record $?"
kill -KILL $vms'

records() {
    linux_job moves <<<"${job/TURNS/$turns}"
    qmp_pipes "$work/qmp"
    (linux_machine moves "$boot_s" "$host_cpu" -smp 2 \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,during=$work/begin,pages=on,$places") &
    machine=$!
    qmp_open "$work/qmp"
    host_says ready && qmp stop && touch "$work/begin" && qmp cont &&
        host_says stopped && qmp stop && rm "$work/begin" && qmp cont
    wait "$machine"
    qmp_close
    linux_result moves && cat "$out/log" "$out/said" && grep -q '^mover 0' "$out/log" &&
        grep -q '^record 0' "$out/log" && grep -x 'nothing was lost' "$out/said"
}

# Which VM is which is in the map that vpt record left; their code is in files beside it.
map() {
    local cr3s
    "$build/qemu/perf_aux" "$recording/perf.data/data" 0 "$host_image" "$work/host.pt" || return 1
    mapfile -t cr3s < <(host_cr3s "$work/host.pt")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    cp guest-tests/build/{demo,sort,hash}.elf "$recording/" &&
        jq ".vms[] |= $(host_processes "${cr3s[@]}")" "$recording/map" >"$work/map" &&
        cp "$work/map" "$recording/map" && jq -e '.vms | length == 2' "$recording/map"
}

# Each VM ran on both processors, many times.
moved() {
    local pid cpu times
    perf script -i "$recording/perf.data/data" --show-switch-events --no-itrace 2>/dev/null |
        grep -a 'SWITCH_CPU_WIDE IN' >"$work/switches"
    for pid in $(jq '.vms[].pid' "$recording/map"); do
        for cpu in 000 001; do
            times=$(grep -cE " $pid \[$cpu\] " "$work/switches")
            echo "VM of process $pid: $times times on $cpu"
            [ "$times" -ge $((turns / 6)) ] || return 1
        done
    done
}

apart() {
    map && moved && "$build/vpt" demux --json --symfs "$work/root" --out "$out/guests" "$recording" >"$work/apart" &&
        jq . "$work/apart" &&
        jq -e '.unknown_instructions == 0 and (.traces | length == 2)' "$work/apart"
}

# What ran, one address a line, in the files ran.1 and ran.2, by whose the page is. Accesses to the APIC begin,
# and the host carries them out: they are left out here and there. One that a VM exit comes amid begins again.
ran() {
    objdump -d --no-show-raw-insn "$host_image" |
        awk '/^[0-9a-f]+ </ { apic = /<apic_/ } apic && /\(%r/ { sub(":", "", $1); print $1 }' >"$work/apic"
    od -An -v -tx8 -w8 "$work/log" | awk -v name="$work/ran." '
        NR == FNR { apic[$1] = 1; next }
        {
            page = substr($1, 1, 4)
            ip = substr($1, 5)
            ip = (ip ~ /^[89a-f]/ ? "ffff" : "0000") ip
            place = substr(ip, 1, 13)
            if (!(page in vm)) {
                if (place in first && ip ~ /^f/)
                    both = 1
                vm[page] = both ? 2 : 1
                first[place] = 1
            }
            if (!(ip in apic) && ip != last[vm[page]])
                print last[vm[page]] = ip >(name vm[page])
        }' "$work/apic" -
}

# ordered NUMBER: compared from the end on, since the log may begin a moment after the first VM does. What the
# log has besides is single instructions that began: an interrupt came before they ended.
ordered() {
    local vm pid
    pid=$(jq "[.vms[].pid] | sort | .[$1 - 1]" "$recording/map")
    vm=$(jq ".vms | map(.pid == $pid) | index(true) + 1" "$recording/map")
    tac "$work/ran.$1" >"$work/backwards"
    "$build/vpt" decode --insns "$out/guests/$vm.0" | sed -nE 's/^([0-9a-f]{16})  .*/\1/p' | tac |
        awk -v kernel="$(printf '%x' "$((kernel & ~0xfff))")" -v ran="$work/backwards" -v least="$least" '
            NR == FNR { apic[$1] = 1; next }
            ($1 < kernel && ($1 < "0000000000400000" || $1 >= "0000000000401000")) || $1 == last { next }
            $1 in apic { next }
            over || different { next }
            {
                last = $1
                if ((getline want <ran) <= 0) {
                    over = 1
                    next
                }
                if (want != $1 && ++begun)
                    getline want <ran
                if (want == $1)
                    count++
                else
                    different = count + 1
            }
            END {
                if (!over && !different && (getline want <ran) > 0)
                    different = count + 1
                print count + 0, "instructions,", begun + 0, "begun"
                if (different)
                    print "different", different, "from the end:", last, "decoded,", want, "ran"
                exit different || count < least || begun * 1000 > count
            }' "$work/apic" -
}

host_prepare "$host_image" "$build/qemu/mover"
out=$work/moves
recording=$out/recording
kernel=$(address_of "$host_image" guest_main)
places="from=0x400000,to=0x401000,also_from=$((kernel & ~0xfff)),also_to=$(address_of "$host_image" image_end)"
check "$name ${kinds[0]}" records
check "$name ${kinds[1]}" apart
ran
check "$name ${kinds[2]}" ordered 1
sed 's/^/    /' "$work/why"
check "$name ${kinds[3]}" ordered 2
sed 's/^/    /' "$work/why"
summary
