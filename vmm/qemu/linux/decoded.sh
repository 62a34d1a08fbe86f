# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it sets what it needs
# Sourced: what perf decodes, to be compared with the log of execlog.so.
#
# Needs: work, and $work/root of linux_prepare.

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
