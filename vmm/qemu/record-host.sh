#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# record-host.sh FOLDER: a host with two virtual machines that records all of them by its own stock perf,
# for who has no processor with Intel PT: Debian's kernel with kvm_intel on our QEMU, under TCG.
#
# FOLDER gets host.data (as perf record --kcore makes it), files (perf's copies of what ran) and root, the
# host's file system. It needs what `make qemu`, `make qemu-tools` and `make lab` make, and perf. Minutes.
set -euo pipefail

folder=$(realpath -m "${1:?usage: record-host.sh FOLDER}")
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
# shellcheck disable=SC2034 # guest.sh uses these
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64 lab=$cache/lab here=vmm/qemu/linux
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
# shellcheck source=vmm/qemu/linux/host.sh
. "$here/host.sh"

for file in "$qemu" "$build/qemu/work" "$build/vpt" "$lab/vmlinuz" "$(command -v perf)"; do
    [ -f "$file" ] || { echo "record-host.sh: ${file:-perf} is not there" >&2; exit 1; }
done
[ ! -e "$folder" ] || { echo "record-host.sh: $folder is there already" >&2; exit 1; }

# The VMs compute and write nothing. They stop while perf ends, which takes long here.
# shellcheck disable=SC2016
job=$host_words'
vms=
for rounds in 1000000001 1000000002; do
    vpt run --mem 16M --timeout 0 --append "notrace rounds=$rounds tick=5000000" /demo.elf >/out/vm-$rounds 2>&1 &
    vms="$vms $!"
done
until grep rounds /out/vm-1000000001 && grep rounds /out/vm-1000000002; do sleep 1; done
perf --buildid-dir /out/files record --kcore -a -m,16M --proc-map-timeout 60000 -e intel_pt// -o /out/host.data sleep 0.3
echo "perf $?"
kill -KILL $vms'

host_prepare "$host_image"
linux_job host <<<"$job"
echo 'record-host.sh: a host boots, and two VMs in it' >&2
(linux_machine host 1800 "$host_cpu")
linux_result host
if ! grep -q '^perf 0' "$work/host/log"; then
    tail -n 12 "$work/host/log" >&2
    echo 'record-host.sh: perf did not record' >&2
    exit 1
fi
mkdir -p "$folder"
mv "$work/host/host.data" "$work/host/files" "$work/root" "$folder/"
du -sh "$folder/host.data" >&2
