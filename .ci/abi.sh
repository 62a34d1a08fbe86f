#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# abi.sh check|update: what the shared libraries offer a program that was built before, against the
# references in .ci/abi (libabigail's XML of what the public headers declare).
#
# check prints what was added, changed and removed, and fails if a function is gone or something else
# is incompatible. A change that is meant is a change of the reference, by update, in the same commit.
# Needs abigail-tools; without them everything is skipped by name.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
abi=${ABI:-0}

libraries=(libvpt libptdec)
declare -A headers=([libvpt]='emulation/vpt.h emulation/vpt_caps.h emulation/vpt_rtit.h'
    [libptdec]='decoder/ptdec.h decoder/ptdec_rtit.h decoder/ptdec_perf.h decoder/ptdec_coverage.h')

# Nothing that depends on where or how often something was built: no paths, no lines, no numbers.
write() {
    local library=$1 header public=()
    for header in ${headers[$library]}; do
        public+=(--hf "$header")
    done
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names \
        --type-id-style hash --drop-private-types --drop-undefined-syms "${public[@]}" "$2"
}

# compare LIBRARY FILE: 0 if a program that was linked with the reference still runs with FILE. Of
# abidiff's status, 1 and 2 are errors of its own, 4 is a change, 8 an incompatible one.
compare() {
    local status
    write "$1" "$2" >"$work/$1.abi" || return 1
    abidiff ".ci/abi/$1.abi" "$work/$1.abi" >"$work/report" 2>&1
    status=$?
    [ "$status" = 0 ] || cat "$work/report"
    return $((status & (1 | 2 | 8)))
}

# The library without one of its functions: the comparison has to notice.
without_function() {
    sed '/^ *vpt_save;/d' "$BUILD/libvpt.map" >"$work/less.map"
    # shellcheck disable=SC2086 # CC may be several words
    ${CC:-gcc} -shared -Wl,-soname,"libvpt.so.$abi" -Wl,--version-script="$work/less.map" \
        -o "$work/less.so" -Wl,--whole-archive "$BUILD/libvpt.a" -Wl,--no-whole-archive || return 1
    ! compare libvpt "$work/less.so"
}

case ${1:-} in
check) ;;
update)
    for library in "${libraries[@]}"; do
        write "$library" "$BUILD/$library.so.$abi" >"$work/$library.abi" || exit 1
        cp "$work/$library.abi" ".ci/abi/$library.abi"
    done
    exit 0
    ;;
*) echo 'usage: abi.sh check|update' >&2 && exit 2 ;;
esac

if ! command -v abidiff >/dev/null || ! command -v abidw >/dev/null; then
    skip_rest 'the interfaces of the shared libraries' 'abidiff is not installed (abigail-tools)'
fi
for library in "${libraries[@]}"; do
    if compare "$library" "$BUILD/$library.so.$abi"; then
        pass "$library: programs that were linked before still run"
    else
        fail "$library" 'the interface is not the one that .ci/abi holds (make abi-update writes it anew)'
    fi
done
check 'a function that is gone is noticed' without_function
summary
