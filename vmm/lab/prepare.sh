#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Prepares the lab's files in DIR: vmlinuz and base.cpio (busybox, the modules of a kernel with KVM).
# Uses Debian's cloud kernel package, unpacked and not installed. Reuses what is there and intact.
#
#   vmm/lab/prepare.sh DIR
#
# Exit status 0: ready; 77: no kernel package can be had now; 1: something else is missing.
set -eu -o pipefail

dir=${1:?usage: prepare.sh DIR}
# Raised when what this script makes changes: older files are then made again.
layout=1
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
    apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*-cloud-amd64\)$/\1/p'
    apt-cache pkgnames linux-image- 2>/dev/null | grep -E '^linux-image-[0-9].*-cloud-amd64$' | sort -rV
}

# A package file that is whole, from the cache or from the mirror.
package() {
    local name=$1 file
    for file in "$dir/packages/$name"_*.deb; do
        if [ -f "$file" ] && dpkg-deb --info "$file" >/dev/null 2>&1; then
            echo "$file"
            return 0
        fi
    done
    rm -f "$dir/packages/$name"_*.deb
    (cd "$work" && apt-get -q download "$name" >/dev/null 2>&1) || return 1
    mv "$work/$name"_*.deb "$dir/packages/"
    echo "$dir/packages/$name"_*.deb
}

deb=
for name in $(candidates); do
    echo "lab: $name" >&2
    if deb=$(package "$name"); then
        break
    fi
    deb=
done
if [ -z "$deb" ]; then
    # The mirror has nothing: any cached package that is whole will do.
    for file in "$dir"/packages/linux-image-*-cloud-amd64_*.deb; do
        if [ -f "$file" ] && dpkg-deb --info "$file" >/dev/null 2>&1; then
            deb=$file
        fi
    done
fi
[ -n "$deb" ] || { echo "prepare.sh: no linux-image-*-cloud-amd64 package can be had now" >&2; exit 77; }

dpkg-deb --extract "$deb" "$work/kernel"
root=$work/root
mkdir -p "$root/bin" "$root/modules"
cp "$busybox" "$root/bin/busybox"

# In the order in which they are loaded.
for module in irqbypass kvm kvm-amd virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev \
    virtio_pci virtio_blk; do
    file=$(find "$work/kernel" -name "$module.ko" -print -quit)
    [ -n "$file" ] || { echo "prepare.sh: $deb has no module $module" >&2; exit 1; }
    cp "$file" "$root/modules/"
    echo "$module.ko" >>"$root/modules/order"
done
(cd "$root" && find . | sort | cpio --quiet -o -H newc >"$work/base.cpio")
cp "$work"/kernel/boot/vmlinuz-* "$dir/vmlinuz"
cp "$work/base.cpio" "$dir/base.cpio"
(cd "$dir" && sha256sum vmlinuz base.cpio >"$sums")
echo "lab: ready in $dir" >&2
