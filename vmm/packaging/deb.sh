#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# deb.sh vpt|vpt-qemu DIR: builds that Debian source package and its binary packages in DIR, without a
# network, and has lintian look at them. What is there of the same source is not built again. BUILD, VERSION,
# JOBS, VPT_CACHE and QEMU_DIR come from the Makefile.
#
# vpt-qemu takes Debian's source of QEMU from QEMU_DIR, where `make qemu` fetched it, or fetches it.
# DEBFULLNAME and DEBEMAIL say who maintains the packages; else whoever made the last commit.
# Exit status 0: built; 77: the source of QEMU cannot be had now; 1: anything else.
set -euo pipefail
umask 022

source=${1:?usage: deb.sh vpt|vpt-qemu DIR}
out=${2:?usage: deb.sh vpt|vpt-qemu DIR}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
BUILD=${BUILD:-build}
JOBS=${JOBS:-$(nproc)}
version=${VERSION:?}

mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$top"
tree=$out/$source-$version

# git_says FORMAT DEFAULT: of the last commit.
git_says() {
    git log -1 --format="$1" 2>/dev/null || echo "$2"
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git_says %ct "$(stat -c %Y CHANGELOG.md)")}
export SOURCE_DATE_EPOCH
maintainer="${DEBFULLNAME:-$(git_says %an 'The vpt authors')} <${DEBEMAIL:-$(git_says %ae vpt@localhost)}>"

# files PATH...: what is a part of the source below these, but for debian/ itself.
files() {
    {
        if git rev-parse --git-dir >/dev/null 2>&1; then
            git ls-files -co --exclude-standard -- "$@"
        else # a source that came without git, perhaps built in
            find "$@" -type f ! -path "./$BUILD/*" ! -path ./guest-tests/build/\* -printf '%P\n'
        fi
    } | while IFS= read -r file; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# copy PATH...: into the tree of the source package.
copy() {
    files "$@" | tar -c --files-from=- | tar -x -C "$tree"
}

# What network and npm are needed for comes along: the page of `vpt report --html`, bundled, and the sources
# of the libraries in it.
sources_of_vpt() {
    local page=$tree/vmm/page/bundled.html
    copy .
    vmm/page/build.sh "${VPT_CACHE:?}/page" "$page" "$tree/vmm/page/libraries"
    [ -s "$page" ] || rm -f "$page"
}

sources_of_vpt_qemu() {
    local debian=${QEMU_DIR:?}/bookworm
    copy vmm/qemu vmm/linux/look vmm/hostpt vmm/demux vmm/common emulation decoder LICENSE
    vmm/qemu/fetch.sh qemu bookworm "$debian"
    mkdir "$tree/qemu"
    cp "$debian"/qemu_*.dsc "$debian"/qemu_*.tar.* "$tree/qemu/"
}

# From templates: who and what stands elsewhere is filled in.
debian_folder() {
    local file
    cp -r "$here/$source" "$tree/debian"
    for file in "$tree"/debian/*; do
        [ ! -f "$file" ] || sed -i "s/@MAINTAINER@/$maintainer/; s/@VERSION@/$version/" "$file"
    done
    cat >"$tree/debian/changelog" <<CHANGELOG
$source ($version-1) unstable; urgency=medium

  * CHANGELOG.md says what changed.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
    {
        printf '\nLicense: BSD-3-Clause\n'
        sed '1,/^All rights/d; 1,/^$/!b' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
    } >>"$tree/debian/copyright"
}

# Nobody can be asked in it. A machine that forbids namespaces builds with its network.
alone=()
if unshare -n true 2>/dev/null; then
    alone=(unshare -n)
elif unshare -rn true 2>/dev/null; then
    alone=(unshare -rn)
else
    echo 'deb.sh: no namespace without a network can be had; the build is not kept from one' >&2
fi

rm -rf "$tree"
mkdir "$tree"
"sources_of_${source//-/_}"

# The time of the last commit, which changelogs tell, makes no other package.
identity=$(cd "$tree" && { echo "$maintainer" && find . "$here/$source" -type f -print0 | sort -z | xargs -0 sha256sum; } | sha256sum)
if [ "$identity" = "$(cat "$out/$source.identity" 2>/dev/null)" ] && [ -f "$out/${source}_$version-1_amd64.changes" ]; then
    rm -rf "$tree"
    echo "deb.sh: $source $version is built already"
    exit 0
fi
rm -f "$out/${source}_$version"* "$out/$source.identity"
tar -C "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    -cJf "$out/${source}_$version.orig.tar.xz" "$source-$version"
debian_folder

# What stands in the environment of who calls must not come in, make's own variables the least. ccache
# is found by the PATH, and its folder by this, since debhelper has a HOME of its own.
echo "deb.sh: $source $version (log: $out/$source.log)"
status=0
(cd "$tree" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u BUILD -u VERSION -u PREFIX -u LIBDIR -u DESTDIR \
    CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}" DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$JOBS" \
    "${alone[@]}" dpkg-buildpackage -us -uc -ui) >"$out/$source.log" 2>&1 </dev/null || status=$?
if [ "$status" != 0 ]; then
    grep -m 20 -E 'rror|Unmet|dpkg-checkbuilddeps' "$out/$source.log" >&2 || tail -n 20 "$out/$source.log" >&2
    exit 1
fi
rm -rf "$tree"
sed -n 's/^ [0-9a-f]\{64\} [0-9]* \(.*\.deb\)$/\1/p' "$out/${source}_$version-1_amd64.changes"
lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs \
    "$out/${source}_$version-1_amd64.changes" >"$out/$source.lintian" || { cat "$out/$source.lintian" >&2; exit 1; }
echo "$identity" >"$out/$source.identity"
echo "deb.sh: lintian says $(grep -c ^W: "$out/$source.lintian" || true) warnings, and no error"
