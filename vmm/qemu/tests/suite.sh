# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # who sources it uses the rest
# Sourced: what the tests of a Linux guest on our QEMU share: where things are, and cases.sh.

build=${BUILD:-build}
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
execlog=${EXECLOG:-$build/qemu/execlog.so} # what ran, see execlog.c
lab=$cache/lab
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/tests/cases.sh
. vmm/tests/cases.sh

# Why no such guest can run.
[ -x "$qemu" ] || why="no QEMU (make qemu)"
[ -f "$lab/vmlinuz" ] || why="no kernel (make lab)"

# What a script needs beside that.
need_perf() {
    [ -n "$why" ] || command -v perf >/dev/null || why='no perf (linux-perf)'
}
need_execlog() {
    [ -n "$why" ] || [ -f "$execlog" ] || why='no QEMU (make qemu)'
}
