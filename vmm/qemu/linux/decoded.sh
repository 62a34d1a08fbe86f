# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: what perf decodes, to be compared with the log of execlog.so.
#
# Needs: work, and $work/root of linux_prepare; build; and out, the folder of what the guest left.

# ips PERF.DATA OUT [ARGUMENT...]: addresses of the instructions that perf decodes. False: errors.
ips() {
    local data=$1 out=$2
    shift 2
    perf script -i "$data" --symfs "$work/root" --itrace=i0nse -F ip "$@" >"$out.raw" 2>"$out.err"
    # Where an instruction faulted, the log has it twice.
    sed -n 's/^ *\([0-9a-f]\{1,\}\) *$/\1/p' "$out.raw" | uniq >"$out"
    if grep -q 'instruction trace error' "$out.raw" "$out.err"; then
        grep -h 'instruction trace error' "$out.raw" "$out.err" | head -n 5
        return 1
    fi
    [ -s "$out" ]
}

# The instructions of the program among those of a file, in order.
only_program() {
    grep -E '^55[0-9a-f]{6}$' "$1"
}

same() {
    if cmp "$1" "$2"; then
        [ -s "$1" ]
        return
    fi
    echo "lines: $(wc -l <"$1") decoded, $(wc -l <"$2") executed"
    return 1
}

# ---- Checks of one guest that traces the test program ----

# shellcheck disable=SC2034 # who sources it uses these
from=0x55000000 to=0x56000000 # where the program is linked

program_start() {
    nm "$build/qemu/work" | sed -n 's/^0*\([0-9a-f]*\) T _start$/0x\1/p'
}

# split_log LOG: a log of execlog.so as one file for each run of the program: LOG.1, LOG.2, ...
split_log() {
    local start
    start=$(program_start)
    od -An -v -t x8 -w8 "$1" | sed 's/^ 0*//' | uniq |
        awk -v start="${start#0x}" -v out="$1" '$1 == start { n++ } { print >(out "." n) }'
}

# RUN is the run's number, or with a log of each vCPU, VCPU.NUMBER. No two runs need to be the same: each
# has its stack elsewhere, and strlen() takes another path for a string that crosses a page.
decoded_is_executed() { # NAME RUN
    ips "$out/$1.data" "$out/$1.ips" && only_program "$out/$1.ips" >"$out/$1.work" &&
        same "$out/$1.work" "$work/log.$2"
}

on_cpu() { # NAME CPU RUN
    ips "$out/$1.data" "$out/$1.$2" --cpu "$2" &&
        only_program "$out/$1.$2" >"$out/$1.$2.work" && same "$out/$1.$2.work" "$work/log.$3"
}

libptdec_agrees() { # NAME RUN [LOG]
    "$build/qemu/perf_aux" "$out/$1.data" 0 "$build/qemu/work" "$out/$1.pt" || return 1
    "$build/qemu/compare" "$out/$1.pt" "$work/${3:-log}" >"$out/$1.compared" || { cat "$out/$1.compared"; return 1; }
    contains "$out/$1.compared" "^$(wc -l <"$work/log.$2") instructions, .* 0 errors, 0 bytes lost"
}

# The same by vpt decode, which takes perf.data, files and time into account.
vpt_decodes() { # PERF.DATA OUT [OPTION...]
    local data=$1 to=$2
    shift 2
    "$build/vpt" decode --symfs "$work/root" "$@" "$data" >"$to.raw" 2>"$to.err" || { head -n 5 "$to.err"; return 1; }
    sed -n 's/^0*\([0-9a-f]\{1,\}\)  .*/\1/p' "$to.raw" | uniq >"$to"
}

vpt_agrees_with_perf() { # NAME
    vpt_decodes "$out/$1.data" "$out/$1.vpt" && same "$out/$1.vpt" "$out/$1.ips"
}

clean() { # the kernel complained of nothing
    ! grep -iE 'WARN|BUG:|Call Trace|unchecked MSR|general protection|Oops|hardlockup|dazed' "$1"
}

contains() { # FILE PATTERN
    grep -qE "$2" "$1" || { tail -n 20 "$1"; return 1; }
}
