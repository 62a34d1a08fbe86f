#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Filters of vpt decode: of each form, what they let through is what somebody else picks out of all of
# it, and call stacks are those of the whole trace. Ends with 'N passed, N failed, N skipped'.
# shellcheck disable=SC2016 # $ stands in programs of awk and jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=vmm/tests/host-and-vm.sh
. "$(dirname "$0")/host-and-vm.sh"
saved=$(dirname "$0")/saved
decode=("$vpt" decode --map "$work/map.json")

# ---- By who ran: what jq and grep pick out of all of it ----
"${decode[@]}" --blocks --json "$work/a" >"$work/all.json"
"${decode[@]}" --format perf "$work/a" >"$work/all.perf"

# picks NAME FILTERS JQ GREP: blocks that JQ selects, and lines of perf that are like GREP.
picks() {
    local name=$1 words insns
    read -ra words <<<"$2"
    "${decode[@]}" --blocks --json "${words[@]}" "$work/a" >"$work/some.json"
    check "$name: blocks" diff <(jq -c 'select(.type == "block")' "$work/some.json") \
        <(jq -c "select(.type == \"block\" and ($3))" "$work/all.json")
    "${decode[@]}" --format perf "${words[@]}" "$work/a" >"$work/some.perf"
    check "$name: lines of perf" diff "$work/some.perf" <(grep -E "$4" "$work/all.perf")
    insns=$("$vpt" report --map "$work/map.json" --json "${words[@]}" "$work/a" | jq .instructions)
    "${decode[@]}" --insns "${words[@]}" "$work/a" >"$work/some.text"
    check "$name: as many instructions as a report has" \
        test "$(grep -cE '^[0-9a-f]{16} ' "$work/some.text")" = "$insns"
}
picks 'a VM' '--vm small' '.vm == "small"' '^VM:small '
picks 'VMs by pattern' '--vm sm*l?' '.vm == "small"' '^VM:small '
picks 'the host' '--vm host' '.vm == null' '^ '
picks 'a name' '--process first' '.process == "first"' ' first '
picks 'a pid, on the host and in a VM' '--pid 11' '.cr3 == 4096' ' 11 '
picks 'one of them' '--pid 11 --vm host' '.cr3 == 4096 and .vm == null' '^ .* 11 '
picks 'a function' '--symbol two' '.symbol == "two"' ' two\+'
picks 'functions by pattern' '--symbol *two' '.symbol | endswith("two")' 'two\+'
picks 'a function of one who ran' '--symbol two --pid 12' '.symbol == "two" and .cr3 == 8192' ' 12 .* two\+'
picks 'the processor' '--processor 4' 'true' .
picks 'another processor' '--processor 5' 'false' '^no line$'
check 'nobody of a name: not even who runs' test -z "$("${decode[@]}" --process nobody "$work/a")"
"${decode[@]}" --blocks --symbol guest_two "$work/a" >"$work/text"
check 'who runs is said in front of the first line that is shown' \
    bash -c "grep -B 1 -m 1 '^[0-9a-f]*\.\.' '$work/text' | head -n 1 | grep -q '== guest process, VM small, process first'"
"${decode[@]}" --blocks --json --vm small "$work/a" >"$work/some.json"
check 'events have the names of who ran, too' jq -es 'map(select(.type != "block")) | length > 0 and
    all(.vm == "small" and .process == "first")' "$work/some.json"
sed 's/4/5/' "$work/a.json" >"$work/b.json"
cp "$work/a" "$work/b"
"${decode[@]}" --blocks --json --processor 5 "$work/a" "$work/b" >"$work/some.json"
check 'one of two processors' jq -es --slurpfile all "$work/all.json" \
    'all(.cpu == 5) and length == ($all | length)' "$work/some.json"

# ---- In forms that have call stacks ----
"${decode[@]}" --format folded "$work/a" >"$work/all.folded"
check 'stacks of a VM stand below it' grep -qx 'VM small;first;guest_two [0-9]*' "$work/all.folded"
"${decode[@]}" --format folded --vm small "$work/a" >"$work/some"
check 'a VM, folded' diff "$work/some" <(grep '^VM small;' "$work/all.folded")
"${decode[@]}" --format folded --vm host "$work/a" >"$work/some"
check 'the host, folded' diff "$work/some" <(grep -v '^VM ' "$work/all.folded")
"${decode[@]}" --format chrome "$work/a" >"$work/all.chrome"
check 'processes have names' jq -e '[.traceEvents[] | select(.name == "process_name") | .args.name] | sort
    == ["=2+3", "VM small, first", "first", "first"]' "$work/all.chrome"
check 'and one number each' jq -e '[.traceEvents[] | select(.name == "process_name") | .pid] | unique | length == 4' \
    "$work/all.chrome"
"${decode[@]}" --format chrome --vm small "$work/a" >"$work/some"
check 'a VM, as trace events' jq -e '[.traceEvents[].name] | unique == ["guest_two", "process_name", "thread_name"]' \
    "$work/some"
"${decode[@]}" --calls --vm small "$work/a" >"$work/some"
check 'a VM, as calls' test "$(grep -c '^==' "$work/some")" = 1 -a "$(grep -c guest_two "$work/some")" -gt 0 -a \
    "$(grep -cE ' (one|two)\b' "$work/some")" = 0

# A guest with calls: what is left of them is what is there without a filter, with the same times.
for file in guest.elf guest.pt; do
    check "there is $file" bash -c "gzip -dc $saved/$file.gz >$work/$file"
done
cp "$saved/guest.pt.json" "$work/"
guest=("$vpt" decode "$work/guest.pt")
events='[.traceEvents[] | select(.ph == "B" or .ph == "E") | select(.name == "odd") | [.ph, .ts, .tid]]'
"${guest[@]}" --format chrome >"$work/all"
"${guest[@]}" --format chrome --symbol odd >"$work/some"
check 'calls of a function, as trace events' jq -e --slurpfile all "$work/all" \
    "([.traceEvents[] | select(.ph == \"B\" or .ph == \"E\")] | length) as \$count
    | $events as \$some | (\$all[0] | $events) == \$some and \$count == (\$some | length) and \$count > 2" "$work/some"
"${guest[@]}" --format folded >"$work/all"
"${guest[@]}" --format folded --symbol odd >"$work/some"
check 'stacks that end in a function' diff "$work/some" <(grep -E ';odd [0-9]+$' "$work/all")
check 'are some' test -s "$work/some"
"${guest[@]}" --format callgrind >"$work/all"
"${guest[@]}" --format callgrind --symbol odd >"$work/some"
function_of() { awk -v RS= '/^fn=\([0-9]+\) odd\n/' "$1"; }
check 'what a function cost, and whom it called' diff <(function_of "$work/some") <(function_of "$work/all")
check 'and no other function' test "$(grep -c '^fn=' "$work/some")" = 1
"${guest[@]}" --calls --symbol odd | awk 'NR > 1 && !/^==/ && !/odd/' >"$work/some"
check 'calls, and no other function' test ! -s "$work/some"
"${guest[@]}" --format perf-branches | grep -E ' odd\+' >"$work/all"
check 'branches from a function or to it' diff <("${guest[@]}" --format perf-branches --symbol odd) "$work/all"
"${guest[@]}" --calls --json | jq -c 'select(.from + " " + .to | test("(^| )odd(\\+| |$)")) | select(.type | IN("call", "return"))' >"$work/all"
check 'calls as JSON' diff <("${guest[@]}" --calls --json --symbol odd | jq -c 'select(.type | IN("call", "return"))') "$work/all"

# ---- A perf.data ----
"$vpt" convert --name demo --image "$work/guest.elf" "$work/guest.pt" "$work/guest.data"
"$vpt" decode --format perf "$work/guest.data" >"$work/all"
check 'the name of its thread' diff <("$vpt" decode --format perf --process 'd?mo' "$work/guest.data") "$work/all"
check 'another name' test -z "$("$vpt" decode --format perf --process demon "$work/guest.data")"

# ---- What was lost is told to everybody ----
head -c 9000 "$work/guest.pt" >"$work/cut.pt"
tail -c +9100 "$work/guest.pt" >>"$work/cut.pt"
cp "$work/guest.pt.json" "$work/cut.pt.json"
expect 'a gap' 3 'errors' "$vpt" decode --json --symbol nothing "$work/cut.pt"
check 'is shown, and nothing else' jq -es 'length > 0 and all(.type | IN("error", "overflow"))' "$work/out"
expect 'sums' 2 'vpt report sums up' "${decode[@]}" --summary --vm small "$work/a"
expect 'no process has this number' 2 'not .-1' "${decode[@]}" --pid -1 "$work/a"

summary
