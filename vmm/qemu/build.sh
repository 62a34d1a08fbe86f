#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds QEMU with virtual PT for x86-64 guests in DIR, out of the source of Debian's package.
#
#   vmm/qemu/build.sh DIR [JOBS [stock|asan|10.0]]
#
# DIR/tree is the source with the series of patches, the glue and libvpt; DIR/build/qemu-system-x86_64
# is the result. Nothing is done again that need not be. Others are:
#   stock  the unchanged source in DIR/stock: what measurements compare with
#   asan   with AddressSanitizer and UndefinedBehaviorSanitizer, in DIR/asan/build
#   10.0   that release, with patches-10.0/, in DIR/10.0/tree and DIR/10.0/build
# Exit status 0: built; 77: the source cannot be had now; 1: anything else.
set -eu -o pipefail

dir=${1:?usage: build.sh DIR [JOBS [stock|asan|10.0]]}
jobs=${2:-$(nproc)}
kind=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
suite=bookworm
patches=$here/patches
configuration=(
    --target-list=x86_64-softmmu --without-default-features
    --enable-tcg --enable-kvm --enable-system --enable-plugins --disable-debug-info
)

# What `vpt trace` needs: the host's files by 9p, and a network if it is asked for. QEMU is built
# without what has no headers here.
! pkg-config --exists libattr libcap-ng || configuration+=(--enable-virtfs --enable-attr --enable-cap-ng)
! pkg-config --exists slirp || configuration+=(--enable-slirp)

# The same holds of what follows a guest by the host's Intel PT, which meson.build looks for.
libraries=
for header in Zydis/Zydis.h gelf.h zstd.h; do
    ! printf '#include <%s>\n' "$header" | ${CC:-cc} -E - >/dev/null 2>&1 || libraries+=" $header"
done

case $kind in
'' | stock) ;;
# QEMU 7.2 does not find UndefinedBehaviorSanitizer by itself.
asan) configuration+=(--enable-debug-info --enable-sanitizers --extra-{c,ld}flags=-fsanitize=undefined) ;;
10.0)
    suite=trixie
    patches=$here/patches-10.0
    dir=$dir/10.0
    configuration+=(--disable-install-blobs) # the source package has none
    ;;
*) echo "build.sh: there is no $kind" >&2 && exit 1 ;;
esac
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9

"$here/fetch.sh" qemu "$suite" "$dir/$suite"

# QEMU 10.0 wants a newer meson than Debian 12 has; its backports have one.
if [ "$kind" = 10.0 ] && ! printf '%s\n' 1.5.0 "$(meson --version)" | sort -CV; then
    # shellcheck source=/dev/null
    "$here/fetch.sh" meson "$(. /etc/os-release && echo "$VERSION_CODENAME")-backports" "$dir/meson" binary
    export PYTHONPATH=$dir/meson/root/usr/lib/python3/dist-packages
fi

# make_build SOURCE BUILD
make_build() {
    local source=$1 build=$2 wanted="${configuration[*]}$libraries"
    if [ ! -f "$build/build.ninja" ] ||
        [ "$wanted" != "$(cat "$build/configuration" 2>/dev/null)" ]; then
        rm -rf "$build"
        mkdir -p "$build"
        echo "build.sh: configure ${configuration[*]}"
        if ! (cd "$build" && "$source/configure" "${configuration[@]}") >"$dir/configure.log" 2>&1; then
            tail -n 20 "$dir/configure.log" >&2
            exit 1
        fi
        echo "$wanted" >"$build/configuration"
    fi
    echo "build.sh: qemu-system-x86_64 (the first time takes minutes)"
    if ! ninja -C "$build" -j "$jobs" qemu-system-x86_64 >"$dir/build.log" 2>&1; then
        grep -E -A5 'error|FAILED' "$dir/build.log" | head -n 40 | cut -c 1-400 >&2
        exit 1
    fi
    grep -E -A5 'target/i386/(vpt|vmx)/.*warning:' "$dir/build.log" | cut -c 1-400 >&2 || true
    "$build/qemu-system-x86_64" --version | head -n 1
}

if [ "$kind" = stock ]; then
    make_build "$dir/$suite/source" "$dir/stock"
    exit 0
fi

tree=$dir/tree
patched=$dir/patched
mapfile -t series <"$patches/series"

# The tree is laid out anew when the source or a patch is another one.
identity=$(cd "$patches" && cat "$dir/$suite/SHA256SUMS" series "${series[@]}" | sha256sum)
if [ "$identity" != "$(cat "$patched" 2>/dev/null)" ]; then
    rm -rf "$tree.new" "$patched"
    cp -a "$dir/$suite/source" "$tree.new"
    for patch in "${series[@]}"; do
        echo "build.sh: $patch"
        patch -d "$tree.new" -p1 --quiet --forward --fuzz=0 <"$patches/$patch"
    done
    # What differs from the old tree is newer than what was made of it; what does not is as old.
    sed -n 's,^+++ b/\([^\t]*\).*,\1,p' "${series[@]/#/$patches/}" | sort -u >"$dir/touched.new"
    if [ -d "$tree" ]; then
        while IFS= read -r file; do
            if cmp -s "$tree/$file" "$tree.new/$file"; then
                touch -r "$tree/$file" "$tree.new/$file"
            else
                touch "$tree.new/$file"
            fi
        done < <(sort -u "$dir/touched.new" "$dir/touched" 2>/dev/null || true)
        cp -a "$tree"/target/i386/{vpt,vmx} "$tree.new/target/i386/" 2>/dev/null || true
    fi
    mv "$dir/touched.new" "$dir/touched"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
    echo "$identity" >"$patched"
fi

# Our own files, with their times unchanged if they are.
lay_out() {
    local into=$1 file
    shift
    mkdir -p "$into"
    for file in "$@"; do
        cmp -s "$file" "$into/${file##*/}" || cp "$file" "$into/"
    done
    for file in "$into"/*.*; do
        [[ " $* " == *"/${file##*/} "* ]] || rm -f "$file"
    done
}
lay_out "$tree/target/i386/vpt" "$here"/glue/*.*
lay_out "$tree/target/i386/vmx" "$here"/vmx/*.*
lay_out "$tree/target/i386/vpt/libvpt" "$here"/../../emulation/*.[ch]
lay_out "$tree/target/i386/vpt/linux/look" "$here"/../linux/look/*.[ch]

# What follows a guest in the trace of the host's Intel PT, and the decoder below it.
host=$tree/target/i386/vpt/host
lay_out "$host" "$here"/../../decoder/ptdec*.h
for part in base packets code flow time whole rtit perf; do
    lay_out "$host/$part" "$here"/../../decoder/"$part"/*.[ch]
done
lay_out "$host/hostpt" "$here"/../hostpt/*.[ch]
lay_out "$host/demux" "$here"/../demux/{steps,tell}.[ch]
lay_out "$host/common" "$here"/../common/{bytes,local,reason}.[ch]

# meson.build lists what is there: it counts anew when a file is new or gone.
names=$(cd "$tree/target/i386/vpt" && ls libvpt linux/look host/*)
if [ "$names" != "$(cat "$tree/libvpt-names" 2>/dev/null)" ]; then
    touch "$tree/target/i386/vpt/meson.build"
    echo "$names" >"$tree/libvpt-names"
fi

if [ "$kind" = asan ]; then
    mkdir -p "$dir/asan"
    make_build "$tree" "$dir/asan/build"
else
    make_build "$tree" "$dir/build"
fi
