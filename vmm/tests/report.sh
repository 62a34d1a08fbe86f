#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt report. Its witnesses are the executed path of a guest, and what vpt decode says block by block.
# Ends with 'N passed, N failed, N skipped'.
# shellcheck disable=SC2016 # $ stands in programs of awk and jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
saved=$(dirname "$0")/saved

# csv FILE: rows of a table as 'NAME INSTRUCTIONS CALLS', by name.
csv() {
    awk -F, 'NR > 1 { print $1, $2, $4 }' "$1" | sort
}

# ---- A guest, and the path that it executed ----
for file in guest.elf guest.pt guest.pt.path; do
    check "there is $file" bash -c "gzip -dc $saved/$file.gz >$work/$file"
done
cp "$saved/guest.pt.json" "$work/"
# Addresses of instructions; then each is given to the last symbol of the code in front of it.
od -An -tu8 -v -w8 "$work/guest.pt.path" | awk '$1 < 9e18 { print $1 }' >"$work/path"
nm -t d "$work/guest.elf" | awk '$2 ~ /[Tt]/ { print $1 + 0, $3 }' | sort -n >"$work/symbols"
awk 'NR == FNR { at[NR] = $1; name[NR] = $2; count = NR; next }
    { low = 1; high = count
      while (low < high) { mid = int((low + high + 1) / 2); if (at[mid] <= $1) low = mid; else high = mid - 1 }
      insns[name[low]]++; entries[name[low]] += at[low] == $1 }
    END { for (each in insns) print each, insns[each], entries[each] }' \
    "$work/symbols" "$work/path" | sort >"$work/executed"
expect 'functions of a guest' 0 '' "$vpt" report --csv --by function "$work/guest.pt"
check 'as they were executed' diff <(csv "$work/out") "$work/executed"
expect 'all of it as JSON' 0 '' "$vpt" report --json "$work/guest.pt"
check 'every instruction once' jq -e --argjson all "$(wc -l <"$work/path")" \
    '.instructions == $all and ([.functions[].instructions] | add) == $all and ([.who[].instructions] | add) == $all' \
    "$work/out"
check 'no times in a trace that tells none' jq -e 'has("time") or has("time_unit") | not' "$work/out"
mv "$work/out" "$work/json"
"$vpt" decode --json --summary "$work/guest.pt" >"$work/summary"
check 'the totals of --summary' jq -es '.[0].instructions == .[1].instructions and .[0].blocks == .[1].blocks
    and .[0].interrupt_count == .[1].interrupts and .[0].error_count == .[1].errors' "$work/json" "$work/summary"
check 'interrupts by handler' jq -e --slurpfile text <("$vpt" decode --blocks --json "$work/guest.pt" |
    jq -s '[.[] | select(.type == "interrupt")] | length') '([.interrupts[].count] | add) == $text[0]' "$work/json"
expect 'on one thread' 0 '' "$vpt" report --json --threads 1 "$work/guest.pt"
check 'the same' cmp "$work/out" "$work/json"
expect 'out of a pipe' 0 '' bash -c "'$vpt' report --json --image '$work/guest.elf' - <'$work/guest.pt'"
check 'the same' cmp "$work/out" "$work/json"
expect 'one function' 0 '' "$vpt" report --csv --by function --symbol 'o?d' "$work/guest.pt"
check 'and no other' diff <(csv "$work/out") <(grep '^odd ' "$work/executed")

# ---- A host and a VM, with times ----

# shellcheck source=vmm/tests/host-and-vm.sh
. "$(dirname "$0")/host-and-vm.sh"
report=("$vpt" report --map "$work/map.json")
blocks() {
    "$vpt" decode --map "$work/map.json" --blocks --json "$@" | jq -s '[.[] | select(.type == "block")]'
}
blocks "$work/a" >"$work/blocks"
expect 'who ran' 0 '' "${report[@]}" --json "$work/a"
mv "$work/out" "$work/json"
check 'each with what decode says of it' jq -e --slurpfile blocks "$work/blocks" \
    '[.who[] | [(.vm | select(. != "host")) // null, .process, .instructions]] | sort
    == ($blocks[0] | group_by([.vm, .process, .cr3]) | map([.[0].vm, .[0].process, (map(.insns) | add)]) | sort)' "$work/json"
check 'functions, too' jq -e --slurpfile blocks "$work/blocks" \
    '[.functions[] | [.function, .instructions, .blocks]] | sort
    == ($blocks[0] | group_by(.symbol) | map([.[0].symbol, (map(.insns) | add), length]) | sort)' "$work/json"
check 'times between the packets that tell them' jq -e '[.who[] | {(.vm + " " + (.pid | tostring)): .time}] | add
    == {"host 11": 500, "host 12": 200, "host 13": 50, "small 11": 210}' "$work/json"
check 'none is lost' jq -e '.time + .untraced_time == 2060 - 1000 and .untraced_time == 100' "$work/json"
check 'a VM exit with its reason, and its cost' jq -e '.exits == [{name: "I/O", count: 1, reason: 30,
    instructions: 3, time: 50}]' "$work/json"
check 'the processor' jq -e '.rows | length == 1 and .[0].cpu == 4' \
    <("${report[@]}" --json --by cpu "$work/a")
expect 'by name' 0 '' "${report[@]}" --csv --by name "$work/a"
check 'processes of one name together' grep -qx 'first,[0-9]*,[0-9]*,[0-9]*,760' "$work/out"
check 'no name is a formula' grep -q "^\"'=2+3\"," "$work/out"
expect 'a VM' 0 '' "${report[@]}" --json --vm small "$work/a"
check 'and nobody else' jq -e '[.functions[].function] == ["guest_two"] and .time == 210' "$work/out"
check 'with its events alone' jq -e '.exit_count == 1' "$work/out"
expect 'nobody' 0 '' "${report[@]}" --csv --by process,cpu --vm none "$work/a"
check 'has a head, and no rows' test "$(cat "$work/out")" = 'process,pid,cr3,cpu,instructions,blocks,calls,time_ticks'
expect 'a pid' 0 '' "${report[@]}" --json --pid 11 --vm host "$work/a"
check 'and no other' jq -e '.who | length == 1 and .[0].time == 500' "$work/out"
expect 'a part' 0 '' "${report[@]}" --json --from tsc:1500 --to tsc:2000 "$work/a"
check 'is what decode shows of it' jq -e \
    --argjson insns "$(blocks --from tsc:1500 --to tsc:2000 "$work/a" | jq 'map(.insns) | add')" \
    '.instructions == $insns and $insns > 4' "$work/out"
sed 's/4/5/' "$work/a.json" >"$work/b.json"
cp "$work/a" "$work/b"
expect 'two processors' 0 '' "${report[@]}" --json --by vm,cpu "$work/a" "$work/b"
check 'are two and their sum' jq -e --slurpfile one "$work/json" \
    '.instructions == 2 * $one[0].instructions and ([.rows[].cpu] | unique) == [4, 5]
    and ([.rows[] | select(.vm == "small") | .time] == [210, 210])' "$work/out"
expect 'one of them' 0 '' "${report[@]}" --json --processor 5 "$work/a" "$work/b"
check 'as if alone' jq -e --slurpfile one "$work/json" '.who == $one[0].who' "$work/out"
expect 'text' 0 '' "${report[@]}" "$work/a"
check 'has the sections' bash -c "for each in 'Who ran' 'Functions' 'VM exits'; do grep -q \"^\$each\" '$work/out' || exit 1; done"
check 'without colour, for no terminal' bash -c "! grep -q \$'\\033' '$work/out'"

# ---- The files that functions are in ----
expect 'functions and files' 0 '' "$vpt" report --csv --by function,file "$work/guest.pt"
check 'one image has all of them' bash -c "test \"\$(tail -n +2 '$work/out' | cut -d , -f 2 | sort -u)\" = guest.elf"
expect 'files' 0 '' "$vpt" report --json --by file "$work/guest.pt"
check 'are one row' jq -e '[.rows[].file] == ["guest.elf"] and .rows[0].instructions == .instructions' "$work/out"
cat >"$work/mapped.json" <<TEXT
{ "vpt-map": 1,
  "host": { $code, "processes": [ { "name": "first", "cr3": "0x1000", "files": [
    { "path": "/usr/lib/liblow.so", "start": "0x5000", "end": "0x6000" },
    { "path": "/usr/lib/libhigh.so", "start": "0x6000", "end": "0x7000" } ] } ] } }
TEXT
expect 'mapped files' 0 '' "$vpt" report --map "$work/mapped.json" --json --by file "$work/a"
check 'by their last names, where they are mapped' jq -e '[.rows[] | select(.file) | .file] | sort
    == ["libhigh.so", "liblow.so"]' "$work/out"

# ---- A perf.data ----
"$vpt" convert --image "$work/guest.elf" "$work/guest.pt" "$work/guest.data"
expect 'a perf.data' 0 '' "$vpt" report --csv --by function "$work/guest.data"
check 'has the same functions' diff <(csv "$work/out") "$work/executed"

# ---- System calls, and nothing ----
objcopy --redefine-sym odd=__x64_sys_odd --redefine-sym even=__x64_sys_even --redefine-sym work=entry_SYSCALL_64 \
    --redefine-sym round=entry_SYSCALL_64_safe_stack "$work/guest.elf" "$work/calls.elf"
calls_of() {
    awk -v name="$1" '$1 == name { print $3 }' "$work/executed"
}
expect 'functions with the names of system calls' 0 '' "$vpt" report --top 2 --image "$work/calls.elf" "$work/guest.pt"
cp "$work/out" "$work/text"
"$vpt" report --json --image "$work/calls.elf" "$work/guest.pt" >"$work/out"
check 'are told, the most first, without labels' diff \
    <(jq -r '.system_calls[] | "\(.calls) \(.function)"' "$work/out") <(printf '%s\n' "$(calls_of odd) __x64_sys_odd" \
        "$(calls_of even) __x64_sys_even" "$(calls_of work) entry_SYSCALL_64" | sort -k 1,1nr)
check 'so many as --top says' test "$(sed -n '/^System calls/,$p' "$work/text" | grep -cE '__x64_sys|entry_')" = 2 -a \
    "$(grep -c '^and 1 more (--top 0 shows all)$' "$work/text")" = 1
expect 'a filter that lets nothing through' 0 '' "$vpt" report --process nobody "$work/guest.pt"
check 'is said' grep -q '^Nothing of what ran is what the options choose' "$work/out"
check 'instead of tables' test "$(grep -c Functions "$work/out")" = 0

# ---- What goes wrong ----
expect 'no trace' 2 'takes a trace' "$vpt" report
expect 'no such trace' 3 'No such file' "$vpt" report "$work/nothing"
expect 'no such key' 2 "no key 'functoin'; did you mean 'function'" "$vpt" report --by functoin "$work/a"
expect 'a key twice' 2 "'vm' twice" "$vpt" report --by vm,cpu,vm "$work/a"
expect 'no such order' 2 "no order 'size'" "$vpt" report --sort size "$work/a"
expect 'no process has this number' 2 'not .-1' "$vpt" report --pid -1 "$work/a"
head -c 9000 "$work/guest.pt" >"$work/cut.pt"
tail -c +9100 "$work/guest.pt" >>"$work/cut.pt"
cp "$work/guest.pt.json" "$work/cut.pt.json"
expect 'a trace with a gap' 3 'errors' "$vpt" report --json "$work/cut.pt"
check 'is summed up all the same' jq -e '.error_count > 0 and .instructions > 0
    and ([.errors[].lost_bytes] | add) == .lost_bytes and .lost_bytes > 0' "$work/out"

summary
