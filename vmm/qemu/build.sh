#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds QEMU with virtual PT for x86-64 guests in DIR, out of the source of Debian's package.
#
#   vmm/qemu/build.sh DIR [JOBS [stock]]
#
# DIR/tree is the source with the series of patches, the glue and libvpt; DIR/build/qemu-system-x86_64
# is the result. With stock, it is the unchanged source and DIR/stock: what measurements compare with.
# Nothing is done again that need not be.
# Exit status 0: built; 77: the source cannot be had now; 1: anything else.
set -eu -o pipefail

dir=${1:?usage: build.sh DIR [JOBS]}
jobs=${2:-$(nproc)}
kind=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
suite=bookworm
configuration=(
    --target-list=x86_64-softmmu --without-default-features
    --enable-tcg --enable-kvm --enable-system --enable-plugins
)

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9

"$here/fetch.sh" qemu "$suite" "$dir/$suite"

# make_build SOURCE BUILD
make_build() {
    local source=$1 build=$2
    if [ ! -f "$build/build.ninja" ]; then
        rm -rf "$build"
        mkdir -p "$build"
        echo "build.sh: configure ${configuration[*]}"
        if ! (cd "$build" && "$source/configure" "${configuration[@]}") >"$dir/configure.log" 2>&1; then
            tail -n 20 "$dir/configure.log" >&2
            exit 1
        fi
    fi
    echo "build.sh: qemu-system-x86_64 (the first time takes minutes)"
    if ! ninja -C "$build" -j "$jobs" qemu-system-x86_64 >"$dir/build.log" 2>&1; then
        grep -E -A5 'error|FAILED' "$dir/build.log" | head -n 40 >&2
        exit 1
    fi
    "$build/qemu-system-x86_64" --version | head -n 1
}

if [ "$kind" = stock ]; then
    make_build "$dir/$suite/source" "$dir/stock"
    exit 0
fi

tree=$dir/tree
patched=$dir/patched
mapfile -t series <"$here/patches/series"

# The tree is laid out anew when the source or a patch is another one.
identity=$(cd "$here/patches" && cat "$dir/$suite/SHA256SUMS" series "${series[@]}" | sha256sum)
if [ "$identity" != "$(cat "$patched" 2>/dev/null)" ]; then
    rm -rf "$tree.new" "$patched"
    cp -a "$dir/$suite/source" "$tree.new"
    for patch in "${series[@]}"; do
        echo "build.sh: $patch"
        patch -d "$tree.new" -p1 --quiet --forward --fuzz=0 <"$here/patches/$patch"
    done
    # What differs from the old tree is newer than what was made of it; what does not is as old.
    sed -n 's,^+++ b/\([^\t]*\).*,\1,p' "${series[@]/#/$here/patches/}" | sort -u >"$dir/touched.new"
    if [ -d "$tree" ]; then
        while IFS= read -r file; do
            if cmp -s "$tree/$file" "$tree.new/$file"; then
                touch -r "$tree/$file" "$tree.new/$file"
            else
                touch "$tree.new/$file"
            fi
        done < <(sort -u "$dir/touched.new" "$dir/touched" 2>/dev/null || true)
        cp -a "$tree/target/i386/vpt" "$tree.new/target/i386/" 2>/dev/null || true
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
lay_out "$tree/target/i386/vpt/libvpt" "$here"/../../emulation/*.[ch]

make_build "$tree" "$dir/build"
