#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Linux guests: what `vpt names` finds in dumps of them is what the guests' own /proc said. Debian's
# kernel of the lab, with page-table isolation and two processors, and with 5-level paging; with a note
# of VMCOREINFO in the dump, and without. If there is a QEMU of ours, each is looked at before it is
# dumped, while it runs and while it is stopped, and that tells the same; and a part of the first is
# captured: what ran there has names, by the map of the dump and by those that the capture took.
#
# Needs the lab's kernel; without it, every test is named and counted as skipped. About a minute. With
# NAMES_LAB=FOLDER it is the kernel that vmm/lab/prepare.sh has put there.
set -u

. vmm/tests/lib.sh
. vmm/qemu/tests/qmp.sh
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}
qemu=${QEMU_DIR:-$cache/qemu}/build/qemu-system-x86_64
lab=${NAMES_LAB:-$cache/lab}
# shellcheck source=vmm/qemu/linux/guest.sh
. vmm/qemu/linux/guest.sh
seconds=600

ours=yes capture=capture
if [ ! -x "$qemu" ]; then
    ours=
    qemu=$(command -v qemu-system-x86_64)
fi
[ -n "$qemu" ] || why='no QEMU'
[ -f "$lab/vmlinuz" ] || why='no kernel (make lab)'
skip_all "names of a Linux guest with" 'two processors and page-table isolation' '5-level paging'

# The initial file system: busybox, the lab's modules, and a program with threads and libraries.
prepare() {
    local root=$work/root package
    mkdir -p "$root"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio") || return 1
    mkdir -p "$root/usr/bin"
    # What tells QEMU of VMCOREINFO is a module that the lab has no use for.
    for package in "$lab"/packages/linux-image-*.deb; do
        [ -f "$package" ] || continue
        dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards '*/qemu_fw_cfg.ko*' >"$work/module" || continue
        xz -dc "$work/module" >"$root/modules/qemu_fw_cfg.ko" 2>/dev/null || # since 6.12 they are compressed
            cp "$work/module" "$root/modules/qemu_fw_cfg.ko"
        echo qemu_fw_cfg.ko >>"$root/modules/order" && break
    done
    cp "$BUILD/qemu/named" "$root/usr/bin/"
    shared_objects "$root" "$root/usr/bin/named"
    cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /out /sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t tmpfs out /out
while read -r module; do
    insmod "/modules/$module"
done </modules/order
echo 0 >/proc/sys/kernel/kptr_restrict
mkdir /out/library
cp /usr/bin/named /out/library/program
mount --bind /out/library /tmp
/tmp/program /out/begun &
until [ -e /out/begun ]; do sleep 0.1; done
sleep 1000000 &
for process in /proc/[0-9]*; do
    grep -q . "$process/maps" || continue
    mkdir -p "/out$process"
    cp "$process/comm" "$process/maps" "/out$process/"
    for thread in "$process"/task/*; do
        echo "${thread##*/} $(cat "$thread/comm")"
    done >"/out$process/threads"
done
cp /proc/kallsyms /proc/modules /out/
tar -C /out -cf - . | dd of=/dev/vda bs=1M 2>/dev/null
sync
echo all is told >/dev/ttyS0
wait
END
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

wait_for() { # PATTERN FILE
    local tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt $((seconds * 5)) ] && kill -0 "$pid" 2>/dev/null || return 1
    done
}

# Processors are without CMPXCHG16B: that of QEMU 7.2 spoils flags, and Linux 6.12 cannot boot with it.
#
# What only our QEMU can do: names of the guest as it runs, and of one moment; and a capture of it, in
# which a program ends. Then it is stopped, and what it has to tell stays as it is.
look() { # OUT
    local names=("$vpt" names --json --qmp "$1/monitor")
    "${names[@]}" --out "$1/runs" >"$1/runs.sum" 2>"$1/runs.remarks" || return 1
    [ "$2" = capture ] && { "$vpt" capture --qmp "$1/monitor" --seconds 2 "$1/trace" || return 1; }
    "${names[@]}" --out "$1/paused" --pause >"$1/paused.sum" 2>"$1/paused.remarks" || return 1
    qmp query-status | grep -q '"running": true' && qmp stop &&
        "${names[@]}" --out "$1/stopped" >"$1/stopped.sum" 2>"$1/stopped.remarks"
}

# dump NAME APPEND [ARGUMENT...]: boots a guest and dumps it to $work/NAME/core, with what it told of
# itself beside it. It is looked at before, and captured for a moment, if that is possible.
dump() {
    local out=$work/$1 append=$2
    shift 2
    mkdir -p "$out"
    truncate -s 64M "$out/disk"
    qmp_pipes "$out/qmp"
    timeout $((seconds * 2)) "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg -m 384 \
        -display none -nodefaults -no-reboot -serial "file:$out/console" -kernel "$lab/vmlinuz" \
        -initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init $append" \
        -drive "file=$out/disk,format=raw,if=none,id=disk" -device virtio-blk-pci,drive=disk \
        -chardev "pipe,id=qmp,path=$out/qmp" -mon chardev=qmp,mode=control \
        -qmp "unix:$out/monitor,server,nowait" "$@" >"$out/qemu" 2>&1 &
    pid=$!
    qmp_open "$out/qmp"
    wait_for '^all is told' "$out/console" || { kill "$pid"; tail -n 5 "$out/console" "$out/qemu"; return 1; }
    if [ -n "$ours" ]; then
        look "$out" "$capture" || return 1
    fi
    qmp stop || return 1
    qmp dump-guest-memory "\"paging\": false, \"protocol\": \"file:$out/core\"" || return 1
    qmp quit
    wait "$pid"
    qmp_close
    mkdir "$out/told" && tar -C "$out/told" -xf "$out/disk"
}

names() { # NAME [OPTION...]
    "$vpt" names --json "$work/$1/core" >"$work/$1/sum" 2>"$work/$1/remarks" || { cat "$work/$1/remarks"; return 1; }
    cat "$work/$1/sum" "$work/$1/remarks"
    [ ! -s "$work/$1/remarks" ]
}

# same_live NAME HOW: all that was told of the guest before it was dumped. The dump itself is in no map.
same_live() {
    local of=$work/$1/$2 file
    cat "$of.remarks"
    [ ! -s "$of.remarks" ] && cmp "$of.sum" "$work/$1/sum" || return 1
    for file in kallsyms symbols vdso; do
        cmp "$of.$file" "$work/$1/core.$file" || return 1
    done
    plain() { sed "s/\"$2\\.\\(kallsyms\|symbols\|vdso\\)\"/\"\\1\"/" "$1" | jq 'del(.host.memory)'; }
    diff <(plain "$of.map" "$2") <(plain "$work/$1/core.map" core)
}

# The letters of a module's symbols tell in /proc whether they are exported, too. Two variables without
# a size may stand at one address under one name; vpt tells each line once.
symbols() {
    awk '{ print $1, tolower($2), $3, $4 }' "$1" | sort -u
}

same_symbols() {
    symbols "$work/$1/told/kallsyms" >"$work/wanted"
    symbols "$work/$1/core.kallsyms" >"$work/found"
    [ "$(wc -l <"$work/found")" -gt 50000 ] && diff "$work/wanted" "$work/found"
}

same_modules() {
    cut -d ' ' -f 1 "$work/$1/told/modules" | sort >"$work/wanted"
    sed -n 's/.*\t\[\([^]]*\)\]$/\1/p' "$work/$1/core.kallsyms" | sort -u | grep -vxE 'bpf|__builtin__.*' >"$work/found"
    [ -s "$work/found" ] && diff "$work/wanted" "$work/found"
}

has_bpf() {
    grep -E $'^[0-9a-f]{16} t bpf_prog_[0-9a-f]{16}_named\t\\[bpf\\]$' "$work/$1/core.kallsyms"
}

# Processes, with their threads. What copied the files has ended meanwhile.
same_processes() {
    local process pid
    for process in "$work/$1/told/proc"/*; do
        pid=${process##*/}
        jq -r --argjson pid "$pid" '.host.processes[] | select(.pid == $pid) | .name' "$work/$1/core.map" |
            diff - "$process/comm" || return 1
        jq -r --argjson pid "$pid" '.host.processes[] | select(.pid == $pid) | .threads[] |
            "\(.tid) \(.name)"' "$work/$1/core.map" | sort | diff - <(sort "$process/threads") || return 1
    done
    [ "$(find "$work/$1/told/proc" -name threads | wc -l)" = "$(jq '.host.processes | length - 1' "$work/$1/core.map")" ] &&
        grep -rqx '[0-9]* worker' "$work/$1/told/proc"
}

# The files whose code is mapped, at their addresses.
same_files() {
    local process pid
    for process in "$work/$1/told/proc"/*; do
        pid=${process##*/}
        awk '$2 ~ /x/ && $6 ~ /^\// { sub("-", " ", $1); print $1, $3, $6 }' "$process/maps" | sort >"$work/wanted"
        jq -r --argjson pid "$pid" '.host.processes[] | select(.pid == $pid) | .files[] |
            [.start[2:], .end[2:], .offset[2:], .path] | @tsv' "$work/$1/core.map" |
            while read -r start end offset path; do
                printf '%08x %08x %08x %s\n' $((16#$start)) $((16#$end)) $((16#$offset)) "$path"
            done | sort >"$work/found"
        diff "$work/wanted" "$work/found" || return 1
    done
    grep -q ' /tmp/program$' "$work"/"$1"/told/proc/*/maps && grep -q 'libc\.so' "$work"/"$1"/told/proc/*/maps
}

build_id() {
    readelf -n "$1" 2>/dev/null | sed -n 's/.*Build ID: //p'
}

same_build_ids() {
    local path id count=0
    while read -r path id; do
        case $path in
        /tmp/program) path=/usr/bin/named ;;
        esac
        [ "$(build_id "$work/root$path")" = "$id" ] || { echo "$path: $id"; return 1; }
        count=$((count + 1))
    done < <(jq -r '.host.processes[].files // [] | .[] | select(.build_id) | "\(.path) \(.build_id)"' "$work/$1/core.map")
    echo "$count build ids"
    [ "$count" -ge 3 ]
}

# The functions that a file tells, of those that are in it: its name and size.
functions() {
    readelf -sW "$1" | awk '($4 == "FUNC" || $4 == "IFUNC") && $7 != "UND" { sub("@.*", "", $8); print $3, $8 }' | sort -u
}

# Of a program with all its symbols, and of a library that has those of the dynamic linker alone.
has_functions() {
    functions "$work/$1/core.symbols" >"$work/found"
    { functions "$work/root/usr/bin/named"; functions "$work"/root/lib/x86_64-linux-gnu/libc.so.6; } | sort -u >"$work/wanted"
    wc -l <"$work/wanted"
    [ "$(wc -l <"$work/wanted")" -gt 2000 ] && [ -z "$(comm -23 "$work/wanted" "$work/found" | head -n 3 | tee /dev/stderr)" ]
}

has_vdso() {
    readelf -sW --dyn-syms "$work/$1/core.vdso" | grep -q __vdso_clock_gettime &&
        jq -e '[.host.processes[] | select(.images)] | length > 2' "$work/$1/core.map"
}

has_note() {
    readelf -n "$work/$1/core" 2>/dev/null | grep -q VMCOREINFO
}

roots() { # NAME COUNT
    jq -e --argjson count "$2" '.host.processes[] | select(.name == "program") | .cr3 | length == $count' \
        "$work/$1/core.map"
}

# What the processors ran has names, but for at most one instruction of a hundred; the work of the
# thread is among it, and nothing of the code is missing.
named_in_trace() {
    local trace all=0 unnamed=0 ran without
    for trace in "$work/$1"/trace.[0-9]; do
        "$vpt" decode --map "$work/$1/core.map" --summary "$trace" >"$work/summary" || return 1
        read -r ran without < <(awk '$1 == "instructions" { all = $2 } $3 == "?" { unnamed = $2 }
            END { print all + 0, unnamed + 0 }' "$work/summary")
        all=$((all + ran)) unnamed=$((unnamed + without))
        cat "$work/summary" >>"$work/summaries"
    done
    echo "$unnamed of $all instructions have no name"
    [ "$all" -gt 100000 ] && [ $((unnamed * 100)) -le "$all" ] && grep -q ' add_up$' "$work/summaries" &&
        grep -q ' do_syscall_64$' "$work/summaries"
}

# The same by the capture's own map and code log, with no option. How long blocks are depends on where
# their code comes from.
named_by_itself() {
    local trace
    ran() { "$vpt" decode --summary --json "$@" | jq -c 'del(.blocks) | .functions[] |= del(.blocks) | .[]'; }
    jq -e '.map == "trace.map"' "$work/$1/trace.0.json" && ! jq -e '.host.memory' "$work/$1/trace.map" || return 1
    for trace in "$work/$1"/trace.[0-9]; do
        ran "$trace" >"$work/found" && ran --map "$work/$1/core.map" "$trace" >"$work/wanted" || return 1
        [ "$(wc -l <"$work/found")" -gt 5 ] && cmp "$work/wanted" "$work/found" || return 1
    done
}

all() { # NAME KIND ROOTS
    check "a Linux guest with $2: has names" names "$1"
    sed 's/^/    /' "$work/why"
    for how in runs paused stopped; do
        if [ -n "$ours" ]; then
            check "a Linux guest with $2: the same names while it $how" same_live "$1" "$how"
        else
            skip "a Linux guest with $2: the same names while it $how" 'no QEMU of ours (make qemu)'
        fi
    done
    check "a Linux guest with $2: the symbols that it has" same_symbols "$1"
    check "a Linux guest with $2: the modules that it has" same_modules "$1"
    check "a Linux guest with $2: its BPF program" has_bpf "$1"
    check "a Linux guest with $2: its processes and threads" same_processes "$1"
    check "a Linux guest with $2: their files" same_files "$1"
    check "a Linux guest with $2: build ids of their files" same_build_ids "$1"
    check "a Linux guest with $2: functions of their files" has_functions "$1"
    check "a Linux guest with $2: its vDSO" has_vdso "$1"
    check "a Linux guest with $2: page tables of processes" roots "$1" "$3"
}

check 'a file system for guests' prepare
check 'a Linux guest with page-table isolation is dumped' dump pti pti=on -cpu EPYC,-cx16 -smp 2
all pti 'page-table isolation' 2
if [ -n "$ours" ]; then
    check 'what a Linux guest ran has names' named_in_trace pti
    sed 's/^/    /' "$work/why"
    check 'what a Linux guest ran has names with no option' named_by_itself pti
else
    skip 'what a Linux guest ran has names' 'no QEMU of ours (make qemu)'
    skip 'what a Linux guest ran has names with no option' 'no QEMU of ours (make qemu)'
fi
capture=
check 'a Linux guest with 5-level paging is dumped' dump la57 pti=off -cpu max,-cx16 -device vmcoreinfo
all la57 '5-level paging' 1
if grep -qx qemu_fw_cfg.ko "$work/root/modules/order"; then
    check 'a Linux guest with 5-level paging: its dump has a note of VMCOREINFO' has_note la57
else
    skip 'a Linux guest with 5-level paging: its dump has a note of VMCOREINFO' 'no module qemu_fw_cfg'
fi
summary
