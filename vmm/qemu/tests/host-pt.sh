#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Virtual PT on PT hardware with a stock kernel (vpt run --source host-pt, docs/host-pt.md), as far as it
# can be tried without that hardware: the host is Debian's kernel with its own driver of Intel PT and
# kvm_intel, on our QEMU with VMX in TCG. What a guest traced of itself is what QEMU's plugin interface
# saw it run; the guest tests hold, but for rules of timing that are named here. Guests trace themselves
# beside a recording of the host, out of what its recorder lends (hosts.sh has the proof that all are right).
#
#   host-pt.sh        (make host-pt-test)
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
boot_s=3000
out=$work/host
images=guest-tests/build
least=500000 # instructions of the demonstration that are compared
least_behind=20000 # of the one that overflows

tests=("the demonstration holds" "the demonstration's buffers decode to what ran" "msr-tests pass"
    "packet-tests pass, but for rules of timing" "a hostile guest runs to its end"
    "two processors pass smp-tests, but for rules of timing" "two guests at a time hold, each in its own buffers"
    "what is there beside overflows is what ran"
    "a hostile guest and another trace themselves while the host is recorded" "the hostile guest has nothing of the host"
    "a guest goes on when the recorder has ended" "where nobody lends anything is told" "what a recorder cannot lend is told"
    "who else has the hardware is told" "an executed path is refused" "the host's kernel is content")
need_perf
need_execlog
skip_all "--source host-pt:" "${tests[@]}"

# shellcheck disable=SC2016
job=$host_words'
traced() { # NAME ARGUMENT...
    name=$1
    shift
    vpt run --source host-pt --timeout 300 "$@" >/out/$name.log 2>&1
    echo "status $name $?"
}
traced demo --trace-out /out/demo.pt --append "rounds=12 tick=5000000" /demo.elf
traced behind --behind overflow --trace-out /out/behind.pt --append "rounds=12 tick=5000000 output=range" /demo.elf
traced msr /msr-tests.elf
traced packet --profile icelake-server /packet-tests.elf
traced hostile /hostile-tests.elf
traced smp --cpus 2 /smp-tests.elf
traced path --verify /demo.elf
traced one --trace-out /out/one.pt --append "rounds=4 tick=5000000" /demo.elf &
traced two --trace-out /out/two.pt --append "rounds=5 tick=5000000" /demo.elf
wait
mount -t debugfs debugfs /sys/kernel/debug
recorded() { # NAME: begins a recording that lends
    vpt record --guests --buffer 128M --min-free 16M --no-files /tmp/$1 >/out/$1.log 2>&1 &
    record=$!
    until grep -s enabled /tmp/$1/perf.log; do sleep 0.1; done
}
ended() {
    kill -INT $record
    wait $record
    echo "status $1 $?"
}
recorded beside
traced guest --recorder /tmp/beside/guests --trace-out /out/guest.pt --append "rounds=4 tick=5000000" /demo.elf & other=$!
traced foe --recorder /tmp/beside/guests --trace-out /out/foe.pt /hostile-tests.elf
wait $other
ended beside
vpt report /tmp/beside >/out/report 2>/out/report.err
rm -r /tmp/beside
recorded ends
traced orphan --recorder /tmp/ends/guests --trace-out /out/orphan.pt --append "rounds=20 tick=5000000" /demo.elf & other=$!
until grep -s rounds /out/orphan.log; do sleep 0.1; done
ended ends
wait $other
traced nobody --recorder /tmp/ends/guests /demo.elf
rm -r /tmp/ends
vpt record --guests --config noretcomp=0 --seconds 3 /tmp/other >/dev/null 2>&1 & record=$!
until [ -S /tmp/other/guests ]; do sleep 0.1; done
traced lacks --recorder /tmp/other/guests /demo.elf
wait $record
perf record -a -e intel_pt// -o /tmp/perf.data sleep 60 &
until [ -s /tmp/perf.data ]; do sleep 0.2; done
traced busy /demo.elf
kill $!
wait'

runs() {
    host_prepare "$images"/{demo,sort,hash,msr-tests,packet-tests,hostile-tests,smp-tests}.elf
    linux_run host "$boot_s" "$host_cpu" -icount shift=2,sleep=off \
        -plugin "$execlog,out=$work/log,$(demo_places)" <<<"$job" && cat "$out/log"
}

ended() { # NAME STATUS
    tail -n 12 "$out/$1.log"
    grep -qx "status $1 $2" "$out/log"
}

holds() { # NAME
    ended "$1" 0 && grep -q '^demo: everything held' "$out/$1.log" &&
        grep -q '^guest buffers: identical' "$out/$1.log" && grep -q ', 0 errors$' "$out/$1.log" &&
        grep -q '^overflows: 0 ' "$out/$1.log"
}

decodes() {
    images_are_here "$out/demo.pt.json"
    "$build/vpt" decode "$out/demo.pt" >"$work/decoded" || return 1
    demo_ran "$work/log" 1 >"$work/ran"
    parts_of "$work/ran" "$least" <"$work/decoded"
}

# There are overflows, as many as were reported, and nothing but what ran.
behind() {
    local overflows
    ended behind 0 && grep -q '^demo: everything held' "$out/behind.log" || return 1
    images_are_here "$out/behind.pt.json"
    "$build/vpt" decode "$out/behind.pt" >"$work/decoded" || return 1
    overflows=$(sed -n 's/^overflows: \([0-9]*\) .*/\1/p' "$out/behind.log")
    echo "$overflows overflows"
    [ "$overflows" -gt 0 ] && [ "$overflows" = "$(grep -c '^ *-- overflow' "$work/decoded")" ] || return 1
    demo_ran "$work/log" 2 >"$work/ran"
    parts_of "$work/ran" "$least_behind" lost <"$work/decoded"
}

beside() {
    cat "$out/beside.log" "$out/report.err"
    head -n 12 "$out/report"
    ended beside 0 && grep -qx 'nothing was lost' "$out/beside.log" && grep -q '^overflows *0$' "$out/report" &&
        ended foe 0 && holds guest
}

# Its packets have addresses of its image alone (and one that it made up of these), page tables in its
# memory, and no packet of a host. Where its output had no room, a PSB stands amid a packet.
is_its_own() {
    "$build/vpt" dump "$out/foe.pt" >"$work/packets"
    awk '$2 ~ /0282/ { next }
        / (VMCS|EVD|CFE) / || / PIP .* NR/ { print; bad = 1 }
        $3 == "PIP" && length($5) > 9 { print; bad = 1 } # beyond 256 MiB
        / \((32|48|64) bits\)$/ && $4 !~ /[08]01[0-2][0-9a-f][0-9a-f][0-9a-f][0-9a-f]$/ { print; bad = 1 }
        / TIP 0x/ { count++ }
        END { print count + 0, "TIPs"; exit bad || count < 1000 }' "$work/packets"
}

orphan() {
    ended orphan 0 && ended ends 0 && grep -q '^demo: everything held' "$out/orphan.log" &&
        grep -q ', 0 errors$' "$out/orphan.log" && grep -q '^overflows: [01] ' "$out/orphan.log" &&
        [ "$(sed -n 's/.* in \([0-9]*\) instructions that were followed$/\1/p' "$out/orphan.log")" -gt "$least" ]
}

only_timing() { # NAME PASSED
    ended "$1" 1 || ended "$1" 0 || return 1
    holds_but_for_timing "$out/$1.log" "$2"
}

check "--source host-pt: a host with stock kernel and perf runs vpt" runs
check "--source host-pt: ${tests[0]}" holds demo
check "--source host-pt: ${tests[1]}" decodes
sed 's/^/    /' "$work/why"
check "--source host-pt: ${tests[2]}" ended msr 0
check "--source host-pt: ${tests[3]}" only_timing packet 200
check "--source host-pt: ${tests[4]}" ended hostile 0
check "--source host-pt: ${tests[5]}" only_timing smp 25
two_hold() { holds one && holds two; }
check "--source host-pt: ${tests[6]}" two_hold
check "--source host-pt: ${tests[7]}" behind
grep instructions, "$work/why" | sed 's/^/    /'
check "--source host-pt: ${tests[8]}" beside
check "--source host-pt: ${tests[9]}" is_its_own
check "--source host-pt: ${tests[10]}" orphan
nobody() { ended nobody 4 && grep -q 'nobody records at' "$out/nobody.log"; }
check "--source host-pt: ${tests[11]}" nobody
lacks() { ended lacks 4 && grep -q 'lacks what a guest needs: .*noretcomp=1' "$out/lacks.log"; }
check "--source host-pt: ${tests[12]}" lacks
busy() { ended busy 4 && grep -q 'somebody else has' "$out/busy.log"; }
check "--source host-pt: ${tests[13]}" busy
path() { ended path 2 && grep -q 'no executed path' "$out/path.log"; }
check "--source host-pt: ${tests[14]}" path
content() { ! grep -E 'BUG|WARNING|Oops|unchecked MSR' "$out/dmesg"; }
check "--source host-pt: ${tests[15]}" content
summary
