#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Intel PT that KVM gives to its guests (pt_mode=1), on any machine: Linux runs on our QEMU with VMX in
# TCG, loads KVM as build.sh built it, and tries the rules of guests/rules*.c on it; then our suites
# run in guests of that KVM. Once with KVM as Debian has it, once with the patches. Each rule has to
# come out as docs/kvm-pt.md says, and no patch may make one worse. K12 is about a processor that lacks
# what others have, and is tried on a second machine, with the profile "least".
#
#   kvm-pt.sh [--write]: with --write, the table in docs/kvm-pt.md is written anew.
#
# Needs `make qemu`, the lab's kernel and the modules in CACHE/kvm-linux; without them, every test is
# named and counted as skipped. Four boots, of half a minute each.
set -u

. vmm/tests/lib.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=$cache/lab
modules=$cache/kvm-linux
# shellcheck source=vmm/qemu/linux/guest.sh
. vmm/qemu/linux/guest.sh
tools=$BUILD/kvm-linux
page=docs/kvm-pt.md
profile=gracemont
seconds=${KVM_PT_SECONDS:-2400}
suites='msr packet smp hostile'
package=$(find "$lab/packages" -name 'linux-image-*.deb' 2>/dev/null | sort | tail -n 1)

[ -x "$qemu" ] || why='no QEMU (make qemu)'
[ -n "$why" ] || "$qemu" --version | grep -E 'version (7|10)' >/dev/null || why='that QEMU has no VMX'
[ -f "$lab/vmlinuz" ] && [ -n "$package" ] || why='no kernel (make lab)'
[ -f "$modules/built" ] || why='no modules of KVM (make kvm-pt)'
skip_all "Intel PT of KVM," stock patched

# The initial file system of a machine with the modules of this kind.
prepare() {
    local kind=$1 root=$work/$1 suite
    mkdir -p "$root"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio")
    rm -f "$root/modules/kvm-amd.ko"
    cp "$modules/$kind/kvm.ko" "$modules/$kind/kvm-intel.ko" "$root/modules/"
    cp vmm/kvm-linux/guests/init "$tools/image" "$tools/rules" "$root/"
    shared_objects "$root" "$tools/image"
    shared_objects "$root" "$tools/rules"
    for suite in $suites; do
        cp "guest-tests/build/$suite-tests.elf" "$root/"
    done
    # shellcheck disable=SC2016 # the kernel gives its words to the first process
    echo '[ -z "$only" ] || { timeout -s KILL 300 /rules "$only"; exit; }' >"$root/job"
    cat >>"$root/job" <<END
for suite in $suites; do
    echo "suite \$suite"
    timeout -s KILL 300 /image /\$suite-tests.elf \$([ \$suite != smp ] || echo 2)
    echo "suite ended \$?"
done
timeout -s KILL 900 /rules
END
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/$kind.initrd"
}

# machine KIND PROFILE [RULE]: Linux with that, on such a processor; all rules and suites, or this rule
# only, whose outcome takes the place of the one before. Its console, without carriage returns.
machine() {
    local kind=$1 profile=$2 console=$work/$1-$2.console
    timeout -k 10 "$seconds" "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -cpu "max,vendor=GenuineIntel,+vmx,-la57,vpt-profile=$profile" -m 384 -display none -nodefaults \
        -no-reboot -serial "file:$work/$kind.raw" -kernel "$lab/vmlinuz" -initrd "$work/$kind.initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init${3:+ only=$3}" \
        >"$work/$kind.qemu" 2>&1 </dev/null
    tr -d '\r' <"$work/$kind.raw" >"$console"
    cat "$work/$kind.qemu"
    touch "$work/$kind.rules"
    grep '^RULE' "$console" | cut -f 2- | cat "$work/$kind.rules" - |
        awk -F '\t' '{ outcome[$1] = $0 } END { for (name in outcome) print outcome[name] }' >"$work/rules" &&
        mv "$work/rules" "$work/$kind.rules"
    grep -x 'pt_mode 1' "$console" && grep -x 'job ended' "$console"
}

# What came of a suite: its counts, or how it ended.
suite_result() {
    awk -v name="$2" '
        $0 == "suite " name { inside = 1; last = ""; next }
        inside && /^suite ended/ { inside = 0; print (last != "" ? last : "did not come to its end"); exit }
        inside && /^[0-9]+ passed, / { last = $0 }
        inside && /^unexpected exception 13/ { last = "ended by an unexpected #GP" }
        inside && /^the guest / { last = $0 }
        ' "$work/$1-$profile.console" | grep . || echo 'it did not end'
}

# The table: a row for each rule.
table() {
    echo '| rule | what must hold | specified in | KVM as it is | with the patches | case |'
    echo '| --- | --- | --- | --- | --- | --- |'
    "$tools/rules" --list | sort -V | while IFS=$'\t' read -r name must section test; do
        # shellcheck disable=SC2016 # backquotes of the page
        printf '| %s | %s | %s | %s | %s | `%s()` |\n' "$name" "$must" "$section" \
            "$(cell stock "$name")" "$(cell patched "$name")" "$test"
    done
}

# What KVM did, in bold if it is not what must be.
cell() {
    awk -F '\t' -v name="$2" '$1 == name {
        print ($2 == "not" ? "**" $3 "**" : ($2 == "not tried" ? "not tried: " : "") $3) }' "$work/$1.rules" |
        grep . || echo 'no answer'
}

# The names of the rules with a verdict.
names() { # KIND VERDICT
    awk -F '\t' -v verdict="$2" '$2 == verdict { print $1 }' "$work/$1.rules" | sort -V | paste -sd ' '
}

count() { # KIND
    echo "$1: $("$tools/rules" --list | wc -l) rules, $(names "$1" 'as specified' | wc -w) as specified," \
        "$(names "$1" not | wc -w) not ($(names "$1" not)), not tried: $(names "$1" 'not tried')"
}

# What failed in the suites, as far as a few lines tell.
failures() { # KIND
    grep '^FAIL' "$work/$1-$profile.console" | sed 's/^/    /' | head -n "${KVM_PT_FAILURES:-5}"
}

# Between two lines of the page.
begin='<!-- make kvm-pt-doc writes what follows -->'
end='<!-- up to here -->'
write() {
    awk -v begin="$begin" -v end="$end" -v table="$work/table" '
        $0 == end { skipping = 0 }
        !skipping { print }
        $0 == begin { skipping = 1; print ""; while ((getline line <table) > 0) print line; print "" }
        ' "$page" >"$work/page" && cp "$work/page" "$page"
}

same_table() {
    awk -v begin="$begin" -v end="$end" '$0 == end { inside = 0 } inside && NF { print } $0 == begin { inside = 1 }' \
        "$page" >"$work/was"
    diff "$work/was" "$work/table"
}

# None that KVM keeps as it is, and the patched one does not.
none_worse() {
    ! join -t $'\t' <(sort "$work/stock.rules") <(sort "$work/patched.rules") |
        awk -F '\t' '$2 == "as specified" && $4 != "as specified"' | grep .
}

# What the patches are for.
mended() {
    local name
    for name in K3 K4 K6 K7 K10 K11 K15; do
        grep -P "^$name\tas specified\t" "$work/patched.rules" || { echo "$name is as it was"; return 1; }
    done
}

checkpatch() {
    local patch
    for patch in vmm/kvm-linux/patches/*.patch; do
        perl "$modules/source/scripts/checkpatch.pl" --no-tree --no-signoff --quiet - <"$patch" || return 1
    done
}

for kind in stock patched; do
    prepare "$kind"
    check "Intel PT of KVM, $kind: the machine runs" machine "$kind" "$profile"
    check "Intel PT of KVM, $kind: the machine with the least runs" machine "$kind" least K12
    count "$kind"
    for suite in $suites; do
        echo "    $suite-tests in its guest: $(suite_result "$kind" "$suite")"
    done
    failures "$kind"
done
table >"$work/table"
[ "${1:-}" != --write ] || write
check 'Intel PT of KVM: each rule comes out as its page says' same_table
check 'Intel PT of KVM: what the patches are for holds with them' mended
check 'Intel PT of KVM: nothing is worse with the patches' none_worse
check 'Intel PT of KVM: checkpatch has nothing to say of the patches' checkpatch
summary
