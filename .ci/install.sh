#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# install.sh install|uninstall: BUILD, VERSION, ABI, PREFIX, LIBDIR, PYTHONDIR and DESTDIR come from the
# Makefile, and so do MAN_PAGES and COMPLETIONS, lists of files. .ci/tests/install.sh tests it.
set -euo pipefail

BUILD=${BUILD:-build}
VERSION=${VERSION:-0}
ABI=${ABI:-0}
PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
PYTHONDIR=${PYTHONDIR:-$PREFIX/lib/python3/dist-packages}
DESTDIR=${DESTDIR:-}
share=$PREFIX/share/vpt
doc=$PREFIX/share/doc/vpt

# each MODE FOLDER FILE...: files that keep their names.
each() {
    local mode=$1 folder=$2 file
    shift 2
    for file in "$@"; do
        echo "$mode $file $folder/${file##*/}"
    done
}

# What the program names and needs besides itself. Below vmm/ and emulation/, files stand to each other
# as in the source tree, since the scripts find them so.
data() {
    each 644 "$share/guests" guest-tests/build/*.elf
    each 755 "$share" .ci/deps.sh vmm/cli/vpt-slurm.sh
    each 755 "$share/vmm/lab" vmm/lab/prepare.sh
    each 644 "$share/vmm/lab" vmm/lab/package.sh
    each 755 "$share/vmm/program" vmm/program/prepare.sh
    each 755 "$share/vmm/qemu" vmm/qemu/fetch.sh vmm/qemu/build.sh
    each 644 "$share/vmm/qemu" vmm/qemu/README.md
    each 644 "$share/vmm/qemu/glue" vmm/qemu/glue/*
    each 644 "$share/vmm/qemu/vmx" vmm/qemu/vmx/*
    each 644 "$share/vmm/qemu/patches" vmm/qemu/patches/*
    each 644 "$share/vmm/qemu/patches-10.0" vmm/qemu/patches-10.0/*
    each 644 "$share/vmm/linux/look" vmm/linux/look/*.[ch]
    each 644 "$share/emulation" emulation/*.[ch]
    each 755 "$PREFIX/libexec/vpt" "$BUILD/qemu/step"
}

# What is installed: mode, source, destination. For "link" the source is what the link says, for - it is
# what this script writes.
list() {
    local file name
    each 755 "$PREFIX/bin" "$BUILD/vpt"
    for name in libvpt libptdec; do
        each 644 "$LIBDIR" "$BUILD/$name.a"
        each 755 "$LIBDIR" "$BUILD/$name.so.$ABI"
        echo "link $name.so.$ABI $LIBDIR/$name.so"
        echo "644 - $LIBDIR/pkgconfig/$name.pc"
    done
    each 644 "$PREFIX/include" emulation/vpt*.h decoder/ptdec*.h
    [ ! -s "$BUILD/python/ptdec/_declared.py" ] || each 644 "$PYTHONDIR/ptdec" "$BUILD"/python/ptdec/*.py
    data
    for file in ${MAN_PAGES:-}; do
        each 644 "$PREFIX/share/man/man${file##*.}" "$file"
    done
    for file in ${COMPLETIONS:-}; do
        each 644 "$PREFIX/share/bash-completion/completions" "$file"
    done
    each 644 "$doc" ./*.md LICENSE docs/*.md
    each 644 "$doc/examples" docs/examples/*.[cS]
}

# pc NAME DESCRIPTION REQUIRES LIBS: the text of a pkg-config file. REQUIRES and LIBS are what a program
# needs that links the static library.
pc() {
    cat <<PC
prefix=$PREFIX
libdir=$LIBDIR
includedir=\${prefix}/include

Name: $1
Description: $2
Version: $VERSION
Requires.private: $3
Libs: -L\${libdir} -l${1#lib}
Libs.private: $4
Cflags: -I\${includedir}
PC
}

# Debian's Zydis comes without a pkg-config file.
written() {
    case $1 in
    */libvpt.pc) pc libvpt "A model of Intel Processor Trace for one logical processor" "" "" ;;
    */libptdec.pc) pc libptdec "A decoder of Intel Processor Trace" "libelf libzstd" -lZydis ;;
    esac
}

do_install() {
    local mode source target
    while read -r mode source target; do
        mkdir -p "$DESTDIR${target%/*}"
        if [ "$mode" = link ]; then
            ln -sfn "$source" "$DESTDIR$target"
        elif [ "$source" = - ]; then
            written "$target" >"$DESTDIR$target"
            chmod "$mode" "$DESTDIR$target"
        else
            install -m "$mode" "$source" "$DESTDIR$target"
        fi
    done < <(list)
}

do_uninstall() {
    local target folder
    while read -r _ _ target; do
        rm -f "$DESTDIR$target"
    done < <(list)
    # Folders that are ours alone, if nobody else put something there.
    for folder in "$share" "$doc" "$PREFIX/libexec/vpt" "$PYTHONDIR/ptdec"; do
        [ ! -d "$DESTDIR$folder" ] || find "$DESTDIR$folder" -depth -type d -empty -delete
    done
}

"do_$1"
