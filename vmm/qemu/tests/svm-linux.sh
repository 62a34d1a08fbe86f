#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host-wide trace on any machine: Linux with kvm-amd runs on our QEMU, vpt runs a guest on its KVM,
# and a capture from outside sees kernel, processes, VM and the VM's processes. All of it decodes to
# what QEMU's plugin interface saw run, instruction by instruction.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About half a minute.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=$cache/lab
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
image=guest-tests/build/demo.elf
mem_mib=384
capture_bytes=${CAPTURE_BYTES:-4000000}

why=
[ -x "$qemu" ] && [ -f "$BUILD/qemu/execlog.so" ] || why='no QEMU (make qemu)'
[ -f "$lab/vmlinuz" ] || why='no kernel (make lab)'
if [ -n "$why" ]; then
    for name in runs decodes 'is everybody'\''s' 'has parts'; do
        skip "a capture of Linux with a KVM guest $name" "$why"
    done
    summary
    exit
fi

# The initial file system: the lab's, with vpt and its image.
prepare() {
    local root=$work/root file
    mkdir -p "$root/lib64"
    cp "$here/kvm-init" "$root/init"
    cp "$vpt" "$root/vpt"
    cp "$image" "$root/demo.elf"
    while IFS= read -r file; do
        mkdir -p "$root${file%/*}"
        cp -L "$file" "$root$file"
    done < <(shared_objects "$vpt"; ldd "$vpt" | sed -nE 's,^\t(/[^ ]+ld-linux[^ ]+) .*,\1,p')
    echo 'exec /vpt run --mem 16M --timeout 0 --append "notrace rounds=1000000000 tick=5000000" /demo.elf' >"$root/vm"
    chmod +x "$root/init" "$root/vpt"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

wait_for() { # PATTERN SECONDS
    local tries=0
    until grep -q "$1" "$work/console" 2>/dev/null; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt $(($2 * 5)) ] && kill -0 "$pid" 2>/dev/null || return 1
    done
}

# Linux boots, and its guest works; then a part of that is captured, and memory as it was at the end.
capture() {
    local start
    start=0x$(nm "$image" | sed -n 's/ T process_run_all$//p')
    qmp_pipes "$work/qmp"
    timeout 300 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -cpu EPYC,+svm,+npt -m "$mem_mib" -display none -nodefaults -no-reboot \
        -serial "file:$work/console" -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -plugin "$BUILD/qemu/execlog.so,out=$work/log,start=$start" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control >"$work/qemu" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    wait_for '^[0-9]* rounds' 200 || { tail -n 5 "$work/console" "$work/qemu"; return 1; }
    qmp "{\"execute\": \"x-vpt-start\", \"arguments\": {\"file\": \"$work/capture\"}}" || return 1
    while bytes=$(qmp '{"execute": "x-vpt-query"}' | jq '.return[0].bytes') &&
        [ "${bytes:-0}" -lt "$capture_bytes" ]; do
        sleep 0.1
    done
    qmp '{"execute": "stop"}' && qmp '{"execute": "x-vpt-stop"}' &&
        qmp "{\"execute\": \"pmemsave\", \"arguments\": {\"val\": 0, \"size\": $((mem_mib << 20)),
            \"filename\": \"$work/memory\"}}" || return 1
    qmp '{"execute": "quit"}'
    wait "$pid"
    qmp_close
}

# The map that QEMU left, with memory for the host, and images for the VM. Its CR3 values are those
# of boot, then of the processes in the order in which they were made.
map() {
    local boot cr3s
    boot=$((0x$(nm "$image" | sed -n 's/ [a-zA-Z] boot_pml4$//p')))
    mapfile -t cr3s < <("$vpt" parts --json "$work/capture.0" | jq 'select(.nr) | .cr3' | sort -nu |
        grep -vx "$boot")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VM: ${cr3s[*]}"; return 1; }
    jq --arg dir "$(realpath guest-tests/build)" --arg memory "$work/memory" \
        --argjson sort "${cr3s[0]}" --argjson hash "${cr3s[1]}" '
        .host = {memory: {raw: $memory, address: 0, paging: "4-level"}} |
        .vms[].images = [{path: ($dir + "/demo.elf")}] |
        .vms[].processes = [{name: "sort", cr3: $sort, images: [{path: ($dir + "/sort.elf")}]},
                            {name: "hash", cr3: $hash, images: [{path: ($dir + "/hash.elf")}]}]' \
        "$work/capture.0.map" >"$work/map" && jq -e '.vms | length == 1' "$work/map"
}

decodes() {
    "$BUILD/qemu/compare" --map "$work/map" "$work/capture.0" "$work/log" >"$work/out" 2>&1 &&
        grep -q '^identical' "$work/out"
}

# Each of the four has a share.
everybody() {
    grep -qE '^host kernel [0-9]{5,}, host processes [0-9]{4,}, guest kernels [0-9]{5,}, guest processes [0-9]{5,}, 1 VMs$' \
        "$work/out"
}

parts() {
    "$vpt" parts --json --map "$work/map" "$work/capture.0" >"$work/parts" &&
        jq -s 'length' "$work/parts" &&
        for who in '.nr == false' '.process == "sort"' '.process == "hash"'; do
            jq -es "any(.[]; $who)" "$work/parts" || return 1
        done
}

prepare
capture >"$work/out" 2>&1
check 'a capture of Linux with a KVM guest runs' test -s "$work/memory"
map >"$work/out" 2>&1
check 'a capture of Linux with a KVM guest has a map with one VM' test -s "$work/map"
check 'a capture of Linux with a KVM guest decodes to what ran' decodes
sed 's/^/    /' "$work/out"
check 'a capture of Linux with a KVM guest is everybody'\''s' everybody
check 'a capture of Linux with a KVM guest has parts' parts
summary
