#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Guests on our QEMU under TCG: the bare-metal tests pass on every profile, and what the demo traced
# of itself decodes to the instructions that QEMU's plugin interface saw, one by one.
#
# Needs `make qemu`; without it, every test is named and counted as skipped.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
guests=guest-tests/build
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/qemu/tests/snapshot.sh
. vmm/qemu/tests/snapshot.sh
# shellcheck source=vmm/qemu/tests/machine.sh
. vmm/qemu/tests/machine.sh

# run SECONDS PROFILE IMAGE [ARGUMENT...]: its console and errors in $work/out; the status of the guest.
run() {
    local seconds=$1 profile=$2 status=0
    shift 2
    (bare_machine "$seconds" "vpt-profile=$profile" "$@") >"$work/out" 2>&1 || status=$?
    return $((status / 2))
}

guest_passes() { # IMAGE PROFILE [ARGUMENT...]
    local image=$1 profile=$2
    shift 2
    if run 120 "$profile" "$guests/$image.elf" "$@" && grep -qE '^[1-9][0-9]* passed, 0 failed' "$work/out"; then
        pass "$image on $profile $*"
    else
        fail_with "$image on $profile $*" <(grep -E '^FAIL|passed|QEMU|qemu' "$work/out")
    fi
}

# demo_decodes NAME PROFILE [ARGUMENT...]
demo_decodes() {
    local name=$1 profile=$2
    shift 2
    rm -f "$work"/demo.*
    if run 240 "$profile" "$guests/demo.elf" \
        -device "vpt-port,trace=$work/demo.pt,image=$guests/demo.elf" \
        -plugin "$execlog,out=$work/demo.log" "$@" &&
        "$build/qemu/compare" "$work/demo.pt" "$work/demo.log" >>"$work/out" 2>&1; then
        pass "$name: the decoded path is the executed one: $(grep ' instructions, ' "$work/out" | tail -n 1)"
    else
        fail_with "$name: the decoded path is the executed one" "$work/out"
    fi
}

# Those with Intel PT; silvermont has RTIT, its ancestor, which is for `vpt run` only.
profiles=$("$build/vpt" profiles | awk '$1 != "silvermont" { print $1 }')
why= # no kernel is needed
need_execlog
mapfile -t each <<<"$profiles"
skip_all '' "${each[@]/#/msr-tests, packet-tests, hostile-tests and the demo on }" 'refused properties' \
    'examples without an image' 'smp-tests on 2 and 4 vCPUs' icount 'one instruction a block' capture \
    'code in two segments' 'captures that cannot be' migration snapshot

# ---- The CPU model's properties ----

# refuses TEXT CPU: QEMU ends at once and says TEXT.
refuses() {
    if timeout 20 "$qemu" -machine none -accel tcg -display none -cpu "$2" -S </dev/null \
        >"$work/out" 2>&1 -machine q35 || ! grep -q "$1" "$work/out"; then
        fail_with "-cpu $2 is refused: $1" "$work/out"
    else
        pass "-cpu $2 is refused: $1"
    fi
}
refuses "no vpt-profile 'nonesuch'" max,vpt-profile=nonesuch
refuses "has no Intel PT" max,vpt-profile=silvermont

# ---- vpt qemu without an image: the arguments are QEMU's own (docs/qemu.md) ----

# begins ARGUMENT...: the machine is made, with its network card and all else that a PC has.
begins() {
    local answers
    answers=$(printf '%s\n' '{"execute": "qmp_capabilities"}' '{"execute": "query-status"}' \
        '{"execute": "quit"}' | VPT_QEMU=$qemu timeout 60 "$build/vpt" qemu "$@" -S -qmp stdio -serial null) || return 1
    echo "$answers"
    grep -q '"status": "prelaunch"' <<<"$answers"
}
# The examples of docs/qemu.md, with a kernel and a disk of our own in place of those that a user has.
ours=(-e "s,-kernel vmlinuz -initrd initrd,-kernel $guests/demo.elf," -e "s,file=disk.qcow2,format=raw\,file=$work/disk,"
    -e 's/-nographic//' -e 's/-S -qmp unix:qmp,server,nowait//' -e 's/^vpt qemu //')
truncate -s 1M "$work/disk"
examples=0
while read -r -a example; do
    examples=$((examples + 1))
    check "docs/qemu.md: vpt qemu ${example[*]}" begins "${example[@]}"
done < <(grep '^vpt qemu .*-- -' docs/qemu.md | sed "${ours[@]}")
check "docs/qemu.md has examples without an image" [ $examples -ge 3 ]

# ---- Guests ----

for profile in $profiles; do
    guest_passes msr-tests "$profile"
    guest_passes packet-tests "$profile" -append smi # port B2H of this machine is one of SMIs
    guest_passes hostile-tests "$profile"
    demo_decodes "demo on $profile" "$profile"
done
for vcpus in 2 4; do
    guest_passes smp-tests icelake-server -smp $vcpus # INIT and SIPI; PMIs of each vCPU
done
demo_decodes "demo with icount" max -icount shift=auto,sleep=off
slowly=yes demo_decodes "demo, one instruction a block" icelake-server

# ---- Capture from outside, while the guest traces itself ----

demo_with_qmp() { # NAME [ARGUMENT...]: in the background; $pid
    local name=$1
    shift
    qmp_pipes "$work/qmp"
    (bare_machine 60 vpt-profile=icelake-server "$guests/demo.elf" \
        -device "vpt-port,trace=$work/$name.pt,image=$guests/demo.elf" \
        -plugin "$execlog,out=$work/$name.log" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control "$@") \
        >"$work/$name.out" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
}

# The executable pages of the demo and of its processes, as ranges.
ranges=$(for elf in demo sort hash; do readelf -lW "$guests/$elf.elf"; done |
    awk '$1 == "LOAD" && /E 0x[0-9a-f]+$/ { print $3, $6 }' | sort -k1,1 -k2,2r | sort -u -k1,1 |
    while read -r address bytes; do
        printf '{"first": %u, "last": %u}\n' "$address" $((address + bytes - 1))
    done | paste -sd,)

start_capture() {
    demo_with_qmp outside -S
    qmp x-vpt-start "\"file\": \"$work/capture\", \"ranges\": [$ranges]"
}

# With the images of the guest's own trace.
capture_decodes() {
    jq --slurpfile own "$work/outside.pt.json" '.images = $own[0].images' "$work/capture.0.json" \
        >"$work/capture.json" && mv "$work/capture.json" "$work/capture.0.json"
    "$build/qemu/compare" "$work/capture.0" "$work/outside.log"
}

captures() {
    start_capture &&
        qmp x-vpt-query | grep -q capture.0 &&
        ! qmp x-vpt-start '"file": "/dev/null"' &&
        qmp cont || return 1
    wait "$pid"
    qmp_close
    capture_decodes && "$build/qemu/compare" "$work/outside.pt" "$work/outside.log"
}

# captured_with_code NAME STATUS COMMAND...: the capture, with code, of a machine that stands still until
# then: to $work/NAME. True: the machine has ended with that status. NAME's commands come by $work/qmp.
captured_with_code() {
    local name=$1 status=$2
    shift 2
    qmp_pipes "$work/qmp"
    ("$@" -S -plugin "$execlog,blocks=$work/$name.log" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control) &
    pid=$!
    qmp_open "$work/qmp"
    qmp x-vpt-start '"file": "'"$work/$name"'", "code": true' || return 1
    qmp cont || true # the guest may have ended QEMU before it answers
    wait "$pid"
    [ $? = "$status" ] || return 1
    qmp_close
}

# capture_is_log NAME VCPU
capture_is_log() {
    "$build/qemu/compare" "$work/$1.$2" "$work/$1.log.$2" "$work/$1.log.table"
}

# Where 16-bit code leads depends on its segment, which its packets do not tell: the code log does, each time.
segments_decode() {
    gcc -m32 -c -o "$work/segments.o" vmm/qemu/tests/segments.S &&
        ld -m elf_i386 -Ttext 0 -e 0 --oformat binary -o "$work/segments.bin" "$work/segments.o" &&
        captured_with_code segments 1 timeout 60 "$qemu" -L /usr/share/seabios -machine q35 -accel tcg \
            -cpu max,vendor=GenuineIntel -m 64 -display none -nodefaults -bios "$work/segments.bin" \
            -device isa-debug-exit,iobase=0xf4,iosize=4 &&
        capture_is_log segments 0
}

# What one vCPU writes while another one's translation of it is under way (guest-tests/patching.c).
patched_code_decodes() {
    captured_with_code patching 1 bare_machine 300 vpt-profile=icelake-server "$guests/patching.elf" \
        -smp 2 -append rounds=2000 &&
        capture_is_log patching 0 && capture_is_log patching 1
}

# Nobody reads until the guest has stood still for a second. A pipe has to have its reader: this shell
# holds it open until the capture has begun.
captures_slowly() {
    local size=-1 reader
    rm -f "$work/capture.0" && mkfifo "$work/capture.0"
    exec 9<>"$work/capture.0"
    sh -c 'exec 9<&- <"$0" && while ! [ -e "$0.read" ]; do sleep 0.05; done && cat' "$work/capture.0" >"$work/slow" &
    reader=$!
    start_capture && qmp cont || return 1
    exec 9<&-
    while [ "$size" != "$(stat -c %s "$work/outside.log")" ]; do
        size=$(stat -c %s "$work/outside.log")
        sleep 1
    done
    kill -0 "$pid" || { echo "the guest did not wait"; return 1; }
    touch "$work/capture.0.read"
    wait "$pid" "$reader"
    qmp_close
    mv "$work/slow" "$work/capture.0"
    capture_decodes
}
if captures >"$work/out" 2>&1; then
    pass "a capture from outside, and the guest's own trace at the same time: $(grep ' instructions, ' "$work/out" | head -n 1)"
else
    fail_with "a capture from outside, and the guest's own trace at the same time" "$work/out"
fi
check "a capture of 16-bit code in two segments decodes to what ran" segments_decode
check "a capture of code that another vCPU changes decodes to what ran" patched_code_decodes
if captures_slowly >"$work/out" 2>&1; then
    pass "a guest waits for a capture's file, and nothing is lost: $(grep ' instructions, ' "$work/out" | head -n 1)"
else
    fail_with "a guest waits for a capture's file, and nothing is lost" "$work/out"
fi

# fails ERROR COMMAND [ARGUMENTS]
fails() {
    local answer
    answer=$(qmp "$2" "${3:-}") && return 1
    echo "$answer"
    grep -q "\"desc\": \".*$1" <<<"$answer"
}

# A guest that runs until it is told to quit, in the background; $pid
endless_with_qmp() {
    qmp_pipes "$work/qmp"
    (bare_machine 120 vpt-profile=icelake-server "$guests/patching.elf" -smp 2 -append rounds=1000000000 \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control) >"$work/endless.out" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
}

# What cannot be done is an error of the command that is to do it, and the guest lives on.
captures_that_cannot_be() {
    local ring='"ring": 131072'
    endless_with_qmp
    fails 'no capture runs' x-vpt-save || return 1
    for bytes in 0 131071 1073741825; do
        fails 'a ring has' x-vpt-start "\"file\": \"$work/capture\", \"ring\": $bytes" || return 1
    done
    fails 'No such file' x-vpt-start "\"file\": \"$work/nowhere/x\", $ring" || return 1
    mkfifo "$work/unread.0"
    fails 'nobody reads from it' x-vpt-start "\"file\": \"$work/unread\"" || return 1
    ln -sf /dev/full "$work/full.0"
    qmp x-vpt-start "\"file\": \"$work/full\"" &&
        fails 'goes to files' x-vpt-save &&
        fails 'could not be written' x-vpt-stop &&
        qmp x-vpt-start "\"file\": \"$work/full\", $ring" &&
        fails 'No such file' x-vpt-save "\"file\": \"$work/nowhere/x\"" &&
        fails 'nobody reads from it' x-vpt-save "\"file\": \"$work/unread\"" &&
        fails 'No space left' x-vpt-stop &&
        qmp x-vpt-query | grep -F '"return": []' && qmp quit || return 1
    wait "$pid"
    qmp_close
}
check "captures that cannot be are refused, and files that cannot be written are told of" captures_that_cannot_be

# ---- Migration of a guest that traces ----

# Waits until the guest has handed over a good part of its trace, and stops it.
stop_amid() {
    local tries=0
    while [ "$(stat -c %s "$work/$1.pt" 2>/dev/null || echo 0)" -lt 100000 ] && [ $tries -lt 3000 ]; do
        sleep 0.01
        tries=$((tries + 1))
    done
    qmp stop
}

# What both processes saw, one behind the other, is one trace of one run.
both_are_one() {
    tail -n 3 "$work/to.out"
    grep -q 'everything held' "$work/to.out" || return 1
    cat "$work/from.pt" "$work/to.pt" >"$work/both.pt"
    cat "$work/from.log" "$work/to.log" >"$work/both.log"
    cp "$work/from.pt.json" "$work/both.pt.json"
    "$build/qemu/compare" "$work/both.pt" "$work/both.log" || return 1
    echo "$(($(stat -c %s "$work/from.pt") / 1024)) KiB before, $(($(stat -c %s "$work/to.pt") / 1024)) KiB behind"
}

migrates() {
    slowly=yes demo_with_qmp from # slow enough to be stopped amid
    stop_amid from
    qmp_migrate "exec:cat >$work/state" || return 1
    qmp quit
    wait "$pid"
    qmp_close
    demo_with_qmp to -incoming "exec:cat $work/state"
    qmp_arrived
    qmp cont # it comes as it was: stopped
    wait "$pid"
    qmp_close
    both_are_one
}

restores() {
    truncate -s 0 "$work/disk"
    slowly=yes demo_with_qmp from
    new_state_disk "$work/disk" || return 1
    stop_amid from
    snapshot snapshot-save || return 1
    qmp quit
    wait "$pid"
    qmp_close
    demo_with_qmp to -S
    state_disk "$work/disk" && snapshot snapshot-load && qmp cont || return 1
    wait "$pid"
    qmp_close
    both_are_one
}

if migrates >"$work/out" 2>&1; then
    pass "a guest that traces migrates to another process: $(grep -E ' instructions, ' "$work/out" | head -n 1); $(tail -n 1 "$work/out")"
else
    fail_with "a guest that traces migrates to another process" "$work/out"
fi
if restores >"$work/out" 2>&1; then
    pass "a guest that traces is saved, and loaded by another process: $(grep -E ' instructions, ' "$work/out" | head -n 1); $(tail -n 1 "$work/out")"
else
    fail_with "a guest that traces is saved, and loaded by another process" "$work/out"
fi

summary
