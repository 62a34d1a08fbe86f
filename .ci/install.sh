#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# install.sh install|uninstall|test: BUILD, VERSION, PREFIX, LIBDIR and DESTDIR come from the
# Makefile. `test` installs into a temporary folder, compiles a program against what stands
# there, runs it, uninstalls, and fails if a file is left.
set -euo pipefail

BUILD=${BUILD:-build}
VERSION=${VERSION:-0}
PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
share=$PREFIX/share/vpt

# What is installed: mode, source (or - for what this script writes), destination.
list() {
    local file
    echo "755 $BUILD/vpt $PREFIX/bin/vpt"
    echo "644 $BUILD/libvpt.a $LIBDIR/libvpt.a"
    echo "644 $BUILD/libptdec.a $LIBDIR/libptdec.a"
    echo "644 emulation/vpt.h $PREFIX/include/vpt.h"
    echo "644 decoder/ptdec.h $PREFIX/include/ptdec.h"
    echo "644 decoder/ptdec_perf.h $PREFIX/include/ptdec_perf.h"
    echo "644 - $LIBDIR/pkgconfig/libvpt.pc"
    echo "644 - $LIBDIR/pkgconfig/libptdec.pc"
    for file in README.md CHANGELOG.md LICENSE docs/*.md; do
        echo "644 $file $PREFIX/share/doc/vpt/${file##*/}"
    done
}

# pc NAME DESCRIPTION LIBS: the text of a pkg-config file. The libraries are static.
pc() {
    cat <<PC
prefix=$PREFIX
libdir=$LIBDIR
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $VERSION
Libs: -L\${libdir} $3
Cflags: -I\${includedir}
PC
}

written() {
    case $1 in
    */libvpt.pc) pc libvpt "A model of Intel Processor Trace for one logical processor" -lvpt ;;
    */libptdec.pc) pc libptdec "A decoder of Intel Processor Trace" "-lptdec -lZydis -lelf -lzstd" ;;
    esac
}

do_install() {
    local mode source target
    while read -r mode source target; do
        if [ "$source" = - ]; then
            mkdir -p "$DESTDIR${target%/*}"
            written "$target" >"$DESTDIR$target"
            chmod "$mode" "$DESTDIR$target"
        else
            install -D -m "$mode" "$source" "$DESTDIR$target"
        fi
    done < <(list)
}

do_uninstall() {
    local target
    while read -r _ _ target; do
        rm -f "$DESTDIR$target"
    done < <(list)
    rmdir "$DESTDIR$share" "$DESTDIR$PREFIX/share/doc/vpt" 2>/dev/null || true
}

do_test() {
    DESTDIR=$(mktemp -d)
    trap 'rm -rf "$DESTDIR"' EXIT
    do_install
    cat >"$DESTDIR/user.c" <<'C'
#include <vpt.h>
#include <ptdec_perf.h>
#include <stdio.h>

int main(void)
{
    static const unsigned char psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
                                          2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
    struct ptd_packets packets;
    struct ptd_packet packet;
    struct vpt_caps caps;

    ptd_packets_init(&packets, psb, sizeof(psb));
    if (!vpt_profile(vpt_profile_name(0), &caps) || vpt_caps_check(&caps) ||
        ptd_packets_next(&packets, &packet) != PTD_OK || packet.type != PTD_PSB)
        return 1;
    puts("linked, and it runs");
    return 0;
}
C
    local flags
    flags=$(PKG_CONFIG_SYSROOT_DIR='' PKG_CONFIG_PATH=$DESTDIR$LIBDIR/pkgconfig pkg-config \
        --define-variable=prefix="$DESTDIR$PREFIX" --define-variable=libdir="$DESTDIR$LIBDIR" \
        --cflags --libs libvpt libptdec)
    # shellcheck disable=SC2086 # a list of flags
    "${CC:-gcc}" -Wall -Wextra -Werror -o "$DESTDIR/user" "$DESTDIR/user.c" $flags
    "$DESTDIR/user"
    "$DESTDIR$PREFIX/bin/vpt" --version
    do_uninstall
    rm "$DESTDIR/user.c" "$DESTDIR/user"
    if find "$DESTDIR" ! -type d | grep .; then
        echo "these files were left behind by uninstall"
        return 1
    fi
}

"do_$1"
