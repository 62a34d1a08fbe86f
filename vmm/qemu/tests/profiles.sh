#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The profiles of hardware, errata and PADs included, wherever a guest can have them: `vpt run` in the
# lab, and our QEMU with an unmodified Linux that records itself with perf. What each trace says is
# what ran, and libipt, perf and libptdec all say so.
#
#   profiles.sh [PROFILE...]     (make profiles-test): without names, all of them
#
# Needs `make qemu`, the lab's kernel, perf and cpio; without them, every test is named and counted as
# skipped. Some three minutes a profile.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/linux/decoded.sh
. "$here/decoded.sh"

guests=guest-tests/build
guest_s=900 boot_s=900
perf_mtc=3 # MTCFreq of perf record, unless it is told another
# As in linux.sh: perf reads its buffer in time. A processor with one region of output has it in one piece.
by_count=(-icount "shift=2,sleep=off")
job='
perf record -m,4M -e intel_pt//u -o /out/user.data work
echo "status $?"'

profiles=("$@")
[ $# -gt 0 ] || profiles=(broadwell skylake cascade-lake icelake-client icelake-server)

need_perf
[ -x "$build/tests/witness" ] || why="no witness (make tests)"
skip_all 'vpt run in the lab and Linux on QEMU,' "${profiles[@]}"

# ---- vpt run, in the lab ----

guest_passes() { # IMAGE PROFILE
    "$build/vpt" run --lab --timeout $guest_s --profile "$2" "$guests/$1.elf" >"$work/guest" 2>&1
    grep -E '^FAIL|^vpt: the guest|passed' "$work/guest"
    grep -qE '^[1-9][0-9]* passed, 0 failed' "$work/guest"
}

# The trace, its path and its sidecar are $work/PROFILE.pt*.
demo_is_identical() { # PROFILE
    "$build/vpt" run --lab --timeout $guest_s --profile "$1" --append rounds=2 --verify --trace-out "$work/$1.pt" \
        "$guests/demo.elf" >"$work/demo" 2>&1
    tail -n 1 "$work/demo" | tee "$work/verdict"
    grep -q '^path: identical ' "$work/verdict"
}

# tells NAME COMMAND...: check, and what the command says below the name.
tells() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then
        pass "$name"
        sed 's/^/    /' "$work/why"
    else
        fail_with "$name" "$work/why"
    fi
}

demo_in_the_lab() { # PROFILE
    tells "$1, vpt run --lab --verify: the decoded path is the executed one" demo_is_identical "$1"
    tells "$1, vpt run --lab: libipt and libptdec find what ran" "$build/tests/witness" "$work/$1.pt"
}

guests_in_the_lab() { # PROFILE
    for image in msr-tests packet-tests; do
        tells "$1, vpt run --lab: $image" guest_passes $image "$1"
    done
}

# ---- Linux's own perf, on QEMU, with a capture of the same program from outside ----

# What of the log is code of the program is captured, too.
linux_records() { # PROFILE
    local name=linux-$1 machine status=0
    out=$work/$name
    qmp_pipes "$work/qmp"
    linux_run "$name" $boot_s "max,vendor=GenuineIntel,vpt-profile=$1" "${by_count[@]}" -S \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        -plugin "$execlog,out=$work/log,from=$from,to=$to" <<<"$job" &
    machine=$!
    qmp_open "$work/qmp"
    qmp x-vpt-start '"file": "'"$work/capture"'", "os": false,
        "ranges": [{"first": '$((from))', "last": '$((to - 1))'}],
        "images": [{"path": "'"$(realpath "$build/qemu/work")"'"}]' &&
        qmp cont || status=1
    wait "$machine" || status=1
    qmp_close
    return $status
}

# executed FILE: the instructions of a log, as the path file of docs/trace-files.md has them.
executed() {
    sed -E 's/^/000000000000000/; s/.*(.{16})$/\1/; s/(..)(..)(..)(..)(..)(..)(..)(..)/\8\7\6\5\4\3\2\1/' "$1" |
        tr -d '\n' | tr a-f A-F | basenc --base16 -d
}

# The trace that perf recorded, with what says of which processor it is, as in that of the lab.
libipt_agrees() { # PROFILE
    "$build/qemu/perf_aux" "$out/user.data" 0 "$build/qemu/work" "$out/user.pt" || return 1
    executed "$work/log.1" >"$out/user.pt.path"
    jq -s --argjson freq $perf_mtc '.[0] + (.[1] | {cpu, tsc_ctc, max_nonturbo_ratio}) +
        {mtc_freq: $freq, path: "user.pt.path"}' "$out/user.pt.json" "$work/$1.pt.json" >"$work/json" &&
        mv "$work/json" "$out/user.pt.json" && "$build/tests/witness" "$out/user.pt"
}

capture_is_identical() {
    "$build/qemu/compare" "$work/capture.0" "$work/log" | tee "$work/verdict"
    grep -q '^identical' "$work/verdict"
}

linux_on_qemu() { # PROFILE
    if ! linux_records "$1" >"$work/why" 2>&1; then
        fail_with "$1, QEMU: Linux records itself" "$work/why"
        return
    fi
    split_log "$work/log"
    check "$1, QEMU: perf record in Linux ends well" contains "$out/log" '^status 0'
    check "$1, QEMU: dmesg is clean" clean "$out/dmesg"
    check "$1, QEMU: perf decodes what ran" decoded_is_executed user 1
    check "$1, QEMU: vpt decodes what perf does" vpt_agrees_with_perf user
    tells "$1, QEMU: libipt and libptdec find what ran in perf's trace" libipt_agrees "$1"
    tells "$1, QEMU: a capture of it from outside is what ran" capture_is_identical
    rm -rf "$out" "$work"/log* "$work"/capture.0*
}

linux_prepare
for profile in "${profiles[@]}"; do
    demo_in_the_lab "$profile"
    linux_on_qemu "$profile"
    guests_in_the_lab "$profile"
done
summary
