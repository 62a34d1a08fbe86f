#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# deb-test.sh DIR: installs the packages of DIR (deb.sh) in a clean Debian 12, by debootstrap and apt, with
# nothing else of this machine, and calls there as an ordinary user what the pages begin with. Where they
# come from is what apt of this machine is set up with. Needs root, a network and some minutes.
#
# VPT_CACHE keeps what was fetched.
# shellcheck disable=SC2016 # other shells expand these
set -uo pipefail

dir=$(realpath "${1:?usage: deb-test.sh DIR}")
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/debootstrap
root=$work/debian

leave() {
    local at
    for at in "$root/dev/pts" "$root/dev" "$root/proc"; do
        ! mountpoint -q "$at" || umount -l "$at"
    done
    rm -rf "$work"
}

# in_root COMMAND...: with nothing of this environment but a proxy.
in_root() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

# as_user COMMAND: a line for a shell, in the user's home.
as_user() {
    timeout 900 chroot "$root" env -i PATH=/usr/bin:/bin HOME=/home/user LANG=C.UTF-8 TERM=dumb \
        setpriv --reuid=1000 --regid=1000 --groups="$kvm" sh -c "cd; $1"
}

# A base of Debian, kept as an archive of what was fetched for it.
base() {
    local site
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
    mkdir -p "$cache"
    debootstrap --variant=minbase --cache-dir="$cache" bookworm "$root" "$site" || return 1
    rm -f "$root/etc/apt/sources.list"
    cp -r /etc/apt/sources.list.d /etc/apt/trusted.gpg.d "$root/etc/apt/" 2>/dev/null
    [ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
    # Only Debian's: a clean system knows nobody else's packages.
    grep -LrE 'bookworm' "$root/etc/apt/sources.list.d" | xargs -r rm
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    apt-config dump Acquire | grep -i proxy >"$root/etc/apt/apt.conf.d/proxy"
    mount --bind /dev "$root/dev" && mount -t proc proc "$root/proc" && in_root apt-get -q update
}

# recipe: the commands of the container's recipe, one a line.
recipe() {
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ta' -e '}' vmm/packaging/Dockerfile | sed -n 's/^RUN //p'
}

# What the recipe installs, and no kernel.
installs_program() {
    local command
    mkdir -p "$root/packages" && cp "$dir"/*.deb "$root/packages/" || return 1
    while IFS= read -r command; do
        in_root sh -c "$command" </dev/null || return 1
    done < <(recipe)
    ! in_root dpkg -l 'linux-image*' 2>/dev/null | grep ^ii && in_root vpt --version
}

# A folder that apt takes packages from, as it would from an archive.
archive() {
    mkdir -p "$root/packages" && cp "$dir"/*.deb "$root/packages/" &&
        (cd "$root/packages" && apt-ftparchive packages . >Packages) &&
        echo 'deb [trusted=yes] file:/packages ./' >"$root/etc/apt/sources.list.d/vpt.list" && in_root apt-get -q update
}
installs_libraries() {
    in_root apt-get -q -y install --no-install-recommends libvpt-dev libptdec-dev python3-ptdec gcc libc6-dev pkg-config
}

# Where the user may not open /dev/kvm. The kernel comes from the archive, into the user's cache.
prepares_lab() {
    as_user '/usr/share/vpt/vmm/lab/prepare.sh ~/.cache/vpt/lab && ls .cache/vpt/lab/vmlinuz' &&
        ! in_root dpkg -l 'linux-image*' 2>/dev/null | grep ^ii
}
traces() {
    as_user 'vpt run demo.elf --verify --trace-out demo.pt' | tee "$work/said"
    grep '^path: identical' "$work/said"
}
traces_in_qemu() {
    as_user 'vpt qemu --trace-out qemu.pt demo.elf && vpt decode --summary qemu.pt' | tee "$work/said"
    grep '^errors *0 ' "$work/said"
}
# A guest that waits to be captured, as a domain of libvirt is by the same monitor.
captures() {
    as_user 'vpt qemu --append stay flood.elf -- -qmp unix:qmp,server,nowait >guest.out 2>&1 & guest=$!
        until [ -S qmp ]; do sleep 0.1; done
        vpt capture --qmp qmp --seconds 1 waits && kill $guest && vpt decode --summary waits.0' | tee "$work/said"
    grep '^errors *0 ' "$work/said"
}
# Of the kernel alone: a perf.data of one thread has one program at an address. So code is missing (3).
reads_perf_data() {
    as_user 'vpt convert --image /usr/share/vpt/guests/demo.elf demo.pt demo.data && vpt report demo.data
        test $? = 3' | tee "$work/said"
    grep 'Who ran' "$work/said" && grep 'find_word' "$work/said"
}
has_page() {
    as_user 'vpt report --html demo.html demo.pt && test -s demo.html && grep -c echarts demo.html'
}
tests_hypervisor() {
    as_user "vpt guest-tests --with 'vpt qemu --append {append} {image} -- -smp {cpus}' msr-tests" | tee "$work/said"
    grep -E '^msr-tests: [1-9][0-9]* passed, 0 failed' "$work/said"
}
python_counts() {
    as_user '/usr/share/doc/python3-ptdec/examples/count-instructions demo.pt >counted && tail -n 1 counted &&
        vpt decode --summary demo.pt | head -n 1' | tee "$work/said"
    [ "$(awk '/ 0 errors$/ { print $1 }' "$work/said")" = "$(awk '/^instructions/ { print $2 }' "$work/said")" ]
}
compiles() {
    as_user 'cp -r /usr/share/doc/vpt/examples . && cd examples &&
        cc -o vmm vmm.c $(pkg-config --cflags --libs libvpt) &&
        cc -o decode decode.c $(pkg-config --cflags --libs libptdec) &&
        cc -o still decode.c $(pkg-config --static --cflags --libs libptdec | sed s/-lptdec/-l:libptdec.a/) &&
        ldd vmm decode' | tee "$work/said"
    grep 'libvpt.so.0 => /' "$work/said" && grep 'libptdec.so.0 => /' "$work/said"
}
# man itself is left out of a small Debian.
explains() {
    in_root dpkg -L vpt | grep -E '/(man1/vpt-capture.1.gz|completions/vpt|vpt/trace-a-guest.md)$' >"$work/said"
    [ "$(wc -l <"$work/said")" = 3 ]
}
goes() {
    local ours
    ours=$(in_root dpkg-query -W -f '${Package}\n' | grep -E 'vpt|ptdec') || return 1
    # shellcheck disable=SC2086 # a list of names
    in_root apt-get -q -y purge $ours || return 1
    ! find "$root/usr" -path '*/share/doc/*' -prune -o \( -name '*vpt*' -o -name '*ptdec*' \) -print | grep .
}

[ "$(id -u)" = 0 ] || why='only root can install a Debian in a folder'
[ -n "$why" ] || command -v debootstrap >/dev/null || why='no debootstrap'
[ -n "$why" ] || compgen -G "$dir/vpt-qemu_*.deb" >/dev/null || why='no packages (make deb)'
skip_all 'packages in a clean Debian'
trap leave EXIT
kvm=$(stat -c %g /dev/kvm 2>/dev/null || echo 0)
[ "$kvm" != 0 ] || kvm=1000

if ! base >"$work/base.log" 2>&1; then
    tail -n 5 "$work/base.log"
    skip_rest 'packages in a clean Debian' 'it cannot be fetched now'
fi
check 'the packages are installed as the recipe of the container does it, and no kernel' installs_program
check 'apt takes them from an archive' archive
check 'libraries and the module for Python are installed' installs_libraries
check 'the lab is laid out in the cache' prepares_lab
check 'trace a guest: vpt run' traces
check 'trace a guest: vpt qemu' traces_in_qemu
check 'libvirt: vpt capture, by the monitor' captures
check 'a host: vpt report of a perf.data' reads_perf_data
check 'vpt report --html' has_page
check 'test a hypervisor: vpt guest-tests' tests_hypervisor
check 'Python: count-instructions says what vpt decode does' python_counts
check 'the examples are compiled' compiles
check 'manual, completion and pages are there' explains
check 'purged, nothing is left' goes
summary
