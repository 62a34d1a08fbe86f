#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host records itself and its guests by `vpt record`: Debian's kernel with its own driver of Intel PT
# and kvm_intel, stock perf, and two VMs, on our QEMU with VMX in TCG. What was recorded decodes to what
# QEMU's plugin interface saw run, instruction by instruction; who ran is checked by pages of memory, and
# when by QEMU's TSC. Which VM is which comes from what vpt record gathered: threads, and offsets of TSCs.
# The same holds when the trace's VMCS packets are taken away, so that only NR and threads tell.
#
# Each setting of the packets is a run: plain, without RET compression, and with Event Trace, where VM
# exits by reason have to be as many as KVM's own tracepoint counted. In the setting "lent", both guests
# trace themselves meanwhile (vpt run --source host-pt), out of what the recorder lends them: what their
# own buffers say is what the recording says of them. It does not pass each time (docs/host-pt.md), so it
# runs only when it is named.
#
#   hosts.sh [SETTING...]     plain noretcomp events lent
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes for each setting.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/parts.sh
. vmm/qemu/tests/parts.sh
execlog=${EXECLOG:-$build/qemu/execlog.so}
image=guest-tests/build/demo.elf
mem_mib=1024
vmm_pml4=0x1000  # where vpt run has its page tables, by which an image begins
boot_s=1200
least=10000000   # instructions that are attributed, for each setting
compared=2000000 # of them, as text
least_own=50000  # instructions of a guest's own trace that are compared, of the setting "lent"
[ $# -gt 0 ] || set -- plain noretcomp events
settings=("$@")
kinds=(runs 'has a map with two VMs' 'decodes to what ran, who and when' 'decodes so without VMCS packets'
    'is read by perf' 'is decoded by vpt as a folder' 'has a report of both VMs')

command -v perf >/dev/null || why='no perf (linux-perf)'
[ -n "$why" ] || [ -f "$execlog" ] || why='no QEMU (make qemu)'
if [ -n "$why" ]; then
    for setting in "${settings[@]}"; do
        [ "$setting" != lent ] || kinds=("${kinds[@]:0:3}" 'is what the '{first,second}' guest traced of itself')
        for kind in "${kinds[@]}"; do
            skip "vpt record of a host with two guests ($setting) $kind: $why"
        done
    done
    summary
    exit
fi

# shellcheck disable=SC2016
job_begin='
for module in irqbypass kvm kvm-intel; do insmod /modules/$module.ko; done
mount -t debugfs debugfs /sys/kernel/debug
logged() { # WORD: perf has said it
    found=
    until [ "$found" ]; do
        while read -r line; do
            case "$line" in *$1*) found=yes ;; esac
        done </out/recording/perf.log
    done
}
run_and_end() { # the VMs run for a while, then the recording ends
    kill -CONT $vms
    count=0
    while [ $count -lt COUNT ]; do count=$((count + 1)); done
    kill -STOP $vms
    count=0
    while [ $count -lt 100 ]; do count=$((count + 1)); done
    echo done >/dev/ttyS0
    count=0
    while [ $count -lt 400 ]; do count=$((count + 1)); done
    kill -INT $record
    logged Woken
    echo over >/dev/ttyS0
    wait $record
    echo "record $?"
}
'

# The VMs stand still while the recording begins and ends, so that KVM's counter and the trace see the
# same exits. While it goes on, no process begins or ends, whose code could not be found in memory later:
# the shell reads and counts by itself. vpt stands still when it has begun perf and has not yet told it
# to record, since the outer host's log begins there.
# shellcheck disable=SC2016
job='
counter=/sys/kernel/tracing/events/kvm/kvm_exit
vms=
for rounds in 1000000001 1000000002; do
    vpt run --mem 16M --timeout 0 --append "notrace rounds=$rounds tick=5000000" /demo.elf >/out/vm-$rounds 2>&1 &
    vms="$vms $!"
done
until grep rounds /out/vm-1000000001 && grep rounds /out/vm-1000000002; do sleep 1; done
kill -STOP $vms
sleep 1
echo "hist:keys=exit_reason:size=256" >$counter/trigger && echo counts
vpt record --buffer 64M --config "TERMS" /out/recording >/out/said 2>&1 &
record=$!
until [ -e /out/recording/perf.log ]; do sleep 0.1; done
kill -STOP $record
until grep disabled /out/recording/perf.log; do sleep 0.1; done
sleep 1
echo ready >/dev/ttyS0
count=0 # nobody sleeps: the clock of an idle machine leaps
while [ $count -lt 20000 ]; do count=$((count + 1)); done
kill -CONT $record
logged enabled
run_and_end
cat $counter/hist >/out/hist
kill -KILL $vms'

# The recording has begun when the guests do, since it is what they trace themselves by; the log begins
# later, and until then processes may begin and end. When the recording has ended, the guests go on by
# events of their own.
# shellcheck disable=SC2016
lent_job='
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
count=0
while [ $count -lt 400 ]; do count=$((count + 1)); done
run_and_end
kill -CONT $vms
for vm in $vms; do wait $vm; echo "vm $?"; done'

prepare() {
    linux_prepare
    cp "$build/vpt" "$work/root/usr/bin/vpt"
    cp "$image" guest-tests/build/{sort,hash}.elf "$work/root/"
    shared_objects "$work/root" "$build/vpt"
    (cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/base.cpio"
}

# wait_for WORD: a line of the console.
wait_for() {
    until grep "^$1" "$out/console" >/dev/null 2>&1; do
        sleep 0.1
        kill -0 "$machine" 2>/dev/null || return 1
    done
}

# Code that is traced already stays as it is when a capture begins.
translate_anew() {
    [ "$logged" = during ] ||
        qmp '{"execute": "x-vpt-start", "arguments": {"file": "'"$work/capture"'"}}'
}

# Memory is that of the recording's end, and the log goes on until perf records no more.
records() {
    local terms='' profile=icelake-server logged=when count=600
    case $setting in
        noretcomp) terms=noretcomp=1 ;;
        events) terms=event=1 profile=gracemont ;;
    esac
    [ "$setting" != lent ] || local job=$lent_job logged=during count=1500
    sed "s/TERMS/$terms/; s/COUNT/${COUNT:-$count}/" <<<"$job_begin$job" | linux_job "$setting"
    rm -f "$work/qmp".* "$work/begin" "$work/log" "$work/times" "$work/memory" "$work/capture"*
    qmp_pipes "$work/qmp"
    (linux_machine "$setting" "$boot_s" "max,vendor=GenuineIntel,vpt-profile=$profile,+vmx,-la57" \
        -icount shift=2,sleep=off -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,times=$work/times,$logged=$work/begin,pages=on") &
    machine=$!
    qmp_open "$work/qmp"
    wait_for ready && qmp '{"execute": "stop"}' && touch "$work/begin" && translate_anew &&
        qmp '{"execute": "cont"}' && wait_for 'done' && qmp '{"execute": "stop"}' &&
        qmp '{"execute": "pmemsave", "arguments": {"val": 0, "size": '$((mem_mib << 20))',
            "filename": "'"$work/memory"'"}}' && qmp '{"execute": "cont"}' && wait_for over &&
        qmp '{"execute": "stop"}' && rm "$work/begin" && { [ "$logged" = during ] || qmp '{"execute": "x-vpt-stop"}'; } &&
        qmp '{"execute": "cont"}'
    wait "$machine"
    qmp_close
    linux_result "$setting" && tail -n 12 "$out/log" && cat "$out/said" && [ -s "$data" ] &&
        grep -q '^record 0' "$out/log" && grep -x 'nothing was lost' "$out/said"
}

# What the driver told perf of the clocks.
clock() {
    perf script --dump-raw-trace -i "$recording/perf.data" 2>/dev/null | head -c "$dumped" >"$work/dump"
    number() {
        sed -n "s/^ *$1 *\([0-9]*\)$/\1/p" "$work/dump" | head -n 1
    }
    jq --argjson tsc "$(number 'TSC:CTC numerator')" --argjson ctc "$(number 'TSC:CTC denominator')" \
        --argjson mtc 3 '. + {tsc_ctc: [$ctc, $tsc], mtc_freq: $mtc}' "$work/host.pt.json" >"$work/json" &&
        mv "$work/json" "$work/host.pt.json"
}

# Which VM is which is in the map that vpt record left. The code of the host is memory, that of the VMs
# their images.
map() {
    local boot cr3s
    "$build/qemu/perf_aux" "$data" 0 "$image" "$work/host.pt" && clock || return 1
    boot=$((0x$(nm "$image" | sed -n 's/ [a-zA-Z] boot_pml4$//p')))
    mapfile -t cr3s < <("$build/vpt" parts --json "$work/host.pt" | jq 'select(.nr) | .cr3' | sort -nu |
        grep -vxe "$boot" -e $((vmm_pml4)))
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    cat "$recording/map"
    jq --arg dir "$(realpath guest-tests/build)" --argjson sort "${cr3s[0]}" --argjson hash "${cr3s[1]}" '
        .vms[].images = [{path: ($dir + "/demo.elf")}] |
        .vms[].processes = [{name: "sort", cr3: $sort, images: [{path: ($dir + "/sort.elf")}]},
                            {name: "hash", cr3: $hash, images: [{path: ($dir + "/hash.elf")}]}]' \
        "$recording/map" >"$work/vms" &&
        jq --arg memory "$work/memory" '.host = {memory: {raw: $memory, address: 0, paging: "4-level"}}' \
            "$work/vms" >"$work/map" && jq -e '.vms | length == 2' "$work/map" &&
        jq -e 'all(.vms[].vcpus[]; .tsc_offset)' "$work/map"
}

# decodes [--strip]: each VM, its processes, the host's kernel and its processes have a share.
decodes() {
    local who
    "$build/qemu/perf_whose" "$@" "$data" "$work/map" 0 "$work/whose.pt" >"$work/compared" &&
        cp "$work/host.pt.json" "$work/whose.pt.json" || return 1
    "$build/qemu/compare" --map "$work/map" --pages --times "$work/times" "${late[@]}" "$work/whose.pt" "$work/log" \
        >>"$work/compared" 2>&1
    cat "$work/compared"
    grep -x identical "$work/compared" && grep -q ', 0 unknown$' "$work/compared" || return 1
    for who in 'host kernel' 'host processes' 'VM vpt-[0-9]*'{,} {sort,hash}; do
        grep -qE "$who.*: [0-9]{4,} instructions on [1-9][0-9]* pages\$" "$work/compared" || return 1
    done
    awk -v least="$least" '/ instructions, / { sum = $1 } END { exit !(sum >= least) }' "$work/compared"
}

stripped() {
    decodes --strip && grep -qE '^[1-9][0-9]* VMCS packets stripped$' "$work/compared" &&
        grep -q ': 0 by both, 0 by VMCS, ' "$work/compared"
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

# Stock perf finds the packets in what stands in the folder.
perf_reads() {
    local pips
    pips=$("$build/vpt" dump "$work/host.pt" | grep -c ' PIP ')
    echo "$pips PIP packets by vpt, $(grep -c 'PIP 0x' "$work/dump") by perf"
    [ "$pips" -gt 0 ] && [ "$pips" = "$(grep -c 'PIP 0x' "$work/dump")" ]
}

# By its own files: kernel and modules of the kcore folder, processes by the copies in the folder.
folder() {
    ips_of() { # the first ones; vpt ends when nobody reads on
        { "$build/vpt" decode "$@" | sed -nE 's/^([0-9a-f]{16})  .*/\1/p'; } 2>/dev/null | head -n "$compared"
    }
    # As vpt record wrote it, and the images of the VMs, beside it.
    cp guest-tests/build/{demo,sort,hash}.elf "$recording/" &&
        sed 's,"path": ".*/,"path": ",' "$work/vms" >"$recording/map" || return 1
    ips_of --symfs "$work/root" "$recording" >"$work/of-folder"
    ips_of --map "$work/map" "$work/whose.pt" >"$work/of-memory"
    wc -l "$work/of-folder" "$work/of-memory"
    cmp "$work/of-folder" "$work/of-memory" && [ "$(wc -l <"$work/of-folder")" -eq "$compared" ]
}

reported() {
    "$build/vpt" report --symfs "$work/root" "$recording" >"$work/report" 2>"$work/report.err"
    head -n 40 "$work/report" "$work/report.err"
    [ "$(jq -r '.vms[].name' "$work/vms" | grep -Fcf - <(grep . "$work/report"))" != 0 ] &&
        jq -r '.vms[].name' "$work/vms" | while read -r name; do
            grep -qF "$name" "$work/report" || exit 1
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
    data=$recording/perf.data/data
    late=() dumped=$((1 << 40))
    [ "$setting" != lent ] || late=(--late) dumped=$((1 << 20))
    name="vpt record of a host with two guests ($setting)"
    check "$name runs" records
    check "$name has a map with two VMs" map
    check "$name decodes to what ran, who and when" decodes
    sed 's/^/    /' "$work/compared"
    if [ "$setting" = lent ]; then
        check "$name is what the first guest traced of itself" own 1 20
        sed 's/^/    /' "$work/why"
        check "$name is what the second guest traced of itself" own 2 21
        sed 's/^/    /' "$work/why"
        continue
    fi
    check "$name decodes so without VMCS packets" stripped
    head -n 2 "$work/compared" | sed 's/^/    /'
    check "$name is read by perf" perf_reads
    check "$name is decoded by vpt as a folder" folder
    check "$name has a report of both VMs" reported
    [ "$setting" != events ] || check "$name has the VM exits that KVM counted" exits
done
summary
