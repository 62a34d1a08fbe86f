#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Guests that move from process to process while they trace (docs/migration.md), on the local KVM and in
# the lab. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

demo=guest-tests/build/demo.elf
smp=guest-tests/build/smp-tests.elf
need_backend 'guests that move'
find_backends

echo 'not a saved guest' >"$work/text"
expect 'restore nothing' 3 'No such file' "$vpt" run --restore "$work/nofile" "$guests/status.elf"
expect 'restore something else' 3 'not a saved guest' "$vpt" run --restore "$work/text" "$guests/status.elf"

# ---- One processor: two moves, and the path of a guest that stays ----
for backend in "${backends[@]}"; do
    where=${backend:+ in the lab}
    go=("$vpt" run --append "rounds=1 tick=8000" --verify)
    [ -z "$backend" ] || go+=("$backend")
    expect "the guest that stays$where" 0 '' "${go[@]}" --path-out "$work/stays.path" "$demo"
    expect "leave$where" 0 '' "${go[@]}" --save-to "$work/one" --save-after 9000 "$demo"
    check "left while tracing$where" grep -q 'saved to .* after 9000 traced' "$work/out"
    expect "go on and leave again$where" 0 '' "${go[@]}" --restore "$work/one" --save-to "$work/two" \
        --save-after 30001 "$demo"
    expect "arrive$where" 0 '' "${go[@]}" --restore "$work/two" --path-out "$work/moves.path" "$demo"
    check "the trace of all three is the path$where" grep -q '^path: identical' "$work/out"
    check "what the guest handed over is the trace$where" grep -q '^guest buffers: identical' "$work/out"
    check "the same path as without moving$where" cmp "$work/stays.path" "$work/moves.path"
done

# ---- Two processors, in the midst of their traces ----
for backend in "${backends[@]}"; do
    where=${backend:+ in the lab}
    go=("$vpt" run --verify)
    [ -z "$backend" ] || go+=("$backend")
    expect "two processors leave$where" 0 '' "${go[@]}" --cpus 2 --save-to "$work/smp" --save-after 40000 "$smp"
    table=$(sed -n 's/^processor 0: table at \(0x[0-9a-f]*\),.*/\1/p' "$work/out")
    # Memory that comes after the guest: a table and its regions are not there yet.
    for absent in '' "${table:-none}:36K"; do
        how=${absent:+ before their buffers}$where
        expect "two processors arrive$how" 0 '' "${go[@]}" --restore "$work/smp" ${absent:+--absent "$absent"} \
            --path-out "$work/smp.path" "$smp"
        check "no case of theirs failed$how" grep -qE '^[1-9][0-9]* passed, 0 failed$' "$work/out"
        check "both paths are their traces$how" test "$(grep -c '^path: identical' "$work/out")" = 2
        check "both handed their traces over$how" \
            test "$(grep -c '^guest buffers: identical' "$work/out")" = 2
        check "each has a path of its own$how" test -s "$work/smp.path" -a -s "$work/smp.path.1"
    done
    check "output met EPT violations$where" grep -qE '^output faults: [1-9][0-9]*, resolved' "$work/out"
done

# ---- Damaged files ----
# The file of the guest with one processor, by whichever backend made it last.
size=$(stat -c %s "$work/one")
go=("$vpt" run)
[ -z "$backend" ] || go+=("$backend")
for part in 0 100 1000 $((size / 2)) $((size - 600)); do
    head -c "$part" "$work/one" >"$work/cut"
    expect "restore $part bytes" 3 'the saved |not a saved guest' "${go[@]}" --restore "$work/cut" "$demo"
done
# Damage anywhere: a guest that goes astray or an error, but never a crash of vpt.
for at in 150 300 2500 6000 9000 $((size / 3)) $((size - 9000)); do
    cp "$work/one" "$work/bad"
    printf '\377\377\377\377' | dd of="$work/bad" bs=1 seek="$at" conv=notrunc 2>/dev/null
    timeout 60 "${go[@]}" --timeout 5 --restore "$work/bad" "$demo" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -le 7 ]; then
        pass "restore with damage at $at (status $status)"
    else
        fail "restore with damage at $at" "status $status"
    fi
done

summary
