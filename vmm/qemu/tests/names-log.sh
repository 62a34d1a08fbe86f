#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The log of names of a capture: a Linux guest forks, and becomes programs that live for a moment.
# Every process and thread that says who it is stands in the log, and what ran in user mode has the
# name of a process and of a file. To a file with two processors, and in a ring.
#
# Needs `make qemu` and the lab's kernel; without them, every test is named and counted as skipped.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/tests/qmp.sh
. vmm/qemu/tests/qmp.sh
vpt=$build/vpt
seconds=600

skip_all "logs of names of a Linux guest"

# The guest waits for a line on its console, does the work, and waits for another.
prepare() {
    local root=$work/root
    mkdir -p "$root" && (cd "$root" && cpio --quiet -id <"$lab/base.cpio") || return 1
    mkdir -p "$root/usr/bin"
    cp "$build/qemu/brief" "$root/usr/bin/"
    shared_objects "$root" "$root/usr/bin/brief"
    cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
exec </dev/ttyS0 >/dev/ttyS0
stty -echo
echo ready
while read -r times; do
    i=0
    while [ $i -lt "$times" ]; do
        for program in true uname id date pwd; do
            /bin/$program >/dev/null 2>&1 &
            echo "ran $! $! $program"
            wait $!
        done
        (: ; j=$i) &
        echo "ran $! $! init"
        wait $!
        i=$((i + 1))
    done
    /usr/bin/brief
    echo done
done
END
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initrd"
}

wait_for() { # PATTERN COUNT
    local tries=0
    until [ "$(grep -c "$1" "$work/console" 2>/dev/null)" = "$2" ]; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt $((seconds * 10)) ] && kill -0 "$guest" 2>/dev/null || return 1
    done
}

# boot APPEND [ARGUMENT...]: a guest that waits.
boot() {
    local append=$1
    shift
    rm -f "$work/console" "$work/typed"
    qmp_pipes "$work/qmp"
    mkfifo "$work/typed" && exec 9<>"$work/typed"
    timeout $seconds "$qemu" -L /usr/share/seabios -L /usr/share/qemu -machine pc -accel tcg -m 384 \
        -cpu max,-cx16 "$@" -display none -nodefaults -no-reboot -serial stdio -kernel "$lab/vmlinuz" \
        -initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet no_timer_check tsc=reliable rdinit=/init $append" \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control -qmp "unix:$work/monitor,server,nowait" \
        <"$work/typed" >"$work/console" 2>"$work/qemu" &
    guest=$!
    qmp_open "$work/qmp"
    wait_for '^ready' 1 || { cat "$work/qemu" "$work/console"; return 1; }
}

# refused LAYOUT WHY: a lay-out that is none begins no capture.
refused() {
    ! qmp x-vpt-start '"file": "'"$work/refused"'",
        "names": {"root": 4096, "layout": '"$1"'}' >"$work/answer" &&
        grep -q "$2" "$work/answer" && qmp x-vpt-query | grep -qF '{"return": []}'
}

quit() {
    qmp quit && wait "$guest"
    qmp_close
    runs=0
}

# captured NAME TIMES [OPTION...]: what the guest does is captured to $work/NAME, with these options of
# vpt capture besides.
runs=0
captured() {
    local name=$1 times=$2 capture tries=0
    shift 2
    runs=$((runs + 1))
    "$vpt" capture --qmp "$work/monitor" "$@" "$work/$name" &
    capture=$!
    until qmp x-vpt-query | grep -q "$work/$name"; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 300 ] && kill -0 $capture 2>/dev/null || return 1
    done
    wc -l <"$work/console" >"$work/lines"
    echo "$times" >&9
    wait_for '^done' $runs || return 1
    kill -INT $capture
    wait $capture || return 1
    tail -n +$(($(cat "$work/lines") + 1)) "$work/console" | tr -d '\r' | sed -n 's/^ran //p' | sort >"$work/$name.ran"
    wc -l <"$work/$name.ran"
}

# What each line of a log says of tasks.
told() { # NAME
    cat "$work/$1".[0-9].names | jq -r 'select(.tid) | "\(.pid) \(.tid) \(.comm)"' | sort -u
}

# Every process and thread that said who it is.
all_told() { # NAME LEAST
    told "$1" >"$work/told"
    comm -23 "$work/$1.ran" "$work/told" | tee "$work/missing"
    [ "$(wc -l <"$work/$1.ran")" -ge "$2" ] && [ ! -s "$work/missing" ]
}

# More than a generation of a ring has come (4 MiB), and a log says where its part begins.
has_turned() { # NAME
    head -qn 1 "$work/$1".[0-9].names | tee "$work/heads"
    jq -es 'map(.begin) | max > 4194304' "$work/heads"
}

nothing_left_out() {
    ! grep -h left_out "$work/$1".[0-9].names
}

# Instructions of user code in a text of blocks: all, those of somebody, those with a name, and those of the
# program's own code that were said to be of somebody else.
# shellcheck disable=SC2016 # they are awk's
count='
    /^  == .*, pid [0-9]+, tid / { who = $2; sub(",$", "", who); next }
    $1 ~ /^0000/ && $2 ~ /^[0-9]+$/ {
        all += $2
        if (who != "" && who != "?") known += $2
        if ($3 !~ /^0x/) named += $2
        if ($3 ~ /^\[brief\]/ && who !~ /^(brief|child-[0-9]+|thread-[0-9]+)$/) wrong += $2
        if ($3 ~ /^\[brief\]/) own += $2
    }
    END { print all + 0, known + 0, named + 0, own + 0, wrong + 0 }'

# At least 99 of a hundred.
named_in_trace() { # NAME LEAST
    local trace all=0 known=0 named=0 own=0 wrong=0 a b c d e
    for trace in "$work/$1".[0-9]; do
        read -r a b c d e < <("$vpt" decode --blocks "$trace" | awk "$count")
        all=$((all + a)) known=$((known + b)) named=$((named + c)) own=$((own + d)) wrong=$((wrong + e))
    done
    echo "$all instructions of user code: $known of somebody, $named of a file; $own of the program, $wrong of others"
    [ "$all" -ge "$2" ] && [ $((known * 100)) -ge $((all * 99)) ] && [ $((named * 100)) -ge $((all * 99)) ] &&
        [ "$wrong" = 0 ]
}

# Each of the children that the program made, under the name that it gave itself.
in_report() { # NAME
    local trace
    for trace in "$work/$1".[0-9]; do
        "$vpt" report --by process --top 0 "$trace" || return 1
    done >"$work/report"
    grep -o 'child-[0-9]*' "$work/report" | sort -u | wc -l | tee "$work/children"
    [ "$(cat "$work/children")" = 24 ] || { cat "$work/report"; return 1; }
}

check 'a file system for a guest' prepare
check 'a guest of two processors with page-table isolation waits' boot pti=on -smp 2
check 'names log: a number that no lay-out has is refused' refused '{"none": 1}' "'none' is no number of a lay-out"
check 'names log: an offset beyond all structures is refused' refused '{"task_pid": 16777217}' "'task_pid' is no number"
check 'names log: a lay-out without tasks is refused' refused '{"task_pid": 1}' 'does not tell who runs'
check 'names log: a capture to files' captured files 5
check 'names log: every process and thread is told' all_told files 50
check 'names log: nothing was left out' nothing_left_out files
check 'names log: what ran in user mode has names' named_in_trace files 500000
sed 's/^/    /' "$work/why"
check 'names log: a report has what lived for a moment' in_report files
check 'the guest ends' quit
check 'a guest without page-table isolation waits' boot pti=off
check 'names log: a capture to a ring' captured ring 20 --ring 1M --timing
check 'names log: a ring turned, and its log begins amid the trace' has_turned ring
check 'names log: what a ring held has names' named_in_trace ring 50000
sed 's/^/    /' "$work/why"
check 'that guest ends, too' quit
summary
