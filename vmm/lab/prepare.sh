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
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
sums=$dir/SHA256SUMS-$layout

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=vmm/lab/package.sh
. "$here/package.sh"

deb=$(fetch_kernel cloud-amd64 "$version")
echo "lab: ${deb##*/}" >&2

dpkg-deb --extract "$deb" "$work/kernel"
root=$work/root
mkdir -p "$root/bin" "$root/modules"
cp "$busybox" "$root/bin/busybox"

# In the order in which they are loaded.
for module in irqbypass kvm kvm-amd virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev \
    virtio_pci virtio_blk; do
    file=$(find_module "$work/kernel" "$module") || { echo "prepare.sh: $deb has no module $module" >&2; exit 1; }
    [ -n "$file" ] || continue # a newer kernel has it in itself
    copy_module "$file" "$root/modules"
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
