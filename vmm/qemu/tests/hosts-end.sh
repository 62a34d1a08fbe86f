#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Recordings of `vpt record` that end in every way: by limits, by signals, by being killed, by a file
# system that is full; while VMs begin and die, one migrates to another QEMU, one panics, and the clock is
# set back. What was recorded until then has to decode, and nothing may be left running. In a Linux host
# with kvm_intel on our QEMU (see hosts.sh).
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"
# shellcheck disable=SC2034 # guest.sh uses them
linux_mib=1536 linux_disk=1G
cases=(limit size term killed perf-killed full nearly-full ring chosen changing moving panic)

need_perf
skip_all 'a recording of vpt record,' "${cases[@]}"

# Each case leaves a folder, and in said what vpt record printed, with its exit code; left has what ran on.
# shellcheck disable=SC2016
job=$host_words'
mount -t debugfs debugfs /sys/kernel/debug
vm() {
    vpt run --mem 16M --timeout 0 --append "notrace rounds=$1 tick=5000000" /demo.elf >/out/vm-$1 2>&1 &
    vm=$!
    until grep -q rounds /out/vm-$1; do sleep 0.1; done
}
machine() { # NAME ARGUMENT...: a VM on QEMU, whose monitor is the socket /tmp/NAME; /tmp/NAME.in takes lines
    id=$1
    shift
    mkfifo /tmp/$id.in /tmp/$id.out
    cat /tmp/$id.out >/tmp/$id.lines &
    /qemu -L /bios -accel kvm -machine q35 -m 64 -cpu host -display none -nodefaults -no-reboot -action panic=pause \
        -device pvpanic -name $id,debug-threads=on -qmp unix:/tmp/$id,server=on,wait=off \
        -chardev pipe,id=lines,path=/tmp/$id -mon chardev=lines -debugcon file:/out/$id.console \
        -kernel /demo.elf "$@" </dev/null >/out/$id.qemu 2>&1 &
    vm=$!
    until [ -S /tmp/$id ]; do sleep 0.1; done
}
known() { # FOLDER PID
    until grep -q "\"pid\":$2" $1/map; do sleep 0.1; done
}
begin() { # NAME ARGUMENT...
    name=$1
    shift
    vpt record --no-files --buffer 4M "$@" >/out/$name.said 2>&1 &
    record=$!
}
recording() { # FOLDER
    until grep -q enabled $1/perf.log 2>/dev/null; do sleep 0.1; done
}
end() {
    wait $record
    echo "status $?" >>/out/$name.said
    sleep 0.5
    ps | grep "[p]erf.*record" >/out/$name.left
}
gone() { # the perf of a recording that was killed
    tries=0
    while ps | grep -q "[p]erf.*record" && [ $tries -lt 100 ]; do sleep 0.2; tries=$((tries + 1)); done
}
vm 1000000001
first=$vm

begin limit --seconds 1 /out/limit
end
begin size --size 1M /out/size
end
begin term /out/term
recording /out/term
sleep 0.5
kill -TERM $record
end
begin killed /out/killed
recording /out/killed
sleep 0.5
kill -KILL $record
gone
end
begin perf-killed --no-kcore /out/perf-killed
recording /out/perf-killed
sleep 0.5
kill -KILL $(ps | sed -n "s/^ *\([0-9]*\) .*[p]erf record.*/\1/p")
end
mkdir /tmp/small /tmp/other
mount -t tmpfs -o size=6M small /tmp/small
begin full --no-kcore --min-free 0 /tmp/small/full
end
cp -r /tmp/small/full /out/full
umount /tmp/small
mount -t tmpfs -o size=40M other /tmp/other
begin nearly-full --no-kcore --min-free 30M /tmp/other/nearly-full
end
cp -r /tmp/other/nearly-full /out/nearly-full
umount /tmp/other
begin ring --snapshot --buffer 256K /out/ring
recording /out/ring
sleep 0.3
kill -USR2 $record
sleep 0.3
kill -INT $record
end
begin chosen --vm $first --seconds 1 /out/chosen
end
begin none --vm nobody /out/none
end
begin changing /out/changing
recording /out/changing
vm 1000000002
date -s 2001-01-01
known /out/changing $vm
kill -KILL $vm
sleep 0.5
vm 1000000003
known /out/changing $vm
kill -INT $record
end
kill -KILL $first $vm
machine source -append "notrace rounds=1000000004 tick=5000000"
source=$vm
# There are 3 million MTC packets a second else, however slow this machine is: too much for its one processor.
begin moving --config mtc_period=9 --buffer 16M /out/moving
recording /out/moving
known /out/moving $source
machine target -append "notrace rounds=1000000004 tick=5000000" -incoming unix:/tmp/way
target=$vm
until [ -S /tmp/way ]; do sleep 0.1; done
echo "migrate -d unix:/tmp/way" >/tmp/source.in
until grep -q "status: running" /tmp/target.lines; do sleep 0.2; echo "info status" >/tmp/target.in; done
sleep 0.5
echo quit >/tmp/source.in
wait $source
sleep 0.5
kill -INT $record
end
kill -KILL $target
machine panics -append "notrace rounds=1000000005 tick=5000000 panic=2000" -S
begin panic --snapshot --buffer 1M --panic /tmp/panics --memory /tmp/panics /out/panic
recording /out/panic
echo cont >/tmp/panics.in
until grep -q panicked /out/panic.said; do sleep 0.1; done
kill -INT $record
end
kill -KILL $vm
rm -rf /out/*/files'

records() {
    nested_qemu "$work/root"
    host_prepare "$host_image"
    linux_run ends 1200 "$host_cpu" <<<"$job"
    local ok=$?
    cat "$out/log"
    return $ok
}

# with_kernel FOLDER: of a recording without the kernel's code, that of another one of the same boot.
with_kernel() {
    [ -f "$1/perf.data" ] || return 0
    mv "$1/perf.data" "$1/data" && mkdir "$1/perf.data" && mv "$1/data" "$1/perf.data/" &&
        cp -r "$out/limit/perf.data/kcore_dir" "$1/perf.data/"
}

# Of a recording: the exit code, what has to be said, who ended it, and that it decodes: who ran is known,
# and code of the host is found.
ended() { # NAME STATUS SAID BY
    local folder=$out/$1 lines
    cat "$out/$1.said"
    cat "$folder/record.json" "$folder/map"
    grep -qx "status $2" "$out/$1.said" && grep -qE "$3" "$out/$1.said" || return 1
    [ ! -s "$out/$1.left" ] || { echo 'left running:' && cat "$out/$1.left"; return 1; }
    [ -z "$4" ] || [ "$(jq -r .ended_by "$folder/record.json")" = "$4" ] || return 1
    jq -e '.vms | length >= 1' "$folder/map" || return 1
    with_kernel "$folder" || return 1
    "$build/vpt" dump --records "$folder" | tail -n 2
    "$build/vpt" dump "$folder" | grep -c ' PIP .*NR' || return 1
    # Parts of guests have the name of their VM; their code is nowhere.
    "$build/vpt" decode --symfs "$work/root" --format perf "$folder" 2>"$work/decode.err" |
        head -n 200000 >"$work/decoded"
    head -n 3 "$work/decode.err" "$work/decoded"
    lines=$(wc -l <"$work/decoded")
    echo "$lines lines, $(grep -c 'trace error' "$work/decoded") errors"
    [ "$lines" -gt 1000 ] && ! grep -q 'nothing tells which one' "$work/decode.err"
}

# Two snapshots, of which each begins anew.
ring() {
    ended ring 0 'MB of packets' signal && [ "$(jq .snapshots "$out/ring/record.json")" = 1 ] &&
        [ "$("$build/vpt" dump --records "$out/ring" | grep -c ' AUXTRACE ')" -ge 2 ]
}

# Three VMs, one of which was there before; the clock that was set back is nobody's time.
changing() {
    ended changing 0 'MB of packets' signal && jq -e '.vms | length == 3' "$out/changing/map" &&
        [ "$(jq .milliseconds "$out/changing/record.json")" -lt 600000 ]
}

# The VM ran in one process, and then in another one; both are known, and nothing of it is nobody's.
moving() {
    ended moving 0 'MB of packets' signal &&
        [ "$(jq -c '[.vms[].name]' "$out/moving/map")" = '["source","target"]' ] &&
        "$build/vpt" parts --json "$out/moving" >"$work/parts" || return 1
    jq -s 'map(select(.nr)) | group_by(.vm) | map({vm: .[0].vm, count: length, begin: .[0].begin, end: .[-1].end})' \
        "$work/parts" | tee "$work/moves"
    jq -e 'length == 2 and all(.[]; .count > 10) and .[0].end < .[1].begin' "$work/moves"
}

# The ring is written by itself, and the guest's code is in its memory: what it ran decodes.
panicked() {
    local cores=("$out"/panic/guest-*.core)
    ended panic 0 'panics has panicked: the ring is written' signal &&
        [ "$(jq .snapshots "$out/panic/record.json")" = 1 ] && [ -s "${cores[0]}" ] &&
        grep -x 'status 0' "$out/panic.said" || return 1
    "$build/vpt" report --symfs "$work/root" --vm panics "$out/panic" >"$work/panics" 2>&1
    cat "$work/panics"
    grep '^instructions [0-9]\{4,\}' "$work/panics" && grep '^errors *0 ' "$work/panics" &&
        [ "$(sed -n 's/^time *\([0-9]*\).*/\1/p' "$work/panics")" -le "$(jq .milliseconds "$out/panic/record.json")" ]
}

# Only threads of the VM's process.
chosen() {
    ended chosen 0 '1 VMs' seconds && grep -q 'status 2' "$out/none.said" && cat "$out/none.said" &&
        grep -q "no VM of this host is called 'nobody'" "$out/none.said" && [ ! -e "$out/none" ]
}

out=$work/ends
check 'a host with guests records itself in all ways' records
check 'a recording of vpt record (limit)' ended limit 0 'MB of packets' seconds
check 'a recording of vpt record (size)' ended size 0 'MB of packets' size
check 'a recording of vpt record (term)' ended term 0 'MB of packets' signal
check 'a recording of vpt record (killed)' ended killed 137 '' ''
check 'a recording of vpt record (perf-killed)' ended perf-killed 4 'ended by signal 9' perf
check 'a recording of vpt record (full)' ended full 4 'perf record failed' ''
check 'a recording of vpt record (nearly-full)' ended nearly-full 4 'nearly full' disk
check 'a recording of vpt record (ring)' ring
check 'a recording of vpt record (chosen)' chosen
check 'a recording of vpt record (changing)' changing
check 'a recording of vpt record (moving)' moving
check 'a recording of vpt record (panic)' panicked
summary
