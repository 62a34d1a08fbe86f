#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# `vpt capture` of guests that run, by QEMU's monitor and as domains of libvirt: what it gets is what
# QEMU's plugin interface saw, from the firmware's first instruction to the guest's end.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh
# shellcheck source=vmm/libvirt/tests/session.sh
. vmm/libvirt/tests/session.sh
qemu=$(realpath -m "$qemu")
execlog=$(realpath -m "$execlog")
guests=$(realpath -m guest-tests/build)
vpt=$(realpath "$build/vpt")
of_linux=("a domain, captured for a second" "a domain, captured until a signal comes"
    "a capture that somebody else ends" "a file that cannot be written" "names of a domain, and of what is captured"
    "memory of a domain, as vpt record takes it")
by_libvirt=("a domain, captured whole" "${of_linux[@]}" "no such domain")
umask 022 # captures are private even so

if [ ! -x "$qemu" ] || [ ! -f "$execlog" ]; then
    for name in "a guest, captured whole by QEMU's monitor" "a guest's last packets" "whose files they are" \
        "what stands where files go" "captures that were left behind" "a vCPU that is plugged in" "no capture" \
        "${by_libvirt[@]}"; do
        skip "$name: no QEMU (make qemu)"
    done
    summary
    exit
fi

# wait_for COMMAND...: until it succeeds, half a minute at most.
wait_for() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || return 1
        sleep 0.1
    done
}

# captured_whole NAME CAPTURE LOG: while it began, the guest stood still; resume lets it go.
captured_whole() {
    local name=$1 capture=$2 log=$3 status=0 capturing compared
    shift 3
    "$vpt" capture "$@" "$capture" >"$work/said" 2>&1 &
    capturing=$!
    if wait_for test -s "$capture.0.json" && resume; then
        wait "$capturing" || status=$?
    else
        kill "$capturing" 2>/dev/null
        status=no
    fi
    compared=$("$build/qemu/compare" "$capture.0" "$log.0" "$log.table" 2>&1) || status="$status, differs"
    if [ "$status" = 0 ] && grep -q "^$capture.0: [1-9][0-9]* bytes" "$work/said" &&
        grep -q ', 0 errors, 0 bytes lost' <<<"$compared"; then
        pass "$name: $(grep ' instructions, ' <<<"$compared" | head -n 1)"
    else
        fail_with "$name" <(cat "$work/said"; echo "status $status"; echo "$compared")
    fi
}

# says NAME PATTERN ARGUMENT...: exit code 4, and one line.
says() {
    local name=$1 pattern=$2 status=0
    shift 2
    timeout 60 "$vpt" capture "$@" "$work/nothing" >"$work/said" 2>&1 || status=$?
    if [ "$status" = 4 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -qE "$pattern" "$work/said"; then
        pass "$name: $(cat "$work/said")"
    else
        fail_with "$name: status $status" "$work/said"
    fi
}

# ---- By QEMU's monitor ----

# begin NAME: a guest that stands still; resume lets it go.
begin() {
    qmp_pipes "$work/other"
    (bare_machine 120 vpt-profile=icelake-server "$guests/demo.elf" \
        -plugin "$execlog,blocks=$work/$1.log" -S -qmp "unix:$work/qmp,server,nowait" \
        -chardev "pipe,id=qmp,path=$work/other" -mon chardev=qmp,mode=control) >"$work/qemu.out" 2>&1 &
    qmp_open "$work/other"
}
resume() { qmp cont >/dev/null; }

begin own
captured_whole "a guest, captured whole by QEMU's monitor" "$work/own" "$work/own.log" --qmp "$work/qmp"
qmp_close
wait

# The ring is asked for while the guest stands still amid, and once more at the end.
captured_in_a_ring() {
    local bytes=0 capturing trace
    slowly=yes begin ring # slow enough to be stopped amid
    "$vpt" capture --qmp "$work/qmp" --ring 128K "$work/ring" >"$work/said" &
    capturing=$!
    wait_for test -s "$work/ring.0.json" && resume || return 1
    until [ "$bytes" -gt 500000 ]; do
        bytes=$(qmp x-vpt-query | jq '.return[0].bytes') || return 1
    done
    qmp stop && kill -USR2 "$capturing" && wait_for test -s "$work/ring-1.0.json" && resume &&
        wait "$capturing" && grep "^$work/ring.0: 131072 bytes" "$work/said" || return 1
    qmp_close
    wait
    for trace in ring-1.0 ring.0; do
        "$build/qemu/compare" "$work/$trace" "$work/ring.log.0" "$work/ring.log.table" || return 1
    done
}
check "a guest's last packets, kept in a ring until a signal comes" captured_in_a_ring

# private NAME FILES: so many, of nobody else, and for nobody else.
private() {
    [ "$(find "$work" -name "$1*" -user "$(id -un)" -perm 0600 | wc -l)" = "$2" ] &&
        [ "$(find "$work" -name "$1*" | wc -l)" = "$2" ]
}
check "a capture's files are private" private own.0 3
check "a ring's files are private" private ring.0 3
check "a saved ring's files are private" private ring-1.0 3

# ---- Whose files they are: of a guest that does nothing ----

(bare_machine 300 vpt-profile=icelake-server "$guests/flood.elf" -append stay \
    -qmp "unix:$work/qmp,server,nowait") >"$work/qemu.out" 2>&1 &
idle=$!
wait_for grep -q passed "$work/qemu.out"
capture() { timeout 60 "$vpt" capture --qmp "$work/qmp" "$@" >"$work/said" 2>"$work/wrong"; }

# A name that means another folder to QEMU than to who asks.
mkdir "$work/mine" "$work/mine/saved"
opened_by_vpt() {
    (cd "$work/mine" && capture --seconds 1 /proc/self/cwd/own) &&
        [ -s "$work/mine/own.0" ] && [ -s "$work/mine/own.0.code" ] && [ ! -e own.0 ]
}
saved_by_vpt() {
    local capturing
    (cd "$work/mine/saved" && exec "$vpt" capture --qmp "$work/qmp" --ring 128K \
        /proc/self/cwd/ring >"$work/said" 2>&1) &
    capturing=$!
    wait_for test -s "$work/mine/saved/ring.0.json" && kill -USR2 "$capturing" &&
        wait_for test -s "$work/mine/saved/ring-1.0.json" && kill "$capturing" && wait "$capturing" &&
        [ -s "$work/mine/saved/ring-1.0" ] && [ -s "$work/mine/saved/ring.0" ]
}
opened_by_qemu() {
    capture --seconds 1 --by-qemu "$work/theirs" && [ -s "$work/theirs.0" ] && private theirs. 3
}
check "vpt capture opens the files, and QEMU writes them" opened_by_vpt
check "vpt capture opens the files of saved rings" saved_by_vpt
# One line says that there are no names; nobody who does not want them is told.
without_names() {
    capture --seconds 1 "$work/nameless" && [ "$(wc -l <"$work/wrong")" = 1 ] && grep 'no names: ' "$work/wrong" &&
        capture --seconds 1 --no-names "$work/nameless" && [ ! -s "$work/wrong" ] && private nameless 3
}
no_linux() {
    local status=0
    "$vpt" names --qmp "$work/qmp" --out "$work/nameless" >"$work/said" 2>&1 || status=$?
    [ "$status" = 3 ] && [ "$(wc -l <"$work/said")" = 1 ] && cat "$work/said" && private nameless 3
}
# The code is kept unless it is told otherwise; the last word counts.
without_code() {
    capture --seconds 1 --no-names --no-code "$work/bare" && private bare.0 2 && ! grep '"code"' "$work/bare.0.json" &&
        capture --seconds 1 --no-names --no-code --code "$work/kept" && private kept.0 3 &&
        jq -e '.code == "kept.0.code"' "$work/kept.0.json"
}
check "QEMU opens the files if it is told to" opened_by_qemu
check "what is no Linux is captured without names" without_names
check "the code is kept, if nobody says otherwise" without_code
check "what is no Linux has no names" no_linux

# refuses NAME STATUS PATTERN ARGUMENT...: with one line, and nothing is left of the capture.
refuses() {
    local name=$1 want=$2 pattern=$3 status=0
    shift 3
    capture "$@" "$work/refused" || status=$?
    if [ "$status" = "$want" ] && [ "$(wc -l <"$work/wrong")" = 1 ] && grep -qE "$pattern" "$work/wrong" &&
        [ ! -e "$work/refused.0.json" ]; then
        pass "$name: $(cat "$work/wrong")"
    else
        fail_with "$name: status $status" <(cat "$work/wrong"; ls "$work"/refused*)
    fi
}
ln "$work/qemu.out" "$work/refused.0"
before=$(stat -c '%a %s' "$work/qemu.out")
refuses "a file with other names" 4 'other names' --seconds 1 --by-qemu
check "what has other names is as it was" [ "$(stat -c '%a %s' "$work/qemu.out")" = "$before" ]
rm "$work/refused.0"
if [ "$(id -u)" = 0 ]; then
    echo theirs >"$work/target"
    ln -s "$work/target" "$work/refused.0" && chown -h nobody "$work/refused.0"
    refuses "a link" 3 'symbolic link' --seconds 1
    refuses "somebody else's link, for QEMU" 4 'link of somebody else' --seconds 1 --by-qemu
    check "what a link leads to is as it was" grep -qx theirs "$work/target"
    rm "$work/refused.0"
else
    skip "somebody else's link: only root can make one"
fi
refuses "a capture that QEMU refuses leaves no files" 4 'cr3' --cr3 0x8000000000000001 --seconds 1
ln -s /dev/full "$work/refused.0"
full() {
    local status=0
    capture --by-qemu --seconds 5 "$work/refused" || status=$? # of its own links, it follows
    cat "$work/wrong"
    [ "$status" = 3 ] && grep -q 'refused.0.*: No space left on device' "$work/wrong"
}
check "a full file system is told as the reason" full
rm "$work"/refused.*

# ---- Captures that were left behind ----

left_behind() {
    local capturing
    "$vpt" capture --qmp "$work/qmp" "$work/left" >"$work/said" 2>&1 &
    capturing=$!
    wait_for test -s "$work/left.0.json" && sleep 0.3 && kill -KILL "$capturing"
    wait "$capturing"
    cp "$work/left.0.json" "$work/left.before"
    ! capture "$work/left" && cat "$work/wrong" &&
        grep -q "runs already, to $work/left.0; .*--status.*--stop" "$work/wrong" &&
        cmp "$work/left.0.json" "$work/left.before"
}
shown() {
    capture --status && grep "^$work/left.0: [0-9]* bytes" "$work/said" &&
        capture --status --json && jq -e --arg file "$work/left.0" '.[0].file == $file' "$work/said"
}
ended_by_stop() {
    capture --stop && grep "^$work/left.0: [1-9][0-9]* bytes" "$work/said" && [ ! -e "$work/left.0.map" ] &&
        "$vpt" decode --summary "$work/left.0" && capture --status && grep -x 'no capture runs' "$work/said"
}
none_left() {
    local status=0
    capture --stop || status=$?
    [ "$status" = 4 ] && grep 'no capture runs' "$work/wrong" && capture --seconds 1 "$work/left"
}
check "the capture of a vpt that was killed is named to the next one" left_behind
check "--status shows it" shown
check "--stop ends it, and it is whole" ended_by_stop
check "where none runs, there is none to stop, and one can begin" none_left
kill "$idle"
wait "$idle" 2>/dev/null

# ---- A vCPU that is plugged in ----

plugged_in() {
    local capturing
    qmp_pipes "$work/other"
    (bare_machine 120 vpt-profile=icelake-server "$guests/flood.elf" -append stay -smp 1,maxcpus=2 \
        -qmp "unix:$work/qmp,server,nowait" \
        -chardev "pipe,id=qmp,path=$work/other" -mon chardev=qmp,mode=control) >"$work/qemu.out" 2>&1 &
    qmp_open "$work/other"
    "$vpt" capture --qmp "$work/qmp" "$work/plugged" >"$work/said" 2>"$work/wrong" &
    capturing=$!
    wait_for test -s "$work/plugged.0.json" && qmp device_add '
        "driver": "max-x86_64-cpu", "id": "second", "socket-id": 0, "core-id": 1, "thread-id": 0' &&
        kill -INT "$capturing" && wait "$capturing" || return 1
    cat "$work/wrong"
    grep -qx 'vpt: vCPU 1 came while the capture went on, and is not in it' "$work/wrong" &&
        [ ! -e "$work/plugged.1" ] && capture --seconds 1 "$work/plugged" &&
        ! grep 'came while' "$work/wrong" && grep "^$work/plugged.1: " "$work/said" &&
        qmp quit
}
check "a vCPU that is plugged in amid is told of, and is in the next capture" plugged_in
qmp_close
wait
says "no monitor" 'No such file' --qmp "$work/nowhere" --seconds 1

qemu-system-x86_64 -machine none -display none -S -qmp "unix:$work/stock,server,nowait" >/dev/null 2>&1 &
stock=$!
wait_for test -S "$work/stock"
says "a QEMU that cannot capture" 'x-vpt-query has not been found' --qmp "$work/stock" --seconds 1
kill "$stock"

# ---- Domains ----

skip_domains() {
    for name in "${by_libvirt[@]}"; do skip "$name: $1"; done
    summary
    exit
}
lacks=$(libvirt_lacks)
[ -z "$lacks" ] || skip_domains "$lacks"
trap 'libvirt_end; rm -rf "$work"' EXIT
if ! libvirt_begin; then
    fail_with "libvirt's daemon" "$work/libvirtd.out"
    summary
    exit 1
fi

# domain NAME IMAGE [ARGUMENT...]: its XML, as docs/libvirt.md has it. The arguments are QEMU's.
domain() {
    local name=$1 image=$2 argument
    shift 2
    cat <<XML
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>$name</name>
  <memory unit='MiB'>256</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type><kernel>$image</kernel></os>
  <features><acpi/><apic/></features>
  <cpu mode='maximum'/>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>$qemu</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-L'/><qemu:arg value='/usr/share/seabios'/>
    <qemu:arg value='-L'/><qemu:arg value='/usr/share/qemu'/>
    <qemu:arg value='-global'/><qemu:arg value='max-x86_64-cpu.vendor=GenuineIntel'/>
    <qemu:arg value='-global'/><qemu:arg value='max-x86_64-cpu.vpt-profile=icelake-server'/>
$(for argument; do echo "    <qemu:arg value='$argument'/>"; done)
  </qemu:commandline>
</domain>
XML
}

domain whole "$guests/demo.elf" -device isa-debug-exit,iobase=0xf4,iosize=4 \
    -plugin "$execlog,blocks=$work/whole.log" >"$work/whole.xml"
virsh create --paused "$work/whole.xml" >"$work/virsh.out" 2>&1
resume() { virsh resume whole; }
captured_whole "a domain, captured whole" "$work/whole" "$work/whole.log" --connect "$uri" --domain whole
virsh destroy whole >/dev/null 2>&1

# Linux while it boots. Whoever begins in the middle does not know what was called before.
domain second "$lab/vmlinuz" >"$work/second.xml"
captured_for_a_second() {
    virsh create "$work/second.xml" || return 1
    "$vpt" capture --connect "$uri" --domain second --seconds 1 --json "$work/second" >"$work/second.out" &&
        [ "$(jq '.[0].bytes' "$work/second.out")" = "$(stat -c %s "$work/second.0")" ] &&
        virsh qemu-monitor-command second '{"execute": "x-vpt-query"}' | jq -e '.return == []' &&
        "$vpt" decode --summary --json "$work/second.0" >"$work/second.sums" &&
        jq -e '.errors == 0 and .instructions > 0' "$work/second.sums"
}
captured_until_a_signal() {
    local capturing
    "$vpt" capture --connect "$uri" --domain second --only kernel --timing "$work/third" >"$work/third.out" &
    capturing=$!
    wait_for test -s "$work/third.0.json" && kill "$capturing" && wait "$capturing" && [ -s "$work/third.0" ]
}
ended_by_another() {
    local capturing
    "$vpt" capture --connect "$uri" --domain second "$work/fourth" >"$work/fourth.out" 2>&1 &
    capturing=$!
    wait_for test -s "$work/fourth.0.json" &&
        virsh qemu-monitor-command second '{"execute": "x-vpt-stop"}' || return 1
    wait "$capturing"
    [ $? = 4 ] && grep -q 'somebody else' "$work/fourth.out"
}
captured_to_nowhere() {
    ln -s /dev/full "$work/full.0"
    "$vpt" capture --connect "$uri" --domain second --seconds 5 --by-qemu "$work/full" 2>"$work/full.out"
    [ $? = 3 ] && grep 'No space left on device' "$work/full.out"
}
# Without a file system its kernel soon stands still, and goes on to wait.
named() {
    local names=("$vpt" names --connect "$uri" --domain second --json)
    (cd "$work" && wait_for "${names[@]}") || { "${names[@]}" --out "$work/why"; return 1; }
    "${names[@]}" --pause --out "$work/paused" >"$work/paused.sum" && jq -e '.symbols > 50000' "$work/paused.sum" &&
        grep -q ' T _stext$' "$work/second.kallsyms" && [ "$(virsh domstate second)" = running ] || return 1
    "$vpt" capture --connect "$uri" --domain second --seconds 1 "$work/fifth" &&
        jq -e '.map == "fifth.map"' "$work/fifth.0.json" &&
        "$vpt" decode --summary --json "$work/fifth.0" >"$work/fifth.sums" && jq -e '.instructions > 1000 and
            (.functions | map(select(.name == "?") | .instructions) | add // 0) * 100 < .instructions' "$work/fifth.sums"
}
dumped() {
    "$build/qemu/dump" "$uri" second "$work/dumped.core" &&
        "$vpt" names --json "$work/dumped.core" >"$work/dumped.sum" && jq -e '.symbols > 50000' "$work/dumped.sum" &&
        [ "$(virsh domstate second)" = running ]
}
if [ -f "$lab/vmlinuz" ]; then
    check "${of_linux[0]}" captured_for_a_second
    check "${of_linux[1]}" captured_until_a_signal
    check "${of_linux[2]}" ended_by_another
    check "${of_linux[3]}" captured_to_nowhere
    check "${of_linux[4]}" named
    check "${of_linux[5]}" dumped
    virsh destroy second >/dev/null 2>&1
else
    for name in "${of_linux[@]}"; do skip "$name: no kernel (make lab)"; done
fi
says "no such domain" "libvirt: Domain not found" --connect "$uri" --domain nobody --seconds 1
summary
