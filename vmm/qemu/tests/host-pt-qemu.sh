#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Guests of our QEMU on KVM that the host's Intel PT traces (-accel kvm,vpt=on,vpt-source=host-pt,
# docs/host-pt.md), as far as it can be tried without that hardware: the host is Debian's kernel with its
# own driver of Intel PT and kvm_intel, on our QEMU with VMX in TCG. So QEMU runs in QEMU. What a guest
# traced of itself is what the outer QEMU's plugin interface saw it run; the guest tests hold, but for
# rules of timing that are named here.
#
#   host-pt-qemu.sh   (make host-pt-test)
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/parts.sh
. vmm/qemu/tests/parts.sh
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"
# shellcheck source=vmm/qemu/linux/nested.sh
. "$here/nested.sh"
boot_s=1500
linux_mib=2048 # with room for a recording of all that QEMU does
out=$work/host
images=guest-tests/build
least=500000 # instructions of the demonstration that are compared
least_behind=5000 # of the one that overflows

tests=("the demonstration holds" "the demonstration's buffers decode to what ran" "msr-tests pass"
    "packet-tests pass, but for rules of timing" "a hostile guest runs to its end"
    "what is there beside overflows is what ran" "a guest traces itself while its host is recorded"
    "a guest traces itself while it is captured" "the capture decodes" "what cannot be is told"
    "the host's kernel is content" "two vCPUs pass smp-tests, but for rules of timing")
need_perf
need_execlog
skip_all "vpt-source=host-pt:" "${tests[@]}"

# shellcheck disable=SC2016
job=$host_words'
host=kvm,vpt=on,vpt-source=host-pt
q() { # ACCEL IMAGE ARGUMENT...
    local accel=$1 image=$2
    shift 2
    /qemu -L /bios -m 64 -display none -nodefaults -no-reboot -accel $accel \
        -machine q35,kernel-irqchip=off,smm=off -cpu host,vpt-profile=icelake-server \
        -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel /$image.elf "$@"
}
traced() { # NAME ACCEL IMAGE ARGUMENT...
    local name=$1
    shift
    q "$@" -debugcon file:/out/$name 2>/out/$name.err
    echo "status $name $?"
}
# A single range of output is polled, so pieces are as long as they may be, and take longest to follow.
demo() { # NAME ACCEL WORDS ARGUMENT...
    local name=$1 accel=$2 words=$3
    shift 3
    traced $name $accel demo -append "$words tick=5000000" \
        -device vpt-port,trace=/out/$name.pt,image=/demo.elf "$@"
}
demo first $host rounds=12
demo behind $host,vpt-behind=overflow "rounds=12 output=range"
traced msr-tests $host msr-tests
traced packet-tests $host packet-tests
traced hostile-tests $host hostile-tests
traced smp-tests $host smp-tests -smp 2
for bad in kvm,vpt=on,vpt-source=tea kvm,vpt-source=host-pt kvm,vpt=on,vpt-behind=overflow \
    $host,vpt-behind=never $host,vpt-recorder=/nobody; do
    q $bad demo -S </dev/null >>/out/refused 2>&1 && echo "not refused: $bad" >>/out/refused
done

vpt record --guests --buffer 128M --min-free 16M --no-files /tmp/record >/out/record 2>&1 &
record=$!
until grep -s enabled /tmp/record/perf.log; do sleep 0.1; done
demo beside $host,vpt-recorder=/tmp/record/guests rounds=4
q $host demo -S </dev/null >/out/busy 2>&1 && echo "not refused" >>/out/busy
kill -INT $record
wait $record
echo "status record $?"
rm -r /tmp/record

mkfifo /commands
demo captured $host rounds=12 -monitor stdio </commands >/out/monitor & guest=$!
exec 3>/commands
trap "" PIPE
until grep -q rounds /out/captured; do sleep 0.05; done
echo "vpt_start /out/capture" >&3
until [ $(stat -c %s /out/capture.0 || echo 0) -gt 5000 ] || [ $((n += 1)) -gt 1000 ]; do sleep 0.05; done
echo vpt_stop >&3
wait $guest
grep -o "status captured .*" /out/monitor
'

runs() {
    nested_qemu "$work/root"
    host_prepare "$images"/{demo,sort,hash,msr-tests,packet-tests,hostile-tests,smp-tests}.elf
    linux_run host "$boot_s" "$host_cpu" -icount shift=2,sleep=off \
        -plugin "$execlog,out=$work/log,$(demo_places)" <<<"$job" && cat "$out/log"
}

ended() { # NAME STATUS
    tail -n 12 "$out/$1" "$out/$1.err"
    grep -qx "status $1 $2" "$out/log"
}

holds() { # NAME
    ended "$1" 1 && grep -q '^demo: everything held' "$out/$1"
}

decoded() { # NAME: to $work/decoded
    images_are_here "$out/$1.pt.json"
    "$build/vpt" decode "$out/$1.pt" >"$work/decoded"
}

decodes() {
    decoded first || return 1
    demo_ran "$work/log" 1 >"$work/ran"
    parts_of "$work/ran" "$least" <"$work/decoded"
}

# There are overflows, and nothing but what ran.
behind() {
    local overflows
    holds behind && decoded behind || return 1
    overflows=$(grep -c '^ *-- overflow' "$work/decoded")
    echo "$overflows overflows"
    demo_ran "$work/log" 2 >"$work/ran"
    [ "$overflows" -gt 0 ] && parts_of "$work/ran" "$least_behind" lost <"$work/decoded"
}

passes() { # NAME
    grep -hE '^FAIL' "$out/$1"
    ended "$1" 1 && grep -qE '^[1-9][0-9]* passed, 0 failed' "$out/$1"
}

only_timing() { # NAME PASSED
    tail -n 12 "$out/$1" "$out/$1.err"
    holds_but_for_timing "$out/$1" "$2"
}

check "vpt-source=host-pt: a host with stock kernel and perf runs QEMU" runs
check "vpt-source=host-pt: ${tests[0]}" holds first
check "vpt-source=host-pt: ${tests[1]}" decodes
sed 's/^/    /' "$work/why"
check "vpt-source=host-pt: ${tests[2]}" passes msr-tests
check "vpt-source=host-pt: ${tests[3]}" only_timing packet-tests 200
check "vpt-source=host-pt: ${tests[4]}" passes hostile-tests
check "vpt-source=host-pt: ${tests[5]}" behind
grep instructions, "$work/why" | sed 's/^/    /'
beside() {
    cat "$out/record"
    grep -qx 'status record 0' "$out/log" && grep -qx 'nothing was lost' "$out/record" && holds beside && decoded beside
}
check "vpt-source=host-pt: ${tests[6]}" beside
captured() { holds captured && decoded captured; }
check "vpt-source=host-pt: ${tests[7]}" captured
capture_decodes() {
    jq --slurpfile own "$out/captured.pt.json" '.images = $own[0].images' "$out/capture.0.json" >"$work/json" &&
        cp "$work/json" "$out/capture.0.json" && "$build/vpt" decode "$out/capture.0" >"$work/decoded" &&
        [ "$(grep -cE '^[0-9a-f]{16}  ' "$work/decoded")" -gt 10000 ]
}
check "vpt-source=host-pt: ${tests[8]}" capture_decodes
refused() {
    cat "$out/refused" "$out/busy"
    ! grep 'not refused' "$out/refused" "$out/busy" &&
        grep -q "vpt-source is tcg or host-pt, not 'tea'" "$out/refused" &&
        grep -q 'need vpt=on' "$out/refused" && grep -q 'need vpt-source=host-pt' "$out/refused" &&
        grep -q "vpt-behind is wait or overflow, not 'never'" "$out/refused" &&
        grep -q 'nobody records at /nobody' "$out/refused" && grep -q 'somebody else has' "$out/busy"
}
check "vpt-source=host-pt: ${tests[9]}" refused
content() { ! grep -E 'BUG|WARNING|Oops|unchecked MSR' "$out/dmesg"; }
check "vpt-source=host-pt: ${tests[10]}" content
check "vpt-source=host-pt: ${tests[11]}" only_timing smp-tests 25
summary
