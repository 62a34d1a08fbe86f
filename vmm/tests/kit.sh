#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt guest-tests from outside: hypervisors that work, that hang, that end early and that are none;
# each form of output, read by programs that know it; stock QEMU by PVH and by GRUB, with the console
# on the serial port.
set -u

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# A machine whose console is a file: whichever image is asked for.
cat >"$work/console" <<'END'
Booting...
PASS: a case that holds (Table 33-6)
FAIL: a bit & <another> is reserved (Table 33-6) (got no exception, want #GP)
FAIL: packets (33.4.2.2)
    got : TIP(1)
    want: TIP(2)
SKIP: a case # of others (no such processor)
1 passed, 2 failed, 1 skipped
END
fake="cat '$work/console' #{image}"
kit=("$vpt" guest-tests)

# ---- Usage ----
expect 'nothing to run' 2 'takes --with COMMAND or --console FILE' "${kit[@]}"
expect 'both' 2 'takes --with COMMAND or --console FILE' "${kit[@]}" --with x --console y msr-tests
expect 'a command without an image' 2 'has no .image.' "${kit[@]}" --with true msr-tests
expect 'no such suite' 2 "no suite 'mrs-tests'.*msr-tests" "${kit[@]}" --with "$fake" mrs-tests
expect 'no such format' 2 "no format 'xml'" "${kit[@]}" --format xml --with "$fake" msr-tests
expect 'a console of all suites' 2 'has to be named' "${kit[@]}" --console "$work/console"
expect 'a console that is not there' 3 'No such file' "${kit[@]}" --console "$work/nothing" msr-tests
expect 'a console that is a folder' 3 'Is a directory' "${kit[@]}" --console "$work" msr-tests
expect 'no images' 3 'there is no image of msr-tests' env VPT_DATA="$work" "$vpt" guest-tests --with "$fake" msr-tests
expect 'a command that is not there' 4 'cannot be run: .*not found' "${kit[@]}" --with 'nonesuch {image}' msr-tests
expect 'an output that cannot be' 3 'No such file' "${kit[@]}" --with "$fake" -o "$work/no/out" msr-tests
expect '--list' 0 '' "${kit[@]}" --list
expect '--rules' 0 '' "${kit[@]}" --rules

# ---- What is said ----
expect 'a hypervisor that fails' 1 '' "${kit[@]}" --with "$fake" msr-tests
cat >"$work/want" <<'END'
FAIL: msr-tests: a bit & <another> is reserved (Table 33-6) (got no exception, want #GP)
      Table 33-6: RULE
FAIL: msr-tests: packets (33.4.2.2)
      got : TIP(1)
      want: TIP(2)
      33.4.2.2: RULE
msr-tests: 1 passed, 2 failed, 1 skipped
END
sed -E 's/^(      (Table 33-6|33\.4\.2\.2): ).*/\1RULE/' "$work/out" >"$work/got"
check 'failures, their details and rules' diff "$work/want" "$work/got"
cp "$work/out" "$work/of-machine"
expect 'the same of a console that was kept' 1 '' "${kit[@]}" --console "$work/console" msr-tests
check 'is the same' diff "$work/of-machine" "$work/out"
expect 'each case' 1 '' "${kit[@]}" --all --console "$work/console" msr-tests
check 'cases that hold and that are skipped' \
    bash -c "grep -c '^PASS: msr-tests: a case that holds' '$work/out' && grep -c '^SKIP: .*(no such processor)' '$work/out'"
expect 'all suites' 1 '' "${kit[@]}" --with "$fake"
check 'are counted together' grep -x '7 passed, 14 failed, 7 skipped' "$work/out"

# ---- Hypervisors that do not come to an end ----
# ends_with NAME PATTERN OPTION...: one failed case like PATTERN.
ends_with() {
    local name=$1 pattern=$2
    shift 2
    expect "$name" 1 '' "${kit[@]}" "$@" msr-tests
    check "$name: what is said" grep -E "^FAIL: msr-tests: the suite comes to its end.*$pattern" "$work/out"
}
ends_with 'a machine that hangs' 'did not come to its end in 1 s; the last line.*: Booting' \
    --timeout 1 --with "echo Booting; sleep 4711 # {image}"
check 'nothing is left running' bash -c "! pgrep -f '^sleep 4711'"
ends_with 'one that ends early' 'ended with status 3; the last line.*: no PVH' --with "echo no PVH; exit 3 # {image}"
ends_with 'one that is killed' 'ended by signal 9' --with "kill -9 \$\$ # {image}"
ends_with 'one that loses lines' 'counts 1 passed, 2 failed, 1 skipped, and on the console are 0, 2, 1' \
    --with "sed /^PASS/d '$work/console' #{image}"
expect 'one that goes on when all is said' 1 '' "${kit[@]}" --with "cat '$work/console'; exec sleep 4711 # {image}" msr-tests
check 'is ended' bash -c "! pgrep -f '^sleep 4711'"
"$vpt" guest-tests --with 'sleep 4711 # {image}' msr-tests >"$work/out" 2>"$work/err" &
pid=$!
sleep 0.5
kill -INT "$pid"
wait "$pid"
status=$?
check 'interrupted: the exit code' [ "$status" = 4 ]
check 'interrupted: what is said' grep 'was interrupted' "$work/err"
check 'interrupted: nothing is left running' bash -c "! pgrep -f '^sleep 4711'"

# ---- Forms ----
expect 'TAP' 1 '' "${kit[@]}" --format tap --with "$fake" -o "$work/tap" msr-tests packet-tests
if command -v prove >/dev/null; then
    prove -e cat "$work/tap" >"$work/prove" 2>&1
    check 'TAP: what prove says' grep 'Failed 4/8 subtests' "$work/prove"
    check 'TAP: what prove finds skipped' grep 'less 2 skipped' "$work/prove"
else
    skip 'TAP, read by prove' 'there is no prove'
fi
expect 'JUnit' 1 '' "${kit[@]}" --format junit --with "$fake" -o "$work/xml" msr-tests packet-tests
cat >"$work/junit.py" <<'END'
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites" and [s.get("name") for s in root] == ["msr-tests", "packet-tests"]
for suite in root:
    cases = suite.findall("testcase")
    assert [suite.get(k) for k in ("tests", "failures", "skipped")] == ["4", "2", "1"] and len(cases) == 4
    assert cases[1].get("name") == "a bit & <another> is reserved (Table 33-6)"
    assert cases[1].find("failure").get("message") == "got no exception, want #GP"
    assert "want: TIP(2)" in cases[2].find("failure").text and "33.4.2.2: " in cases[2].find("failure").text
    assert cases[3].find("skipped").get("message") == "no such processor"
END
if command -v python3 >/dev/null; then
    check 'JUnit: what a parser of XML reads' python3 "$work/junit.py" "$work/xml"
else
    skip 'JUnit, read by a parser of XML' 'there is no python3'
fi
expect 'JSON' 1 '' "${kit[@]}" --json --with "$fake" msr-tests packet-tests
check 'JSON: what jq reads' jq -es 'length == 2 and all(.failed == 2 and .skipped == 1 and .passed == 1 and
    (.cases | length) == 4 and .cases[1].rule == "Table 33-6" and .cases[2].detail == "got : TIP(1)\nwant: TIP(2)\n")' \
    "$work/out"

# ---- Rules: whatever the guest tests name is explained ----
"$vpt" guest-tests --rules | sed 's/: .*//; s/^Table //' | sort -u >"$work/explained"
grep -rhoE 'Tables? 33-[0-9]+|33(\.[0-9]+)+' guest-tests/*.c guest-tests/vmx/*.c | sed 's/Tables* //' |
    sort -u | comm -23 - "$work/explained" >"$work/unexplained"
check 'each rule of the guest tests is explained' diff /dev/null "$work/unexplained"

# ---- Stock QEMU ----
stock='qemu-system-x86_64 -m 128 -smp {cpus} -display none -monitor none -no-reboot'
stock+=' -device isa-debug-exit,iobase=0xf4,iosize=4'
expect 'stock QEMU' 0 '' "${kit[@]}" --with "$stock -serial none -debugcon stdio -kernel {image} -append {append}"
check 'stock QEMU: cases of a processor without Intel PT' grep -E '^msr-tests: [1-9][0-9]* passed, 0 failed' "$work/out"
expect 'stock QEMU, serial console' 0 '' "${kit[@]}" --append console=serial \
    --with "$stock -serial stdio -kernel {image} -append {append}" msr-tests
check 'serial console: the same cases' grep -E '^msr-tests: [1-9][0-9]* passed, 0 failed' "$work/out"

# by_grub IMAGE WORDS: a disc that boots the image, as on a bare machine.
cat >"$work/by-grub" <<'END'
#!/bin/sh
set -e
disc=$(mktemp -d)
trap 'rm -rf "$disc"' EXIT
mkdir -p "$disc/boot/grub"
cp "$1" "$disc/boot/image.elf"
printf 'set timeout=0\nmenuentry x {\n multiboot2 /boot/image.elf %s\n}\n' "$2" >"$disc/boot/grub/grub.cfg"
grub-mkrescue -o "$disc/disc.iso" "$disc/boot" -graft-points /boot="$disc/boot" >/dev/null 2>"$disc/log" || {
    tail -n 3 "$disc/log"
    exit 1
}
qemu-system-x86_64 -m 128 -display none -monitor none -no-reboot -serial stdio -cdrom "$disc/disc.iso"
END
chmod +x "$work/by-grub"
if command -v grub-mkrescue >/dev/null && command -v xorriso >/dev/null && [ -d /usr/lib/grub/i386-pc ]; then
    expect 'booted by GRUB' 0 '' "${kit[@]}" --append console=serial --with "$work/by-grub {image} {append}" msr-tests
    check 'by GRUB: the same cases' grep -E '^msr-tests: [1-9][0-9]* passed, 0 failed' "$work/out"
else
    skip 'booted by GRUB (Multiboot2)' 'no grub-mkrescue, xorriso or grub-pc-bin (make kit-test)'
fi

summary
