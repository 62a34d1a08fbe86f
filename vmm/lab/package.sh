# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: a package file of one of Debian's kernels, from the archive or from before.
#
# Needs: dir, whose packages/ keeps the files, and work, a temporary folder.

# kernel_candidates FLAVOUR [VERSION]: the version the meta package names first, then whatever else there is.
kernel_candidates() {
    local flavour=$1 version=${2:-}
    if [ -n "$version" ]; then
        apt-cache pkgnames "linux-image-$version." 2>/dev/null | kernels_of "$flavour" | sort -rV
        return
    fi
    apt-cache depends "linux-image-$flavour" 2>/dev/null |
        sed -n "s/.*Depends: \(linux-image-[0-9][^ ]*-$flavour\)\$/\1/p"
    apt-cache pkgnames linux-image- 2>/dev/null | kernels_of "$flavour" | sort -rV
}

# kernels_of FLAVOUR: names of packages, without those of other flavours (rt-amd64 is none of amd64).
kernels_of() {
    grep -E -- "^linux-image-[0-9][0-9.]*(-[0-9]+|\+deb[0-9]+)*-$1\$"
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

# fetch_kernel FLAVOUR [VERSION]: prints the path of the package file. Status 77: none can be had now,
# which was said.
fetch_kernel() {
    local flavour=$1 version=${2:-} deb='' name file status
    local why="no linux-image-$version*-$flavour package can be had now"
    mkdir -p "$dir/packages"
    for name in $(kernel_candidates "$flavour" "$version" | awk '!seen[$0]++'); do
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
        for file in "$dir"/packages/linux-image-*-"$flavour"_*.deb; do
            name=${file##*/}
            ! intact "${name%%_*}" "$file" || deb=$file
        done
    fi
    [ -n "$deb" ] || { echo "${0##*/}: $why, and there is none from before" >&2; return 77; }
    echo "$deb"
}

# find_module FOLDER NAME: the module in an unpacked package; nothing if the kernel has it in itself.
# Status 1: it is not there.
find_module() {
    local file
    file=$(find "$1" \( -name "$2.ko" -o -name "$2.ko.xz" \) -print -quit)
    [ -n "$file" ] || grep -qr "/$2\.ko$" "$1"/lib/modules/*/modules.builtin || return 1
    echo "$file"
}

# copy_module FILE FOLDER: uncompressed, as what loads it there wants it.
copy_module() {
    local name=${1##*/}
    case $1 in
    *.xz) xz -dc "$1" >"$2/${name%.xz}" || { echo "${0##*/}: xz cannot be used" >&2; return 1; } ;;
    *) cp "$1" "$2/" ;;
    esac
}
