#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Prepares what `vpt trace` boots, in DIR: vmlinux, as the firmware's loader takes it without unpacking,
# and base.cpio, the modules that bring the host's files and the wire. Of Debian's kernel package,
# unpacked and not installed; the one for clouds has no 9p. Reuses what is there and intact.
#
#   vmm/program/prepare.sh DIR [VERSION]
#
# With a version, the kernel is one of that (6.12). Exit status 0: ready; 77: no kernel package can be had now; 1: something else is missing.
set -eu -o pipefail

dir=${1:?usage: prepare.sh DIR [VERSION]}
version=${2:-}
# Raised when what this script makes changes: older files are then made again.
layout=1
sums=$dir/SHA256SUMS-$layout

if [ -f "$sums" ] && (cd "$dir" && sha256sum --quiet --check "$sums") 2>/dev/null; then
    exit 0
fi
for tool in cpio dpkg-deb apt-get apt-cache depmod modprobe xz; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || { echo "prepare.sh: $tool is not installed" >&2; exit 1; }
done
PATH=$PATH:/usr/sbin:/sbin

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
sums=$dir/SHA256SUMS-$layout
# shellcheck source=vmm/lab/package.sh
. "$here/../lab/package.sh"

deb=$(fetch_kernel amd64 "$version")
echo "trace-kernel: ${deb##*/}" >&2
dpkg-deb --extract "$deb" "$work/kernel"

# number FILE OFFSET BYTES
number() {
    od -An -v -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '
}

# unpack VMLINUZ: what stands compressed in it, by the head that the boot protocol describes. Unpacking
# takes seconds where a processor is emulated.
unpack() {
    local image=$1 from len magic
    from=$((($(number "$image" 497 1) + 1) * 512 + $(number "$image" 584 4)))
    len=$(($(number "$image" 588 4) - 4)) # without the size behind it
    magic=$(od -An -v -t x1 -j "$from" -N 4 "$image" | tr -d ' ')
    case $magic in
    fd377a58) tail -c "+$((from + 1))" "$image" | head -c "$len" | xz -dc ;;
    28b52ffd) tail -c "+$((from + 1))" "$image" | head -c "$len" | zstd -dc ;;
    *) echo "prepare.sh: a kernel that is compressed in another way ($magic)" >&2 && return 1 ;;
    esac
}
# tail ends by a signal when head has enough.
set +o pipefail
unpack "$work"/kernel/boot/vmlinuz-* >"$work/vmlinux"
set -o pipefail
[ "$(head -c 4 "$work/vmlinux" | tail -c 3)" = ELF ] || { echo "prepare.sh: $deb has no kernel that can be unpacked" >&2; exit 1; }

# In the order in which they are loaded.
release=$(basename "$work"/kernel/lib/modules/*)
root=$work/root
mkdir -p "$root/modules"
depmod -b "$work/kernel" "$release"
for module in virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_net; do
    modprobe -d "$work/kernel" -S "$release" --show-depends "$module"
done >"$work/insmods"
sed -n 's/^insmod \([^ ]*\).*/\1/p' "$work/insmods" | awk '!seen[$0]++' >"$work/files"
while IFS= read -r file; do
    copy_module "$file" "$root/modules"
    file=${file##*/}
    echo "${file%.xz}" >>"$root/modules/order"
done <"$work/files"
(cd "$root" && find . | sort | cpio --quiet -o -H newc >"$work/base.cpio")
mv "$work/vmlinux" "$work/base.cpio" "$dir/"
chmod 644 "$dir/vmlinux" "$dir/base.cpio"
(cd "$dir" && sha256sum vmlinux base.cpio >"$sums")
echo "trace-kernel: ready in $dir" >&2
