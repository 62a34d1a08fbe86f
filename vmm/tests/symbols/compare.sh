#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# compare.sh: names that vpt finds for addresses of a program, against what binutils say of it: of the
# program itself, of stripped twins with a debug file, and of one with nothing but .dynsym.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
ask=$BUILD/tests/ask
export LC_ALL=C HOME=$work/home
unset DEBUGINFOD_URLS
mkdir -p "$HOME"

command -v g++ >/dev/null || skip_rest 'names of functions' 'there is no g++'
program=$work/program
g++ -O2 -g -o "$program" vmm/tests/symbols/program.cc || exit 1

# ---- Files ----

objcopy --only-keep-debug "$program" "$work/program.debug"
strip -o "$work/linked" "$program"
objcopy --remove-section=.note.gnu.build-id "$work/linked"
objcopy --remove-section=.note.gnu.build-id "$work/program.debug" "$work/linked.debug"
objcopy --add-gnu-debuglink="$work/linked.debug" "$work/linked"
strip -o "$work/bare" "$program"
cp "$work/bare" "$work/elsewhere"
id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
mkdir -p "$work/debug/.build-id/${id:0:2}"
cp "$work/program.debug" "$work/debug/.build-id/${id:0:2}/${id:2}.debug"
rm "$work/program.debug"

objdump -d "$program" | sed -nE 's/^ +([0-9a-f]+):.*/\1/p' >"$work/addresses"
# known FILE OPTION...: what vpt says of each address.
known() {
    local file=$1
    shift
    "$ask" "$@" "$file" <"$work/addresses"
}
known "$program" >"$work/known"

# ---- Against binutils ----

# Each function of nm at its address, by one of the names that nm has for it.
functions() {
    nm "$@" "$program" | sed -nE 's/^0*([0-9a-f]+) [tTwWi] (.*)/\1 0 \2/p' | sort |
        join - <(sort "$work/addresses")
}
# among NM-OPTION ASK-OPTION: is what vpt names among them?
among() {
    # shellcheck disable=SC2086 # either may be empty
    functions $1 >"$work/nm"
    # shellcheck disable=SC2086
    cut -d ' ' -f 1 "$work/nm" | uniq | "$ask" $2 "$program" | sort >"$work/asked"
    comm -13 "$work/nm" "$work/asked" >"$work/differ"
    [ "$(wc -l <"$work/asked")" -gt 10 ] && [ ! -s "$work/differ" ]
}
check 'names as of nm' among '' --no-demangle
if "$ask" --can-demangle; then
    check 'names as of nm -C' among -C ''
else
    skip 'names as of nm -C' 'this vpt was built without libiberty'
fi

# The last byte of each function is its own.
# shellcheck disable=SC2094 # the file is only read
inside() {
    local count=0 address size name
    while read -r address size name; do
        printf '%x\n' $((0x$address + size - 1))
    done <"$work/sized" | "$ask" --no-demangle "$program" >"$work/asked"
    while read -r address size name && read -r -u 3 _ offset found; do
        count=$((count + 1))
        [ "$((0x$offset)) $found" = "$((size - 1)) $name" ] || grep -q " $found\$" "$work/sized" ||
            { echo "$address: $found" && return 1; }
    done <"$work/sized" 3<"$work/asked"
    [ "$count" -gt 10 ]
}
readelf -sW "$program" | awk '$4 == "FUNC" && $3 > 0 && $7 != "UND" { print $2, $3, $8 }' |
    sort -u >"$work/sized"
check 'up to the last byte of a function' inside

# Entries of the PLT, as objdump names them.
plt() {
    objdump -d "$program" | sed -nE 's/^0*([0-9a-f]+) <(.*@plt)>:$/\1 0 \2/p' >"$work/plt"
    cut -d ' ' -f 1 "$work/plt" | "$ask" --no-demangle "$1" | diff "$work/plt" - &&
        [ "$(wc -l <"$work/plt")" -gt 3 ]
}
check 'names of the PLT' plt "$program"
check 'names of the PLT of a stripped program' plt "$work/bare"

# ---- Against the program itself ----

same() {
    local file=$1
    shift
    known "$file" "$@" | diff -q "$work/known" -
}
check 'the debug file that .gnu_debuglink names' same "$work/linked"
check 'a debug file by build id' same "$work/bare" --debug-dir "$work/debug"
# A guest's file that is not here, of which a map tells the build id: an error names the place.
guest_file() {
    local vaddr size start=0x7f0000000000 main folder
    read -r vaddr size < <(readelf -lW "$program" | awk '/LOAD.*R E/ { print $3, $6 }')
    main=$(nm "$program" | sed -n 's/ T main$//p')
    size=$(((vaddr + size + 0xfff & ~0xfff) - (vaddr & ~0xfff)))
    cat >"$work/guest.map" <<MAP
{ "vpt-map": 1, "host": { "processes": [ { "name": "p", "pid": 1, "cr3": "0x5000", "files": [
  { "path": "/usr/bin/program", "start": "$start", "end": "$((start + size))",
    "build_id": "$id" } ] } ] } }
MAP
    printf '\x06' >"$work/guest.pt"
    main=$(printf '%#x' $((start + 0x$main - (vaddr & ~0xfff) + 4)))
    for folder in debug nothing; do
        "$vpt" decode --start-ip "$main" --start-cr3 0x5000 --map "$work/guest.map" \
            --debug-dir "$work/$folder" "$work/guest.pt" 2>&1
    done >"$work/errors"
    grep -qF ": $main, main+0x4;" "$work/errors" && grep -qF ": $main, [program]+" "$work/errors"
}
check 'a file of a guest, by its build id' guest_file

# A server's file: debuginfod-find prints where it keeps what it fetched.
served() {
    local main
    mkdir -p "$work/bin"
    # shellcheck disable=SC2016 # the script expands it
    printf '#!/bin/sh\necho "$*" >>%s\n[ "$DEBUGINFOD_URLS" = there ] && echo %s\n' "$work/asked-for" \
        "$work/debug/.build-id/${id:0:2}/${id:2}.debug" >"$work/bin/debuginfod-find"
    chmod +x "$work/bin/debuginfod-find"
    main=$(nm "$program" | sed -n 's/ T main$//p')
    PATH=$work/bin:$PATH "$vpt" decode --blocks --start-ip "0x$main" --image "$work/bare" "$@" \
        "$work/guest.pt" 2>&1
}
tells_main() { # What it reads, to its end: a reader that leaves would stop who writes.
    grep ' main$' >/dev/null
}
by_server() {
    served --debuginfod there | tells_main && grep -qx "debuginfo $id" "$work/asked-for" &&
        DEBUGINFOD_URLS=there served | tells_main
}
by_no_server() {
    rm "$work/asked-for"
    ! served | tells_main && ! DEBUGINFOD_URLS=there served --debuginfod '' | tells_main &&
        [ ! -e "$work/asked-for" ] && ! served --debuginfod elsewhere | tells_main &&
        [ -e "$work/asked-for" ]
}
no_program() {
    PATH='' "$vpt" decode --debuginfod there --image "$work/bare" --start-ip 0x1000 "$work/guest.pt" 2>&1 |
        grep 'debuginfod-find is not there' >/dev/null
}
check 'a debug file from a server' by_server
check 'no server, and one that has none' by_no_server
check 'no program that asks servers' no_program

mkdir -p "$HOME/.debug/.build-id/${id:0:2}/${id:2}"
cp "$work/debug/.build-id/${id:0:2}/${id:2}.debug" "$HOME/.debug/.build-id/${id:0:2}/${id:2}/debug"
check "a debug file of perf's cache" same "$work/bare" --cache "$HOME/.debug"

# Of one with nothing but .dynsym, what nm -D names, and the PLT.
dynamic() {
    known "$work/elsewhere" --no-demangle >"$work/asked"
    ! grep -q ' main$' "$work/asked" && grep -q ' puts@plt$' "$work/asked"
}
check 'nothing but .dynsym' dynamic

# ---- What is refused ----

nothing_more() {
    local file=$1
    shift
    known "$file" --no-demangle "$@" | diff -q "$work/asked" -
}
mkdir -p "$work/other/.build-id/${id:0:2}"
cp "$work/linked.debug" "$work/other/.build-id/${id:0:2}/${id:2}.debug"
check 'a debug file without the build id' nothing_more "$work/bare" --debug-dir "$work/other"
printf 'x' >>"$work/linked.debug"
check 'a debug file with another check sum' nothing_more "$work/linked"
mkfifo "$work/pipe.debug"
objcopy --remove-section=.note.gnu.build-id "$work/bare" "$work/piped"
printf 'pipe.debug\0\0\0\0\0\0' >"$work/link"
objcopy --add-section .gnu_debuglink="$work/link" "$work/piped"
check 'a pipe for a debug file' nothing_more "$work/piped"
printf '../secret\0\0\0\0\0\0\0' >"$work/link"
objcopy --update-section .gnu_debuglink="$work/link" "$work/piped"
check 'a debug file in another folder' nothing_more "$work/piped"

# ---- Lines ----

# normal FILE: what addr2line -afi prints, as a line for each address: "ADDRESS|NAME|FILE:LINE|...",
# without folders, columns and discriminators.
normal() {
    sed -E 's/ \(discriminator [0-9]+\)$//; s/ inlined at .*//; s/:\?$/:0/' "$1" | awk '
        /^0x/ { if (line != "") print line; sub(/^0x0*/, ""); line = $0; names = 1; next }
        !names { sub(/^.*\//, ""); if ($0 ~ /:[0-9]+:[0-9]+$/) sub(/:[0-9]+$/, "") }
        { line = line "|" $0; names = !names }
        END { print line }'
}
# differ: of the answers of vpt, those that neither witness gives. Explained are two kinds: binutils
# name a file without lines that only the symbol table tells, and a function for what the compiler put
# between two functions, which belongs to none.
differ() {
    paste -d '\t' "$work/binutils" "$work/elfutils" "$work/vpt" | awk -F '\t' '
        function places(text,   part, count, i, out) {
            count = split(text, part, "|")
            for (i = 3; i <= count; i += 2) out = out "|" part[i]
            return out
        }
        $3 == $1 || $3 == $2 { same++; next }
        $3 !~ /\|/ && $1 ~ /:0$/ { next }
        $3 ~ /^[^|]*\|\?\?\|[^|]*$/ && places($1) == places($3) { next }
        { print; unexplained++ }
        END { print same + 0, "of", NR, "are the same"; exit unexplained > 0 || same < NR / 2 }'
}
lines() {
    local file=$1
    addr2line -afi -e "$file" <"$work/addresses" >"$work/out"
    normal "$work/out" >"$work/binutils"
    eu-addr2line -afi -e "$file" <"$work/addresses" >"$work/out" 2>/dev/null
    normal "$work/out" >"$work/elfutils"
    known "$file" --no-demangle --lines >"$work/out"
    normal "$work/out" >"$work/vpt"
    differ
}
same_lines() {
    known "$@" --no-demangle --lines | diff -q "$work/lines" -
}
# What the program shows of them, from the beginning of a function to its first branch.
shown() {
    local at
    at=$(nm "$program" | sed -n 's/ T _ZN4demo4work.*//p')
    "$vpt" decode --start-ip "0x$at" --image "$program" "$@" "$work/guest.pt" >"$work/shown" 2>&1
}
text_of_lines() {
    shown --lines
    grep -qE '  ; program\.cc:[0-9]+$' "$work/shown" || return 1
    shown --lines --inline --blocks
    grep -qE '  ; .*begin.* < demo::work\(.*\) program\.cc:[0-9]+$' "$work/shown" || return 1
    shown --inline
    ! grep -q 'program\.cc' "$work/shown" && grep -q ' < demo::work' "$work/shown"
}
json_of_lines() {
    shown --lines --inline --json --no-demangle
    head -n 1 "$work/shown" | jq -e '(.file | startswith("/")) and .line > 0 and
        (.frames | length) > 1 and .frames[-1].function == (.symbol | sub("[+].*"; "")) and
        .frames[0].file == .file and .frames[0].line == .line'
}
# What vpt annotate shows of the same, all of the function: "ADDRESS|NAME|FILE:LINE|..." of each line.
annotated() {
    "$vpt" annotate --start-ip "0x$at" --image "$program" --json "$@" "$work/guest.pt" >"$work/annotated"
}
annotated_lines() {
    local at name
    read -r at name < <(nm "$program" | sed -nE 's/^0*([0-9a-f]+) T (_ZN4demo4work.*)/\1 \2/p')
    annotated --no-demangle --lines --inline "$name" || return 1
    jq -r '.name as $name | .functions[].code[] | [.address[2:]] +
        ((.frames // [{function: $name, file, line}]) | map(.function,
            "\(.file // "??" | sub(".*/"; "")):\(.line // 0)")) | join("|")' "$work/annotated" >"$work/vpt"
    cut -d '|' -f 1 "$work/vpt" >"$work/of-work"
    addr2line -afi -e "$program" <"$work/of-work" >"$work/out"
    normal "$work/out" >"$work/binutils"
    eu-addr2line -afi -e "$program" <"$work/of-work" >"$work/out" 2>/dev/null
    normal "$work/out" >"$work/elfutils"
    differ && grep -q 'square' "$work/vpt"
}
# By its mangled name, as it is demangled, and without parameters it is the same function.
annotated_names() {
    local at name
    read -r at name < <(nm "$program" | sed -nE 's/^0*([0-9a-f]+) T (_ZN4demo4work.*)/\1 \2/p')
    annotated "$name" && jq -e '.functions | length == 1' "$work/annotated" || return 1
    jq .functions "$work/annotated" >"$work/by-name"
    for name in "$(nm -C "$program" | sed -n 's/.* T \(demo::work.*\)/\1/p')" demo::work; do
        annotated "$name" && jq .functions "$work/annotated" | diff "$work/by-name" - || return 1
    done
}
if "$ask" --can-demangle; then
    check 'vpt annotate by all names of a function' annotated_names
fi
if ! "$ask" --can-tell-lines; then
    expect '--lines in a build without libdw' 4 'built without libdw' "$vpt" decode --lines "$work/guest.pt"
    skip 'lines' 'this vpt was built without libdw'
elif ! command -v eu-addr2line >/dev/null; then
    skip 'lines' 'there is no eu-addr2line (elfutils)'
else
    check 'lines and inlined functions' lines "$program"
    check '--lines and --inline' text_of_lines
    check '--lines and --inline with --json' json_of_lines
    check 'lines and inlined functions of vpt annotate' annotated_lines
    expect '--lines with --calls' 2 'are for --insns and --blocks' "$vpt" decode --lines --calls \
        "$work/guest.pt"
    known "$program" --no-demangle --lines >"$work/lines"
    check 'lines of a stripped program' same_lines "$work/bare" --debug-dir "$work/debug"
    objcopy --compress-debug-sections=zlib "$program" "$work/zlib"
    check 'lines that are compressed' same_lines "$work/zlib"
    objcopy --compress-debug-sections=zlib-gnu "$program" "$work/zlib"
    check 'lines that are compressed the old way' same_lines "$work/zlib"
    g++ -O2 -gdwarf-4 -o "$work/older" vmm/tests/symbols/program.cc
    cp "$work/addresses" "$work/first"
    objdump -d "$work/older" | sed -nE 's/^ +([0-9a-f]+):.*/\1/p' >"$work/addresses"
    check 'lines of DWARF 4' lines "$work/older"
    mv "$work/first" "$work/addresses"
fi

# ---- MiniDebugInfo ----

if command -v xz >/dev/null && "$ask" --can-unpack; then
    strip --strip-debug -o "$work/mini" "$work/debug/.build-id/${id:0:2}/${id:2}.debug"
    xz -f "$work/mini"
    objcopy --add-section .gnu_debugdata="$work/mini.xz" "$work/bare" "$work/packed"
    check 'MiniDebugInfo' same "$work/packed"
    head -c 300 "$work/mini.xz" >"$work/mini.cut"
    objcopy --add-section .gnu_debugdata="$work/mini.cut" "$work/bare" "$work/packed"
    check 'MiniDebugInfo that is cut off' nothing_more "$work/packed"
else
    skip 'MiniDebugInfo' 'there is no xz, or this vpt was built without liblzma'
fi
summary
