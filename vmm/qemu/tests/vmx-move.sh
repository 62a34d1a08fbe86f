#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux with kvm_intel and two guests that run moves to another QEMU, while a capture from outside sees
# all of them: first by its state in a file, then live over a socket. Before that, its state is saved to
# a qcow2 image (savevm), it runs on, and goes back to that state (loadvm), amid one capture. The guests
# go on, and the captures of all three QEMUs decode to what ran in each, instruction by instruction, and
# by whom (the pages of memory that code came from, see svm-linux.sh). So a capture that begins amid VMX
# operation knows the VM that it comes to.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute of processor time.
set -u -o pipefail

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/snapshot.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
lab=$cache/lab
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
image=guest-tests/build/demo.elf
mem_mib=384
capture_bytes=${CAPTURE_BYTES:-2000000}
package=$(find "$lab/packages" -name 'linux-image-*.deb' 2>/dev/null | sort | tail -n 1)

why=
[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
[ -f "$lab/vmlinuz" ] && [ -n "$package" ] || why='no kernel (make lab)'
if [ -n "$why" ]; then
    for name in 'run' 'go back to a snapshot' 'move by a file' 'move live' 'before' 'behind the file' 'behind the socket'; do
        skip "kvm_intel's guests: $name" "$why"
    done
    summary
    exit
fi

# The initial file system: the lab's, with kvm_intel, vpt and its image.
prepare() {
    local root=$work/root
    mkdir -p "$root/modules" "$work/package"
    dpkg-deb --extract "$package" "$work/package"
    find "$work/package" -name kvm-intel.ko -exec cp {} "$root/modules/" \;
    rm -rf "$work/package"
    cp "$here/kvm-init" "$root/init"
    cp "$vpt" "$root/vpt"
    cp "$image" "$root/demo.elf"
    shared_objects "$root" "$vpt"
    cat >"$root/vm" <<'END'
run='/vpt run --mem 16M --timeout 0'
$run --append 'notrace rounds=1000000001 tick=5000000' /demo.elf 2>/dev/null &
$run --append 'notrace rounds=1000000002 tick=3000000' /demo.elf 2>/dev/null &
wait
END
    chmod +x "$root/init" "$root/vpt"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

# begin NAME [ARGUMENT...]: in the background, with its monitor; $pid, and its log in NAME.log.
begin() {
    local name=$1
    shift
    qmp_pipes "$work/$name.qmp"
    timeout 600 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -icount shift=3,sleep=off -cpu max,vendor=GenuineIntel,+vmx,-la57 -m "$mem_mib" -display none \
        -nodefaults -no-reboot -serial "file:$work/$name.console" \
        -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -plugin "$execlog,out=$work/$name.log,when=$work/$name.begin,pages=on" \
        -chardev "pipe,id=qmp,path=$work/$name.qmp" -mon chardev=qmp,mode=control "$@" >"$work/$name.qemu" 2>&1 &
    pid=$!
    qmp_open "$work/$name.qmp"
}

wait_for() { # PATTERN CONSOLE SECONDS
    local tries=0
    until grep "$1" "$2" >/dev/null 2>&1; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt $(($3 * 5)) ] && kill -0 "$pid" 2>/dev/null || return 1
    done
}

# capture NAME: of a guest that stands still, up to so many bytes; then it runs on.
capture() {
    touch "$work/$1.begin" &&
        qmp "{\"execute\": \"x-vpt-start\", \"arguments\": {\"file\": \"$work/$1\", \"timing\": true}}" &&
        capture_on
}

captured_bytes() {
    qmp '{"execute": "x-vpt-query"}' | jq '.return[0].bytes // 0'
}

# So many bytes more.
capture_on() {
    local before bytes
    before=$(captured_bytes) && qmp '{"execute": "cont"}' || return 1
    bytes=$before
    while [ $((bytes - before)) -lt "$capture_bytes" ]; do
        bytes=$(captured_bytes) || return 1
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
}

# end_capture NAME: the guest stands still; its memory as it is now.
end_capture() {
    qmp '{"execute": "x-vpt-stop"}' &&
        qmp "{\"execute\": \"pmemsave\", \"arguments\": {\"val\": 0, \"size\": $((mem_mib << 20)),
            \"filename\": \"$work/$1.memory\"}}"
}

end() {
    qmp '{"execute": "quit"}'
    wait "$pid"
    qmp_close
}

migrate() { # URI
    local state
    qmp '{"execute": "migrate-set-parameters", "arguments": {"max-bandwidth": 17179869184,
        "downtime-limit": 20000}}' &&
        qmp "{\"execute\": \"migrate\", \"arguments\": {\"uri\": \"$1\"}}" || return 1
    until state=$(qmp '{"execute": "query-migrate"}') &&
        grep '"status": "completed"' <<<"$state" >/dev/null; do
        ! grep '"status": "failed"' <<<"$state" || return 1
        sleep 0.05
    done
}

runs() {
    prepare
    begin one
    wait_for '^1000000001 rounds' "$work/one.console" 400 &&
        wait_for '^1000000002 rounds' "$work/one.console" 100 &&
        qmp '{"execute": "stop"}' && capture one && qmp '{"execute": "stop"}'
}

goes_back() {
    touch "$work/disk" && new_state_disk "$work/disk" && snapshot snapshot-save && capture_on &&
        qmp '{"execute": "stop"}' && snapshot snapshot-load && capture_on && qmp '{"execute": "stop"}' &&
        end_capture one && qmp '{"execute": "blockdev-del", "arguments": {"node-name": "state"}}'
}

moves_by_file() {
    migrate "exec:cat >$work/state" && end || return 1
    begin two -S -incoming "exec:cat $work/state"
    while qmp '{"execute": "query-status"}' | grep inmigrate >/dev/null; do sleep 0.05; done
    capture two
}

# The guest runs, and is captured, until it is there.
moves_live() {
    local from=$pid
    (begin three -S -incoming "unix:$work/socket" && echo "$pid" >"$work/three.pid" && qmp_close &&
        wait "$pid") &
    until [ -S "$work/socket" ]; do
        kill -0 "$from" 2>/dev/null || return 1
        sleep 0.05
    done
    migrate "unix:$work/socket" && end_capture two && end || return 1
    pid=$(cat "$work/three.pid")
    qmp_open "$work/three.qmp"
    while qmp '{"execute": "query-status"}' | grep inmigrate >/dev/null; do sleep 0.05; done
    capture three && qmp '{"execute": "stop"}' && end_capture three && qmp '{"execute": "quit"}'
}

# The map that QEMU left, with memory for the host, and images for the VMs. The CR3 values of their
# processes are those of boot, then of the processes in the order in which they were made.
map() { # NAME
    local boot cr3s
    boot=$((0x$(nm "$image" | sed -n 's/ [a-zA-Z] boot_pml4$//p')))
    mapfile -t cr3s < <("$vpt" parts --json "$work/$1.0" | jq 'select(.nr) | .cr3' | sort -nu | grep -vx "$boot")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    jq --arg dir "$(realpath guest-tests/build)" --arg memory "$work/$1.memory" \
        --argjson sort "${cr3s[0]}" --argjson hash "${cr3s[1]}" '
        .host = {memory: {raw: $memory, address: 0, paging: "4-level"}} |
        .vms[].images = [{path: ($dir + "/demo.elf")}] |
        .vms[].processes = [{name: "sort", cr3: $sort, images: [{path: ($dir + "/sort.elf")}]},
                            {name: "hash", cr3: $hash, images: [{path: ($dir + "/hash.elf")}]}] |
        .vms |= [to_entries[] | .value.name = "\(.key + 1)" | .value]' \
        "$work/$1.0.map" >"$work/$1.map" && jq -e '.vms | length == 2' "$work/$1.map"
}

# Each of the two VMs has a share of it, with both of its processes.
decodes() { # NAME
    local who
    map "$1" >"$work/out" 2>&1 &&
        "$BUILD/qemu/compare" --map "$work/$1.map" --pages "$work/$1.0" "$work/$1.log" >"$work/out" 2>&1 &&
        grep '^identical' "$work/out" >/dev/null || return 1
    for who in 'VM '{1,2}' '{kernel,sort,hash}; do
        grep -E "^$who: [0-9]{3,} instructions" "$work/out" || return 1
    done
}

check "kvm_intel's guests run" runs
check "kvm_intel's guests go back to a snapshot" goes_back
check "kvm_intel's guests move by a file" moves_by_file
check "kvm_intel's guests move live" moves_live
jobs -p | xargs -r kill 2>/dev/null
[ ! -f "$work/three.pid" ] || kill "$(cat "$work/three.pid")" 2>/dev/null
check "kvm_intel's guests: the capture before, behind and beside the snapshot decodes to what ran, and who" decodes one
sed 's/^/    /' "$work/out"
check "kvm_intel's guests: the capture behind the file decodes to what ran, and who" decodes two
sed 's/^/    /' "$work/out"
check "kvm_intel's guests: the capture behind the socket decodes to what ran, and who" decodes three
sed 's/^/    /' "$work/out"
summary
