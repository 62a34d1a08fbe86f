#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds Linux's KVM selftests in DIR/tests, out of Debian's package of the source of the lab's kernel.
#
#   vmm/qemu/selftests.sh DIR LAB [JOBS]
#
# What does not build is left out. Nothing is done again that need not be.
# Exit status 0: built; 77: the source cannot be had now; 1: anything else.
set -eu -o pipefail

usage='usage: selftests.sh DIR LAB [JOBS]'
dir=${1:?$usage}
lab=${2:?$usage}
jobs=${3:-$(nproc)}
here=$(cd "$(dirname "$0")" && pwd)
# Raised when the same source gives other programs: older ones are then made again.
layout=1

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9

kernel=$(find "$lab/packages" -name 'linux-image-*.deb' 2>/dev/null | sort | tail -n 1 || true)
version=$(sed -nE 's,.*/linux-image-([0-9]+\.[0-9]+)\..*,\1,p' <<<"$kernel")
[ -n "$version" ] || { echo "selftests.sh: no kernel in $lab (make lab)" >&2; exit 77; }
# shellcheck source=/dev/null
"$here/fetch.sh" "linux-source-$version" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
    "$dir/source" binary

identity="$layout $(cat "$dir/source/SHA256SUMS")"
[ "$identity" != "$(cat "$dir/built" 2>/dev/null)" ] || exit 0

echo "selftests.sh: linux-source-$version, its KVM selftests"
tree=$dir/linux-source-$version
rm -rf "$tree" "$dir/tests" "$dir/built"
tar -C "$dir" -xf "$dir/source/root/usr/src/linux-source-$version.tar.xz" \
    "linux-source-$version"/{Makefile,arch/x86,include,scripts,tools,usr}
if ! make -C "$tree" -j "$jobs" headers >"$dir/build.log" 2>&1; then
    tail -n 5 "$dir/build.log" >&2
    exit 1
fi
mkdir "$dir/tests"
# In 6.1.192, one test takes a macro by a newer name, and another meets <asm/kvm.h> before what that needs.
EXTRA_CFLAGS='-include linux/stddef.h -DTEST_ASSERT_EQ=ASSERT_EQ' \
    make -C "$tree/tools/testing/selftests/kvm" -k -j "$jobs" OUTPUT="$dir/tests" >>"$dir/build.log" 2>&1 ||
    grep -E 'Error [0-9]' "$dir/build.log" >&2
rm -rf "$dir/tests/lib" "$tree"
find "$dir/tests" -type f -exec strip {} +
echo "$identity" >"$dir/built"
