#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Lays out the source of a Debian source package in DIR/source, or the files of a binary package in
# DIR/root, without any change to the system.
#
#   vmm/qemu/fetch.sh PACKAGE SUITE DIR [binary]
#
# The machine's own apt source entries for Debian say where from; entries for the suite are
# made from them in a private apt configuration in DIR. apt verifies the signature of the archive
# and the checksum of each file. What is there and intact is used again.
# Exit status 0: ready; 77: the source cannot be had now; 1: something else is missing.
set -eu -o pipefail

usage='usage: fetch.sh PACKAGE SUITE DIR [binary]'
package=${1:?$usage}
suite=${2:?$usage}
dir=${3:?$usage}
case ${4:-source} in
source) kind=deb-src into=source ;;
binary) kind=deb into=root ;;
*) echo "$usage" >&2 && exit 1 ;;
esac

for tool in apt-get dpkg-deb dpkg-source sha256sum; do
    command -v "$tool" >/dev/null || { echo "fetch.sh: $tool is not installed" >&2; exit 1; }
done
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -d "$dir/$into" ] && [ -f "$dir/SHA256SUMS" ] &&
    (cd "$dir" && sha256sum --quiet --check SHA256SUMS) >/dev/null 2>&1; then
    exit 0
fi

apt=$dir/apt
# The sums come last: what is interrupted is not taken for whole.
rm -rf "$apt" "${dir:?}/$into" "$dir/SHA256SUMS"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/sources.list.d"
# The entries of the running release, for such packages and for the suite that is asked for.
# shellcheck source=/dev/null
. /etc/os-release
own=${VERSION_CODENAME:?}
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    sed -nE "/^deb(-src)? .* $own(-[a-z]+)? /{s/^deb(-src)? /$kind /;s/ $own/ $suite/;p}" "$file"
done | sort -u >"$apt/sources.list.d/entries.list"
for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    if grep -qE "^Suites:.*\<$own(-[a-z]+)?\>" "$file"; then
        sed -E "s/^Types:.*/Types: $kind/;/^Suites:/s/\<$own/$suite/g" "$file" \
            >"$apt/sources.list.d/$(basename "$file")"
    fi
done
options=(
    -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$apt/sources.list.d"
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt" -o "Dir::Cache::Archives=$apt/archives"
    -o "APT::Sandbox::User=" -o "Acquire::Languages=none" -o "Acquire::Retries=1" -o "Acquire::http::Timeout=20" -o "Acquire::https::Timeout=20"
)
echo "fetch.sh: lists of $suite" >&2
if ! apt-get -q "${options[@]}" update >"$apt/log" 2>&1; then
    echo "fetch.sh: not every list could be had (see $apt/log)" >&2
fi
echo "fetch.sh: $package" >&2
if [ "$into" = source ]; then
    get=(source --download-only "$package")
else
    get=(download "$package")
fi
if ! (cd "$dir" && apt-get -q "${options[@]}" "${get[@]}") >>"$apt/log" 2>&1; then
    tail -n 5 "$apt/log" >&2
    echo "fetch.sh: $package of $suite cannot be had now" >&2
    exit 77
fi
if [ "$into" = root ]; then
    deb=$(find "$dir" -maxdepth 1 -name "${package}_*.deb" -printf '%f\n' | sort -V | tail -n 1)
    dpkg-deb -x "$dir/$deb" "$dir/root"
    (cd "$dir" && sha256sum ./*.deb >SHA256SUMS)
    rm -rf "$apt"
    exit 0
fi
dsc=$(find "$dir" -maxdepth 1 -name "${package}_*.dsc" -printf '%f\n' | sort -V | tail -n 1)
# apt has verified the signed lists, and the .dsc and its files by them.
dpkg-source --no-check -x "$dir/$dsc" "$dir/source" >>"$apt/log" 2>&1
(cd "$dir" && sha256sum ./*.dsc ./*.tar.* >SHA256SUMS)
rm -rf "$apt"
