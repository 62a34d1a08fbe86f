#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host-wide trace on any machine: Linux with kvm-amd runs on our QEMU, vpt runs two guests on its KVM
# at once, and a capture from outside sees kernel, processes, VMs and the VMs' processes. All of it
# decodes to what QEMU's plugin interface saw run, instruction by instruction.
#
# The two VMs run the same image: their code stands at the same addresses, and their processes have the
# same CR3 values. Who ran is checked by the pages of memory that code came from, which nothing in the
# trace tells. Each has a TSC of its own frequency; when a branch took place is checked by QEMU's own TSC,
# which -icount makes a count of instructions.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute and a half, most of it QEMU.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
lab=$cache/lab
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
image=guest-tests/build/demo.elf
mem_mib=384
capture_bytes=${CAPTURE_BYTES:-4000000}

why=
[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
[ -f "$lab/vmlinuz" ] || why='no kernel (make lab)'
if [ -n "$why" ]; then
    for name in runs 'has a map with two VMs' 'decodes to what ran, and who, and when' \
        'is everybody'\''s' 'has parts' 'with a wrong VM' 'has TSC offsets' 'with wrong TSC offsets'; do
        skip "a capture of Linux with two KVM guests $name" "$why"
    done
    summary
    exit
fi

# The initial file system: the lab's, with vpt and its image.
prepare() {
    local root=$work/root
    mkdir -p "$root"
    cp "$here/kvm-init" "$root/init"
    cp "$vpt" "$root/vpt"
    cp "$image" "$root/demo.elf"
    shared_objects "$root" "$vpt"
    cat >"$root/vm" <<'END'
run='/vpt run --mem 16M --timeout 0'
$run --tsc-khz 2500000 --append 'notrace rounds=1000000001 tick=5000000' /demo.elf 2>/dev/null &
$run --tsc-khz 400000 --append 'notrace rounds=1000000002 tick=3000000' /demo.elf 2>/dev/null &
mount -t debugfs debugfs /sys/kernel/debug
cd /sys/kernel/debug/kvm
until [ "$(grep -lvx 4294967296 */vcpu0/tsc-scaling-ratio 2>/dev/null | wc -l)" = 2 ]; do
    sleep 0.1
done
for vcpu in */vcpu0; do
    echo "vcpu $(cat "$vcpu/tsc-offset") $(cat "$vcpu/tsc-scaling-ratio")"
done
sleep 1
echo ready
wait
END
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

# Linux boots, and its guests work; then a part of that is captured, and memory as it was at the end.
capture() {
    qmp_pipes "$work/qmp"
    timeout 300 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -icount shift=3,sleep=off -cpu EPYC,+svm,+npt,+tsc-scale -m "$mem_mib" -display none -nodefaults -no-reboot \
        -serial "file:$work/console" -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -plugin "$execlog,out=$work/log,when=$work/begin,pages=on,times=$work/times" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control >"$work/qemu" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    if ! wait_for '^1000000001 rounds' 200 || ! wait_for '^1000000002 rounds' 60 || ! wait_for ^ready 60; then
        kill "$pid"
        tail -n 5 "$work/console"
        return 1
    fi
    qmp '{"execute": "stop"}' && touch "$work/begin" &&
        qmp "{\"execute\": \"x-vpt-start\", \"arguments\": {\"file\": \"$work/capture\",
            \"timing\": true}}" &&
        qmp '{"execute": "cont"}' || return 1
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

# The map that QEMU left, with memory for the host, and images for the VMs. Their CR3 values are those
# of boot, then of the processes in the order in which they were made.
map() {
    local boot cr3s
    boot=$((0x$(nm "$image" | sed -n 's/ [a-zA-Z] boot_pml4$//p')))
    mapfile -t cr3s < <("$vpt" parts --json "$work/capture.0" | jq 'select(.nr) | .cr3' | sort -nu |
        grep -vx "$boot")
    [ ${#cr3s[@]} = 2 ] || { echo "CR3 values of the VMs: ${cr3s[*]}"; return 1; }
    jq --arg dir "$(realpath guest-tests/build)" --arg memory "$work/memory" \
        --argjson sort "${cr3s[0]}" --argjson hash "${cr3s[1]}" '
        .host = {memory: {raw: $memory, address: 0, paging: "4-level"}} |
        .vms[].images = [{path: ($dir + "/demo.elf")}] |
        .vms[].processes = [{name: "sort", cr3: $sort, images: [{path: ($dir + "/sort.elf")}]},
                            {name: "hash", cr3: $hash, images: [{path: ($dir + "/hash.elf")}]}] |
        .vms |= [to_entries[] | .value.name = "\(.key + 1)" | .value]' \
        "$work/capture.0.map" >"$work/map" && jq -e '.vms | length == 2' "$work/map"
}

decodes() {
    "$BUILD/qemu/compare" --map "${1:-$work/map}" --pages --times "$work/times" "$work/capture.0" "$work/log" \
        >"$work/out" 2>&1 && grep -q '^identical' "$work/out"
}

# Where the trace names the wrong VM towards its end, all addresses are still right, and the pages are not.
notices_vm() {
    local one other at bytes
    read -r one other < <(jq -r '[.vms[].vmcs[0]] | @tsv' "$work/map")
    # As the packet has it: bits 51:12, low byte first.
    bytes=$(printf '%010x' $((other >> 12)) | sed -E 's/(..)(..)(..)(..)(..)/\\x\5\\x\4\\x\3\\x\2\\x\1/')
    cp "$work/capture.0" "$work/wrong" && cp "$work/capture.0.json" "$work/wrong.json" || return 1
    for at in $("$vpt" dump --json "$work/capture.0" | jq -r --arg vmcs "$(printf 'VMCS 0x%x' "$one")" \
        'select(.text == $vmcs) | .offset' | tail -n 10); do
        printf '%b' "$bytes" | dd of="$work/wrong" bs=1 seek=$((at + 2)) conv=notrunc status=none || return 1
    done
    ! "$BUILD/qemu/compare" --map "$work/map" --pages "$work/wrong" "$work/log" >"$work/out" 2>&1 &&
        grep -q '^different: .* is not of VM [12]' "$work/out"
}

# Offset and ratio of each VM are those that KVM tells; the ratio has 32 fractional bits there.
offsets() {
    jq -r '.vms[] | "vcpu \(.tsc_offset) \(.tsc_multiplier / 65536)"' "$work/map" | sort >"$work/out"
    sed 's/\r$//' "$work/console" | grep -x 'vcpu -[0-9]* [0-9]*' | sort | cmp - "$work/out" &&
        [ "$(wc -l <"$work/out")" = 2 ]
}

# What is true of time with these is not true with others: of branches, or of the guest's code in which
# the capture may begin.
notices_time() {
    local wrong
    for wrong in '.vms[0].tsc_offset += 10000' '.vms[1].tsc_offset -= 10000' 'del(.vms[0].tsc_multiplier)' \
        '.vms[1].tsc_multiplier += 4294967296'; do
        jq "$wrong" "$work/map" >"$work/map.wrong"
        ! decodes "$work/map.wrong" && grep -qE '^different: .*(branches|not executed) at TSC' "$work/out" || return 1
    done
}

# Each of the eight has a share.
everybody() {
    local who
    for who in 'host kernel' 'host processes' 'VM '{1,2}' '{kernel,sort,hash}; do
        grep -qE "^$who: [0-9]{4,} instructions on [1-9][0-9]* pages\$" "$work/out" || return 1
    done
    [ "$(grep -c ' instructions on ' "$work/out")" = 8 ]
}

parts() {
    "$vpt" parts --json --map "$work/map" "$work/capture.0" >"$work/parts" || return 1
    for who in '.nr == false' '.vm == "'{1,2}'" and .process == "'{sort,hash}'"'; do
        jq -es "any(.[]; $who)" "$work/parts" || return 1
    done
}

prepare
capture >"$work/out" 2>&1
check 'a capture of Linux with two KVM guests runs' test -s "$work/memory"
map >"$work/out" 2>&1
check 'a capture of Linux with two KVM guests has a map with two VMs' test -s "$work/map"
check 'a capture of Linux with two KVM guests decodes to what ran, and who, and when' decodes
sed 's/^/    /' "$work/out"
check 'a capture of Linux with two KVM guests is everybody'\''s' everybody
check 'a capture of Linux with two KVM guests has parts' parts
check 'a capture of Linux with two KVM guests: a VM that is named wrongly is noticed' notices_vm
echo "    $(tail -n 1 "$work/out")"
check 'a capture of Linux with two KVM guests has the TSC offset and ratio that KVM tells' offsets
sed 's/^/    /' "$work/out"
check 'a capture of Linux with two KVM guests: wrong TSC offsets and ratios are noticed' notices_time
echo "    $(tail -n 1 "$work/out")"
summary
