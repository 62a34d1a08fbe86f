# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # who sources it uses the rest
# Sourced: what the tests of a Linux guest on our QEMU share: where things are, a folder for what they
# leave, and how cases are counted. A case that fails shows the end of a file.

build=${BUILD:-build}
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=$cache/lab
here=vmm/qemu/linux
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT # KEEP=1 leaves it, to look at
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/tests/skips.sh
. vmm/tests/skips.sh

pass() {
    passed=$((passed + 1))
    echo "PASS: $1"
}
fail() {
    failed=$((failed + 1))
    echo "FAIL: $1"
    sed 's/^/    /' "${2:-/dev/null}" | tail -n 12
}
# check NAME COMMAND...
check() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then pass "$name"; else fail "$name" "$work/why"; fi
}

# Why no such guest can run.
[ -x "$qemu" ] || why="no QEMU (make qemu)"
[ -f "$lab/vmlinuz" ] || why="no kernel (make lab)"
