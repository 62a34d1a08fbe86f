#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt decode --format perfetto, read back field by field by protoc. Ends with 'N passed, N failed, N
# skipped'.
# shellcheck disable=SC2016 # $ stands in programs of awk and jq
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

says=$("$vpt" decode --format perfetto /dev/null 2>&1)
if [ $? = 4 ]; then
    skip_rest 'the format perfetto' "${says#vpt: }"
fi

# A host whose process calls f, and then enters guests of two VMs; their processes have the same pid.
printf '\xe8\x0b\x00\x00\x00\x0f\xc7\x30\x0f\x01\xc2' >"$work/host.bin" # CALL 5010H; VMPTRLD; VMLAUNCH
printf '\xc3' >"$work/f.bin"
printf '\x90\xff\xe0' >"$work/guest.bin" # NOP; JMP RAX
# enter_guest VMCS: VMCS, PIP of 6000H with NR, TIP 6000H: twice around, by JMP RAX.
enter_guest() {
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x02\\xc8\\x$1\\x00\\x00\\x00\\x00"
    printf '\x02\x43\x01\x06\x00\x00\x00\x00\x2d\x00\x60\x2d\x00\x60'
}
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x99\x01'      # PIP 5000H, MODE
    printf '\x7d\x00\x50\x00\x00\x00\x00\x02\x23'          # FUP, PSBEND
    printf '\x2d\x05\x50\x02\x03\x22\x00'                  # TIP 5005H: RET of f; CBR 34
    enter_guest 07
    printf '\x3d\x00\x60\x02\x43\x00\x05\x00\x00\x00\x00\x2d\x05\x50' # out: FUP, PIP, TIP 5005H
    enter_guest 08
} >"$work/t.pt"
cat >"$work/map.json" <<'END'
{ "vpt-map": 1,
  "host": { "processes": [ { "name": "qemu", "pid": 812, "cr3": "0x5000",
    "images": [ { "path": "host.bin", "address": "0x5000" }, { "path": "f.bin", "address": "0x5010" } ] } ] },
  "vms": [
    { "name": "one", "vmcs": "0x7000", "processes": [ { "name": "init", "pid": 1, "cr3": "0x6000",
      "images": [ { "path": "guest.bin", "address": "0x6000" } ] } ] },
    { "name": "two", "vmcs": "0x8000", "processes": [ { "name": "init", "pid": 1, "cr3": "0x6000",
      "images": [ { "path": "guest.bin", "address": "0x6000" } ] } ] } ] }
END
"$vpt" decode --format perfetto --map "$work/map.json" "$work/t.pt" >"$work/t.perfetto" 2>"$work/err"
check 'there is a file' test -s "$work/t.perfetto"
expect 'protoc reads it' 0 '' bash -c "protoc --proto_path=vmm/view --decode=perfetto.Trace \
    vmm/view/perfetto.proto <'$work/t.perfetto'"
mv "$work/out" "$work/t.text"
check 'it knows every field' test "$(grep -cE '^ *[0-9]+[:{ ]' "$work/t.text")" = 0

# One line a packet: NAME=VALUE of its fields.
awk '/^packet \{/ { line = "" } /^\}/ { print line }
    /^  /{ gsub(/^ +/, ""); gsub(/: /, "="); if ($0 != "}") line = line " " $0 }' \
    "$work/t.text" >"$work/packets"

# uuid_of NAME: the track of that name. How often it is there is counted.
uuid_of() {
    sed -n "s/.*track_descriptor {.* uuid=\([0-9]*\) .*name=\"$1\".*/\1/p" "$work/packets" | head -n 1
}
parent_of() {
    sed -n "s/.*track_descriptor {.* uuid=$1 .*parent_uuid=\([0-9]*\).*/\1/p" "$work/packets" | head -n 1
}
one=$(uuid_of 'VM one')
two=$(uuid_of 'VM two')
check 'each VM has a track' test -n "$one" -a -n "$two" -a "$one" != "$two"
inits=$(grep -c 'name="init, pid 1"' "$work/packets")
check 'two processes with one pid have two tracks' test "$inits" = 2
check 'one in each VM' test "$(grep 'name="init, pid 1"' "$work/packets" |
    grep -cE "parent_uuid=($one|$two)( |$)")" = 2
check 'the process of the host is in none' test -z "$(parent_of "$(uuid_of 'qemu, pid 812')")"
check 'its thread is below it' \
    test "$(parent_of "$(uuid_of 'qemu, tid 812')")" = "$(uuid_of 'qemu, pid 812')"
check 'no process and no thread goes by a number' test "$(grep -cE ' (process|thread) \{' "$work/packets")" = 0
check 'uuids are used once' test -z "$(sed -n 's/.*track_descriptor {.* uuid=\([0-9]*\) .*/\1/p' \
    "$work/packets" | sort | uniq -d)"
check 'events are on tracks that are described' test -z "$(comm -23 \
    <(sed -n 's/.*track_uuid=\([0-9]*\).*/\1/p' "$work/packets" | sort -u) \
    <(sed -n 's/.*track_descriptor {.* uuid=\([0-9]*\) .*/\1/p' "$work/packets" | sort -u))"
check 'slices are balanced' test "$(grep -c 'TYPE_SLICE_BEGIN' "$work/packets")" = \
    "$(grep -c 'TYPE_SLICE_END' "$work/packets")"
check 'names of slices are told before' awk '
    match($0, / iid=[0-9]+/) { told[substr($0, RSTART + 5, RLENGTH - 5)] = 1 }
    match($0, /name_iid=[0-9]+/) { used++; if (!told[substr($0, RSTART + 9, RLENGTH - 9)]) bad = 1 }
    END { exit bad || !used }' "$work/packets"
check 'the first packet of a sequence says so' grep -q 'sequence_flags=3' <(head -n 1 "$work/packets")
check 'the others need what it told' test "$(tail -n +2 "$work/packets" | grep -vc 'sequence_flags=2')" = 0
check 'a counter has the core:bus ratio' grep -q 'TYPE_COUNTER.*counter_value=34' "$work/packets"
# ---- Filters ----
"$vpt" decode --format perfetto --map "$work/map.json" --vm two "$work/t.pt" | protoc --proto_path=vmm/view \
    --decode=perfetto.Trace vmm/view/perfetto.proto >"$work/two.text"
check 'a filter: one VM has tracks' test "$(grep -c 'name: "VM ' "$work/two.text")" = 1 -a \
    "$(grep -c 'name: "VM two"' "$work/two.text")" = 1
check 'and nobody of the host' test "$(grep -c qemu "$work/two.text")" = 0
check 'slices are those of the VM' test "$(grep -c TYPE_SLICE_BEGIN "$work/two.text")" -gt 0 -a \
    "$(grep -c TYPE_SLICE_BEGIN "$work/two.text")" = "$(grep -c TYPE_SLICE_END "$work/two.text")"

# ---- Cycles: 2 instructions in 31 cycles, again and again ----
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x19\x00\x10\x00\x00\x00\x00\x00\x02\x43\x00\x05\x00\x00\x00\x00\x99\x01' # TSC, PIP, MODE
    printf '\x02\x23\x71\x00\x60\x00\x00\x00\x00'                             # PSBEND, TIP.PGE 6000H
    for ((i = 0; i < 1000; i++)); do
        printf '\xfb\x2d\x00\x60' # CYC 31, TIP 6000H
    done
    printf '\x19\x00\x40\x01\x00\x00\x00\x00\x2d\x00\x60'
} >"$work/cycles"
echo '{ "vpt": 1, "vcpu": 0 }' >"$work/cycles.json"
echo '{ "vpt-map": 1, "host": { "images": [ { "path": "guest.bin", "address": "0x6000" } ] } }' >"$work/bare.json"
"$vpt" decode --format perfetto --map "$work/bare.json" "$work/cycles" >"$work/c.perfetto"
protoc --proto_path=vmm/view --decode=perfetto.Trace vmm/view/perfetto.proto <"$work/c.perfetto" >"$work/c.text"
check 'instructions per 1000 cycles' awk '/counter_value:/ { count++; if ($2 < 63 || $2 > 65) bad = 1 }
    END { exit bad || count < 2 }' "$work/c.text"
check 'on a track that says so' grep -q 'name: "instructions per 1000 cycles"' "$work/c.text"
check 'time does not go back' awk 'match($0, /timestamp=[0-9]+/) {
    now = substr($0, RSTART + 10, RLENGTH - 10) + 0; if (now < last) bad = 1; last = now } END { exit bad }' \
    "$work/packets"

summary
