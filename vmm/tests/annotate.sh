#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt annotate: the counts of a function's instructions are those of what was executed, as a log of
# single steps or the path of a guest has it.
#
# Needs $BUILD/vpt and its guests, and $BUILD/tests/stepped. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=vmm/tests/recorded.sh
. "$(dirname "$0")/recorded.sh"

# counts [OPTION...] FUNCTION TRACE: "address executed taken" of each instruction that ran.
counts() {
    "$vpt" annotate --json "$@" >"$work/json" || return 1
    jq -e '[.functions[].code[] | select(has("taken")) | .executed == .taken + .not_taken] | all' "$work/json" \
        >/dev/null || return 1
    jq -r '.functions[].code[] | select(.executed > 0) | "\(.address[2:]) \(.executed) \(.taken // 0)"' \
        "$work/json" | sort
}

# logged LOG ADDRESSES [THREAD]: the same, of the addresses in a file, as the log has it.
logged() {
    awk -v thread="${3:-}" 'NR == FNR { wanted[$1]; next }
        ($2 in wanted) && (thread == "" || $1 == thread) { executed[$2] += $3; taken[$2] += $4 }
        END { for (a in executed) print a, executed[a], taken[a] }' "$2" "$1" | sort
}

# Of the code of a function, as the symbols have it: "address" of each instruction in the log.
addresses_of() { # FUNCTION FILE
    local at size base
    read -r at size < <(nm -S --defined-only "$work/$2" | awk -v name="$1" '$4 == name { print $1, $2 }')
    base=$("$vpt" dump --records "$work/data" | awk -v file="$work/$2" '$2 == "MMAP2" && $7 == file { print $4, $6 }')
    read -r range offset <<<"$base"
    at=$((16#$at + ${range%+*} - offset))
    cut -d ' ' -f 2 "$work/log" | sort -u | awk -v first="$(printf %x $at)" \
        -v behind="$(printf %x $((at + 16#$size)))" '$1 "" >= first "" && $1 "" < behind ""'
}

function_is_logged() { # FUNCTION FILE [THREAD]
    local filter=()
    [ -z "${3:-}" ] || filter=(--pid "$3")
    addresses_of "$1" "$2" >"$work/addresses"
    [ -s "$work/addresses" ] || { echo "no $1 in the log"; return 1; }
    counts "${filter[@]}" "$1" "$work/data" >"$work/counted" && [ -s "$work/counted" ] &&
        logged "$work/log" "$work/addresses" "${3:-}" | diff - "$work/counted"
}

record_crew 'counts of a program'
for function in main all_work work choose fill crew_sum; do
    check "$function: as often as it ran" function_is_logged $function crew
done
for function in tool_fibonacci tool_mix tool_fold tool_sort compare; do
    check "$function, of a library: as often as it ran" function_is_logged $function libtools.so
done
offspring=$("$vpt" dump --records "$work/data" | sed -nE 's/.* COMM ([0-9]+)\/.* offspring.*/\1/p' | head -n 1)
check 'one process: as often as it ran there' function_is_logged choose crew "$offspring"
check 'another one of the library' function_is_logged tool_mix libtools.so "$offspring"
two_of_a_name() {
    "$vpt" annotate spread "$work/data" | grep '^2 functions have this name' >/dev/null &&
        counts spread "$work/data" >"$work/counted" && cut -d ' ' -f 1 "$work/counted" >"$work/addresses" &&
        logged "$work/log" "$work/addresses" | diff - "$work/counted" &&
        jq -e '.functions | length == 2 and all(.instructions > 0)' "$work/json" >/dev/null
}
check 'two functions of a name: each by itself' two_of_a_name
# What its instructions ran, in all and of all, is what a report counts.
report_is_same() {
    local function sums
    for function in choose compare tool_fold qsort_r; do
        sums=$("$vpt" report --json --symbol $function --by function "$work/data" |
            jq '[.rows[].instructions] | add') || return 1
        counts $function "$work/data" >"$work/counted" || return 1
        echo "$function: $sums"
        jq -e --argjson sums "$sums" '$sums > 0 and ([.functions[].instructions] | add) == $sums and
            ([.functions[].code[].executed] | add) == $sums' "$work/json" >/dev/null || return 1
    done
    jq -e --argjson all "$("$vpt" report --json "$work/data" | jq .instructions)" '.all_instructions == $all' \
        "$work/json" >/dev/null
}
check 'they add up to what a report counts' report_is_same
text_is_json() {
    "$vpt" annotate choose "$work/data" >"$work/text" && counts choose "$work/data" >"$work/counted" || return 1
    awk '$2 ~ /%/ || $3 == "%" { print $1 }' "$work/text" | sort -n >"$work/in-text"
    jq -r '.functions[].code[] | select(.executed > 0).executed' "$work/json" | sort -n | diff - "$work/in-text"
}
check 'the text has the same numbers' text_is_json
not_run() {
    [ "$("$vpt" annotate choose "$work/data" | grep -c '^ *- ')" -gt 0 ]
}
check 'instructions that did not run are shown' not_run
# Lines: what addr2line says of the addresses in the log.
lines_are_logged() { # FUNCTION FILE
    local range offset
    addresses_of "$1" "$2" >"$work/addresses"
    read -r range offset < <("$vpt" dump --records "$work/data" |
        awk -v file="$work/$2" '$2 == "MMAP2" && $7 == file { print $4, $6 }')
    while read -r at; do
        printf '%x\n' $((16#$at - ${range%+*} + offset))
    done <"$work/addresses" >"$work/in-file"
    addr2line -e "$work/$2" <"$work/in-file" | sed -E 's/ \(discriminator .*//; s/^.*\///' |
        paste -d ' ' "$work/addresses" - >"$work/placed"
    logged "$work/log" "$work/addresses" | sort | join - <(sort "$work/placed") |
        awk '{ sums[$4] += $2 } END { for (line in sums) print line, sums[line] }' | sort >"$work/by-line"
    "$vpt" annotate --lines --json "$1" "$work/data" |
        jq -r '.functions[].lines[] | "\(.file | sub(".*/"; "")):\(.line) \(.executed)"' | sort |
        diff "$work/by-line" - && [ "$(wc -l <"$work/by-line")" -gt 2 ]
}
lines_in_text() {
    "$vpt" annotate --lines choose "$work/data" >"$work/text"
    grep -qE '^ +[0-9]+ .* jn?bel?.*  ; crew\.c:[0-9]+$' "$work/text" &&
        sed '1,/^$/d' "$work/text" | awk 'NR > 1 { sub(/.*\//, "", $4); print $4, $1 }' | sort |
        diff - <(sort "$work/by-line")
}
if [ "$("$vpt" annotate --lines choose "$work/data" 2>&1 | grep -c 'built without libdw')" != 0 ]; then
    expect '--lines in a build without libdw' 4 'built without libdw' "$vpt" annotate --lines choose "$work/data"
else
    check 'lines of a library: as often as they ran' lines_are_logged tool_fold libtools.so
    check 'lines of a program: as often as they ran' lines_are_logged choose crew
    check 'the text has the same lines' lines_in_text
fi
expect 'a function that did not run' 3 "no function 'chose' ran; 'choose' did" "$vpt" annotate chose "$work/data"
expect 'a process that did not run it' 3 "ran, but not in what the options choose" \
    "$vpt" annotate --pid 1 choose "$work/data"
expect 'no trace' 2 'takes a function and a trace' "$vpt" annotate choose
expect 'no such file' 3 'No such file' "$vpt" annotate choose "$work/none"
expect 'a pid' 2 'not' "$vpt" annotate --pid x choose "$work/data"

# ---- A guest: its executed path ----

need_backend 'counts of a guest'
expect 'run a traced guest' 0 '' "$vpt" run --verify --trace-out "$work/loop.pt" "$guests/traced-loop.elf"
od -An -v -t x8 -w8 "$work/loop.pt.path" | sed 's/^ *0*//' | awk '{ count[$1]++ } END { for (a in count) print 0, a, count[a], 0 }' \
    >"$work/path"
guest_is_executed() {
    local function
    function=$("$vpt" decode --summary --json "$work/loop.pt" | jq -r '.functions[0].name')
    counts "$function" "$work/loop.pt" >"$work/counted" && cut -d ' ' -f 1 "$work/counted" >"$work/addresses" &&
        logged "$work/path" "$work/addresses" | cut -d ' ' -f 1,2 | diff - <(cut -d ' ' -f 1,2 "$work/counted") &&
        [ -s "$work/counted" ] && echo "$function: $(wc -l <"$work/counted") instructions"
}
check 'a guest: as often as its path has it' guest_is_executed
summary
