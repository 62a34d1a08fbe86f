# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: a daemon of libvirt that is the test's own, with all that it leaves in a folder of its own.
# For root there is only the system's, so root becomes nobody in a user namespace.
#
# Needs: work (a temporary folder).

# Why there can be none; empty if one can be.
libvirt_lacks() {
    if ! command -v libvirtd >/dev/null || ! command -v virsh >/dev/null; then
        echo 'no libvirt'
    elif [ "$(id -u)" = 0 ] && ! unshare --user true 2>/dev/null; then
        echo 'no user namespace for a daemon of our own'
    fi
}

# Begins it. libvirtd is its process, to be ended by who began it, and uri is where it is. False: it
# does not answer.
libvirt_begin() {
    local home=$work/home as_nobody=() tries=0
    [ "$(id -u)" != 0 ] || as_nobody=(unshare --user)
    mkdir -p "$home/run" "$home/.config/libvirt"
    echo 'stdio_handler = "file"' >"$home/.config/libvirt/qemu.conf" # no other daemon
    env -u XDG_CONFIG_HOME -u XDG_CACHE_HOME -u XDG_DATA_HOME HOME="$home" XDG_RUNTIME_DIR="$home/run" \
        "${as_nobody[@]}" libvirtd >"$work/libvirtd.out" 2>&1 &
    libvirtd=$!
    uri="qemu+unix:///session?socket=$home/run/libvirt/libvirt-sock"
    until virsh version >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] && kill -0 "$libvirtd" || return 1
        sleep 0.1
    done
}

libvirt_end() {
    kill "$libvirtd" 2>/dev/null
    wait "$libvirtd" 2>/dev/null
}

virsh() { timeout 60 virsh -q -c "$uri" "$@"; }
