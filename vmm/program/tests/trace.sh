#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt trace: programs of this machine in its guest. Their output and exit codes are those of here, the
# report has the names of their functions, and the trace of each is what QEMU's log says that ran.
#
#   trace.sh [--all]     (make trace-test): without --all, one program
#
# Needs `make qemu`, with 9p, and `make trace-kernel`; without them, every test is named and counted as
# skipped. It runs as whoever calls it.
set -uo pipefail

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/decoded.sh
. vmm/qemu/linux/decoded.sh
vpt=$build/vpt
export VPT_CACHE=$cache VPT_QEMU=$qemu VPT_PAGER=

why=
[ -f "$cache/trace/vmlinux" ] || why='no kernel (make trace-kernel)'
if [ ! -x "$qemu" ]; then
    why='no QEMU (make qemu)'
elif ! "$qemu" -device help 2>/dev/null | grep '"virtio-9p-pci"' >/dev/null; then
    why='QEMU without 9p (libattr1-dev and libcap-ng-dev, then make qemu)'
fi
skip_all "vpt trace"

# With the log of blocks, from where the guest is ready on.
logs() {
    local from
    from=$(nm "$build/trace-agent" | sed -n 's/ T agent_is_ready$//p')
    [ -n "$from" ] && [ -f "$execlog" ] || return 1
    printf '#!/bin/sh\nexec "%s" "$@" -plugin "%s,blocks=%s,start=0x%s"\n' "$qemu" "$execlog" "$work/log" "$from" \
        >"$work/qemu-with-log"
    chmod +x "$work/qemu-with-log"
}
execlog=$(realpath "$execlog" 2>/dev/null)

# traced CODE PATTERN COMMAND...: what it leaves is in $work/here.*, of the program without a guest, and
# $work/there.*. PATTERN: of the report.
traced() {
    local code=$1 pattern=$2 status=0
    shift 2
    rm -f "$work"/log* "$work"/keep* "$work"/report
    "$@" <"$work/input" >"$work/here.out" 2>"$work/here.err"
    [ $? = "$code" ] || { echo "here it ends otherwise"; return 1; }
    # What the program writes here, it writes there anew.
    [ -z "${new:-}" ] || rm -f "$new"
    timeout 300 "$vpt" trace --keep "$work/keep" --report "$work/report" -- "$@" \
        <"$work/input" >"$work/there.out" 2>"$work/there.err" || status=$?
    [ $status = "$code" ] || { echo "ended with $status"; cat "$work/there.err"; return 1; }
    [ -z "${new:-}" ] || [ ! -e "$new" ] || { echo "$new was written here"; return 1; }
    cmp "$work/here.out" "$work/there.out" && contains "$work/report" "$pattern" &&
        contains "$work/report" '^errors +0 \(0 bytes lost\)'
}

# The same, and each instruction is in the log.
logged() {
    VPT_QEMU=$work/qemu-with-log traced "$@" || return 1
    "$build/qemu/compare" "$work/keep.0" "$work/log.0" "$work/log.table" >"$work/compared" || { cat "$work/compared"; return 1; }
    contains "$work/compared" ', 0 errors, 0 bytes lost'
}

says() { # STATUS PATTERN OPTION... -- PROGRAM...
    local wanted=$1 pattern=$2 status=0
    shift 2
    timeout 300 "$vpt" trace "$@" <"$work/input" >"$work/said" 2>&1 || status=$?
    [ $status = "$wanted" ] && contains "$work/said" "$pattern" && return
    echo "ended with $status"
    return 1
}

# perf in the guest recorded it, and perf here reads it.
recorded() {
    timeout 300 "$vpt" trace -o "$work/perf.data" --no-report -- "$@" <"$work/input" >"$work/there.out" 2>"$work/there.err" ||
        { cat "$work/there.err"; return 1; }
    timeout 300 perf script -i "$work/perf.data" --itrace=b -F comm,ip,sym >"$work/script" 2>"$work/script.err" || return 1
    ! grep 'instruction trace error' "$work/script" "$work/script.err" && contains "$work/script" "$1"
}

no_folder_left() {
    [ -z "$(find "$work/tmp" -mindepth 1)" ]
}

mkdir "$work/tmp"
head -c 300000 "$vpt" >"$work/input"
export TMPDIR=$work/tmp

# shellcheck disable=SC2016 # for the guest's shell
check 'a short program: its code' says 3 '^sh ' --report /dev/null -- sh -c 'echo sh $PPID; exit 3'
check 'a short program: the folder of the run is gone' no_folder_left
if [ "${1:-}" != --all ]; then
    skip_rest 'vpt trace, more programs, and their logs: make trace-test has them'
fi

${CC:-cc} -O1 -g -pthread -o "$work/crew" vmm/program/tests/crew.c &&
    ${CC:-cc} -O1 -g -pthread -static -o "$work/static" vmm/program/tests/crew.c || exit 1
cp "$work/input" "$work/file"

each=traced
if logs; then
    each=logged
else
    skip 'instructions as the log has them: no execlog.so'
fi
new=$work/file.xz check 'xz -k FILE' $each 0 'liblzma' "$(command -v xz)" -k "$work/file"
check 'dynamic: functions of the program and of libc' $each 0 'libc.so' ls -l /usr/bin
check 'static, with threads' $each 42 '^ .*stir, static' "$work/static"
check 'threads' $each 42 '^ .*stir, crew' "$work/crew"
check 'fork and exec' $each 0 'sort, pid' sh -c 'ls /usr/bin | sort -r | wc -l'
check 'a crash' $each 139 '^ .*founder, crew' "$work/crew" 8
check 'standard input' $each 0 'sha256sum, pid' sha256sum

check 'no such program' says 127 'No such file' -- "$work/none"
check 'none that can be executed' says 126 'Permission denied' -- "$work/input"
check 'a program without an end' says 124 'not done within 1 s' --timeout 1 --no-report -- sleep 1000
# shellcheck disable=SC2016 # for the guest's shell
check 'environment and folder' says 0 '^A=b /$' --no-report --clear-env --env A=b --chdir / -- \
    sh -c 'echo "$(env | grep ^A) $(pwd)"'
check 'no network unless asked' says 0 '^1$' --no-report -- sh -c 'ls /sys/class/net | wc -l'
check 'a network' says 0 '^2$' --no-report --net -- sh -c 'ls /sys/class/net | wc -l'
check 'the kernel, too, with time, on two processors' says 0 'asm_exc_page_fault' --kernel --cycles --cpus 2 -- "$(command -v true)"
check 'set-user-ID is told' says 0 'set-user-ID' --no-report -- "$(command -v su)" --version
if command -v perf >/dev/null; then
    check 'perf.data that stock perf reads' recorded sort
else
    skip 'perf.data that stock perf reads: no perf (linux-perf)'
fi
check 'the folders of the runs are gone' no_folder_left
summary
