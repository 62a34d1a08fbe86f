#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds kvm.ko and kvm-intel.ko with pt_mode for a kernel of Debian's, out of tree, in DIR: as Debian's
# source has them in DIR/stock, and with the series of patches in DIR/patched. The kernel is the one of
# a package file; it loads both, since its headers are what they are built against.
#
#   vmm/kvm-linux/build.sh PACKAGE-FILE DIR [JOBS]
#
# pt_mode stands behind CONFIG_BROKEN since 2024. Nothing is done again that need not be.
# Exit status 0: built; 77: a package cannot be had now; 1: anything else.
set -eu -o pipefail

usage='usage: build.sh PACKAGE-FILE DIR [JOBS]'
image=$(realpath "${1:?$usage}")
dir=${2:?$usage}
jobs=${3:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
compiler=gcc-12

for tool in apt-get dpkg-deb patch make "$compiler"; do
    command -v "$tool" >/dev/null || { echo "build.sh: $tool is not installed" >&2; exit 1; }
done
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9

name=$(dpkg-deb --field "$image" Package) # linux-image-6.1.0-56-cloud-amd64
version=$(dpkg-deb --field "$image" Version)
release=${name#linux-image-}
series=${release%.0-*}
mapfile -t patches <"$here/patches/series"
identity=$(cd "$here/patches" && { echo "$version $(sha256sum <"$here/build.sh")"; cat series "${patches[@]}"; } |
    sha256sum)
if [ "$identity" = "$(cat "$dir/built" 2>/dev/null)" ]; then
    exit 0
fi

# get PACKAGE ARCHITECTURE: its file in DIR/packages, of the kernel's own version. apt checks it, and what
# was interrupted does not get there.
get() {
    local file
    file=$dir/packages/$1_${version#*:}_$2.deb
    if [ ! -f "$file" ]; then
        rm -rf "$dir/incoming"
        mkdir -p "$dir/packages" "$dir/incoming"
        if ! (cd "$dir/incoming" && LC_ALL=C apt-get -q -o APT::Sandbox::User= -o Acquire::Retries=1 \
            -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 download "$1=$version") >"$dir/log" 2>&1; then
            tail -n 2 "$dir/log" >&2
            echo "build.sh: $1 $version cannot be had now" >&2
            exit 77
        fi
        mv "$dir/incoming/$1"_*.deb "$file"
    fi
    echo "$file"
}

echo "build.sh: headers and source of $release $version"
rm -rf "$dir/built" "$dir/headers" "$dir/source" "$dir/stock" "$dir/patched"
for package in "linux-headers-$release amd64" "linux-headers-${release%-cloud-amd64}-common all" \
    "linux-kbuild-$series amd64"; do
    # shellcheck disable=SC2086 # two words
    file=$(get $package)
    dpkg-deb --extract "$file" "$dir/headers"
done
file=$(get "linux-source-$series" all)
dpkg-deb --fsys-tarfile "$file" | tar -xO "./usr/src/linux-source-$series.tar.xz" |
    tar -C "$dir" -xJ --transform "s,^linux-source-$series,source," \
        "linux-source-$series/arch/x86/kvm" "linux-source-$series/virt" "linux-source-$series/scripts/checkpatch.pl" \
        "linux-source-$series/scripts/spelling.txt" "linux-source-$series/scripts/const_structs.checkpatch"

# The headers name their common part by the place where they would be installed.
src=$dir/headers/usr/src
common=$src/linux-headers-${release%-cloud-amd64}-common
sed -i "s,^include .*,include $common/Makefile," "$src/linux-headers-$release/Makefile"
cp -a "$dir/source/virt" "$common/"

# modules NAME: those of $dir/source as it is now.
modules() {
    echo "build.sh: kvm.ko and kvm-intel.ko, $1 (takes minutes)"
    mkdir -p "$common/arch/x86/kvm" "$dir/$1"
    cp -au "$dir/source/arch/x86/kvm/." "$common/arch/x86/kvm/"
    if ! make -C "$src/linux-headers-$release" M="$common/arch/x86/kvm" CC="${CC:-$compiler}" \
        HOSTCC="${CC:-$compiler}" -j "$jobs" modules KCFLAGS=-DCONFIG_BROKEN >"$dir/$1.log" 2>&1; then
        grep -E -A5 'error|Error' "$dir/$1.log" | head -n 40 >&2
        exit 1
    fi
    cp "$common"/arch/x86/kvm/{kvm,kvm-intel}.ko "$dir/$1/"
    strip --strip-debug "$dir/$1"/*.ko
}

modules stock
for patch in "${patches[@]}"; do
    echo "build.sh: $patch"
    patch -d "$dir/source" -p1 --quiet --forward --fuzz=0 <"$here/patches/$patch"
done
modules patched
# The objects are not needed any more.
rm -rf "$dir/headers"
echo "$identity" >"$dir/built"
