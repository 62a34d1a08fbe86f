#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# SVM guests of a guest that is traced, on our QEMU: what svm-tests traced of itself and its VMs, and
# what a capture from outside saw, are what QEMU's plugin interface saw run, and each instruction is
# attributed to the one that ran it.
#
# Needs `make qemu`; without it, every test is named and counted as skipped. About half a minute.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/machine.sh
qemu=${QEMU_DIR:-${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/qemu}/build/qemu-system-x86_64
image=guest-tests/build/svm-tests.elf
compare=$BUILD/qemu/compare
execlog=${EXECLOG:-$BUILD/qemu/execlog.so}
profiles='broadwell icelake-server max'

[ -x "$qemu" ] && [ -f "$execlog" ] || why='no QEMU (make qemu)'
# shellcheck disable=SC2086 # a list of names
skip_all 'svm-tests,' $profiles concealed attribution capture 'capture with a map'

# machine NAME CPU [ARGUMENT...]: svm-tests with its console in NAME.out.
machine() {
    local name=$1 cpu=$2 status=0
    shift 2
    (bare_machine 120 "$cpu" "$image" -device "vpt-port,trace=$work/$name.pt,image=$image" \
        -plugin "$execlog,out=$work/$name.log" "$@") >"$work/$name.out" 2>&1 || status=$?
    return $((status / 2))
}

# reports NAME: the guest's cases, and that there were some.
reports() {
    cp "$work/$1.out" "$work/out"
    grep -E '^(FAIL|got|want)' "$work/$1.out"
    grep -qE '^[1-9][0-9]* passed, 0 failed' "$work/$1.out"
}

decodes() {
    "$compare" "$work/$1.pt" "$work/$1.log" >"$work/out" 2>&1 && grep -q '^identical' "$work/out"
}

for profile in $profiles; do
    machine "$profile" "vpt-profile=$profile"
    check "svm-tests on $profile" reports "$profile"
    check "svm-tests on $profile: the decoded path is the executed one" decodes "$profile"
done
echo "    $(grep ' instructions, ' "$work/out")"

machine concealed vpt-profile=sapphire-rapids,vpt-conceal=on -append conceal
check 'svm-tests on sapphire-rapids, concealed' reports concealed
check 'svm-tests, concealed: the decoded path is the executed one' decodes concealed
hides() {
    "$vpt" parts --json "$work/concealed.pt" >"$work/out"
    ! grep -qE '"nr":true|"vmcs"' "$work/out"
}
check 'svm-tests, concealed: vpt parts sees no VM' hides

# ---- Attribution: NR and VMCS against the code that only one of them runs ----

# map NAME: a map file with a VM for each VMCB that svm-tests printed.
map() {
    local elf
    elf=$(realpath "$image")
    sed -n 's/^VMCB //p' "$work/$1.out" | jq -s --arg elf "$elf" '{"vpt-map": 1,
        host: {images: [{path: $elf}]},
        vms: [.[] | {name: tostring, vmcs: [.], images: [{path: $elf}]}]}' >"$work/$1.map"
}

# functions PATTERN: first and last address of each function, one a line, in decimal.
functions() {
    nm -S "$image" | awk -v pattern="^($1)\$" '$4 ~ pattern { print $1, $2 }' |
        while read -r first size; do
            echo "$((0x$first)) $((0x$first + 0x$size - 1))"
        done
}

# Blocks of functions that only VMs run are theirs, those that only the host runs are not.
attributed() { # NAME MAP
    "$vpt" decode --map "$2" --blocks --json "$work/$1" >"$work/blocks" || return 1
    functions 'svm_guest_(main|waits|faults|ud)' >"$work/theirs"
    functions 'svm_enter|run_to_end|enter' >"$work/ours"
    jq -r 'select(.type == "block") | [.ip, .vm // "host"] | @tsv' "$work/blocks" |
        while read -r ip vm; do echo "$((ip)) $vm"; done |
        awk -v theirs="$work/theirs" -v ours="$work/ours" '
            function inside(ip, first, last, n,   i) {
                for (i = 0; i < n; i++) if (ip >= first[i] && ip <= last[i]) return 1
                return 0
            }
            BEGIN {
                while ((getline line < theirs) > 0) { split(line, f); t1[t] = f[1]; t2[t++] = f[2] }
                while ((getline line < ours) > 0) { split(line, f); o1[o] = f[1]; o2[o++] = f[2] }
            }
            inside($1, t1, t2, t) { guest++; if ($2 == "host") wrong++; seen[$2] = 1 }
            inside($1, o1, o2, o) { host++; if ($2 != "host") wrong++ }
            END {
                for (vm in seen) vms++
                print guest + 0, "blocks of", vms + 0, "VMs,", host + 0, "of the host,", wrong + 0, "wrong"
                exit !(guest > 100 && host > 50 && vms > 5 && wrong == 0)
            }' >"$work/out"
}
map max
check 'svm-tests: blocks belong to the VM that ran them' attributed max.pt "$work/max.map"
echo "    $(cat "$work/out")"

parts_name() {
    "$vpt" parts --json "$work/max.pt" | jq -r 'select(.nr) | .vmcs' | sort -u >"$work/out"
    sed -n 's/^VMCB //p' "$work/max.out" | sort -u | cmp - "$work/out"
}
check 'svm-tests: vpt parts names every VMCB' parts_name

# ---- Capture from outside, while the guest traces itself ----

ranges=$(readelf -lW "$image" | awk '$1 == "LOAD" && /E 0x[0-9a-f]+$/ { print $3, $6 }' |
    while read -r address bytes; do
        printf '{"first": %u, "last": %u}\n' "$address" $((address + bytes - 1))
    done | paste -sd,)

captures() {
    qmp_pipes "$work/qmp"
    machine outside vpt-profile=icelake-server,vpt-conceal=on -append conceal -S \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control &
    qmp_open "$work/qmp"
    qmp x-vpt-start "\"file\": \"$work/capture\",
        \"ranges\": [$ranges], \"images\": [{\"path\": \"$(realpath "$image")\"}]" |
        grep -q return && qmp cont >/dev/null
    wait $!
    qmp_close
    reports outside && "$compare" "$work/capture.0" "$work/outside.log" >"$work/out" 2>&1 &&
        "$compare" "$work/outside.pt" "$work/outside.log" >/dev/null
}
check 'SVM guests: a capture tells of them, and the concealed trace of the guest itself does not' captures
echo "    $(grep ' instructions, ' "$work/out")"

# The map that QEMU left, with the VMs' code.
mapped() {
    jq --arg elf "$(realpath "$image")" '.vms[].images = [{path: $elf}]' "$work/capture.0.map" \
        >"$work/captured.map" || return 1
    attributed capture.0 "$work/captured.map" &&
        jq -c '[.vms[].vmcs[]] | sort' "$work/captured.map" >"$work/vmcbs" &&
        sed -n 's/^VMCB //p' "$work/outside.out" | jq -sc 'sort' | cmp - "$work/vmcbs" &&
        jq -e '[.vms[] | select(.tsc_offset == 1099511627776) | .tsc_multiplier] |
            sort == [null, 422212465065984]' "$work/captured.map"
}
check 'SVM guests: the map of the capture names its VMs' mapped
echo "    $(cat "$work/out")"

summary
