#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Names of a guest that boots while it is captured: from its first instruction on, until it powers off by
# itself; until it has booted a second time; and until its QEMU is killed. Nothing of it is known when the
# capture begins, and in the first two cases nobody of it is left at the end.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
set -u -o pipefail

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
vpt=$build/vpt
seconds=1200

skip_all "names of a Linux guest that boots"

# Process 1 runs a program that has functions of its own, and does what it is told by the kernel's arguments.
prepare() {
    local root=$work/root
    mkdir -p "$root/bin"
    cp /bin/busybox "$root/bin/" && cp "$build/qemu/work" "$root/" || return 1
    cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox sh -c 'echo "runs $$"; exec /work'
echo "ran: $?"
case $then in
reboot) /bin/busybox sleep 3; /bin/busybox reboot -f ;; # what a reset leaves cannot be looked at
stay) while :; do /bin/busybox true; /bin/busybox sleep 1; done ;;
esac
/bin/busybox poweroff -f
END
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

# wait_until COMMAND...: as long as the guest is there.
wait_until() {
    local tries=0
    until "$@" >/dev/null 2>&1; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt $((seconds * 5)) ] && kill -0 "$guest" 2>/dev/null || return 1
    done
}

captures() { # NAME
    qmp x-vpt-query | tee "$work/query" | grep "$work/$1" >/dev/null
}

# boot NAME THEN [ARGUMENT...]: the capture to $work/NAME begins before the guest's first instruction.
boot() {
    local name=$1 then=$2
    shift 2
    qmp_pipes "$work/qmp"
    timeout $seconds "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg -m 384 -S \
        -cpu max,-cx16 "$@" -display none -nodefaults -serial "file:$work/$name.console" -kernel "$lab/vmlinuz" \
        -initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable cryptomgr.notests then=$then" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control -qmp "unix:$work/monitor,server,nowait" \
        -pidfile "$work/pid" 2>"$work/qemu" &
    guest=$!
    qmp_open "$work/qmp"
    "$vpt" capture --qmp "$work/monitor" --code "$work/$name" 2>"$work/$name.remarks" &
    capture=$!
    wait_until captures "$name" || { cat "$work/qemu" "$work/$name.remarks"; return 1; }
    grep '"names-wanted": true' "$work/query" && qmp cont
}

# The guest ends, and the capture with it.
ended() { # NAME
    wait "$capture" && wait "$guest"
    local status=$?
    qmp_close
    cat "$work/$1.remarks" "$work/qemu"
    [ $status = 0 ] && [ -s "$work/$1.map" ]
}

# By itself; and what was captured decodes.
ends() { # NAME
    ended "$1" && reported "$1"
}

# Who ran which functions, for the cases that follow.
reported() { # NAME
    "$vpt" report --by process,function --csv "$work/$1".[0-9] >"$work/$1.csv"
}

# has NAME PROCESS,PID FUNCTION...: each stands in a report, of this process.
has() {
    local report=$work/$1.csv process=$2 function
    shift 2
    for function; do
        grep "^$process,[^,]*,$function," "$report" || { grep "^$process," "$report" | head; return 1; }
    done
}

# The program, under the number of its process as the guest told it.
names_program() { # NAME
    local pid
    pid=$(tr -d '\r' <"$work/$1.console" | sed -n 's/^runs //p' | tail -n 1)
    grep '^ran: 0' "$work/$1.console" || { cat "$work/$1.console"; return 1; }
    has "$1" "work,$pid" fibonacci compare fill
}

# From its begin on, before it had processes; and what there was before it.
names_kernel() { # NAME
    has "$1" 'swapper,' x86_64_start_kernel start_kernel && has "$1" 'init,1' do_syscall_64 &&
        has "$1" 'before Linux,' '?'
}

# Of what ran in Linux, at least 99 of a hundred instructions are of somebody, and of a function or file.
share() { # NAME
    awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        { ran = $column["instructions"]; all += ran }
        $column["process"] == "before Linux" { before += ran; next }
        $column["process"] == "?" || $column["function"] == "?" { without += ran }
        END {
            printf "%d of %d instructions in Linux have no name; %d ran before it\n", without, all - before, before
            exit !(all - before > 1000000 && 100 * without <= all - before)
        }' "$work/$1.csv"
}

# A QEMU that is killed: what was known by then stays, though files end amid what was being written.
killed() { # NAME
    wait_until grep '"comm":"work"' "$work/$1.0.names" && kill -KILL "$(cat "$work/pid")"
    wait "$capture"
    local status=$?
    wait "$guest" 2>/dev/null
    qmp_close
    cat "$work/$1.remarks"
    reported "$1"
    [ $status = 0 ] && [ -s "$work/$1.map" ]
}

# Another kernel begins, at another address: who ran is told of both.
boots_again() { # NAME
    wait_until twice "$1" && qmp quit && ended "$1" || return 1
    reported "$1" || return 1
    grep 'runs another kernel than before' "$work/$1.remarks" &&
        [ "$(grep -c '"comm":"before Linux"' "$work/$1.0.names")" -ge 2 ] &&
        [ "$(grep -c '"comm":"work"' "$work/$1.0.names")" -ge 2 ]
}

twice() { # NAME
    [ "$(grep -c '^ran: ' "$work/$1.console")" -ge 2 ]
}

check 'a file system for a guest' prepare
check 'boot: a capture begins before the first instruction' boot off off -no-reboot
check 'boot: the guest powers off, and all is whole' ends off
check 'boot: the program has its functions, by the number of its process' names_program off
check 'boot: the kernel has its functions, and what ran before is told apart' names_kernel off
check 'boot: what Linux ran has names' share off
sed 's/^/    /' "$work/why"
check 'boot: a capture with two processors' boot two off -no-reboot -smp 2
check 'boot: that guest powers off, too' ends two
check 'boot: the program of that guest has its functions' names_program two
check 'boot: a capture of a guest that boots again and again' boot again reboot
check 'boot: it boots a second time, and is told to end' boots_again again
check 'boot: the program has its functions, behind the second time' names_program again
check 'boot: a capture of a guest whose QEMU is killed' boot killed stay -no-reboot
check 'boot: it is killed, and the map is there' killed killed
check 'boot: the kernel of that guest has its functions' names_kernel killed
summary
