# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: a Linux guest on our QEMU. Debian's kernel, an initramfs of busybox, perf and the test
# programs; a job in, an archive of what it left out.
#
# Needs: qemu, lab (folder of prepare.sh), build, work (a temporary folder), here (this folder's path).

linux_mib=1024 linux_disk=256M # its memory, and what it leaves

# shared_objects ROOT PROGRAM: copies the files that a program needs to run, the loader among them.
shared_objects() {
    local file
    while IFS= read -r file; do
        mkdir -p "$1${file%/*}"
        [ -f "$1$file" ] || cp -L "$file" "$1$file"
    done < <(ldd "$2" | sed -nE 's,^[^/]*(/[^ ]+) .*,\1,p')
}

# Makes $work/base.cpio, and $work/root with its files.
linux_prepare() {
    local root=$work/root
    mkdir -p "$root/usr/bin"
    cp "$here/init" "$root/init"
    cp "$build/qemu/work" "$build/qemu/remap" "$root/usr/bin/"
    cp -L "$(command -v perf)" "$root/usr/bin/perf"
    shared_objects "$root" "$root/usr/bin/perf"
    chmod +x "$root/init"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/base.cpio"
}

# linux_job NAME: the job on standard input, made ready to run in a guest.
linux_job() {
    local out=$work/$1
    rm -rf "$out"
    mkdir -p "$out/jobdir"
    cat >"$out/jobdir/job"
    { cat "$work/base.cpio" && (cd "$out/jobdir" && find . | cpio --quiet -o -H newc); } >"$out/initrd"
    truncate -s "$linux_disk" "$out/disk"
}

# tsc=reliable: on a busy host Linux's watchdog takes TCG's TSC for unstable, and perf has no time then.
#
# linux_machine NAME SECONDS CPU [ARGUMENT...]: runs it, with the console in $work/NAME/console.
linux_machine() {
    local seconds=$2 cpu=$3 out=$work/$1
    shift 3
    exec timeout "$seconds" "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -cpu "$cpu" -m "$linux_mib" -display none -nodefaults -no-reboot -serial "file:$out/console" \
        -kernel "$lab/vmlinuz" -initrd "$out/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -drive "file=$out/disk,format=raw,if=none,id=disk" -device virtio-blk-pci,drive=disk \
        "$@" >"$out/qemu" 2>&1
}

# linux_result NAME: what the job left, below $work/NAME. False: it did not come to its end.
linux_result() {
    local out=$work/$1
    rm -f "$out/initrd"
    tar -C "$out" -xf "$out/disk" 2>/dev/null || { tail -n 5 "$out/qemu" "$out/console"; return 1; }
    rm -f "$out/disk"
}

# linux_run NAME SECONDS CPU [ARGUMENT...]: all of it. False: it did not come to its end.
linux_run() {
    linux_job "$1"
    (linux_machine "$@") || { tail -n 5 "$work/$1/qemu" "$work/$1/console"; return 1; }
    linux_result "$1"
}
