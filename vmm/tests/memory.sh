#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Memory that a perf.data takes does not grow with its length: vpt report, parts, dump and demux of a short
# and of a long one, and what they say is right. What is compared is the peak of resident memory, with the
# pages of files in it.
#
#   memory.sh [LONG-MIB]      64; `make memory-long` takes 1024
#
# Needs $BUILD/vpt and $BUILD/tests/long-perf, and twice the length as room in /tmp and /var/tmp.
# shellcheck disable=SC2016 # of jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

long_perf=$BUILD/tests/long-perf
short=8
long=${1:-64}
growth=40960 # KiB: the file and its copy grow by more, and would be resident
[ "$long" -le 64 ] || growth=131072
kept=. # what of the output is kept

# peak_of NAME SIZE COMMAND...: the peak goes into $peak, in KiB.
peak_of() {
    local name=$1 size=$2
    shift 2
    "$long_perf" --peak "$work/peak" timeout 3000 "$@" 2>"$work/err" </dev/null | grep -e "$kept" >"$work/out" ||
        fail "$name of $size MiB" "status $?: $(tail -n 1 "$work/err")"
    peak=$(cat "$work/peak")
}

# both NAME ARGUMENT...: of both, with $work/SIZE in place of @. False: it grows.
both() {
    local name=$1 size peaks=()
    shift
    for size in "$short" "$long"; do
        peak_of "$name" "$size" "$vpt" "${@//@/$work/$size}"
        peaks+=("$peak")
        mv "$work/out" "$work/$name.$size"
    done
    echo "$name: ${peaks[0]} KiB, and ${peaks[1]} KiB for $long MiB"
    [ $((peaks[1] - peaks[0])) -lt $growth ]
}

bounded() {
    local name=$1
    if both "$@"; then pass "$name: memory is bounded"; else fail "$name: memory is bounded" 'it grows'; fi
}

for size in "$short" "$long"; do
    "$long_perf" "$work/$size" "$size" >"$work/guest.$size" || fail 'recordings' 'cannot be written'
done

bounded report report --json --map @/map @/perf.data
check 'report: what the guest ran' jq -e --argjson guest "$(cat "$work/guest.$long")" \
    '.error_count == 0 and (.who[] | select(.vm == "long").instructions == $guest)' "$work/report.$long"
bounded parts parts --json --map @/map @/perf.data
check 'parts: so many of the guest' test "$(grep -c '"vm":"long"' "$work/parts.$long")" = "$long"
kept=' MTC '
bounded dump dump @/perf.data
kept=.
check 'dump: all MTC packets' test "$(wc -l <"$work/dump.$long")" = $((256 * long))
bounded demux demux --json --map @/map --out @/out @/perf.data
check 'demux: what the guest ran' jq -e --argjson guest "$(cat "$work/guest.$long")" \
    '.traces[0].instructions == $guest and .traces[0].gaps == 0 and .missing_places == 0' "$work/demux.$long"

# That memory grows is seen: without the file that copies stand in, they are in memory.
export TMPDIR=$work/nowhere
if both report-in-memory report --json --map @/map @/perf.data; then
    fail 'a copy in memory is seen' 'it is not'
else
    pass 'a copy in memory is seen'
fi
summary
