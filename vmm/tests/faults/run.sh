#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh PROGRAM: vpt's commands on small traces, each of their calls that allocates, opens, reads or
# writes made to fail (faults.c). PROGRAM is vpt with that in it. EVERY=N: only one call site of N;
# SEED=N: other later hits.
# Ends with 'N passed, N failed'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/../lib.sh"
EVERY=${EVERY:-1}
vpt=$1

# where OFFSET: the function and line of a call site.
where() {
    addr2line -e "$vpt" -f "$1" | tr '\n' ' '
}

# faults NAME STATUS ARGUMENT...: a command that ends with this status as long as nothing fails. files
# and input are what it makes and reads. It has no lab to go to where this machine falls short.
files=''
input=/dev/null
seed=${SEED:-0}
faults() {
    local name=$1 status=$2 line
    shift 2
    seed=$((seed + 1)) # so that not the same of each are left out
    VPT_CACHE=$work/none VPT_FAULTS=$work VPT_FAULTS_FILES=$files VPT_FAULTS_INPUT=$input VPT_FAULTS_EXIT=$status \
        VPT_FAULTS_EVERY=$EVERY VPT_FAULTS_SEED=$seed \
        "$vpt" "$@" >"$work/log" 2>&1
    while IFS= read -r line; do
        if [[ $line =~ ^FAIL:\ [a-z_]+\ at\ \+(0x[0-9a-f]+) ]]; then
            echo "FAIL: $name: $(where "${BASH_REMATCH[1]}")${line#FAIL: }"
        elif [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
            echo "$name: $line"
            passed=$((passed + BASH_REMATCH[1]))
            failed=$((failed + BASH_REMATCH[2]))
            files=''
            input=/dev/null
            return
        else
            echo "$line"
        fi
    done <"$work/log"
    echo "FAIL: $name: it did not end by itself"
    failed=$((failed + 1))
    files=''
    input=/dev/null
}

# ---- Something to read ----

"$vpt" run --trace-out "$work/loop.pt" "$guests/traced-loop.elf" >"$work/out" 2>"$work/err" </dev/null
case $? in
0) ;;
4) # the host lacks something
    skip_rest faults "no trace can be made here: $(tail -n 1 "$work/err")"
    ;;
*)
    fail 'a trace to read' "$(tail -n 1 "$work/err")"
    summary
    exit 1
    ;;
esac
"$vpt" convert "$work/loop.pt" "$work/loop.data"
cat >"$work/map.json" <<'END'
{ "vpt-map": 1, "vms": [ { "name": "one", "vmcs": "0x7000",
  "processes": [ { "name": "cc", "cr3": "0x5000" } ] } ] }
END

# words NUMBER...: as 64-bit little-endian words.
words() {
    local number
    for number in "$@"; do
        # shellcheck disable=SC2059 # the format is the bytes
        printf "$(printf '%016x' "$number" | sed -E 's/(..)(..)(..)(..)(..)(..)(..)(..)/\\x\8\\x\7\\x\6\\x\5\\x\4\\x\3\\x\2\\x\1/')"
    done
}

# The guest's code, a page at 1 MiB, in the other forms that code comes in: a log, as QEMU leaves one...
readonly cr3=0x1000 code=0x100000 page=4096
objcopy -O binary -j .text "$guests/traced-loop.elf" "$work/text"
truncate -s $page "$work/text"
{ printf vptcode1 && words 0 $cr3 $code $code 0 -1 $code $page && cat "$work/text"; } >"$work/logged.code"
cp "$work/loop.pt" "$work/logged.pt"
jq '.code = "logged.code" | .images = []' "$work/loop.pt.json" >"$work/logged.pt.json"
# ...a dump of memory with page tables: one entry each, to 2000H and to a page of 1 GiB...
zeros() { # TO FROM
    head -c $(($1 - ($2))) /dev/zero
}
{
    zeros $cr3 0 && words 0x2003 && zeros 0x2000 $cr3+8 && words 0x83 && zeros $code 0x2008 && cat "$work/text"
} >"$work/memory"
echo '{ "vpt-map": 1, "host": { "memory": { "raw": "memory", "address": 0, "paging": "4-level" } } }' >"$work/memory.json"
# ...and /proc/kcore beside a perf.data. The map of its code is said to be the kernel's.
mkdir -p "$work/folder/kcore_dir"
cp "$guests/traced-loop.elf" "$work/folder/kcore_dir/kcore"
echo "$(printf %016x $code) T loop" >"$work/folder/kcore_dir/kallsyms"
name=$(realpath "$guests/traced-loop.elf")
kernel='[kernel.kallsyms]_text'
LC_ALL=C sed "s|$name|$kernel$(printf '\\x00%.0s' $(seq $((${#name} - ${#kernel}))))|" "$work/loop.data" \
    >"$work/folder/data"
at=$(grep -aboF "$kernel" "$work/folder/data" | head -n 1 | cut -d : -f 1)
printf '\377\377\377\377' | dd of="$work/folder/data" bs=1 seek=$((at - 64)) conv=notrunc status=none

# A log of names for the same guest: two threads, and a mapping.
cat >"$work/logged.names" <<'END'
{"vpt-names":1,"begin":0}
{"at":0,"pid":7,"tid":7,"comm":"one","cr3":[4096],"new":true}
{"at":0,"cr3":[4096],"start":1048576,"end":1052672,"offset":0,"path":"/loop"}
{"at":40,"pid":7,"tid":8,"comm":"two","cr3":[4096]}
END
cp "$work/loop.pt" "$work/named.pt"
jq '.code = "logged.code" | .names = "logged.names" | .images = []' "$work/loop.pt.json" >"$work/named.pt.json"

# Two processors' traces that tell the time: JMP RAX at 5000H again and again.
printf '\xff\xe0' >"$work/jump.bin"
echo '{ "vpt-map": 1, "host": { "images": [ { "path": "jump.bin", "address": "0x5000" } ] } }' >"$work/jump.json"
timed() { # FILE TSC
    local tsc
    {
        printf '\x02\x82%.0s' {1..8}
        printf '\x02\x23\x71\x00\x50\x00\x00\x00\x00'
        for tsc in "$2" $(($2 + 100)) $(($2 + 200)); do
            # shellcheck disable=SC2059 # the format is the bytes
            printf "\\x19\\x$(printf %02x $((tsc & 255)))\\x$(printf %02x $((tsc >> 8)))\\0\\0\\0\\0\\0\x2d\x00\x50"
        done
    } >"$1"
}

# ---- Commands ----

faults dump 0 dump "$work/loop.pt"
faults 'dump --json' 0 dump --json "$work/loop.pt"
faults 'dump of a perf.data' 0 dump "$work/loop.data"
for view in --insns --calls '--calls --json' --summary '--summary --json' '--summary --threads 3' \
    '--format perf' '--format folded' '--format chrome' '--format perfetto' '--format callgrind'; do
    [ "$view" != '--format perfetto' ] || "$vpt" decode --format perfetto "$work/loop.pt" >"$work/log" || continue
    read -ra words <<<"$view"
    faults "decode $view" 0 decode "${words[@]}" "$work/loop.pt"
done
faults 'decode of two traces' 0 decode --format folded "$work/loop.pt" "$work/loop.pt"
timed "$work/early.pt" 1000
timed "$work/late.pt" 1050
faults 'decode of two traces by time' 0 decode --blocks --map "$work/jump.json" "$work/early.pt" "$work/late.pt"
input=$work/loop.pt
faults 'decode of a pipe' 0 decode --like "$work/loop.pt" -
for view in --calls '--format chrome'; do
    read -ra words <<<"$view"
    faults "decode $view of a perf.data" 0 decode "${words[@]}" "$work/loop.data"
done
faults 'decode with a log of code' 0 decode "$work/logged.pt"
for view in --calls --insns '--format chrome' '--process one --symbol *loop*'; do
    read -ra words <<<"$view"
    faults "decode $view with a log of names" 0 decode "${words[@]}" "$work/named.pt"
done
faults 'decode with guest memory' 0 decode --map "$work/memory.json" "$work/loop.pt"
faults 'decode with kcore' 0 decode --calls "$work/folder"
function=$("$vpt" decode --summary --json "$work/loop.pt" | jq -r '.functions[0].name')
ran=$("$vpt" decode --blocks --json "$work/loop.pt" | jq -rs '[.[] | select(.type == "block")][0].ip')
for view in '' --json '--by process,function,file' "--between $ran,$ran"; do
    read -ra words <<<"$view"
    faults "report $view" 0 report "${words[@]}" "$work/loop.pt"
done
faults 'report of a perf.data' 0 report "$work/loop.data"
faults 'report with a log of names' 0 report "$work/named.pt"
faults annotate 0 annotate "$function" "$work/loop.pt"
faults 'annotate --json with a log of names' 0 annotate --json '[loop]' "$work/named.pt"
if "$BUILD/tests/guest-core" "$work/guest.core"; then
    files="$work/guest.map $work/guest.kallsyms $work/guest.symbols $work/guest.vdso"
    faults names 0 names --out "$work/guest" "$work/guest.core"
else
    fail 'a guest to look at' 'none was made'
fi
faults index 0 index "$work/loop.pt"
faults parts 0 parts "$work/loop.pt"
faults 'parts with a map' 0 parts --map "$work/map.json" "$work/loop.pt"
files=$work/out.data
faults convert 0 convert "$work/loop.pt" "$work/out.data"
faults profiles 0 profiles
if [ -w /dev/kvm ]; then
    files="$work/new.pt $work/new.pt.json"
    faults run 0 run --trace-out "$work/new.pt" "$guests/traced-loop.elf"
    faults 'run --verify' 0 run --verify --json "$guests/traced-loop.elf"
else
    skip 'faults of vpt run' 'no /dev/kvm'
fi
summary
