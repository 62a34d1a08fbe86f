# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # lib.sh sets what it needs
# Sourced, behind lib.sh and qmp.sh: Linux with KVM on our QEMU, two VMs of vpt on that, and captures of all
# of it from outside. The VMs run the same image: their code stands at the same addresses, and their
# processes have the same CR3 values. What belongs to a QEMU or its capture stands in $work/NAME.*.

cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
lab=$cache/lab
here=vmm/qemu/linux
# shellcheck source=vmm/qemu/linux/guest.sh
. "$here/guest.sh"
image=guest-tests/build/demo.elf
mem_mib=384
# shellcheck disable=SC2034 # for the scripts: a processor for kvm_intel, and one for kvm-amd
intel=max,vendor=GenuineIntel,+vmx,-la57 amd=EPYC,+svm,+npt,+tsc-scale

# need_two_vms WHAT CASE...: without QEMU or the lab's kernel, the script ends here, with each case skipped.
# shellcheck disable=SC2034 # skip_all uses it
need_two_vms() {
    [ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
    [ -f "$lab/vmlinuz" ] || why='no kernel (make lab)'
    skip_all "$@"
}

# prepare ARGUMENTS ARGUMENTS <SCRIPT: the initial file system, the lab's with vpt and its image. Linux
# starts both VMs, with more arguments of vpt run for each; then the script runs.
prepare() {
    local root=$work/root
    mkdir -p "$root"
    cp "$here/kvm-init" "$root/init"
    cp "$vpt" "$root/vpt"
    cp "$image" "$root/demo.elf"
    shared_objects "$root" "$vpt"
    cat >"$root/vm" <<END
run='/vpt run --mem 16M --timeout 0'
\$run $1 --append 'notrace rounds=1000000001 tick=5000000' /demo.elf 2>/dev/null &
\$run $2 --append 'notrace rounds=1000000002 tick=3000000' /demo.elf 2>/dev/null &
END
    cat >>"$root/vm"
    echo wait >>"$root/vm"
    chmod +x "$root/init" "$root/vpt"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

# begin NAME CPU [ARGUMENT...]: Linux, in the background, with its monitor; $pid. While a capture goes on,
# NAME.log says what ran, with pages; ${log_more-} is more for the plugin.
begin() {
    local name=$1 cpu=$2
    shift 2
    qmp_pipes "$work/$name.qmp"
    timeout 600 "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -icount shift=3,sleep=off -cpu "$cpu" -m "$mem_mib" -display none \
        -nodefaults -no-reboot -serial "file:$work/$name.console" \
        -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -plugin "$execlog,out=$work/$name.log,when=$work/$name.begin,pages=on${log_more:+,$log_more}" \
        -chardev "pipe,id=qmp,path=$work/$name.qmp" -mon chardev=qmp,mode=control "$@" >"$work/$name.qemu" 2>&1 &
    pid=$!
    qmp_open "$work/$name.qmp"
}

end() {
    qmp quit
    wait "$pid"
    qmp_close
}

# wait_for NAME PATTERN SECONDS: until its console says so.
wait_for() {
    local tries=0
    until grep "$2" "$work/$1.console" >/dev/null 2>&1; do
        sleep 0.2
        tries=$((tries + 1))
        if [ $tries -ge $(($3 * 5)) ] || ! kill -0 "$pid" 2>/dev/null; then
            tail -n 5 "$work/$1.console"
            return 1
        fi
    done
}

# Both VMs are at work.
wait_for_vms() { # NAME
    wait_for "$1" '^1000000001 rounds' 400 && wait_for "$1" '^1000000002 rounds' 100
}

captured_bytes() {
    qmp x-vpt-query | jq '.return[0].bytes // 0'
}

# capture_on BYTES: until the capture has so many more.
capture_on() {
    local before bytes
    before=$(captured_bytes) && qmp cont || return 1
    bytes=$before
    while [ $((bytes - before)) -lt "$1" ]; do
        bytes=$(captured_bytes) || return 1
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
}

# capture NAME BYTES: of a Linux that stands still. It runs on behind it.
capture() {
    touch "$work/$1.begin" &&
        qmp x-vpt-start "\"file\": \"$work/$1\", \"timing\": true" &&
        capture_on "$2"
}

# end_capture NAME: Linux stands still; its memory as it is now.
end_capture() {
    qmp x-vpt-stop &&
        qmp_memory "$work/$1.memory" "$mem_mib"
}

# captures NAME CPU BYTES: all of it, from boot to Linux's end. It stands still while nothing is captured,
# from when both VMs are at work and the script has said that it is ready.
captures() {
    begin "$1" "$2"
    wait_for_vms "$1" && wait_for "$1" ^ready 60 && qmp stop && capture "$1" "$3" &&
        qmp stop && end_capture "$1" && end
}

# map NAME: the map that QEMU left, with memory for the host, and images for the VMs. The CR3 values of their
# processes are those of boot, then of the processes in the order in which they were made.
map() {
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

# same NAME MAP [ARGUMENT...]: what was captured is what ran, and whose it is, by pages; arguments of compare.
same() {
    local name=$1 map=$2
    shift 2
    "$BUILD/qemu/compare" --map "$map" --pages "$@" "$work/$name.0" "$work/$name.log" >"$work/out" 2>&1 &&
        grep '^identical' "$work/out" >/dev/null
}

# Host and both VMs, with their processes, have parts of it.
has_parts() { # NAME
    local who
    "$vpt" parts --json --map "$work/$1.map" "$work/$1.0" >"$work/parts" || return 1
    for who in '.nr == false' '.vm == "'{1,2}'" and .process == "'{sort,hash}'"'; do
        jq -es "any(.[]; $who)" "$work/parts" || return 1
    done
}
