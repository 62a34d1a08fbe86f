#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux's own KVM selftests on our QEMU with VMX in TCG: Debian's kernel and its kvm_intel run in a
# guest, and the tests on that. kvm-selftests.list has what each gives and, unless it passes, why;
# nothing may be worse than that.
#
#   vmm/qemu/tests/kvm-selftests.sh [PATTERN]    only tests whose name has it
#
# Needs `make qemu`, the lab's kernel and the tests (selftests.sh); without them, all is skipped. With
# -icount, how long a test takes in its guest does not depend on the machine. Some minutes.
#
# A boot has the tests that want the same parameters of kvm_intel. With parameters, it goes by the host's
# clock: vmx_exception_with_invalid_guest_state waits for a signal that comes amid an exit, and where
# instructions are the clock, it comes in the same place each time.
set -u

. vmm/tests/lib.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=$cache/lab
tests=${SELFTESTS:-$cache/selftests}/tests
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
list=vmm/qemu/tests/kvm-selftests.list
pattern=${1:-}
patience=${PATIENCE:-60} # seconds in the guest, after which a test is killed
package=$(find "$lab/packages" -name 'linux-image-*.deb' 2>/dev/null | sort | tail -n 1)

[ -x "$qemu" ] || why='no QEMU (make qemu)'
[ -f "$lab/vmlinuz" ] && [ -n "$package" ] || why='no kernel (make lab)'
[ -d "$tests" ] || why='the source of Linux cannot be had'
skip_all "KVM's selftests"

# The rows of the list, without comments: outcome, or "slow"; parameters, test, arguments.
rows() {
    sed -e 's/ *#.*//' -e '/^$/d' "$list" |
        awk -v pattern="$pattern" 'pattern == "" || index($3, pattern)'
}

# The initial file system, but for the list of tests to run.
prepare() {
    local root=$work/root test
    mkdir -p "$root/modules" "$work/package"
    dpkg-deb --extract "$package" "$work/package"
    find "$work/package" -name kvm-intel.ko -exec cp {} "$root/modules/" \;
    rm -rf "$work/package"
    cp "$here/selftests-init" "$root/init"
    chmod +x "$root/init"
    cp -r "$tests" "$root/kvm"
    while IFS= read -r -d '' test; do
        shared_objects "$root" "$test"
    done < <(find "$root/kvm" -type f -perm -u+x -print0)
    # What pthread_cancel() loads.
    shared_objects "$root" "$(gcc -print-file-name=libgcc_s.so.1)"
    cp -L "$(gcc -print-file-name=libgcc_s.so.1)" "$root/lib/x86_64-linux-gnu/"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/base.cpio"
}

# Runs what stands in $work/rest/list, until the end or until the machine dies.
boot() {
    local clock=()
    ! grep '^- ' "$work/rest/list" >/dev/null || clock=(-icount 'shift=3,sleep=off')
    { cat "$work/base.cpio" && (cd "$work/rest" && echo list | cpio --quiet -o -H newc); } >"$work/initrd"
    timeout 3600 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        "${clock[@]}" -cpu max,vendor=GenuineIntel,+vmx -m 2048 -display none \
        -nodefaults -no-reboot -serial "file:$work/console" -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 loglevel=1 no_timer_check tsc=reliable rdinit=/init" \
        >"$work/qemu" 2>&1
    tr -d '\r' <"$work/console" >>"$work/all"
}

# All tests with these parameters, with a line "result TEST STATUS" for each in $work/all. The machine
# boots again after a test amid which it died. Status 1: it does not get as far as to a test.
run() {
    local parameters=$1 seconds=$patience last
    mkdir -p "$work/rest"
    [ "$parameters" = - ] || seconds=$((patience * 10)) # of the host, which may be busy
    rows | awk -v parameters="$parameters" -v seconds="$seconds" '$1 != "slow" && $2 == parameters {
        printf "%s %s %s", $2, seconds, $3
        for (i = 4; i <= NF; i++) printf " %s", $i
        print "" }' >"$work/rest/list"
    while [ -s "$work/rest/list" ]; do
        boot
        last=$(tr -d '\r' <"$work/console" | sed -n 's/^test //p' | tail -n 1)
        [ -n "$last" ] || return 1
        grep -x "result $last [0-9]*" "$work/all" >/dev/null || echo "result $last died" >>"$work/all"
        awk -v last="$last" 'found; $3 == last { found = 1 }' "$work/rest/list" >"$work/list"
        mv "$work/list" "$work/rest/list"
    done
}

outcome_of() { # STATUS
    case $1 in
    0) echo pass ;;
    4) echo skip ;;
    *) echo fail ;;
    esac
}

# What a test printed at its end, in one line.
said() {
    awk -v test="$1" '$1 == "result" { on = 0 } on && sub(/^\| */, "") { print }
        $1 == "test" && $2 == test { on = 1 }' "$work/all" | tail -n 3 | tr '\n' ' '
}

compare() { # EXPECTED TEST
    local expected=$1 test=$2 reason status now
    reason=$(sed -nE "s,^[^#]* $test( [^#]*)?# *,,p" "$list")
    status=$(sed -nE "s,^result $test ,,p" "$work/all")
    now=$(outcome_of "$status")
    if [ "$expected" = slow ]; then
        skip "KVM's $test" "$reason"
    elif [ "$now" = pass ]; then
        pass "KVM's $test"
        [ "$expected" = pass ] || echo "    the list has it as: $expected ($reason)"
    elif [ "$now" = "$expected" ]; then
        skip "KVM's $test" "$reason"
    else
        fail "KVM's $test" "$now with status ${status:-none}, not $expected: $(said "$test")"
    fi
}

unlisted() {
    (cd "$tests" && find . -type f -perm -u+x) | sed 's,^\./,,' | sort |
        comm -23 - <(pattern='' rows | awk '{ print $3 }' | sort)
}

prepare
while read -r parameters; do
    run "$parameters" </dev/null ||
        fail "KVM's selftests" "none ran ($parameters): $(tail -n 3 "$work/qemu" "$work/console")"
done < <(rows | awk '!seen[$2]++ { print $2 }')
while read -r expected _ test _; do
    compare "$expected" "$test"
done < <(rows)
while read -r test; do
    fail "KVM's $test" 'it is not in the list'
done < <(unlisted)
summary
