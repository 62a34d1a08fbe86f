#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Virtual PT on PT hardware with a stock kernel (vpt run --source host-pt, docs/host-pt.md), as far as it
# can be tried without that hardware: the host is Debian's kernel with its own driver of Intel PT and
# kvm_intel, on our QEMU with VMX in TCG. What a guest traced of itself is what QEMU's plugin interface
# saw it run; the guest tests hold, but for rules of timing that are named here.
#
#   host-pt.sh        (make host-pt-test)
#
# Needs `make qemu`, the lab's kernel and perf; without them, every test is named and counted as skipped.
# Some minutes.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
boot_s=3000
out=$work/host
images=guest-tests/build
least=500000 # instructions of the demonstration that are compared
log_bytes=$((64 << 20)) # of the log, in which the demonstration comes first

# Between two packets of the host that tell the time, the guest's cycle counter stands still. Regions that
# fill up within one piece have one PMI.
timing_rules='CYC: before each TIP of an indirect branch (33.3.6)
processor 0: a PMI by interrupt for each of its regions (33.2.7.2)
processor 1: a PMI by NMI for each of its regions (33.2.7.2)'

tests=("the demonstration holds" "the demonstration's buffers decode to what ran" "msr-tests pass"
    "packet-tests pass, but for rules of timing" "a hostile guest runs to its end"
    "two processors pass smp-tests, but for rules of timing" "two guests at a time hold, each in its own buffers"
    "who else has the hardware is told" "an executed path is refused" "the host's kernel is content")
command -v perf >/dev/null || why='no perf (linux-perf)'
[ -n "$why" ] || [ -f "$build/qemu/execlog.so" ] || why='no QEMU (make qemu)'
if [ -n "$why" ]; then
    for name in "${tests[@]}"; do
        skip "--source host-pt: $name: $why"
    done
    summary
    exit
fi

# shellcheck disable=SC2016
job='
for module in irqbypass kvm kvm-intel; do insmod /modules/$module.ko; done
traced() { # NAME ARGUMENT...
    name=$1
    shift
    vpt run --source host-pt --timeout 300 "$@" >/out/$name.log 2>&1
    echo "status $name $?"
}
traced demo --trace-out /out/demo.pt --append "rounds=12 tick=5000000" /demo.elf
traced msr /msr-tests.elf
traced packet --profile icelake-server /packet-tests.elf
traced hostile /hostile-tests.elf
traced smp --cpus 2 /smp-tests.elf
traced path --verify /demo.elf
traced one --trace-out /out/one.pt --append "rounds=4 tick=5000000" /demo.elf &
traced two --trace-out /out/two.pt --append "rounds=5 tick=5000000" /demo.elf
wait
perf record -a -e intel_pt// -o /tmp/perf.data sleep 60 &
until [ -s /tmp/perf.data ]; do sleep 0.2; done
traced busy /demo.elf
kill $!
wait'

address_of() { # ELF SYMBOL
    nm "$1" | sed -n "s/^0*\([0-9a-f]*\) [a-zA-Z] $2\$/0x\1/p"
}

# The kernel of the guest stands where no other does, and its programs where only busybox does, which
# sleeps meanwhile.
runs() {
    local kernel end
    kernel=$(address_of "$images/demo.elf" guest_main)
    end=$(address_of "$images/demo.elf" image_end)
    linux_prepare
    cp "$build/vpt" "$work/root/usr/bin/vpt"
    cp "$images"/{demo,sort,hash,msr-tests,packet-tests,hostile-tests,smp-tests}.elf "$work/root/"
    shared_objects "$work/root" "$build/vpt"
    (cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/base.cpio"
    linux_run host "$boot_s" max,vendor=GenuineIntel,vpt-profile=icelake-server,+vmx,-la57 \
        -icount shift=2,sleep=off \
        -plugin "$build/qemu/execlog.so,out=$work/log,start=$kernel,from=0x400000,to=0x404000,also_from=$((kernel & ~0xfff)),also_to=$end" \
        <<<"$job" && cat "$out/log"
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

# Each part from a begin of tracing to its end is a part of what ran, in its order. Between them only the
# handler of the PMI runs, which stops the trace. The log has an instruction that was begun: once more if a
# VM exit came amid it and it began again, and in front of a fault.
decodes() {
    sed -i "s,\"\\\\/\([a-z]*\.elf\),\"$(realpath $images)/\1," "$out/demo.pt.json"
    "$build/vpt" decode "$out/demo.pt" >"$work/decoded" || return 1
    head -c "$log_bytes" "$work/log" | od -An -v -tx8 -w8 | awk -v least="$least" '
        NR == FNR { log_[NR] = $1; n = NR; next }
        /^ *-- (enabled|disabled)/ { piece(); next }
        /^ *-- interrupt/ { event[count + 1] = 1; next }
        /^[0-9a-f]+  / { ips[++count] = $1 }
        # Where the part ends in the log if it begins at a place; 0: it does not.
        function match_at(place,    i) {
            for (i = 1; i <= count; i++) {
                while (log_[place] != ips[i] && place <= n && i > 1 && log_[place] == log_[place - 1])
                    place++
                if (log_[place] != ips[i] && (i in event))
                    place++
                if (log_[place] != ips[i])
                    return 0
                place++
            }
            return place
        }
        function piece(    from, end) {
            if (!count)
                return
            for (from = at + 1; from <= n && !(end = match_at(from)); from++)
                ;
            if (!end) {
                print "a part of " count " instructions from " ips[1] " on did not run"
                bad = 1
                exit
            }
            if (total)
                between += from - at - 1
            at = end - 1
            total += count
            count = 0
            split("", event)
        }
        END {
            if (!bad)
                piece()
            print total + 0, "instructions,", between + 0, "between their parts"
            exit bad || total < least || between * 20 > total
        }' - "$work/decoded"
}

only_timing() { # NAME PASSED
    grep '^FAIL' "$out/$1.log" | sed 's/^FAIL: //; s/ (got [^)]*)$//' >"$work/failed"
    ended "$1" 1 || ended "$1" 0 || return 1
    ! grep -vxF "$timing_rules" "$work/failed" && [ "$(grep -c '^PASS' "$out/$1.log")" -ge "$2" ]
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
busy() { ended busy 4 && grep -q 'somebody else has' "$out/busy.log"; }
check "--source host-pt: ${tests[7]}" busy
path() { ended path 2 && grep -q 'no executed path' "$out/path.log"; }
check "--source host-pt: ${tests[8]}" path
content() { ! grep -E 'BUG|WARNING|Oops|unchecked MSR' "$out/dmesg"; }
check "--source host-pt: ${tests[9]}" content
summary
