#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Several processors, and output to memory that is absent, on the local KVM and in the lab. Ends with
# 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

smp=guest-tests/build/smp-tests.elf
need_backend 'guests with several processors, and absent memory'
find_backends

# ---- Several processors ----
for backend in "${backends[@]}"; do
    where=${backend:+ in the lab}
    tag=${backend:+lab}
    go=("$vpt" run --verify)
    [ -z "$backend" ] || go+=("$backend")
    expect "two processors$where" 0 '' "${go[@]}" --cpus 2 --trace-out "$work/two$tag.pt" "$smp"
    check "no case of theirs failed$where" grep -qE '^[1-9][0-9]* passed, 0 failed$' "$work/out"
    check "both paths are their traces$where" test "$(grep -c '^path: identical' "$work/out")" = 2
    check "both handed their traces over$where" \
        test "$(grep -c '^guest buffers: identical' "$work/out")" = 2
    check "the paths are not the same$where" test -n "$(cmp "$work/two$tag.pt.path" "$work/two$tag.pt.1.path")"
    check "the second sidecar names its processor$where" jq -e '.processor == 1' "$work/two$tag.pt.1.json"
done
timeout 120 "${go[@]}" --cpus 2 --json "$smp" >"$work/out" 2>/dev/null </dev/null
check 'a report of two processors is JSON' \
    jq -e '[.processors[] | select(.path == "identical")] | length == 2' "$work/out"
# Turns are counted in instructions: two runs, and two backends, give the same interleaving.
expect 'two processors again' 0 '' "${go[@]}" --cpus 2 --trace-out "$work/again.pt" "$smp"
for suffix in '' .1 .path .1.path; do
    check "the same$suffix in another run" cmp "$work/two$tag.pt$suffix" "$work/again.pt$suffix"
    if [ ${#backends[@]} = 2 ]; then
        check "the same$suffix in the lab" cmp "$work/two.pt$suffix" "$work/twolab.pt$suffix"
    else
        skip "the same$suffix in the lab" 'there is only one of KVM and lab'
    fi
done
expect 'four processors' 0 '' "${go[@]}" --cpus 4 "$smp"
check 'four paths are their traces' test "$(grep -c '^path: identical' "$work/out")" = 4
expect 'the trace of the second processor alone' 0 '' "$vpt" decode --calls "$work/again.pt.1"
check 'it has its work' grep -q work "$work/out"

# ---- Absent memory ----
for backend in "${backends[@]}"; do
    where=${backend:+ in the lab}
    go=("$vpt" run --verify)
    [ -z "$backend" ] || go+=("$backend")
    expect "output to memory$where" 0 '' "${go[@]}" --trace-out "$work/there.pt" "$guests/trace.elf"
    pages=$((($(stat -c %s "$work/there.pt") + 4095) / 4096))
    expect "output to absent memory$where" 0 '' "${go[@]}" --absent 0x200000:1M --trace-out "$work/absent.pt" "$guests/trace.elf"
    check "each page faulted once$where" grep -q "^output faults: $pages, resolved" "$work/out"
    check "nothing was lost$where" grep -q '^guest buffers: identical' "$work/out"
    check "not a packet differs$where" cmp "$work/there.pt" "$work/absent.pt"
    expect "a guest that touches absent memory itself$where" 0 '' "${go[@]}" --append rounds=1 \
        --absent 2M:16M guest-tests/build/demo.elf
    check "its path$where" grep -q '^path: identical' "$work/out"
done

summary
