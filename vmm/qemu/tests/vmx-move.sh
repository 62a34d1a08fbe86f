#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux with kvm_intel and two guests that run moves to another QEMU, while a capture from outside sees
# all of them: first by its state in a file, then live over a socket. Before that, its state is saved to
# a qcow2 image (savevm), it runs on, and goes back to that state (loadvm), amid one capture. The guests
# go on, and the captures of all three QEMUs decode to what ran in each, instruction by instruction, and
# by whom (the pages of memory that code came from, see svm-linux.sh). So a capture that begins amid VMX
# operation knows the VM that it comes to.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute of processor time.
set -u -o pipefail

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/snapshot.sh
# shellcheck source=vmm/qemu/tests/two-vms.sh
. vmm/qemu/tests/two-vms.sh
capture_bytes=${CAPTURE_BYTES:-2000000}
what="kvm_intel's guests"
need_two_vms "$what:" run 'go back to a snapshot' 'move by a file' 'move live' before 'behind the file' 'behind the socket'

migrate() { # URI
    qmp migrate-set-parameters '"max-bandwidth": 17179869184,
        "downtime-limit": 20000' && qmp_migrate "$1"
}

runs() {
    prepare '' '' </dev/null
    begin one "$intel"
    wait_for_vms one && qmp stop && capture one "$capture_bytes" && qmp stop
}

goes_back() {
    touch "$work/disk" && new_state_disk "$work/disk" && snapshot snapshot-save && capture_on "$capture_bytes" &&
        qmp stop && snapshot snapshot-load && capture_on "$capture_bytes" &&
        qmp stop && end_capture one && qmp blockdev-del '"node-name": "state"'
}

moves_by_file() {
    migrate "exec:cat >$work/state" && end || return 1
    begin two "$intel" -S -incoming "exec:cat $work/state"
    qmp_arrived
    capture two "$capture_bytes"
}

# The guest runs, and is captured, until it is there.
moves_live() {
    (begin three "$intel" -S -incoming "unix:$work/socket" && echo "$pid" >"$work/three.pid" && qmp_close &&
        wait "$pid") &
    qmp_listens "$work/socket" $! && migrate "unix:$work/socket" && end_capture two && end || return 1
    pid=$(cat "$work/three.pid")
    qmp_open "$work/three.qmp"
    qmp_arrived
    capture three "$capture_bytes" && qmp stop && end_capture three && qmp quit
}

# Each of the two VMs has a share of it, with both of its processes.
decodes() { # NAME
    local who
    map "$1" >"$work/out" 2>&1 && same "$1" "$work/$1.map" || return 1
    for who in 'VM '{1,2}' '{kernel,sort,hash}; do
        grep -E "^$who: [0-9]{3,} instructions" "$work/out" || return 1
    done
}

check "$what run" runs
check "$what go back to a snapshot" goes_back
check "$what move by a file" moves_by_file
check "$what move live" moves_live
jobs -p | xargs -r kill 2>/dev/null
[ ! -f "$work/three.pid" ] || kill "$(cat "$work/three.pid")" 2>/dev/null
check "$what: the capture before, behind and beside the snapshot decodes to what ran, and who" decodes one
sed 's/^/    /' "$work/out"
check "$what: the capture behind the file decodes to what ran, and who" decodes two
sed 's/^/    /' "$work/out"
check "$what: the capture behind the socket decodes to what ran, and who" decodes three
sed 's/^/    /' "$work/out"
summary
