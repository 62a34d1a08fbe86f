#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Guests on our QEMU under TCG: the bare-metal tests pass on every profile, and what the demo traced
# of itself decodes to the instructions that QEMU's plugin interface saw, one by one.
#
# Needs `make qemu`; without it, every test is named and counted as skipped.
set -u

build=${BUILD:-build}
qemu_dir=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}
qemu=$qemu_dir/build/qemu-system-x86_64
guests=guest-tests/build
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAIL: $1"
    sed 's/^/    /' "${2:-/dev/null}" | tail -n 12
}
skip() {
    skipped=$((skipped + 1))
    echo "SKIP: $1"
}

# run SECONDS PROFILE IMAGE [ARGUMENT...]: console and errors in $work/out; the status of the guest.
run() {
    local seconds=$1 profile=$2 image=$3 status=0
    shift 3
    timeout "$seconds" "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine q35 -accel tcg \
        -cpu "max,vendor=GenuineIntel,vpt-profile=$profile" -m 256 -display none -nodefaults \
        -no-reboot -debugcon stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel "$image" "$@" \
        >"$work/out" 2>&1 || status=$?
    return $((status / 2)) # isa-debug-exit: twice the guest's status, and 1
}

guest_passes() {
    local image=$1 profile=$2
    if run 120 "$profile" "$guests/$image.elf" && grep -qE '^[1-9][0-9]* passed, 0 failed' "$work/out"; then
        pass
    else
        fail "$image on $profile" <(grep -E '^FAIL|passed|QEMU|qemu' "$work/out")
    fi
}

# demo_decodes NAME PROFILE [ARGUMENT...]
demo_decodes() {
    local name=$1 profile=$2
    shift 2
    rm -f "$work"/demo.*
    if run 240 "$profile" "$guests/demo.elf" \
        -device "vpt-port,trace=$work/demo.pt,image=$guests/demo.elf" \
        -plugin "$build/qemu/execlog.so,out=$work/demo.log" "$@" &&
        "$build/qemu/compare" "$work/demo.pt" "$work/demo.log" >>"$work/out" 2>&1; then
        pass
        echo "$name: $(grep ' instructions, ' "$work/out" | tail -n 1)"
    else
        fail "$name: the decoded path is the executed one" "$work/out"
    fi
}

profiles=$("$build/vpt" profiles | awk '{ print $1 }')
if [ ! -x "$qemu" ]; then
    for profile in $profiles; do
        skip "msr-tests, hostile-tests and the demo on $profile: no QEMU (make qemu)"
    done
    skip "CPUID and properties: no QEMU (make qemu)"
    echo "$passed passed, $failed failed, $skipped skipped"
    exit 0
fi

# ---- The CPU model's properties ----

# refuses TEXT CPU: QEMU ends at once and says TEXT.
refuses() {
    if timeout 20 "$qemu" -machine none -accel tcg -display none -cpu "$2" -S </dev/null \
        >"$work/out" 2>&1 -machine q35 || ! grep -q "$1" "$work/out"; then
        fail "-cpu $2 is refused: $1" "$work/out"
    else
        pass
    fi
}
refuses "no vpt-profile 'nonesuch'" max,vpt-profile=nonesuch

# ---- Guests ----

for profile in $profiles; do
    guest_passes msr-tests "$profile"
    guest_passes hostile-tests "$profile"
    demo_decodes "demo on $profile" "$profile"
done
demo_decodes "demo with icount" max -icount shift=auto,sleep=off
demo_decodes "demo, one instruction a block" icelake-server -singlestep

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
