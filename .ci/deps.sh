#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# deps.sh run|test|qemu|kvm|kit|shard|page|deb...: installs the Debian packages of these groups that are missing.
#
# With everything there it does nothing and needs no network. Without the right to install it
# prints the command to run, and ends with status 1.
set -euo pipefail

run_packages=(
    build-essential pkg-config
    libzydis-dev libzycore-dev libelf-dev zlib1g-dev libzstd-dev libjson-c-dev libvirt-dev libseccomp-dev
    qemu-system-x86 busybox-static cpio kmod
)
test_packages=(
    libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients
    libprotobuf-c-dev protobuf-c-compiler protobuf-compiler
    libdw-dev libiberty-dev liblzma-dev elfutils g++
    jq procps lcov libcunit1-dev libipt-dev linux-perf libdevel-nytprof-perl
    clang libclang-rt-14-dev valgrind python3-cffi
    clang-format clang-tidy cppcheck shellcheck
)
qemu_packages=(
    dpkg-dev patch util-linux ninja-build meson python3 xz-utils
    libglib2.0-dev libpixman-1-dev libfdt-dev libattr1-dev libcap-ng-dev libslirp-dev seabios qemu-system-data ipxe-qemu linux-perf
    libzydis-dev libzycore-dev libelf-dev libzstd-dev
)

# What modules of a kernel are built with.
kvm_packages=(gcc-12 make patch perl xz-utils libelf1)

# A disc that boots a guest image.
kit_packages=(grub-common grub-pc-bin xorriso python3)

# A cluster of one machine, and another way to run many.
shard_packages=(slurmctld slurmd slurm-client munge parallel)

# The page of vpt report --html, and a browser to try it in. Node's own packages bring npm.
page_packages=(chromium)
command -v npm >/dev/null || page_packages+=(nodejs npm)

abi_packages=(abigail-tools)

# What makes packages of Debian, and a clean system to try them in.
deb_packages=(dpkg-dev debhelper lintian fakeroot util-linux debootstrap apt-utils)

# build_depends FOLDER: what the packages of a folder of vmm/packaging say themselves that they need.
build_depends() {
    sed -n '/^Build-Depends:/,/^[^ B]/s/^ \([a-z0-9.+-]*\).*/\1/p' \
        "$(dirname "$0")/../vmm/packaging/$1/control" | grep -v '^debhelper-compat'
}

bench_packages=(qemu-user xz-utils perl-base libipt-dev)

wanted=()
for group in "$@"; do
    case $group in
    run) wanted+=("${run_packages[@]}") ;;
    test) wanted+=("${test_packages[@]}") ;;
    bench) wanted+=("${bench_packages[@]}") ;;
    kvm) wanted+=("${kvm_packages[@]}") ;;
    kit) wanted+=("${kit_packages[@]}") ;;
    shard) wanted+=("${shard_packages[@]}") ;;
    page) wanted+=("${page_packages[@]}") ;;
    deb)
        mapfile -t -O "${#wanted[@]}" wanted < <(build_depends vpt && build_depends vpt-qemu)
        wanted+=("${deb_packages[@]}")
        ;;
    abi) wanted+=("${abi_packages[@]}") ;;
    qemu) wanted+=("${qemu_packages[@]}") ;;
    *)
        echo "deps.sh: no such group of packages: $group" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: not a Debian system, nothing checked; needed are: ${wanted[*]}" >&2
    exit 0
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

# Somebody else may be installing at this moment.
install=(apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}")
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true 2>/dev/null; then
        echo "deps: packages are missing; run this and try again:" >&2
        echo "  sudo apt-get update && sudo ${install[*]}" >&2
        exit 1
    fi
    as_root=(sudo -n)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

echo "deps: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists may be missing or older than the archive: fetch them and try once more.
if ! apt "${install[@]}" >"$log" 2>&1; then
    if ! { apt apt-get update && apt "${install[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "deps: installation failed" >&2
        exit 1
    fi
fi
