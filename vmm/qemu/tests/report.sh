#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What happened in a guest: Debian's kernel of the lab on two processors, with the shell, programs and
# libraries of this system, captured from outside while three known programs and a shell loop of 1,000
# forks and execs run. By QEMU's monitor, and as a domain of libvirt. How much of what ran has a name,
# and whether the names are right. There are four witnesses: the guest's /proc and kallsyms; its own
# trace of a program by its own perf, at the same time, as stock perf reads it; and of a third guest
# the log of executed blocks, with the names that readelf and kallsyms have for each address.
#
#   report.sh      (make report-test)
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped. Some
# minutes. With REPORT_KEEP=FOLDER the traces, their names and what the guests told stay there; of
# guests that are there already, none is run. REPORT_GUESTS names those that are wanted.
set -uo pipefail

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
# shellcheck source=vmm/libvirt/tests/session.sh
. vmm/libvirt/tests/session.sh
# shellcheck source=vmm/qemu/tests/report-names.sh
. vmm/qemu/tests/report-names.sh
vpt=$build/vpt
programs=vmm/tests/programs
guests=${REPORT_GUESTS:-monitor libvirt log}
seconds=1800 # that a step of the guest may take
# Percent of the instructions that are to have a name, of a function or of a file at least.
least=99
keep=${REPORT_KEEP:-$work/keep}
machine= # the process of QEMU, once it runs
libvirtd=
export VPT_PAGER=

end_all() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null
    [ -z "$libvirtd" ] || { virsh destroy report >/dev/null 2>&1; libvirt_end; }
    rm -rf "$work"
}
trap end_all EXIT
mkdir -p "$keep" "$work/none"

# shellcheck disable=SC2086 # a list of names
skip_all "what happened in a Linux guest," $guests
# libvirt's daemon has another folder to work in.
qemu=$(realpath "$qemu")
kernel=$(realpath "$lab/vmlinuz")

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

# Busybox is there for what nobody looks at; the shell and what it forks and executes are this system's,
# linked with its C library and stripped, as most programs are.
prepare() {
    local program name
    root=$work/root
    mkdir -p "$root"
    (cd "$root" && cpio --quiet -id <"$lab/base.cpio") || return 1
    build_programs "$root" || return 1
    for name in sh true dd cat perf; do
        program=$(command -v "/bin/$name" || command -v "/usr/bin/$name") || continue
        cp -L "$program" "$root/bin/$name"
        shared_objects "$root" "$program"
    done
    [ ! -e "$root/bin/perf" ] || mv "$root/bin/perf" "$root/usr/bin/perf"
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
        [ $tries -lt $((seconds * 5)) ] && lives || return 1
    done
}
told() { grep "^step $1" "$work/console" >/dev/null; }
go_on() { echo go >&9; }

# What a guest of either kind has: the devices that the test talks to, a disk for what it tells, and
# Intel PT of its own. Without CMPXCHG16B, as in names.sh.
append='console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init'
model=vendor=GenuineIntel,vpt-profile=icelake-server
disk=(-drive "file=$work/disk,format=raw,if=none,id=disk" -device "virtio-blk-pci,drive=disk")

begin() {
    truncate -s 256M "$work/disk"
    rm -f "$work/console" "$work/go".*
    mkfifo "$work/go.in" "$work/go.out"
    exec 9<>"$work/go.in"
}

# A guest of QEMU. The arguments are QEMU's, besides.
start_monitor() { # WORDS [ARGUMENT...]
    local words=$1
    shift
    begin
    qmp_pipes "$work/qmp"
    timeout $((seconds * 3)) "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg \
        -cpu "max,-cx16,$model" -smp 2 -m 768 -display none -nodefaults -no-reboot -serial "file:$work/console" \
        -chardev "pipe,id=go,path=$work/go" -device isa-serial,chardev=go,index=1 \
        -kernel "$kernel" -initrd "$work/initrd" -append "$append $words" "${disk[@]}" \
        -qmp "unix:$work/monitor,server,nowait" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control "$@" >"$work/qemu" 2>&1 &
    machine=$!
    lives() { kill -0 "$machine" 2>/dev/null; }
    guest=(--qmp "$work/monitor")
    qmp_open "$work/qmp"
    wait_for told begun || { tail -n 5 "$work/console" "$work/qemu"; return 1; }
}
end_monitor() {
    qmp quit
    wait "$machine"
    machine=
    qmp_close
}

# A domain of libvirt, as docs/libvirt.md has it.
domain() { # WORDS
    local argument
    cat <<XML
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>report</name>
  <memory unit='MiB'>768</memory>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>$kernel</kernel><initrd>$work/initrd</initrd><cmdline>$append $1</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='maximum'/>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>$qemu</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    <serial type='file'><source path='$work/console'/><target port='0'/></serial>
    <serial type='pipe'><source path='$work/go'/><target port='1'/></serial>
  </devices>
  <qemu:commandline>
$(for argument in -L /usr/share/seabios -L /usr/share/qemu "${disk[@]}" -global max-x86_64-cpu.cx16=off \
        -global "max-x86_64-cpu.${model%%,*}" -global "max-x86_64-cpu.${model##*,}"; do
        echo "    <qemu:arg value='$argument'/>"
    done)
  </qemu:commandline>
</domain>
XML
}
start_libvirt() { # WORDS
    libvirt_begin || { cat "$work/libvirtd.out"; return 1; }
    begin
    : >"$work/console"
    domain "$1" >"$work/report.xml"
    virsh create "$work/report.xml" || return 1
    lives() { [ "$(virsh domstate report 2>/dev/null)" = running ]; }
    guest=(--connect "$uri" --domain report)
    wait_for told begun || { tail -n 5 "$work/console"; return 1; }
}
end_libvirt() {
    virsh destroy report
    libvirt_end
    libvirtd=
}

# With the log of executed blocks, which begins with the capture.
start_log() { # WORDS
    start_monitor "$1 record=no" -plugin "$execlog,blocks=$work/blocks,when=$work/when" &&
        qmp stop && touch "$work/when"
}
end_log() { end_monitor; }

# Captured while the programs run, with no option but the name of the guest. All that vpt knows of code
# and names is what the capture leaves beside the trace. FILE.1 is the last that there is before it runs.
capture() {
    local status=0 capturing
    "$vpt" capture "${guest[@]}" "$out/trace" >"$work/captured" 2>&1 &
    capturing=$!
    wait_for test -s "$out/trace.1.json" || { cat "$work/captured"; return 1; }
    [ "$how" != log ] || qmp cont >/dev/null
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
    mkdir -p "$out/told" && tar -C "$out/told" -xf "$work/disk" && "end_$how"
}

# ---- What vpt says: the only places that know how ----

# Debug files that this system has of its libraries, and perf's cache of them, are left out: names are
# those that the guest had.
reported() { # OPTION...
    HOME=$work/none "$vpt" report --debug-dir "$work/none" --no-demangle --json "$@" "$out"/trace.[0-9]
}

# Who ran, "instructions process pid tid", and functions, "instructions file function".
sum_up() {
    [ -s "$out/report" ] || reported >"$out/report" 2>"$work/remarks"
    jq -r '.who[] | [.instructions, .process, .pid // "?", .tid // "?"] | @tsv' "$out/report" >"$out/who"
    jq -r '.functions[] | [.instructions, .file // "?", .function] | @tsv' "$out/report" >"$out/sums"
    [ -s "$out/sums" ] || { cat "$work/remarks"; return 1; }
}
# Of a process: "instructions process tid mode file function".
sum_up_process() { # PID
    [ -s "$out/process-$1" ] || reported --pid "$1" --by thread,mode,file,function |
        jq -r '.rows[] | [.instructions, .process, .tid, .mode, .file // "?", .function] | @tsv' >"$out/process-$1"
    [ -s "$out/process-$1" ]
}

# ---- Names ----

# All instructions: those with the name of a function, of a file, and of neither. What there was no room for
# has no name.
shares() {
    awk -F '\t' '
        { all += $1 }
        $3 == "?" || $3 == "(others)" { none += $1; next }
        $3 ~ /^\[/ { file += $1 }
        END { printf "%d instructions: %.3f %% functions, %.3f %% files, %.3f %% none\n", all,
            100 * (all - none - file) / all, 100 * file / all, 100 * none / all }' "$out/sums"
}
enough_named() {
    shares
    head -n 8 "$out/who"
    shares | awk -v least=$least '{ exit !(100 - $(NF - 2) >= least && $1 > 1e6) }'
}

# A program runs under the pid that /proc had for it, and these functions of it. So much of what its own file
# ran, in percent, is in functions with a name; that of libraries depends on what the system's tell.
program_is_told() { # NAME PERCENT FUNCTION...
    local name=$1 percent=$2 pid function
    shift 2
    pid=$(grep -lx "$name" "$out"/told/proc/*/comm | sed -n 's,.*/\([0-9]*\)/comm,\1,p')
    sum_up_process "$pid" || return 1
    for function; do
        awk -F '\t' -v name="$name" -v function_="$function" '
            $2 == name && $6 ~ function_ { found = 1 } END { exit !found }' "$out/process-$pid" ||
            { echo "$name, pid $pid: no $function"; return 1; }
    done
    awk -F '\t' -v name="$name" -v percent="$percent" '$2 == name && $5 == name { all += $1; if ($6 !~ /^(\[|\?)/) named += $1 }
        END { printf "%d instructions of the file, %.2f %% of them in functions with a name\n", all, 100 * named / all
            exit !(100 * named > percent * all) }' "$out/process-$pid"
}

# Each process that /proc had, and is no part of the kernel, was told under its pid.
processes_are_told() {
    local process pid
    for process in "$out"/told/proc/*/; do
        pid=$(basename "$process")
        [ -s "$process/maps" ] || continue
        grep -P "\t$(cat "$process/comm")\t$pid\t" "$out/who" || { echo "no $pid"; return 1; }
    done
}

# What ran in the kernel is called as its /proc/kallsyms has it.
kernel_is_told() {
    awk -F '\t' '$2 == "[kernel]" { print $3 }' "$out/sums" | sort -u >"$work/named"
    awk '{ print $3 }' "$out/told/kallsyms" | sort -u >"$work/kallsyms"
    comm -23 "$work/named" "$work/kallsyms" >"$work/others"
    wc -l <"$work/named"
    head "$work/others"
    [ "$(wc -l <"$work/named")" -gt 1000 ] && [ ! -s "$work/others" ]
}

# A module has read the disk.
modules_are_told() {
    awk '$4 ~ /virtio/ { print $3 }' "$out/told/kallsyms" | sort -u | comm -12 - "$work/named" | tee "$work/of-modules"
    grep virtio "$work/of-modules" >/dev/null
}

# ---- A guest ----

# tells NAME COMMAND...: check, and what the command says below the name.
tells() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then
        pass "$name"
        sed 's/^/    /' "$work/why"
    else
        fail_with "$name" "$work/why"
    fi
}

run_guest() { # NAME WORDS
    check "$1: a Linux guest with two processors runs" "start_$how" "$2"
    tells "$1: what happens there is captured, with no option but the guest" capture
    check "$1: the guest tells of itself" tell
}

report_of_guest() { # NAME
    check "$1: what ran is summed up" sum_up
    tells "$1: at least $least % of the instructions have a name" enough_named
    tells "$1: the program with debug information, its pid, and functions" program_is_told crew 95 '^choose$' '^spread$' \
        '^fill$' '^work$' '^tool_mix$' '^tool_fibonacci$'
    tells "$1: the stripped program, its pid, and functions" program_is_told keeper 30 '^crew_sum$' '^tool_mix$' \
        '^tool_fibonacci$'
    tells "$1: the program with mangled names, its pid, and functions" program_is_told gadget 98 '^_ZN7machine5drive' \
        '^_ZN7machine5Wheel.*turn' '^_ZNK7machine6Spring4move' '^main$'
    check "$1: processes of /proc have their pids" processes_are_told
    check "$1: functions of the kernel are those of the guest's kallsyms" kernel_is_told
    check "$1: functions of modules have names" modules_are_told
}

own_trace() { # NAME
    if [ ! -e "$root/usr/bin/perf" ]; then
        skip "$1: the guest's own trace of a program: no perf (linux-perf)"
        return
    fi
    check "$1: the guest records a program by itself, and is captured meanwhile" grep -x 'status 0' "$out/told/own.log"
    tells "$1: functions are those of the guest's own trace, as perf reports it" same_functions_as_perf
    tells "$1: threads are those of the guest's own trace, as perf reports it" same_threads_as_perf
}

executed() { # NAME
    tells "$1: each processor decodes to what ran" decodes_to_log
    check "$1: what ran is summed up" sum_up
    tells "$1: functions are those of the executed addresses" same_functions_as_log
}

# all_of HOW NAME WORDS CHECK...
all_of() {
    local name=$2 words=$3 check
    how=$1
    out=$keep/$how
    [[ " $guests " = *" $how "* ]] || return
    shift 3
    mkdir -p "$out"
    [ -e "$out/told/kallsyms" ] || run_guest "$name" "$words"
    for check; do
        "$check" "$name"
    done
}

check "a guest with its programs is made" prepare
all_of monitor 'by monitor' "forks=${REPORT_FORKS:-1000}" report_of_guest own_trace
lacks=$(libvirt_lacks)
if [ -z "$lacks" ]; then
    all_of libvirt 'domain of libvirt' "forks=${REPORT_FORKS:-1000}" report_of_guest own_trace
else
    skip "domain of libvirt: $lacks"
fi
if [ -f "$execlog" ]; then
    all_of log 'with a log' forks=20 executed
else
    skip 'with a log: no plugin for QEMU'
fi
summary
