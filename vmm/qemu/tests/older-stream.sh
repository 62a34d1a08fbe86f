#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What the QEMU of an earlier vpt left (saved/README), from before processors had choices: a guest that
# traced itself arrives by its migration stream and goes on as it began, and a capture of it decodes to
# what ran. Ends with 'N passed, N failed, N skipped'.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
saved=vmm/qemu/tests/saved

# unpack NAME...: into $work
unpack() {
    local name
    for name; do
        gzip -dc "$saved/$name.gz" >"$work/$name" || return 1
    done
}

# ---- The capture: this needs no QEMU ----

capture_decodes() {
    unpack guest.0 guest.0.code guest.ips && cp "$saved/guest.0.json" "$work/" &&
        jq -e '.cpu.family == 0' "$work/guest.0.json" &&
        "$build/vpt" decode --insns --json "$work/guest.0" >"$work/insns" &&
        jq -r 'select(.type == "insn") | .ip' "$work/insns" >"$work/ips" &&
        [ "$(wc -l <"$work/ips")" -gt 10000 ] && cmp "$work/ips" "$work/guest.ips"
}
check "a capture of an earlier QEMU decodes to what ran" capture_decodes

# ---- The guest ----

names=("a guest of an earlier QEMU arrives amid its trace, and goes on with the packets of then"
    "the guest anew, on plain, sends what it sent then" "the guest anew, on skylake, sends something else")
why= # no kernel is needed
[ -x "$qemu" ] || why="no QEMU (make qemu)"
[ -n "$why" ] || "$qemu" --version | grep -q 'version 7' || why="the stream is one of QEMU 7.2"
skip_all '' "${names[@]}"

# machine NAME PROFILE [ARGUMENT...]: in the background; $pid. Its console goes to $work/NAME.
machine() {
    local name=$1 profile=$2
    shift 2
    qmp_pipes "$work/qmp"
    timeout -k 10 60 "$qemu" -machine isapc,suppress-vmdesc=on -accel tcg \
        -cpu "max,vendor=GenuineIntel,vpt-profile=$profile" -m 512k -bios "$work/firmware" \
        -nodefaults -display none -vga none -no-reboot \
        -debugcon "file:$work/$name" -device isa-debug-exit,iobase=0xf4,iosize=4 \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control "$@" &
    pid=$!
    qmp_open "$work/qmp"
}

# ends: wakes the guest, which sleeps amid its trace, and waits for its end, with status 0.
ends() {
    until qmp human-monitor-command '"command-line": "info registers"' \
        >"$work/registers" && grep -q 'HLT=1' "$work/registers"; do
        kill -0 "$pid" || return 1
        sleep 0.05
    done
    qmp inject-nmi
    wait "$pid"
    local status=$?
    qmp_close
    [ "$status" = 1 ] # of isa-debug-exit: twice the guest's, and 1
}

arrives() {
    head -c 64K /dev/zero >"$work/firmware" # the stream has its own
    machine arrived skylake -incoming "exec:gzip -dc $saved/guest.stream.gz"
    qmp_arrived
    ends && { echo traced && cat "$work/guest.packets"; } | cmp - "$work/arrived"
}

anew() { # PROFILE
    "${CC:-gcc}" -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-Ttext=0 -Wl,--oformat=binary \
        -o "$work/firmware" "$saved/guest.S" || return 1
    machine "$1" "$1"
    ends && head -c 14 "$work/$1" | cmp - <(printf 'halted\ntraced\n') &&
        tail -c +15 "$work/$1" >"$work/$1.packets" && [ -s "$work/$1.packets" ]
}
# plain has another frequency, which CBR packets tell.
same_on_plain() {
    local name
    anew plain || return 1
    for name in plain guest; do
        "$build/vpt" dump "$work/$name.packets" | grep -v CBR >"$work/$name.dump"
    done
    [ "$(wc -l <"$work/guest.dump")" -gt 1000 ] && cmp "$work/plain.dump" "$work/guest.dump"
}
other_on_skylake() { anew skylake && ! cmp -s "$work/skylake.packets" "$work/guest.packets"; }

check "the packets of then are there" unpack guest.packets
check "${names[0]}" arrives
check "${names[1]}" same_on_plain
check "${names[2]}" other_on_skylake

summary
