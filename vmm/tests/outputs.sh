#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The files that the program writes: when they are opened, for whom, through what, and what is left
# when something fails. Needs $BUILD/vpt, a guest of vmm/tests/guests, and /dev/kvm or the lab. Ends
# with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

need_backend 'files that a run and a conversion write'
guest=$guests/traced-loop.elf
run=("$vpt" run)
[ -w /dev/kvm ] || run+=(--lab)
nowhere=$work/nowhere/x
here=$work/here
mkdir "$here"

# ---- A good trace, and all that is made of it ----
umask 000
expect 'a trace' 0 '' "${run[@]}" --verify --trace-out "$work/t.pt" "$guest"
expect 'a perf.data' 0 '' "$vpt" convert "$work/t.pt" "$work/t.data"
for file in t.pt t.pt.json t.pt.path t.data; do
    check "$file is its owner's alone" test "$(stat -c %a "$work/$file")" = 600
done
umask 022

# ---- Opened before the work: a guest that never ends does not begin ----
for option in --trace-out --path-out --save-to; do
    expect "$option to nowhere, at once" 3 'nowhere/x: No such file' \
        "$vpt" run --timeout 0 "$option" "$nowhere" "$guests/forever.elf"
done
mkdir "$here/t.pt.json" "$here/u.pt.path"
expect 'a folder in place of TRACE.json, at once' 3 't.pt.json: Is a directory' \
    "$vpt" run --timeout 0 --trace-out "$here/t.pt" "$guests/forever.elf"
expect 'a folder in place of TRACE.path, at once' 3 'u.pt.path: Is a directory' \
    "$vpt" run --timeout 0 --verify --trace-out "$here/u.pt" "$guests/forever.elf"
expect 'a second processor without a file, at once' 3 'full.1|several processors' \
    "$vpt" run --timeout 0 --cpus 2 --trace-out /dev/full "$guests/forever.elf"
rmdir "$here/t.pt.json" "$here/u.pt.path"
expect 'convert to nowhere, before it reads' 3 'nowhere/x.*: No such file' "$vpt" convert "$work/none" "$nowhere"
check 'nothing is left of those' test -z "$(ls -A "$here")"

# ---- What fails leaves nothing new, and what was there as it was ----
expect 'convert of nothing' 3 'No such file' "$vpt" convert "$work/none" "$here/x.data"
expect 'a bad guest' 3 'not an ELF' "$vpt" run --trace-out "$here/x.pt" "$work/t.pt"
expect 'a guest that is not saved' 0 '' "${run[@]}" --save-to "$here/x.saved" --save-after 99999999 "$guest"
expect 'a run without its lab' 4 'not prepared' \
    env VPT_CACHE=/nonexistent "$vpt" run --lab --trace-out "$here/x.pt" "$guest"
check 'nothing is left of them' test -z "$(ls -A "$here")"
echo kept >"$here/x.data"
expect 'convert of nothing, over a file' 3 'No such file' "$vpt" convert "$work/none" "$here/x.data"
check 'the file is as it was' test "$(cat "$here/x.data")" = kept
head -c 100000 /dev/zero >"$here/old.pt"
expect 'over an older trace' 0 '' "${run[@]}" --trace-out "$here/old.pt" "$guest"
check 'nothing is left of the older one' cmp "$here/old.pt" "$work/t.pt"
rm -f "$here"/*

# A signal ends a run: it is sent when the outputs are there, which is before the guest runs.
"$vpt" run --timeout 0 --trace-out "$here/x.pt" "$guests/forever.elf" >"$work/out" 2>&1 </dev/null &
pid=$!
until [ -e "$here/x.pt.json" ] || ! kill -0 "$pid"; do :; done
kill -TERM "$pid"
wait "$pid"
check 'a signal ends the run' test "$?" = 143
check 'and nothing is left of its files' test -z "$(ls -A "$here")"

# ---- Never through a link ----
echo mine >"$work/mine"
for name in x.pt x.pt.json x.pt.path; do
    ln -s "$work/mine" "$here/$name"
    expect "a link in place of $name" 3 "$name: a symbolic link" \
        "${run[@]}" --verify --trace-out "$here/x.pt" "$guest"
    rm -f "$here"/*
done
for target in "$work/mine" "$work/not-yet"; do
    ln -s "$target" "$here/x"
    expect "convert through a link to ${target##*/}" 3 'x: a symbolic link' "$vpt" convert "$work/t.pt" "$here/x"
    expect "save through a link to ${target##*/}" 3 'x: a symbolic link' "$vpt" run --save-to "$here/x" "$guest"
    rm -f "$here/x"
done
ln -s "$work/mine" "$here/x.part"
expect 'convert with a link beside OUT' 3 'x.part: a symbolic link' "$vpt" convert "$work/t.pt" "$here/x"
check 'what they lead to is as it was' test "$(cat "$work/mine")" = mine
check 'or is not there' test ! -e "$work/not-yet"
rm -f "$here"/*

# ---- Folders that others may write ----
chmod 1777 "$here"
echo old >"$here/own"
expect 'an own file in such a folder' 0 '' "$vpt" convert "$work/t.pt" "$here/own"
ln "$work/mine" "$here/hard"
expect 'a file with another name' 3 'hard: has another name' "${run[@]}" --trace-out "$here/hard" "$guest"
check 'it is as it was' test "$(cat "$work/mine")" = mine
if [ "$(id -u)" = 0 ]; then
    echo theirs >"$here/theirs"
    mkfifo "$here/pipe"
    chmod 666 "$here/theirs" "$here/pipe"
    chown 65534 "$here/theirs" "$here/pipe"
    for name in theirs pipe; do
        expect "somebody else's: $name" 3 "$name: somebody else's" \
            timeout 20 "${run[@]}" --trace-out "$here/$name" "$guest"
        expect "convert to it" 3 "$name: somebody else's" timeout 20 "$vpt" convert "$work/t.pt" "$here/$name"
    done
    check 'it is as it was' test "$(cat "$here/theirs")" = theirs
else
    skip "somebody else's file" 'only root can make one'
fi
chmod 755 "$here"
rm -f "$here"/*

# ---- What the user names is written as it is ----
expect 'a device' 0 '' "${run[@]}" --trace-out /dev/null "$guest"
check 'has nothing beside it' test ! -e /dev/null.json
check 'is still a device' test -c /dev/null
expect 'a full device' 3 '/dev/full: cannot be written: No space left' "${run[@]}" --trace-out /dev/full "$guest"
mkfifo "$here/pipe"
cat "$here/pipe" >"$here/read" &
expect 'a pipe with a name' 0 '' "${run[@]}" --trace-out "$here/pipe" "$guest"
wait $!
check 'has the trace' cmp "$here/read" "$work/t.pt"
check 'has nothing beside it' test ! -e "$here/pipe.json"
for name in /dev/fd/7 /proc/self/fd/7; do
    # shellcheck disable=SC2016 # for the other shell
    expect "$name" 0 '' bash -c '"${@:2}" 7>"$1"' - "$here/seven" "${run[@]}" --trace-out "$name" "$guest"
    check "$name has the trace" cmp "$here/seven" "$work/t.pt"
done
expect 'a descriptor that is not open' 3 '/dev/fd/77: Bad file' "${run[@]}" --trace-out /dev/fd/77 "$guest"
for name in /dev/stdout /dev/fd/1 /proc/self/fd/1; do
    "$vpt" convert "$work/t.pt" "$name" | cat >"$here/read"
    check "convert into $name, a pipe" cmp "$here/read" "$work/t.data"
    "$vpt" convert "$work/t.pt" "$name" >"$here/read"
    check "convert into $name, a file" cmp "$here/read" "$work/t.data"
done
"$vpt" convert "$work/t.pt" /dev/stderr 2>"$here/read"
check 'convert into /dev/stderr' cmp "$here/read" "$work/t.data"

summary
