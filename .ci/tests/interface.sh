#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What libvpt and libptdec show to a program: headers that compile as C11 and C++17, names with the
# library's prefix, and from the shared libraries the functions of the headers and nothing else. That
# neither library, nor its unit tests, has anything of the other. And that they and the program vpt were
# built with the flags that make a mistake harder to use.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh

# Both, with a program that includes the header twice, as nested includes do.
compiles() {
    local language=$1 compiler=$2 header=$3
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        "$compiler" -x "${language%:*}" -std="${language#*:}" -Wall -Wextra -Wpedantic -Werror \
            -fsyntax-only -I. -
}

# As the header stands there: what somebody's tool does that is given the file.
stands_alone() {
    "$1" -std="$2" -Wall -Wextra -Werror -fsyntax-only "$3"
}

# defined NM-ARGUMENT...: names of functions and objects that a file defines for others.
defined() {
    nm -g --defined-only "$@" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u
}

only_prefix() {
    ! defined "$1" | grep -v "^$2_"
}

exports_headers() {
    local library=$1 prefix=$2
    shift 2
    diff <(defined -D "$library") <(.ci/exports.sh "$prefix" "$@")
}

# What the Makefile's hardening flags leave in a program or a shared library.
is_hardened() {
    local names
    names=$(nm -D "$1")
    readelf -dW "$1" | grep 'FLAGS.*NOW' && readelf -lW "$1" | grep GNU_RELRO &&
        readelf -lW "$1" | grep 'GNU_STACK.* RW ' && grep -q __stack_chk_fail <<<"$names"
}
is_fortified() {
    nm -D "$1" | grep '_chk@'
}

# nothing_of PREFIX FILE: the file neither defines nor wants such a name.
nothing_of() {
    ! nm "$2" | awk '{ print $NF }' | grep "^$1_"
}

soname_is() {
    readelf -d "$1" | grep "SONAME.*\[$2\]"
}

for header in emulation/vpt*.h decoder/ptdec*.h; do
    check "$header is C11" compiles c:c11 gcc "$header"
    check "$header is C++17" compiles c++:c++17 g++ "$header"
    check "$header alone is C11" stands_alone gcc c11 "$header"
    check "$header alone is C++17" stands_alone g++ c++17 "$header"
done
check 'libvpt.a: names begin with vpt_' only_prefix "$BUILD/libvpt.a" vpt
check 'libptdec.a: names begin with ptd_' only_prefix "$BUILD/libptdec.a" ptd
check 'libvpt.so exports what its headers declare' exports_headers "$BUILD/libvpt.so.0" vpt emulation/vpt*.h
check 'libptdec.so exports what its headers declare' exports_headers "$BUILD/libptdec.so.0" ptd decoder/ptdec*.h
check 'libvpt.so has its soname' soname_is "$BUILD/libvpt.so.0" libvpt.so.0
check 'libptdec.so has its soname' soname_is "$BUILD/libptdec.so.0" libptdec.so.0
for file in vpt libvpt.so.0 libptdec.so.0; do
    check "$file: stack protector, RELRO, BIND_NOW, no executable stack" is_hardened "$BUILD/$file"
done
check 'vpt calls the checked functions of the C library' is_fortified "$BUILD/vpt"
check 'libvpt has nothing of libptdec' nothing_of ptd "$BUILD/libvpt.so.0"
check 'libptdec has nothing of libvpt' nothing_of vpt "$BUILD/libptdec.so.0"
check 'the unit tests of emulation/ have nothing of libptdec' nothing_of ptd "$BUILD/tests/emulation"
check 'the unit tests of decoder/ have nothing of libvpt' nothing_of vpt "$BUILD/tests/decoder"
summary
