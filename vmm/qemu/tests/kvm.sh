#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Guests of our QEMU on KVM (-accel kvm,vpt=on), in the lab, whose KVM is a full one: the bare-metal
# tests pass, what the demo traced of itself is what TCG executed, and so is a capture of a guest that
# ran on KVM before and goes on there; also of one that moves to another QEMU amid, or gets a vCPU more.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# Two to three minutes.
set -u

. vmm/tests/lib.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=$cache/lab
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
images=guest-tests/build
tests='msr-tests packet-tests hostile-tests smp-tests'

[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
[ -f "$lab/vmlinuz" ] || why='no kernel (make lab)'
# shellcheck disable=SC2086 # a list of names
skip_all "QEMU on KVM:" $tests demo 'refused configurations' capture 'the guest behind the capture' 'two vCPUs' \
    'a guest that traces itself moves' 'a guest moves between captures' 'captured vCPUs move' 'a vCPU more'

cp "$execlog" "$work/execlog.so"
nested_prepare "$images"/{msr-tests,packet-tests,hostile-tests,smp-tests,patching,demo}.elf "$work/execlog.so" <<'JOB'
both='-accel kvm,vpt=on'
machine="$both -machine q35,kernel-irqchip=off,smm=off"
q() {
    /qemu -L /bios -m 64 -display none -nodefaults -no-reboot \
        -device isa-debug-exit,iobase=0xf4,iosize=4 "$@"
}
traced=host,vpt-profile=icelake-server
tests() { # NAME ARGUMENT...
    local name=$1
    shift
    q $machine -cpu $traced -debugcon file:/out/$name -kernel /$name.elf "$@" 2>/out/$name.err
}
tests msr-tests
tests packet-tests
tests hostile-tests
tests smp-tests -smp 4
q $machine -cpu $traced -debugcon file:/out/demo -kernel /demo.elf \
    -append "rounds=2 tick=20000000" -device vpt-port,trace=/out/demo.pt,image=/demo.elf \
    -plugin /execlog.so,out=/out/demo.log 2>/out/demo.err

for bad in "$both -machine q35,smm=off" "$both -machine q35,kernel-irqchip=off" \
    "-accel kvm -machine q35"; do
    q $bad -cpu $traced -S -kernel /msr-tests.elf 2>>/out/refused && echo "not refused: $bad" >>/out/refused
done

within() { # TENTHS-OF-A-SECOND COMMAND...
    local n=$1
    shift
    until "$@" || [ $((n -= 1)) -lt 0 ]; do usleep 100000; done
}
is_long() { # FILE [BYTES]: some of a trace is there
    [ $(stat -c %s $1 || echo 0) -gt ${2:-20000} ]
}
mkfifo /commands
q $machine -cpu host -debugcon file:/out/captured -kernel /demo.elf \
    -append "notrace rounds=1000 tick=20000000" -plugin /execlog.so,out=/out/capture.log \
    -monitor stdio </commands >/out/monitor 2>&1 &
exec 3>/commands
trap '' PIPE
within 100 grep -qs rounds /out/captured
echo "vpt_start /out/capture" >&3
within 1000 is_long /out/capture.0
echo "vpt_stop" >&3
within 2000 grep -q '^demo' /out/captured
echo "quit" >&3
wait

# Two QEMUs at a time, which are asked through the descriptors 3 and 4.
mkfifo /3 /4
ask() { # 3|4 COMMAND [ARGUMENTS]
    echo "{\"execute\": \"$2\"${3:+, \"arguments\": $3}}" >&$1
}
begin() { # 3|4 NAME ARGUMENT...
    local to=$1 name=$2
    shift 2
    q $machine -qmp stdio "$@" </$to >/out/$name.qmp 2>&1 &
    eval "exec $to>/$to"
    ask $to qmp_capabilities
}
end() { # 3|4...
    local to
    for to in "$@"; do ask $to quit; done
    wait
    exec 3>&- 4>&-
}
has_moved() { # NAME
    ask 3 query-migrate
    usleep 300000
    grep -q '"completed"' /out/$1.qmp
}

# One vCPU changes the code that the other one runs, all the time.
patching() { # 3|4 NAME ARGUMENT...
    local to=$1 name=$2
    shift 2
    begin $to $name -cpu host -smp 2,maxcpus=3 -debugcon file:/out/$name -kernel /patching.elf -append rounds=1000000000 \
        -plugin /execlog.so,blocks=/out/$name.log "$@"
}
patching 3 patching
usleep 3000000
ask 3 x-vpt-start '{"file": "/out/patching", "code": true}'
within 1000 is_long /out/patching.1
ask 3 x-vpt-stop
end 3

itself() { # 3|4 NAME ARGUMENT...
    local to=$1 name=$2
    shift 2
    begin $to $name -cpu $traced -debugcon file:/out/$name -kernel /demo.elf -append "rounds=60 tick=20000000" \
        -device vpt-port,trace=/out/$name.pt,image=/demo.elf -plugin /execlog.so,out=/out/$name.log "$@"
}
itself 3 traced-from
within 1000 is_long /out/traced-from.pt 60000
ask 3 stop
ask 3 migrate '{"uri": "exec:cat >/state"}'
within 300 has_moved traced-from
itself 4 traced-to -incoming "exec:cat /state"
usleep 2000000
ask 4 cont
within 1200 grep -q '^demo' /out/traced-to
end 3 4

# What it computes is in memory that KVM and TCG write by turns, while all of it is sent.
both_ways() { # 3|4 NAME ARGUMENT...
    local to=$1 name=$2
    shift 2
    begin $to $name -cpu host -debugcon file:/out/$name -kernel /demo.elf -append "notrace rounds=40000 tick=20000000" "$@"
}
both_ways 3 held-from
both_ways 4 held-to -incoming unix:/way
within 100 grep -qs rounds /out/held-from
ask 3 migrate-set-parameters '{"max-bandwidth": 1000000, "downtime-limit": 300}'
ask 3 migrate '{"uri": "unix:/way"}'
for i in 1 2 3; do
    ask 3 x-vpt-start "{\"file\": \"/amid\"}"
    usleep 400000
    ask 3 x-vpt-stop
    usleep 300000
done
ask 3 query-migrate
ask 3 migrate-set-parameters '{"max-bandwidth": 1000000000}'
within 300 has_moved held-from
within 1200 grep -q '^demo' /out/held-to
end 3 4

patching 3 moved-from
patching 4 moved-to -incoming unix:/way
usleep 3000000
ask 3 x-vpt-start '{"file": "/out/moved-from", "code": true}'
within 300 is_long /out/moved-from.1
ask 3 migrate '{"uri": "unix:/way"}'
within 300 has_moved moved-from
ask 3 x-vpt-stop
usleep 1000000
ask 4 x-vpt-start '{"file": "/out/moved-to", "code": true}'
within 300 is_long /out/moved-to.1
ask 4 x-vpt-stop
end 3 4

patching 3 more
usleep 3000000
ask 3 x-vpt-start '{"file": "/out/more", "code": true}'
within 300 is_long /out/more.1
ask 3 device_add '{"driver": "host-x86_64-cpu", "id": "third", "socket-id": 0, "core-id": 2, "thread-id": 0}'
usleep 1000000
ask 3 x-vpt-stop
ask 3 x-vpt-start '{"file": "/third", "code": true}'
usleep 500000
ask 3 x-vpt-stop
end 3
JOB
nested_run 600
out=$work/out.d

passes() { # the guest's own report
    grep -hE '^FAIL|qemu' "$out/$1" "$out/$1.err" >"$work/out"
    grep -qE '^[1-9][0-9]* passed, 0 failed' "$out/$1"
}
for test in $tests; do
    check "QEMU on KVM: $test" passes "$test"
done

demo_decodes() {
    sed -i "s,\"/\(demo\|sort\|hash\)\.elf\",\"$(realpath "$images")/\1.elf\"," "$out/demo.pt.json"
    grep -q 'everything held' "$out/demo" &&
        "$BUILD/qemu/compare" "$out/demo.pt" "$out/demo.log" >"$work/out" 2>&1
}
check 'QEMU on KVM: what the demo traced of itself is what ran' demo_decodes
echo "    $(grep ' instructions, ' "$work/out")"

refuses() {
    cp "$out/refused" "$work/out"
    ! grep 'not refused' "$out/refused" && grep -q 'kernel-irqchip=off' "$out/refused" &&
        grep -q 'smm=off' "$out/refused" &&
        grep -q 'vpt-profile needs' "$out/refused"
}
check 'QEMU on KVM: what it cannot do is refused' refuses

# Address spaces are those of boot, then of the processes in the order in which they were made.
capture_decodes() {
    local boot cr3s
    boot=$((0x$(nm "$images/demo.elf" | sed -n 's/ [a-zA-Z] boot_pml4$//p')))
    mapfile -t cr3s < <("$vpt" parts --json "$out/capture.0" | jq '.cr3 // empty' | sort -nu |
        grep -vx "$boot")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values: ${cr3s[*]}" >"$work/out"; return 1; }
    jq --arg dir "$(realpath "$images")" --argjson sort "${cr3s[0]}" --argjson hash "${cr3s[1]}" '
        .images = [{path: ($dir + "/demo.elf"), bias: 0, cr3: null, name: "kernel"},
                   {path: ($dir + "/sort.elf"), bias: 0, cr3: $sort, name: "sort"},
                   {path: ($dir + "/hash.elf"), bias: 0, cr3: $hash, name: "hash"}]' \
        "$out/capture.0.json" >"$work/json" && cp "$work/json" "$out/capture.0.json" &&
        "$BUILD/qemu/compare" "$out/capture.0" "$out/capture.log" >"$work/out" 2>&1
}
check 'QEMU on KVM: a capture is what ran' capture_decodes
echo "    $(grep ' instructions, ' "$work/out")"

goes_on() {
    cp "$out/captured" "$work/out"
    grep -q 'everything held' "$out/captured"
}
check 'QEMU on KVM: the guest behind the capture ends as it should' goes_on

# of_both NAME: the captures of two vCPUs are what ran.
of_both() {
    local vcpu
    cat "$out/$1.qmp" >"$work/out"
    for vcpu in 0 1; do
        "$BUILD/qemu/compare" "$out/$1.$vcpu" "$out/$1.log.$vcpu" "$out/$1.log.table" >>"$work/out" 2>&1 || {
            tail -n 3 "$work/out"
            return 1
        }
    done
}
check 'QEMU on KVM: a capture of two vCPUs, one of which changes code of the other, is what ran' of_both patching
sed -n 's/.* instructions, /    &/p' "$work/out"

# What both processes saw, one behind the other, is one trace of one run.
both_are_one() {
    local file
    cat "$out"/traced-{from,to}.qmp >"$work/out"
    grep -q 'everything held' "$out/traced-to" || return 1
    for file in pt log; do cat "$out/traced-from.$file" "$out/traced-to.$file" >"$out/traced.$file"; done
    jq -n --slurpfile demo "$out/demo.pt.json" --slurpfile from "$out/traced-from.pt.json" \
        '$from[0] * {images: $demo[0].images}' >"$out/traced.pt.json" &&
        "$BUILD/qemu/compare" "$out/traced.pt" "$out/traced.log" >"$work/out" 2>&1
}
check 'QEMU on KVM: a guest that traces itself moves to another process' both_are_one
echo "    $(grep ' instructions, ' "$work/out")"

held() {
    cat "$out"/held-{from,to}{,.qmp} >"$work/out"
    ! grep -q '^demo' "$out/held-from" && grep -q 'everything held' "$out/held-to" &&
        [ "$(grep -c '"file": "/amid.0"' "$out/held-from.qmp")" = 3 ]
}
check 'QEMU on KVM: a guest that is captured again and again while it moves ends as it should' held

moved() {
    of_both moved-from && of_both moved-to
}
check 'QEMU on KVM: captures of two vCPUs that move amid, before and behind, are what ran' moved
sed -n 's/.* instructions, /    &/p' "$work/out"

more() {
    of_both more && [ ! -e "$out/more.2" ] && grep -q '"file": "/third.2"' "$out/more.qmp"
}
check 'QEMU on KVM: a vCPU is plugged in amid a capture, and is in the next one' more

summary
