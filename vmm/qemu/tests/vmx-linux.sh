#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host-wide trace of kvm_intel on any machine: Linux runs on our QEMU with VMX in TCG, vpt runs two
# guests on its KVM at once, and a capture from outside sees kernel, processes, VMs and the VMs'
# processes. All of it decodes to what QEMU's plugin interface saw run, instruction by instruction, and
# who ran is checked by the pages of memory that code came from (see svm-linux.sh). Then it is taken
# apart (docs/demux.md), and each guest's trace has what that guest ran, and nothing of anybody else.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
# About a minute and a half.
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
    for name in runs 'has a map with two VMs' 'decodes to what ran, and who' 'has parts' \
        'taken apart' 'taken apart as a stream' 'taken apart: VM '{1,2} 'taken apart, with filters, by perf'; do
        skip "a capture of kvm_intel with two guests $name" "$why"
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
$run --append 'notrace rounds=1000000001 tick=5000000' /demo.elf 2>/dev/null &
$run --append 'notrace rounds=1000000002 tick=3000000' /demo.elf 2>/dev/null &
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
    timeout 400 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -icount shift=3,sleep=off -cpu max,vendor=GenuineIntel,+vmx,-la57 -m "$mem_mib" -display none \
        -nodefaults -no-reboot \
        -serial "file:$work/console" -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -plugin "$execlog,out=$work/log,when=$work/begin,pages=on" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control >"$work/qemu" 2>&1 &
    pid=$!
    qmp_open "$work/qmp"
    if ! wait_for '^1000000001 rounds' 250 || ! wait_for '^1000000002 rounds' 60 || ! wait_for ^ready 60; then
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
    "$BUILD/qemu/compare" --map "$work/map" --pages "$work/capture.0" "$work/log" >"$work/out" 2>&1 &&
        grep -q '^identical' "$work/out"
}

parts() {
    "$vpt" parts --json --map "$work/map" "$work/capture.0" >"$work/parts" || return 1
    for who in '.nr == false' '.vm == "'{1,2}'" and .process == "'{sort,hash}'"'; do
        jq -es "any(.[]; $who)" "$work/parts" || return 1
    done
}

# Each guest's trace has what compare found of the guest in the whole capture, and is what QEMU saw run.
apart() {
    "$vpt" demux --map "$work/map" --out "$work/guests" "$work/capture.0"
}
apart_as_stream() {
    local file
    "$vpt" demux --like "$work/capture.0" --map "$work/map" --out "$work/stream" - < <(cat "$work/capture.0") || return 1
    for file in {1,2}.0{,.code}; do
        cmp "$work/guests/$file" "$work/stream/$file" || return 1
    done
}
insns_of() { # PATTERN
    awk -v who="$1" '$0 ~ who { sum += $(NF - (/ on /? 4 : 1)) } END { print sum + 0 }' "$work/whole"
}
vm_alone() { # VM
    "$BUILD/qemu/compare" --pages "$work/guests/$1.0" "$work/log" >"$work/out" 2>&1 &&
        grep -q '^identical' "$work/out" &&
        [ "$(insns_of "^VM $1 ")" = "$(sed -n 's/ instructions, .*//p' "$work/out")" ] &&
        "$BUILD/tests/foreign" "$work/map" "$work/capture.0" "$1" "$work/guests" >"$work/out" 2>&1
}

# User code of one process of the guest alone, which perf can have the file of.
by_perf() {
    local cr3 name='VM 1 sort'
    cr3=$(jq '.vms[0].processes[0].cr3' "$work/map")
    "$vpt" demux --map "$work/map" --vm 1 --user --cr3 "$cr3" --out "$work/sort" "$work/capture.0" &&
        "$vpt" convert --image guest-tests/build/sort.elf "$work/sort/1.0" "$work/perf.data" &&
        perf script -i "$work/perf.data" --itrace=i0nse -F ip >"$work/ips" || return 1
    grep -c error "$work/ips" && return 1
    [ "$(insns_of "^$name:")" = "$(wc -l <"$work/ips")" ]
}

prepare
capture >"$work/out" 2>&1
check 'a capture of kvm_intel with two guests runs' test -s "$work/memory"
sed 's/^/    /' "$work/out" | tail -n 5
map >"$work/out" 2>&1
check 'a capture of kvm_intel with two guests has a map with two VMs' test -s "$work/map"
check 'a capture of kvm_intel with two guests decodes to what ran, and who' decodes
cp "$work/out" "$work/whole"
sed 's/^/    /' "$work/out"
check 'a capture of kvm_intel with two guests has parts' parts
check 'a capture of kvm_intel with two guests taken apart' apart
check 'a capture of kvm_intel with two guests taken apart as a stream' apart_as_stream
for vm in 1 2; do
    check "a capture of kvm_intel with two guests taken apart: VM $vm" vm_alone "$vm"
    sed 's/^/    /' "$work/out"
done
if perf --version >/dev/null 2>&1; then
    check 'a capture of kvm_intel with two guests taken apart, with filters, by perf' by_perf
else
    skip 'a capture of kvm_intel with two guests taken apart, with filters, by perf' 'no perf'
fi
summary
