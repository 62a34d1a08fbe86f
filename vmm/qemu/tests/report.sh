#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What happened in a guest: Debian's kernel of the lab on two processors, captured from outside while
# three known programs and a shell loop of 1,000 forks and execs run. How much of what ran has a name,
# in all and of each process, and whether the names are those that the guest itself tells.
#
#   report.sh      (make report-test)
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped. Some
# minutes. With REPORT_KEEP=FOLDER the traces, their names and what the guest told stay there; if they
# are there already, no guest is run.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
vpt=$build/vpt
programs=vmm/tests/programs
seconds=1200 # that a step of the guest may take
# Percent of the instructions that are to have a name, of a function or of a file at least.
least=99
out=${REPORT_KEEP:-$work/out}
machine= # the process of QEMU, once it runs
trap '[ -z "$machine" ] || kill "$machine" 2>/dev/null; rm -rf "$work"' EXIT
mkdir -p "$out"

if [ -n "$why" ]; then
    skip "what happened in a Linux guest: $why"
    summary
    exit
fi

# ---- The guest ----

# One program with all that debug information tells, one with the names that the dynamic linker needs
# alone, one whose names are mangled.
build_programs() { # FOLDER
    local cc=${CC:-gcc} flags=(-O2 -g '-Wl,--build-id=sha1' -fPIE -pie)
    mkdir -p "$1/usr/bin" "$1/usr/lib" &&
        $cc -O2 -g -fPIC -shared -Wl,--build-id=sha1 -o "$1/usr/lib/libtools.so" $programs/tools.c &&
        $cc "${flags[@]}" -o "$1/usr/bin/crew" $programs/crew.c -pthread -L"$1/usr/lib" -ltools &&
        $cc "${flags[@]}" -rdynamic -s -o "$1/usr/bin/keeper" $programs/crew.c $programs/tools.c -pthread &&
        "${CXX:-g++}" "${flags[@]}" -fno-exceptions -o "$1/usr/bin/gadget" $programs/gadget.cc
}

prepare() {
    local root=$work/root program
    mkdir -p "$root"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio") || return 1
    build_programs "$root" || return 1
    for program in crew keeper gadget; do
        LD_LIBRARY_PATH=$root/usr/lib shared_objects "$root" "$root/usr/bin/$program"
    done
    cp "$here/report-init" "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

wait_for() { # COMMAND...
    local tries=0
    until "$@"; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt $((seconds * 5)) ] && kill -0 "$machine" 2>/dev/null || return 1
    done
}
told() { grep -q "^step $1" "$work/console"; }
go_on() { echo go >&9; }

# Without CMPXCHG16B, as in names.sh.
start() {
    truncate -s 64M "$work/disk"
    qmp_pipes "$work/qmp"
    mkfifo "$work/go.in" "$work/go.out"
    exec 9<>"$work/go.in"
    timeout $((seconds * 3)) "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -cpu EPYC,-cx16 -smp 2 -m 384 -display none -nodefaults -no-reboot -serial "file:$work/console" \
        -chardev "pipe,id=go,path=$work/go" -device isa-serial,chardev=go,index=1 \
        -kernel "$lab/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init" \
        -drive "file=$work/disk,format=raw,if=none,id=disk" -device virtio-blk-pci,drive=disk \
        -qmp "unix:$work/monitor,server,nowait" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control >"$work/qemu" 2>&1 &
    machine=$!
    qmp_open "$work/qmp"
    wait_for told begun || { tail -n 5 "$work/console" "$work/qemu"; return 1; }
}

# Captured by the monitor while the programs run, with no option but where the guest is. All that vpt
# knows of code and names is what the capture leaves beside the trace.
capture() {
    local status=0 capturing
    "$vpt" capture --qmp "$work/monitor" "$out/trace" >"$work/captured" 2>&1 &
    capturing=$!
    wait_for test -s "$out/trace.1.json" || { cat "$work/captured"; return 1; }
    go_on
    wait_for told ready || status=1
    kill -INT "$capturing"
    wait "$capturing" || status=$?
    cat "$work/captured"
    return $status
}

# The guest says what it knows of itself.
tell() {
    go_on
    wait_for told told || return 1
    mkdir -p "$out/told" && tar -C "$out/told" -xf "$work/disk" || return 1
    qmp '{"execute": "quit"}'
    wait "$machine"
    machine=
    qmp_close
}

# ---- Names ----

# "instructions process pid function" for all that ran, a line each, and whether it was in the kernel. The one
# place that knows how vpt says it.
sum_up() {
    "$vpt" report --by process,mode,function --json "$out"/trace.[0-9] 2>"$work/remarks" | jq -r '
        .rows[] | [.instructions, .process, .pid // "?", .function, .mode] | @tsv' >"$work/sums"
    [ -s "$work/sums" ] || { cat "$work/remarks"; return 1; }
}

# Of each process, and of all: instructions, and percent of them that have a name of a function, of a file
# at least, and none.
shares() {
    awk -F '\t' '
        function add(who) {
            all[who] += $1
            if ($4 == "?") none[who] += $1
            else if ($4 ~ /^\[/) file[who] += $1
        }
        { add("(all)"); add($2 " " $3) }
        END { for (who in all) printf "%12d  %6.2f %% functions  %6.2f %% files  %6.2f %% none  %s\n", all[who],
            100 * (all[who] - none[who] - file[who]) / all[who], 100 * file[who] / all[who],
            100 * none[who] / all[who], who }' "$work/sums" | sort -rn
}
enough_named() {
    shares | head -n 25
    shares | awk -v least=$least '$NF == "(all)" { exit !(100 - $8 >= least) }'
}

# A program runs under the pid that /proc had for it, and these functions of it.
program_is_told() { # NAME FUNCTION...
    local name=$1 pid function
    shift
    pid=$(grep -lx "$name" "$out"/told/proc/*/comm | sed -n 's,.*/\([0-9]*\)/comm,\1,p')
    for function; do
        awk -F '\t' -v name="$name" -v pid="$pid" -v function_="$function" '
            $2 == name && $3 == pid && $4 ~ function_ { found = 1 } END { exit !found }' "$work/sums" ||
            { echo "$name, pid $pid: no $function"; return 1; }
    done
}

# What ran in the kernel is called as its /proc/kallsyms has it.
kernel_is_told() {
    awk -F '\t' '$5 == "kernel" && $4 != "?" { print $4 }' "$work/sums" | sort -u >"$work/named"
    awk '{ print $3 }' "$out/told/kallsyms" | sort -u >"$work/kallsyms"
    comm -23 "$work/named" "$work/kallsyms" >"$work/others"
    wc -l <"$work/named"
    head "$work/others"
    [ "$(wc -l <"$work/named")" -gt 1000 ] && [ ! -s "$work/others" ]
}

# A module has read the disk.
modules_are_told() {
    awk '$4 ~ /virtio/ { print $3 }' "$out/told/kallsyms" | sort -u | comm -12 - "$work/named" | tee "$work/of-modules"
    grep -q virtio "$work/of-modules"
}

# tells NAME COMMAND...: check, and what the command says below the name.
tells() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then
        pass "$name"
        sed 's/^/    /' "$work/why"
    else
        fail "$name" "$work/why"
    fi
}

if [ ! -e "$out/told/kallsyms" ]; then
    check "a guest with its programs is made" prepare
    check "a Linux guest with two processors runs" start
    tells "what happens there is captured" capture
    check "the guest tells of itself" tell
fi
check "what ran is summed up" sum_up
tells "at least $least % of the instructions have a name" enough_named
check "the program with debug information, its pid, and functions" program_is_told crew '^choose$' '^spread$' \
    '^fill$' '^work$' '^tool_mix$' '^tool_fibonacci$'
check "the stripped program, its pid, and functions" program_is_told keeper '^crew_sum$' '^tool_mix$' '^tool_fibonacci$'
check "the program with mangled names, its pid, and functions" program_is_told gadget 'machine.*drive' \
    'machine.*Wheel.*turn' 'machine.*Spring.*move' 'main'
check "functions of the kernel are those of the guest's kallsyms" kernel_is_told
check "functions of modules have names" modules_are_told
summary
