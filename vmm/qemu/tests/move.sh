#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# An unmodified Linux moves to another QEMU while it runs `perf record -e intel_pt//u`: live over a
# socket, and by a snapshot. The perf.data that it leaves at its end decodes, by stock perf and by
# libptdec, to what ran in the one QEMU and in the other, instruction by instruction.
#
#   move.sh [--all]     (make linux-test): without --all, only the snapshot
#
# Needs `make qemu`, the lab's kernel, perf and cpio; without them, every test is named and counted as
# skipped.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/decoded.sh
. "$here/decoded.sh"
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/snapshot.sh
. vmm/qemu/tests/snapshot.sh

guest_s=600
cpu=max,vendor=GenuineIntel,vpt-profile=icelake-server
from=0x55000000 to=0x56000000 # where the test program is linked
amid_bytes=3000000            # of the log: the first run of the program has 6.7 million

need_perf
skip_all "a Linux guest that records itself moves live, and by a snapshot"

# The program runs, and once more on the QEMU that the guest moves to, however long that takes: a disk whose
# serial number the two QEMUs tell differently says where the guest is. Until then it is in the kernel, which
# is not traced: the buffer holds all of the trace, so that nothing is lost however busy the host is.
job='perf record -e intel_pt//u -m,4M -o /out/moved.data -- sh -c "
    work
    until grep -q target /sys/block/vdb/serial; do
        dd if=/dev/zero of=/dev/null bs=1M count=250 2>/dev/null
    done
    work"
echo "status $?"'

# moving_machine NAME WHERE ARGUMENT...: WHERE is source or target, and names the log of what ran there. The
# guest's time is the count of its instructions: a busy host does not make it late.
moving_machine() {
    local name=$1 where=$2
    shift 2
    linux_machine "$name" $guest_s $cpu -icount "shift=2,sleep=off" \
        -drive driver=null-co,read-zeroes=on,if=none,id=where -device "virtio-blk-pci,drive=where,serial=$where" \
        -plugin "$execlog,out=$work/$name.$where,from=$from,to=$to" "$@"
}

# source_runs NAME: in the background, up to the midst of the program; $source.
source_runs() {
    local name=$1
    linux_job "$name" <<<"$job"
    qmp_pipes "$work/qmp"
    (moving_machine "$name" source -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control) &
    source=$!
    qmp_open "$work/qmp"
    until [ "$(stat -c %s "$work/$name.source" 2>/dev/null || echo 0)" -ge $amid_bytes ]; do
        kill -0 $source 2>/dev/null || return 1
        sleep 0.02
    done
}

source_ends() {
    qmp quit
    wait "$source"
    qmp_close
}

moves_live() {
    local name=live target
    source_runs $name || return 1
    (moving_machine $name target -incoming "unix:$work/socket") &
    target=$!
    qmp_listens "$work/socket" $target || return 1
    qmp migrate-set-parameters '"max-bandwidth": 17179869184' &&
        qmp_migrate "unix:$work/socket" || return 1
    source_ends
    wait $target
    decodes $name
}

moves_by_snapshot() {
    local name=snapshot target
    truncate -s 0 "$work/state"
    source_runs $name || return 1
    qmp stop && new_state_disk "$work/state" && snapshot snapshot-save || return 1
    source_ends
    qmp_pipes "$work/qmp"
    (moving_machine $name target -S -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control) &
    target=$!
    qmp_open "$work/qmp"
    state_disk "$work/state" && snapshot snapshot-load && qmp cont || return 1
    wait $target
    qmp_close
    decodes $name
}

# What both QEMUs saw, one behind the other, is what the guest recorded of itself.
decodes() { # NAME
    local name=$1 out=$work/$1
    linux_result "$name" && grep -q '^status 0' "$out/log" || return 1
    cat "$work/$name.source" "$work/$name.target" >"$work/$name.all"
    [ -s "$work/$name.target" ] || { echo "nothing ran behind the move"; return 1; }
    ips "$out/moved.data" "$out/ips" && only_program "$out/ips" >"$out/decoded" || return 1
    od -An -v -t x8 -w8 "$work/$name.all" | sed 's/^ 0*//' | uniq >"$out/executed"
    same "$out/decoded" "$out/executed" || return 1
    "$build/vpt" decode --symfs "$work/root" --insns "$out/moved.data" >"$out/insns" || return 1
    sed -n 's/^0*\(55[0-9a-f]\{6\}\) .*/\1/p' "$out/insns" | uniq >"$out/decoded"
    same "$out/decoded" "$out/executed" || return 1
    echo "$(($(stat -c %s "$work/$name.source") / 8)) instructions before, $(($(stat -c %s "$work/$name.target") / 8)) behind"
}

check() { # NAME COMMAND
    if "$2" >"$work/why" 2>&1; then
        pass "$1"
        tail -n 1 "$work/why"
    else
        fail_with "$1" "$work/why"
    fi
    jobs -p | xargs -r kill 2>/dev/null
}

linux_prepare
check "a Linux guest that records itself moves by a snapshot" moves_by_snapshot
if [ "${1:-}" = --all ]; then
    check "a Linux guest that records itself moves live" moves_live
else
    skip "a Linux guest that records itself moves live: make linux-test has it"
fi

summary
