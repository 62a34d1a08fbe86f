#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# An unmodified Linux under our QEMU records itself with perf and its own driver. Each perf.data is
# decoded by stock perf, one by libptdec too, and has to be what QEMU's plugin interface saw run,
# instruction by instruction.
#
#   linux.sh [--all]     (make linux-test): without --all, only the guest with one vCPU
#
# Needs `make qemu`, the lab's kernel, perf and cpio; without them, every test is named and counted as
# skipped.
set -u

# shellcheck source=vmm/qemu/tests/suite.sh
. vmm/qemu/tests/suite.sh
# shellcheck source=vmm/qemu/linux/decoded.sh
. "$here/decoded.sh"

boot_s=600
# The guest's time is the count of its instructions: on a busy host perf would read its buffer too late.
by_count=(-icount "shift=2,sleep=off")
most_blocks=20000000 # of the log of all code: the program is traced for a small part of them

need_perf
skip_all "Linux guest," probe dmesg user kernel "kernel and user" snapshot filter cyc noretcomp samples \
    "code that changes" "kernel that changes" "per CPU" "two vCPUs" hotplug PTWRITE

# ---- What was decoded, and what ran ----

# Recorded to the end of the program, from where the buffer begins.
decoded_is_end() { # NAME RUN
    ips "$out/$1.data" "$out/$1.ips" && only_program "$out/$1.ips" >"$out/$1.work" &&
        tail -n "$(wc -l <"$out/$1.work")" "$work/log.$2" >"$out/$1.end" &&
        same "$out/$1.work" "$out/$1.end"
}

# Only what is inside a function.
decoded_is_function() { # NAME RUN FUNCTION
    local first size behind
    read -r first size < <(nm -S "$build/qemu/work" |
        sed -n "s/^0*\([0-9a-f]*\) \([0-9a-f]*\) [tT] $3\$/\1 \2/p")
    behind=$(printf '%x' $((0x$first + 0x$size)))
    ips "$out/$1.data" "$out/$1.ips" || return 1
    # Addresses of the program are all of eight digits.
    awk -v first="$first" -v behind="$behind" '$1 "" >= first "" && $1 "" < behind ""' \
        "$work/log.$2" >"$out/$1.function"
    same "$out/$1.ips" "$out/$1.function"
}

vpt_decodes_executed() { # NAME RUN
    cp -r "$out/code" "$work/root/out/" # the files that were mapped, which are no ELF files
    vpt_decodes "$out/$1.data" "$out/$1.vpt" --raw-code /out/code && same "$out/$1.vpt" "$work/log.$2"
}

# Each trace of a sample is a part of what ran, and they come in its order.
samples_are_parts() { # NAME RUN
    vpt_decodes "$out/$1.data" "$out/$1.vpt" || return 1
    awk -v minimum=100000 '
        NR == FNR { log_[NR] = $1; n = NR; next }
        /^-- buffer/ { piece(); count = 0; next }
        /^0[0-9a-f]+  / { sub(/^0+/, "", $1); if (!count || $1 != ips[count]) ips[++count] = $1 }
        function piece(    i) {
            if (!count)
                return
            for (; at + count <= n; at++) {
                for (i = 1; i <= count && log_[at + i] == ips[i]; i++)
                    ;
                if (i > count)
                    break
            }
            if (at + count > n) {
                print "a trace of " count " instructions did not run"
                bad = 1
                exit
            }
            at += count
            total += count
        }
        END { if (!bad) piece(); print total + 0, "instructions"; exit bad || total < minimum }' \
        "$work/log.$2" "$out/$1.vpt.raw"
}

linux_prepare
mkdir -p "$work/root/out"

# ---- One vCPU ----

# shellcheck disable=SC2016
job='
pt=/sys/bus/event_source/devices/intel_pt
grep . $pt/caps/*
perf record -e intel_pt//u -m,16 -o /out/user.data work &&
perf record --kcore -e intel_pt// -o /out/kernel.data work &&
perf record --snapshot=e -e intel_pt//u -o /out/snapshot.data work &&
perf record -e intel_pt//u --filter "filter fibonacci @ /usr/bin/work" -o /out/filter.data work &&
perf record -e intel_pt/cyc,cyc_thresh=2,mtc_period=3/u -o /out/cyc.data work &&
perf record -e intel_pt/noretcomp,tsc=0,mtc=0/u -o /out/noretcomp.data work &&
perf record --aux-sample=8192 -e "{intel_pt//u,cpu-clock:u}" -c 100000 -o /out/samples.data work &&
mkdir /out/code && perf record -e intel_pt//u -o /out/remap.data remap /out/code
echo "status $?"
cat /proc/interrupts'
out=$work/one
if linux_run one $boot_s max,vendor=GenuineIntel,vpt-profile=icelake-server "${by_count[@]}" \
    -plugin "$execlog,out=$work/log,from=$from,to=$to" <<<"$job" >"$work/why" 2>&1; then
    split_log "$work/log"
    check "the driver finds what CPUID enumerates" contains "$out/log" 'num_address_ranges:2'
    check "perf record ends well, eight times" contains "$out/log" '^status 0'
    check "PMIs arrive" contains "$out/log" '^ *PMI: +[1-9]'
    check "dmesg is clean" clean "$out/dmesg"
    check "user: perf decodes what ran" decoded_is_executed user 1
    check "user: libptdec decodes what ran" libptdec_agrees user 1
    check "kernel and user: perf decodes what ran" decoded_is_executed kernel 2
    check "snapshot: perf decodes the end of what ran" decoded_is_end snapshot 3
    check "filter: perf decodes the function and nothing else" decoded_is_function filter 4 fibonacci
    check "cyc: perf decodes what ran" decoded_is_executed cyc 5
    check "noretcomp: perf decodes what ran" decoded_is_executed noretcomp 6
    check "kernel and user: vpt decodes what perf does" vpt_agrees_with_perf kernel
    check "samples: vpt decodes parts of what ran" samples_are_parts samples 7
    check "code that changes: vpt decodes what ran" vpt_decodes_executed remap 8
    cat "$out"/*.ips | wc -l | sed 's/$/ instructions decoded by perf/'
else
    fail_with "a Linux guest with one vCPU runs its job" "$work/why"
fi

if [ "${1:-}" != --all ]; then
    skip_rest "Linux guest, kernel code too, two vCPUs, hotplug, PTWRITE: make linux-test has them"
fi

# ---- The kernel, too: all that the machine ran from the begin of the program on is logged ----

job='
perf record --kcore -m,16M -e intel_pt// -o /out/all.data work
echo "status $?"'
out=$work/kernel
all_ran() {
    "$build/vpt" decode --symfs "$work/root" "$out/all.data" >"$out/all" &&
        "$build/qemu/ran" "$work/blocks.0" "$work/blocks.table" <"$out/all" | tee "$out/ran" &&
        awk '/ instructions ran, / { kernel = $4; insns = $1 }
            END { exit !(kernel > 100000 && insns - kernel > 500000) }' "$out/ran"
}
if linux_run kernel $boot_s max,vendor=GenuineIntel,vpt-profile=icelake-server "${by_count[@]}" \
    -plugin "$execlog,blocks=$work/blocks,start=$(program_start),most=$most_blocks" <<<"$job" >"$work/why" 2>&1; then
    check "kernel and user: perf record ends well" contains "$out/log" '^status 0'
    check "kernel and user: vpt decodes what ran" all_ran
    cat "$out/ran"
else
    fail_with "a Linux guest records its kernel" "$work/why"
fi
rm -f "$work"/blocks.*

# ---- Two vCPUs, each in a thread of its own ----

job='
perf record -m,4M -e intel_pt//u -o /out/first.data -- sh -c "taskset 2 work & wait" &&
perf record -m,4M -a -e intel_pt//u -o /out/both.data -- sh -c "taskset 1 work & taskset 2 work & wait" &&
echo 0 >/sys/devices/system/cpu/cpu1/online &&
perf record -m,4M -e intel_pt//u -o /out/offline.data -- sh -c "taskset 1 work & wait" &&
echo 1 >/sys/devices/system/cpu/cpu1/online &&
perf record -m,4M -C 1 -e intel_pt//u -o /out/online.data -- sh -c "taskset 2 work & wait" &&
perf record -m,4M -e intel_pt/ptw,fup_on_ptw/u -o /out/values.data work values &&
cd /sys/kernel/tracing/events/sched/sched_switch &&
perf record --kcore -m,4M -e intel_pt//k -o /out/pokes.data sh -c "echo 1 >enable; usleep 1; echo 0 >enable; usleep 1"
echo "status $?"'
out=$work/two
if linux_run two $boot_s max,vendor=GenuineIntel,vpt-profile=sapphire-rapids -smp 2 \
    -plugin "$execlog,out=$work/log,vcpus=on,from=$from,to=$to" <<<"$job" >"$work/why" 2>&1; then
    split_log "$work/log.0"
    split_log "$work/log.1"
    check "two vCPUs: perf record ends well" contains "$out/log" '^status 0'
    check "two vCPUs: dmesg is clean" clean "$out/dmesg"
    check "two vCPUs: what ran alone" decoded_is_executed first 1.1
    check "two vCPUs: what ran on the first" on_cpu both 0 0.1
    check "two vCPUs: what ran on the second" on_cpu both 1 1.2
    check "two vCPUs: the second is unplugged" on_cpu offline 0 0.2
    check "two vCPUs: the second comes back and is traced" on_cpu online 1 1.3
    values_written() {
        local values
        values=$(perf script -i "$out/values.data" --symfs "$work/root" --itrace=w 2>&1 |
            sed -n 's/.*payload: *\(0x[0-9a-f]*\).*/\1/p' | paste -sd' ')
        echo "$values"
        [ "$values" = "0x10000000001 0x1 0x20000000002 0x2 0x30000000003 0x3" ]
    }
    check "PTWRITE: perf finds the values" values_written
    # Each CPU's instructions, one CPU after the other.
    kernel_changed() {
        local data=$out/pokes.data
        [ "$("$build/vpt" dump --records "$data" | grep -c ' TEXT_POKE ')" -gt 0 ] || return 1
        perf script -i "$data" --itrace=i0nse -F cpu,ip >"$data.raw" 2>"$data.err"
        ! grep -h 'instruction trace error' "$data.raw" "$data.err" || return 1
        sed -n 's/^ *\[0*\([0-9]*\)\] *\([0-9a-f]*\) *$/\1 \2/p' "$data.raw" | sed 's/^ /0 /' |
            sort -s -n -k 1,1 | uniq >"$data.perf"
        "$build/vpt" decode "$data" | awk '/^-- buffer/ { cpu = $5 + 0 }
            /^[0-9a-f]+  / { sub(/^0+/, "", $1); print cpu, $1 }' | sort -s -n -k 1,1 | uniq >"$data.vpt"
        same "$data.vpt" "$data.perf"
    }
    check "the kernel changes its code: vpt decodes what perf does" kernel_changed
else
    fail_with "a Linux guest with two vCPUs runs its job" "$work/why"
fi

summary
