#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Names and sums, with stock perf as the witness: for a program with threads, a process that it makes
# and a shared library, vpt finds what `perf script` and `perf report` find, instruction by instruction,
# function by function and thread by thread. Each difference of names has a reason (docs/perf-data.md,
# "Names that differ"); one without a reason fails.
#
# Needs $BUILD/vpt, $BUILD/tests/stepped, perf, and a system that lets a program be single-stepped;
# without these, every test is named and counted as skipped. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=vmm/tests/recorded.sh
. "$(dirname "$0")/recorded.sh"

# ---- What each side says ----

# Ours, of each instruction: "thread address function name-of-thread". With our_sums(), the only place
# that knows how vpt says it.
our_insns() { # PERF.DATA [OPTION...]
    "$vpt" decode --format perf --buildid-dir "$work/cache" "${@:2}" "$1" 2>"$work/vpt.err" |
        awk '$4 == "instructions:" { sub(/\+0x[0-9a-f]+$/, "", $6); print $2, $5, $6, $1 }' | sort -s -n -k 1,1
}
# Ours, summed: "instructions function NAME" and "instructions thread TID:NAME".
our_sums() { # PERF.DATA [OPTION...]
    local by
    for by in function thread; do
        "$vpt" report --json --by $by --buildid-dir "$work/cache" "${@:2}" "$1" 2>"$work/vpt.err" |
            jq -r '.rows[] | if .function then "\(.instructions) function \(.function)"
                else "\(.instructions) thread \(.tid):\(.process)" end' | sed 's/ function ?$/ function [unknown]/'
    done
}

their_insns() { # PERF.DATA [OPTION...]
    "${perf[@]}" script -i "$1" "${@:2}" --no-demangle --itrace=i0nse -F tid,ip,sym 2>"$work/perf.err" |
        awk 'NF >= 3 { print $1, $2, $3 }' | sort -s -n -k 1,1
}
# perf prints a line for each function of a name, and for each name that a thread had.
their_sums() { # PERF.DATA [OPTION...]
    "${perf[@]}" report -i "$1" "${@:2}" --no-demangle --itrace=i1i --stdio -n -t '|' --sort sym \
        --percent-limit 0 2>"$work/perf.err" | awk -F '|' '/^#/ || NF < 3 { next }
            { sub(/^ *\[.\] */, "", $3); sub(/ *$/, "", $3); if ($3 ~ /^0x/) $3 = "[unknown]"; sums[$3] += $2 }
            END { for (name in sums) print sums[name], "function", name }'
    "${perf[@]}" report -i "$1" "${@:2}" --itrace=i1i --stdio -n -t '|' --sort comm,pid \
        --percent-limit 0 2>"$work/perf.err" | awk -F '|' '/^#/ || NF < 4 { next }
            { gsub(/ /, "", $3); gsub(/ |:.*/, "", $4); print $2 + 0, "thread", $4 ":" $3 }'
}

# ---- Names that differ ----

# The symbols of the files that ran: "address size name". A version of an interface is no part of a name.
symbols_of() { # FILE...
    readelf -sW "$@" 2>/dev/null | awk '$1 ~ /^[0-9]+:$/ && $7 != "UND" && NF >= 8 {
        sub(/@.*/, "", $8); print FILENAME NR, $2, $3, $8 }' | cut -d ' ' -f 2- | sort -u
}

# "instructions ours theirs reason" for each pair of names that differ.
differences() { # OURS THEIRS SYMBOLS
    paste -d ' ' "$1" "$2" | awk '$3 != $7 { pairs[$3 " " $7]++ } END { for (p in pairs) print pairs[p], p }' |
        awk 'NR == FNR { size[$3] = $2; at[$3] = at[$3] " " $1; next }
            function together(a, b,    list, count, i) {
                count = split(at[a], list, " ")
                for (i = 1; i <= count; i++)
                    if (index(at[b] " ", " " list[i] " "))
                        return 1
                return 0
            }
            { ours = $2; theirs = bare = $3; reason = "none"
              sub(/@@?[A-Z].*/, "", bare)
              if (ours == bare) reason = "version"
              else if (together(ours, bare)) reason = "alias"
              else if (ours == "[unknown]" && theirs ~ /@plt$/) reason = "PLT"
              else if (ours ~ /.@plt$/ && (theirs == "@plt" || theirs == "[unknown]" || size[theirs] == "0"))
                  reason = "PLT"
              else if (ours == "[unknown]" && size[theirs] == "0") reason = "no-size"
              print $1, ours, theirs, reason }' "$3" -
}

# Sums of ours, with the names that perf has for the same code.
renamed() { # SUMS DIFFERENCES
    awk 'NR == FNR { moved[$2] += $1; sums["function " $3] += $1; next }
        { count = $1; if ($2 == "function") count -= moved[$3]; sums[$2 " " $3] += count }
        END { for (key in sums) if (sums[key]) print sums[key], key }' "$2" "$1" | sort
}

# ---- A case ----

same_path() {
    diff <(cut -d ' ' -f 1,2 "$work/ours") <(cut -d ' ' -f 1,2 "$work/theirs") && [ -s "$work/ours" ]
}
same_names() {
    sort -k 4,4 -k 1,1nr "$work/differences"
    [ -s "$work/differences" ] && ! grep -q ' none$' "$work/differences"
}
same_sums() {
    renamed "$work/our-sums" "$work/differences" | diff - <(sort "$work/their-sums") && [ -s "$work/our-sums" ]
}

# What lies at addresses of the ranges $only, lines of "first last"; all of it if there are none. All
# addresses have as many digits.
only=
in_range() {
    awk -v ranges="$only" 'BEGIN { count = split(ranges, bound, /[ \n]/) }
        { for (i = 1; i < count; i += 2) if ($2 "" >= bound[i] && $2 "" <= bound[i + 1]) break }
        !count || i < count'
}

compared_insns() { # NAME PERF.DATA [OPTION...]
    local name=$1
    shift
    our_insns "$@" | in_range >"$work/ours"
    their_insns "$@" | in_range >"$work/theirs"
    differences "$work/ours" "$work/theirs" "$work/symbols" >"$work/differences"
    check "$name: the path of each thread is that of perf script" same_path
    check "$name: names of functions differ from those of perf script for a reason" same_names
    sed 's/^/    /' "$work/why"
}

compared_sums() { # NAME PERF.DATA [OPTION...]
    local name=$1
    shift
    our_sums "$@" >"$work/our-sums"
    their_sums "$@" >"$work/their-sums"
    check "$name: functions and threads have as many instructions as in perf report" same_sums
}

named() { # FUNCTION...
    local function
    for function; do
        awk -v name="$function" '$3 == name { found = 1 } END { exit !found }' "$work/ours" ||
            { echo "$function"; return 1; }
    done
}
not_named() { # FUNCTION...
    local function
    for function; do
        ! named "$function" >/dev/null || { echo "$function"; return 1; }
    done
}

# ---- The program ----

# A copy of all files that ran, without what a system may have beside them: debug information of its own.
copy_files() { # FOLDER
    local file
    while read -r file; do
        mkdir -p "$1${file%/*}"
        cp -L "$file" "$1$file"
    done < <("$vpt" dump --records "$work/data" | awk '$2 == "MMAP2" { print $7 }' | sort -u)
}

# Where the code of a file was: "first last".
code_of() { # FILE
    local range
    range=$("$vpt" dump --records "$work/data" | awk -v file="$work/$1" '$2 == "MMAP2" && $7 == file { print $4 }')
    printf '%x %x\n' "${range%+*}" $((${range%+*} + ${range#*+} - 1))
}

what_ran() {
    awk '{ counts[$1 " " $2]++ } END { for (key in counts) print key, counts[key] }' "$work/ours" | sort >"$work/a"
    cut -d ' ' -f 1-3 "$work/log" | sort | diff - "$work/a" && tail -n 1 "$work/recorded"
}

perf=(perf)
mkdir "$work/cache"
what='names and sums as perf has them'
perf --version >/dev/null 2>&1 || skip_rest "$what" 'no perf'
record_crew "$what"

# With debug information, of the program and its library.
copy_files "$work/debug"
mapfile -t files < <(find "$work/debug" -type f)
symbols_of "${files[@]}" >"$work/symbols"
compared_insns 'debug information' "$work/data" --symfs "$work/debug"
compared_sums 'debug information' "$work/data" --symfs "$work/debug"
check 'what ran is what was stepped over' what_ran
check 'debug information: functions of all kinds have names' named main work choose spread crew_sum tool_mix \
    tool_by_label inner_label compare qsort_r

# With the debug files that the system has beside its libraries.
debug_files() {
    local file id
    for file in "${files[@]}"; do
        id=$(readelf -n "$file" 2>/dev/null | sed -n 's/.*Build ID: //p')
        [ ! -e "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ] || echo "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
    done
}
mapfile -t others < <(debug_files)
if [ ${#others[@]} -gt 0 ]; then
    symbols_of "${files[@]}" "${others[@]}" >"$work/symbols"
    compared_insns 'debug files of the system' "$work/data"
    compared_sums 'debug files of the system' "$work/data"
    symbols_of "${files[@]}" >"$work/symbols"
else
    skip "$what: debug files of the system" 'it has none of the C library (libc6-dbg)'
fi

# With the names that the dynamic linker needs, and no others.
copy_files "$work/stripped"
strip --strip-all "$work/stripped$work"/{crew,libtools.so}
compared_insns 'stripped' "$work/data" --symfs "$work/stripped"
compared_sums 'stripped' "$work/data" --symfs "$work/stripped"
check 'stripped: exported functions have names' named main crew_sum tool_mix tool_by_label qsort_r
check 'stripped: others have none' not_named work choose spread compare inner_label

# The program and its library are elsewhere now: perf keeps copies of them, by their build ids. Of the
# C library, perf may know files with debug information that the system has, so it is left out.
perf+=(--buildid-dir "$work/cache")
if "${perf[@]}" inject --buildid-all -i "$work/data" -o "$work/data.ids" 2>"$work/perf.err" &&
    "${perf[@]}" buildid-cache --add "$work/crew,$work/libtools.so" 2>>"$work/perf.err"; then
    rm "$work/crew" "$work/libtools.so"
    only=$(code_of crew && code_of libtools.so)
    compared_insns 'build-id cache' "$work/data.ids"
    check 'build-id cache: functions have names' named main work spread tool_mix
else
    skip "$what: build-id cache" "perf: $(tail -n 1 "$work/perf.err")"
fi
summary
