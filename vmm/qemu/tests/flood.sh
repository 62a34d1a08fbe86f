#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Hostile guests that make up more and more of what a host remembers of a guest (guest-tests/flood.c), on our
# QEMU: its memory stays within the bounds that docs/qemu.md states, what is left out is counted and told
# once, and a capture ends without holding QEMU's main lock for long.
#
#   flood.sh [--all]     without --all, just beyond each bound; with it, several times as much
#
# Needs `make qemu`; without it, every test is named and counted as skipped.
set -u
umask 022 # what is left is private even so

# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh
# shellcheck disable=SC2034 # machine.sh has it
qemu=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}/build/qemu-system-x86_64
image='guest-tests/build/flood.elf'
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}

# The bounds, as docs/qemu.md has them.
processes_max=1024
vmcbs_max=16384
places_max=262144
processes_mib=8
vmcbs_mib=4
places_mib=20
slack_mib=12 # what a QEMU that runs a guest needs besides: threads, buffers, the heap's own
locked_max_ns=200000000

times=1
[ "${1:-}" = --all ] && times=8

[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
skip_all 'a guest that makes up' processes 'trace bytes' 'address spaces' VMCBs

# Memory of the guest is not counted: it is shared.
flood_begins() { # WORDS MIB [ARGUMENT...]
    local words=$1 mib=$2
    shift 2
    qmp_pipes "$work/qmp"
    (tb_mib=16 bare_machine 600 vpt-profile=icelake-server "$image" -append "$words stay" -m "$mib" \
        -object "memory-backend-memfd,id=ram,size=${mib}M,share=on" -machine memory-backend=ram -S \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control "$@") >"$work/console" 2>&1 &
    guest=$!
    qmp_open "$work/qmp"
}

private_kib() { # of QEMU, the child of timeout
    awk '$1 == "RssAnon:" { print $2 }' "/proc/$(pgrep -P "$guest")/status"
}

# flood_runs: to the end of its tests; how much memory QEMU needs more than before is then in $grown_kib.
flood_runs() {
    local before
    before=$(private_kib)
    qmp cont >"$work/out"
    until grep -aq ' passed, ' "$work/console"; do
        kill -0 "$guest" 2>/dev/null || return 1
        sleep 0.05
    done
    grown_kib=$(($(private_kib) - before))
    grep -aq ' passed, 0 failed' "$work/console"
}

flood_ends() {
    qmp quit >>"$work/out"
    wait "$guest"
    qmp_close
}

# within NAME MIB: what QEMU needed more than a bound that is stated.
within() {
    if [ "$grown_kib" -le $((($2 + slack_mib) * 1024)) ]; then
        pass "$1: QEMU needs $((grown_kib / 1024)) MiB more"
    else
        fail "$1: QEMU needs at most $2 MiB more" "$((grown_kib / 1024)) MiB"
    fi
}

# holds NAME CONDITION FILE: of jq.
holds() {
    if jq -e "$2" "$3" >/dev/null 2>"$work/out"; then
        pass "$1"
    else
        fail "$1" "$(tr '\n' ' ' <"$3" | cut -c 1-300)"
    fi
}

told_once() { # NAME PATTERN
    local count
    count=$(grep -ac "warning: .*$2" "$work/console")
    if [ "$count" = 1 ]; then pass "$1: told once"; else fail "$1: told once" "$count times"; fi
}

# ended NAME: what x-vpt-stop tells is in $work/ended.
ended() {
    qmp x-vpt-stop | jq .return >"$work/ended"
    holds "$1: ending the capture held the main lock for $(jq '.[0]."locked-ns" / 1000 | floor' "$work/ended") us" \
        ".[0].\"locked-ns\" < $locked_max_ns" "$work/ended"
}

# ---- The vpt port: processes and trace bytes ----

count=$((100000 * times))
flood_begins "processes count=$count" 64 -device "vpt-port,trace=$work/named,image=$image"
check 'a guest that names processes' flood_runs
within 'a guest that names processes' $processes_mib
flood_ends
check 'what the port leaves is private' [ "$(stat -c %a "$work/named" "$work/named.json" | sort -u)" = 600 ]
told_once 'a guest that names processes' 'names more processes'
holds 'a guest that names processes: the first are kept, the others counted' \
    "(.images | length) == $processes_max + 1 and .dropped_processes == $count - $processes_max" "$work/named.json"

flood_begins "renames count=$count" 64 -device "vpt-port,trace=$work/named,image=$image"
check 'a guest that names one process again and again' flood_runs
within 'a guest that names one process again and again' $processes_mib
flood_ends
holds 'a guest that names one process again and again: it has its last name' \
    '(.images | length) == 2 and .images[1].name == "odd" and .dropped_processes == null' "$work/named.json"

flood_begins 'bytes count=1000' 64 -device "vpt-port,trace=$work/handed,limit=10000"
check 'a guest that hands over trace bytes' flood_runs
flood_ends
told_once 'a guest that hands over trace bytes' 'more bytes of trace'
told_once 'a guest that hands over what is not there' 'not there'
check 'a guest that hands over trace bytes: the file has the first' [ "$(stat -c %s "$work/handed")" = 10000 ]
holds 'a guest that hands over trace bytes: the others are counted' \
    '.dropped_bytes >= 4096 * 1000 - 10000' "$work/handed.json"

# A file that cannot be written does not end the guest amid, and is told at its end.
full() {
    local status=0
    ln -s /dev/full "$work/full"
    VPT_QEMU=$qemu timeout 60 "$vpt" qemu --trace-out "$work/full" --append 'bytes count=100' "$image" \
        >"$work/out" 2>&1 || status=$?
    [ "$status" = 4 ] && [ "$(grep -c 'No space left on device' "$work/out")" = 1 ] &&
        grep -q '1 passed, 0 failed' "$work/out"
}
check 'a trace that cannot be written is told once, and at the end' full

# ---- Captures ----

capture_begins() { # NAME
    qmp x-vpt-start "\"file\": \"$work/$1\", \"code\": true" >"$work/out"
}

count=$((300000 * times))
flood_begins "spaces count=$count" 64 -plugin "$execlog,blocks=$work/spaces.log"
capture_begins spaces
check 'a guest that makes up address spaces' flood_runs
within 'a guest that makes up address spaces' $((places_mib + 16)) # with QEMU's own translations
ended 'a guest that makes up address spaces'
flood_ends
told_once 'a guest that makes up address spaces' 'told anew'
holds 'a guest that makes up address spaces: what was forgotten is counted' \
    ".[0].\"code-forgotten\" == $((count / places_max))" "$work/ended"
decodes() {
    "$BUILD/qemu/compare" "$work/spaces.0" "$work/spaces.log.0" "$work/spaces.log.table" >"$work/out" 2>&1 &&
        grep -q ', 0 errors, 0 bytes lost' "$work/out"
}
check 'a guest that makes up address spaces: the capture decodes to what ran' decodes

count=200000
flood_begins "vmcbs count=$count" 1024
capture_begins vmcbs
check 'a guest that runs 200,000 VMCBs' flood_runs
within 'a guest that runs 200,000 VMCBs' $vmcbs_mib
ended 'a guest that runs 200,000 VMCBs'
within 'a guest that runs 200,000 VMCBs, at the end' $vmcbs_mib
flood_ends
told_once 'a guest that runs 200,000 VMCBs' 'more than .* VMCBs'
holds 'a guest that runs 200,000 VMCBs: the map has the last, the others are counted' \
    "(.vms | length) == $vmcbs_max" "$work/vmcbs.0.map"
holds 'a guest that runs 200,000 VMCBs: those that are not in the map' \
    ".[0].\"vmcbs-forgotten\" == $count - $vmcbs_max" "$work/ended"

summary
