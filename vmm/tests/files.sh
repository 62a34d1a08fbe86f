#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The files that a trace names: what is no code is not shown, nobody waits, nothing beyond the roots is
# read, and what reads them has given up its rights. Needs $BUILD/vpt. Ends with 'N passed, N failed,
# N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # of lib.sh: what is missing is told in lines of its own
several_lines=yes

# ---- A trace, and a perf.data whose map has any name ----

# Starts at 1000H, and ends there.
printf '\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\043\231\001' >"$work/t.pt"
printf '\161\000\020\000\000\000\000\175\001\020\000\000\000\000\001' >>"$work/t.pt"

# An ELF file with a page of NOPs at 1000H, under a name that is long enough for those that take its place.
mkdir "$work/root"
name=$work/root/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
elf() {
    printf '\177ELF\002\001\001\000\000\000\000\000\000\000\000\000\003\000\076\000\001\000\000\000'
    printf '\000\000\000\000\000\000\000\000\100\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000'
    printf '\000\000\000\000\100\000\070\000\001\000\100\000\000\000\000\000'
    printf '\001\000\000\000\005\000\000\000\000\020\000\000\000\000\000\000\000\020\000\000\000\000\000\000'
    printf '\000\020\000\000\000\000\000\000\000\020\000\000\000\000\000\000\000\020\000\000\000\000\000\000'
    printf '\000\020\000\000\000\000\000\000'
    head -c $((4096 - 120)) /dev/zero
    head -c 4096 /dev/zero | tr '\0' '\220'
}
elf >"$name"
expect 'a perf.data to begin with' 0 '' "$vpt" convert --image "$name" "$work/t.pt" "$work/perf.data"
expect 'its code' 0 '' "$vpt" decode --blocks "$work/perf.data"

# named NAME: a perf.data whose map is of this file.
named() {
    local zeros
    zeros=$(printf '\\x00%.0s' $(seq $((${#name} - ${#1}))))
    LC_ALL=C sed "s|$name|$1$zeros|" "$work/perf.data" >"$work/named"
}

# ---- What a perf.data names ----

secret=$(head -c 9 /etc/passwd)
named /etc/shadow
expect '/etc/shadow is no code' 3 '/etc/shadow: (not an ELF file|Permission denied)' \
    "$vpt" decode --no-sandbox "$work/named"
expect '/etc/shadow in the sandbox' 3 '/etc/shadow: (not an ELF file|Permission denied)' "$vpt" decode "$work/named"
named /etc/passwd
expect '/etc/passwd is no code' 3 '/etc/passwd: not an ELF file' "$vpt" decode "$work/named"
# shellcheck disable=SC2016 # the inner shell expands them
check 'its bytes are not shown' bash -c '! grep -qF "$1" "$2/out" "$2/err"' - "$secret" "$work"
printf 'inside' >"$work/root/inside"
cp "$name" "$work/outside"
for path in /../outside /../../../../../../../../outside "$work/outside"; do
    named "$path"
    for option in --no-sandbox --blocks; do
        expect "$path beneath --symfs, $option" 3 'No such file' \
            "$vpt" decode "$option" --symfs "$work/root" "$work/named"
    done
done
ln -s ../outside "$work/root/up"
ln -s "$work/outside" "$work/root/absolute"
ln -s /inside "$work/root/link"
for path in /up /absolute; do
    named "$path"
    expect "$path, a link out of --symfs" 3 'No such file' \
        "$vpt" decode --symfs "$work/root" "$work/named"
done
named /link
expect 'a link inside --symfs' 3 '/link: not an ELF file' "$vpt" decode --symfs "$work/root" "$work/named"
cp "$name" "$work/root/code"
ln -s /code "$work/root/to-code"
named /to-code
expect 'a link to code inside --symfs' 0 '' "$vpt" decode --symfs "$work/root" "$work/named"

mkfifo "$work/root/fifo"
for path in /dev/zero /dev/tty /dev/stdin /proc/self/mem /proc/self/exe / /tmp; do
    named "$path"
    expect "$path is no code" 3 "$path: " "$vpt" decode "$work/named"
done
named /fifo
expect 'a FIFO is no code' 3 'fifo: not a regular file' "$vpt" decode --symfs "$work/root" "$work/named"
expect 'more than the budget' 3 'more code than --max-code allows' "$vpt" decode --max-code 4095 "$work/perf.data"
expect 'as much as the budget' 0 '' "$vpt" decode --max-code 4K "$work/perf.data"
for bad in x 4T -1 ''; do
    expect "bad --max-code '$bad'" 2 'max-code takes' "$vpt" decode --max-code "$bad" "$work/perf.data"
done

# perf record --kcore: a map of the kernel, and a FIFO or a device in place of each file.
mkdir -p "$work/folder/kcore_dir"
named '[kernel.kallsyms]_text'
at=$(grep -aboF '[kernel.kallsyms]' "$work/named" | head -n 1 | cut -d : -f 1)
printf '\377\377\377\377' | dd of="$work/named" bs=1 seek=$((at - 64)) conv=notrunc 2>"$work/err"
cp "$work/named" "$work/folder/data"
expect 'the kernel without kcore' 3 "the kernel's code is not known" "$vpt" decode "$work/named"
mkfifo "$work/folder/kcore_dir/kcore"
expect 'a FIFO as kcore' 3 'kcore: not a regular file' timeout 20 "$vpt" decode "$work/folder"
cp -f "$name" "$work/core"
rm "$work/folder/kcore_dir/kcore"
ln -s ../../core "$work/folder/kcore_dir/kcore"
expect 'a link out of the folder as kcore' 3 'kcore: No such file' "$vpt" decode "$work/folder"
rm "$work/folder/kcore_dir/kcore"
mv "$work/core" "$work/folder/kcore_dir/kcore"
mkfifo "$work/folder/kcore_dir/kallsyms"
expect 'a FIFO as kallsyms' 0 'kallsyms: not a regular file: names of the kernel' \
    timeout 20 "$vpt" decode "$work/folder"
rm "$work/folder/kcore_dir/kallsyms"
ln -s /dev/zero "$work/folder/kcore_dir/kallsyms"
expect 'a device as kallsyms' 0 'kallsyms: No such file.*: names of the kernel' \
    timeout 20 "$vpt" decode "$work/folder"
expect 'a FIFO as the kernel' 3 'fifo: not a regular file' \
    timeout 20 "$vpt" decode --vmlinux "$work/root/fifo" "$work/named"
expect 'a FIFO as an image' 3 'fifo: not a regular file' \
    timeout 20 "$vpt" decode --image "$work/root/fifo" "$work/t.pt"
expect 'a FIFO as an image to convert' 3 'fifo: not a regular file' \
    timeout 20 "$vpt" convert --image "$work/root/fifo" "$work/t.pt" "$work/x"

# ---- What TRACE.json names ----

# sidecar MEMBERS: TRACE.json
sidecar() {
    printf '{ "vpt": 1, %s }\n' "$1" >"$work/t.pt.json"
}
mkfifo "$work/fifo"
for path in fifo /dev/zero /dev/tty /proc/self/fd/0 . root; do
    sidecar "\"images\": [ { \"path\": \"$path\" } ]"
    expect "TRACE.json: $path as an image" 3 "${path#/}: " "$vpt" decode "$work/t.pt"
    expect "TRACE.json: $path as an image to convert" 3 "${path#/}: " "$vpt" convert "$work/t.pt" "$work/x"
    sidecar "\"images\": [], \"code\": \"$path\""
    expect "TRACE.json: $path as a code log" 3 "${path#/}: " "$vpt" decode "$work/t.pt"
done
sidecar '"images": [ { "path": "/etc/passwd" } ]'
expect 'TRACE.json: /etc/passwd as an image' 3 '/etc/passwd: not an ELF file' "$vpt" decode "$work/t.pt"
sidecar '"images": [ { "path": "../'"${work##*/}"'/outside" } ]'
expect 'TRACE.json: a folder up' 0 '' "$vpt" decode "$work/t.pt"
ln -s outside "$work/alias"
sidecar '"images": [ { "path": "alias" } ]'
expect 'TRACE.json: a link' 0 '' "$vpt" decode "$work/t.pt"
rm "$work/t.pt.json"
mkfifo "$work/t.pt.json"
for command in dump 'decode --blocks' index parts; do
    read -ra words <<<"$command"
    expect "TRACE.json is a FIFO: $command" 3 't.pt.json: not a regular file' timeout 20 "$vpt" "${words[@]}" "$work/t.pt"
done
rm "$work/t.pt.json"
ln -s /dev/zero "$work/t.pt.json"
expect 'TRACE.json is a device' 3 't.pt.json: not a regular file' "$vpt" dump "$work/t.pt"
rm "$work/t.pt.json"

# ---- What a map file names ----

for path in fifo /dev/zero /dev/tty /proc/self/fd/0 . root; do
    for entry in '"images": [ { "path": "%s" } ]' '"images": [ { "path": "%s", "address": 0 } ]' \
        '"memory": { "core": "%s" }' '"memory": { "raw": "%s", "paging": "4-level" }'; do
        # shellcheck disable=SC2059 # the format is from above
        printf "{ \"vpt-map\": 1, \"host\": { $entry } }\n" "$path" >"$work/map"
        expect "a map: $entry, $path" 3 "${path#/}: " timeout 20 "$vpt" decode --map "$work/map" "$work/t.pt"
    done
done

# ---- A map of more than it may have ----
truncate -s 257M "$work/big.json"
expect 'a map file of 257 MiB' 3 'big.json: File too large' "$vpt" parts --map "$work/big.json" "$work/t.pt"

summary
