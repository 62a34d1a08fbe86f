# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: the lab with our QEMU inside, for its guests on the lab's KVM. A job in, an archive of what
# it left out. $nested_cpu is the lab's processor; kvm-init loads kvm_intel where that has VMX.
# $nested_accel is what emulates it, $nested_disk how large what it leaves may be.
#
# Needs: guest.sh, and what that needs.

nested_cpu=EPYC,+svm,+npt
nested_accel=tcg
nested_disk=256M

# nested_qemu ROOT: our QEMU (/qemu) and its firmware (/bios) for a guest with this root.
nested_qemu() {
    mkdir -p "$1/bios"
    strip -o "$1/qemu" "$qemu"
    shared_objects "$1" "$qemu"
    cp -L /usr/share/seabios/bios-256k.bin /usr/share/qemu/{kvmvapic,linuxboot_dma,pvh}.bin "$1/bios/"
}

# nested_prepare FILE...: the lab's initial file system in $work/initrd, with QEMU, and these files in its
# root. On standard input: the job, which leaves things in /out.
nested_prepare() {
    local root=$work/nested
    mkdir -p "$root/out"
    cp "$here/kvm-init" "$root/init"
    nested_qemu "$root"
    cp "$@" "$root/"
    {
        # shellcheck disable=SC2016
        echo 'for module in $(grep virtio /modules/order); do insmod /modules/$module; done'
        cat
        echo 'tar -C /out -cf - . | dd of=/dev/vda bs=1M 2>/dev/null'
        echo sync
    } >"$root/vm"
    chmod +x "$root/init"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

# guest_of INIT [FILE...]: the file system of a guest of that lab in $work/guest.cpio: busybox, its first
# process, and files in /bin.
guest_of() {
    local root=$work/guest init=$1
    shift
    mkdir -p "$root/bin"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/$init" "$root/init"
    [ $# = 0 ] || cp "$@" "$root/bin/"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/guest.cpio"
}

# nested_machine SECONDS [ARGUMENT...]: in place of this shell.
nested_machine() {
    local seconds=$1
    shift
    truncate -s "$nested_disk" "$work/disk"
    exec timeout "$seconds" "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel "$nested_accel" \
        -cpu "$nested_cpu" -m 1200 -display none -nodefaults -no-reboot \
        -serial "file:$work/console" -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -drive "file=$work/disk,format=raw,if=none,id=disk" \
        -device virtio-blk-pci,drive=disk "$@" >"$work/qemu" 2>&1
}

# nested_says PATTERN: waits for it on the console. False: the machine $outer has ended before.
nested_says() {
    until grep "$1" "$work/console" >/dev/null 2>&1; do
        sleep 0.2
        kill -0 "$outer" 2>/dev/null || return 1
    done
}

# nested_run SECONDS [ARGUMENT...]: what the job left in /out comes to $work/out.d. False: it did not
# come to its end.
nested_run() {
    (nested_machine "$@")
    mkdir -p "$work/out.d"
    tar -C "$work/out.d" -xf "$work/disk" 2>/dev/null || { tail -n 5 "$work/console" "$work/qemu"; return 1; }
}
