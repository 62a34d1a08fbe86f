#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A guest of two processors that write all the time is captured, and moves to another QEMU meanwhile, live, in
# several rounds. Behind the move, the memory of both QEMUs is the same, byte for byte: nothing that TCG wrote
# between two rounds is lost. The guest never flushes its TLB, which would make up for that.
#
# Needs `make qemu`; without it, the test is named and counted as skipped. About ten seconds.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh
qemu=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}/build/qemu-system-x86_64
name='a guest that writes and moves live has all its memory there'
mem_mib=64 # as machine.sh has it

[ -x "$qemu" ] || why='no QEMU (make qemu)'
skip_all "$name"

# machine NAME [ARGUMENT...]: in place of this shell, with its monitor.
machine() {
    local monitor=$work/$1
    shift
    bare_machine 120 vpt-profile=icelake-server guest-tests/build/patching.elf -append rounds=1000000000 -smp 2 \
        -chardev "pipe,id=qmp,path=$monitor" -mon chardev=qmp,mode=control "$@" >"$monitor.log" 2>&1
}

# pace BYTES MS: a second's bytes, and for how long the guest may stand still.
pace() {
    qmp migrate-set-parameters "\"max-bandwidth\": $1, \"downtime-limit\": $2"
}

# The guest never stands still for so short a time: it is sent round by round, until it may for longer. Where
# writes are lost, there may be fewer rounds.
moves() {
    qmp_pipes "$work/from"
    qmp_pipes "$work/to"
    (machine from) &
    qmp_open "$work/from"
    (machine to -S -incoming "unix:$work/socket") 7>&- 8>&- &
    to=$!
    exec 6<>"$work/to.in" # it is asked later
    qmp_listens "$work/socket" $to &&
        qmp x-vpt-start "\"file\": \"$work/capture\"" && pace 300000 1 &&
        qmp migrate "\"uri\": \"unix:$work/socket\"" || return 1
    until qmp query-migrate | jq -e '.return | .status == "completed" or .ram["dirty-sync-count"] >= 6' >/dev/null; do
        kill -0 $to 2>/dev/null || return 1
        sleep 0.2
    done
    pace 1000000000 2000 && qmp_migrated || return 1
    qmp_memory "$work/from.memory" "$mem_mib" && qmp x-vpt-stop && qmp quit
    qmp_close
    qmp_open "$work/to"
    qmp_memory "$work/to.memory" "$mem_mib" && qmp quit
    qmp_close
    exec 6>&-
    wait
    [ -s "$work/capture.0" ]
}

is_whole() {
    moves >"$work/answers" 2>&1 || { tail -n 3 "$work/answers" && return 1; }
    cmp "$work/from.memory" "$work/to.memory"
}

check "$name" is_whole
jobs -p | xargs -r kill 2>/dev/null
summary
