#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Prepares the lab's files in DIR: vmlinuz and base.cpio (busybox, the modules of a kernel with KVM).
# Uses Debian's cloud kernel package, unpacked and not installed. Reuses what is there and intact.
#
#   vmm/lab/prepare.sh DIR [VERSION]
#
# With a version, the kernel is one of that (6.12). Exit status 0: ready; 77: no kernel package can be had now; 1: something else is missing.
set -eu -o pipefail

dir=${1:?usage: prepare.sh DIR [VERSION]}
version=${2:-}
# Raised when what this script makes changes: older files are then made again.
layout=2
sums=$dir/SHA256SUMS-$layout

if [ -f "$sums" ] && (cd "$dir" && sha256sum --quiet --check "$sums") 2>/dev/null; then
    exit 0
fi
for tool in cpio dpkg-deb apt-get apt-cache; do
    command -v "$tool" >/dev/null || { echo "prepare.sh: $tool is not installed" >&2; exit 1; }
done
busybox=$(command -v busybox) || { echo "prepare.sh: busybox (busybox-static) is not installed" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dir/packages"
dir=$(cd "$dir" && pwd)
sums=$dir/SHA256SUMS-$layout

# The version the meta package names first, then whatever else there is.
candidates() {
    if [ -n "$version" ]; then
        apt-cache pkgnames "linux-image-$version." 2>/dev/null | grep -E -- '-cloud-amd64$' | sort -rV
        return
    fi
    apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*-cloud-amd64\)$/\1/p'
    apt-cache pkgnames linux-image- 2>/dev/null | grep -E '^linux-image-[0-9].*-cloud-amd64$' | sort -rV
}

# What apt's own lists, which are signed, say of a package file; nothing if they do not know it.
known_sum() {
    apt-cache show "$1" 2>/dev/null | awk -v file="${2##*/}" '
        /^Filename: / { n = split($2, part, "/"); mine = part[n] == file }
        /^SHA256: / && mine { print $2; exit }'
}

# intact NAME FILE: the package file is the one that came from the archive. Apt's lists say so; else, as
# these move on, what was noted when it came.
intact() {
    local name=$1 file=$2 sum
    [ -f "$file" ] || return 1
    sum=$(known_sum "$name" "$file")
    [ -n "$sum" ] || sum=$(cat "$file.sha256" 2>/dev/null) || return 1
    echo "$sum  $file" | sha256sum --quiet --check >/dev/null 2>&1
}

# cached NAME: a package file from before.
cached() {
    local file
    for file in "$dir/packages/$1"_*.deb; do
        if intact "$1" "$file"; then
            echo "$file"
            return 0
        fi
    done
    return 1
}

# download NAME: a package file from the archive, which apt has checked. Status 1: it is not there; 2:
# the archive cannot be reached, so that there is no use in asking for another.
download() {
    local name=$1 file
    rm -f "$dir/packages/$name"_*.deb{,.sha256}
    if ! (cd "$work" && LC_ALL=C apt-get -q -o Acquire::Retries=0 -o Acquire::http::Timeout=20 \
        -o Acquire::https::Timeout=20 download "$name" >"$work/log" 2>&1); then
        ! grep -qE 'resolving|[Cc]onnect|unreachable|timed out' "$work/log" || return 2
        return 1
    fi
    mv "$work/$name"_*.deb "$dir/packages/"
    file=$(echo "$dir/packages/$name"_*.deb)
    sha256sum "$file" | cut -d ' ' -f 1 >"$file.sha256"
    echo "$file"
}

deb=
why="no linux-image-$version*-cloud-amd64 package can be had now"
for name in $(candidates | awk '!seen[$0]++'); do
    if deb=$(cached "$name"); then
        break
    fi
    status=0
    deb=$(download "$name") || status=$?
    [ "$status" != 0 ] || break
    if [ "$status" = 2 ]; then
        why='the archive of packages cannot be reached now'
        break
    fi
done
if [ -z "$deb" ]; then
    # Any kernel that came before will do.
    for file in "$dir"/packages/linux-image-*-cloud-amd64_*.deb; do
        name=${file##*/}
        ! intact "${name%%_*}" "$file" || deb=$file
    done
fi
[ -n "$deb" ] || { echo "prepare.sh: $why, and there is none from before" >&2; exit 77; }
echo "lab: ${deb##*/}" >&2

dpkg-deb --extract "$deb" "$work/kernel"
root=$work/root
mkdir -p "$root/bin" "$root/modules"
cp "$busybox" "$root/bin/busybox"

# In the order in which they are loaded.
for module in irqbypass kvm kvm-amd virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev \
    virtio_pci virtio_blk; do
    file=$(find "$work/kernel" \( -name "$module.ko" -o -name "$module.ko.xz" \) -print -quit)
    case $file in
    *.xz) # busybox's insmod does not know it
        xz -dc "$file" >"$root/modules/$module.ko" || { echo "prepare.sh: xz cannot be used" >&2; exit 1; }
        ;;
    ?*) cp "$file" "$root/modules/" ;;
    *)  # A newer kernel may have it in itself.
        grep -qr "/$module\.ko$" "$work"/kernel/lib/modules/*/modules.builtin && continue
        echo "prepare.sh: $deb has no module $module" >&2
        exit 1
        ;;
    esac
    echo "$module.ko" >>"$root/modules/order"
done
# Instead of kvm-amd, on an Intel processor.
file=$(find "$work/kernel" -name kvm-intel.ko -print -quit)
[ -n "$file" ] || { echo "prepare.sh: $deb has no module kvm-intel" >&2; exit 1; }
cp "$file" "$root/modules/"
(cd "$root" && find . | sort | cpio --quiet -o -H newc >"$work/base.cpio")
cp "$work"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
cp "$work/base.cpio" "$dir/base.cpio"
(cd "$dir" && sha256sum vmlinuz base.cpio >"$sums")
echo "lab: ready in $dir" >&2
