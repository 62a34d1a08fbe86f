#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The program vpt from outside: exit codes, one-line errors, and that nothing is left running.
# Needs $BUILD/vpt and the guests of vmm/tests/guests. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# Whether a process runs; one that nobody has reaped yet does not.
running() {
    [ -r "/proc/$1/stat" ] && ! grep -q ') Z ' "/proc/$1/stat"
}

# ---- Usage ----
expect 'help' 0 '' "$vpt" --help
expect 'version' 0 '' "$vpt" --version
for command in run qemu trace capture record check dump decode report annotate coverage convert index parts demux names guest-tests profiles; do
    expect "$command --help" 0 '' "$vpt" "$command" --help
done
expect 'unknown command' 2 'no command' "$vpt" frobnicate
expect 'unknown option' 2 'unknown option' "$vpt" run --frobnicate x.elf
expect 'option without value' 2 'needs a value' "$vpt" run --profile
expect 'no image' 2 'one image' "$vpt" run
expect 'qemu: nothing to run' 2 'neither an image' "$vpt" qemu
expect 'qemu: unknown option' 2 'unknown option' "$vpt" qemu --frobnicate x.elf
expect 'qemu: two images' 2 'takes one image' "$vpt" qemu x.elf y.elf
expect 'qemu: bad --profile' 2 'no profile' "$vpt" qemu --profile pentium "$guests/status.elf"
expect 'qemu: no such image' 3 'No such file' "$vpt" qemu "$work/nothing.elf"
expect 'qemu: --trace-out without image' 2 'needs an image' "$vpt" qemu --trace-out x -- -S
expect 'qemu: no QEMU' 4 'make qemu' env VPT_QEMU=/nonexistent "$vpt" qemu "$guests/status.elf"
expect 'qemu: what would run' 0 '' "$vpt" qemu --dry-run --trace-out a,b "$guests/status.elf"
check 'qemu: a comma in a name' grep -q "trace=a,,b,image=" "$work/out"
expect 'trace: no program' 2 'takes a program' "$vpt" trace --cycles
expect 'trace: --keep is no perf.data' 2 'is for a capture' "$vpt" trace --keep x -o y -- true
expect 'trace: two reports' 2 'either --report' "$vpt" trace --report x --html y -- true
expect 'trace: a variable without a name' 2 'takes NAME' "$vpt" trace --env =x -- true
expect 'trace: no QEMU' 125 'make qemu' env VPT_QEMU="$work/none" "$vpt" trace -- true
expect 'trace: no kernel' 125 'make trace-kernel' env VPT_QEMU=/bin/true VPT_CACHE="$work/none" "$vpt" trace -- true
mkdir -p "$work/cache/trace" && touch "$work"/cache/trace/{vmlinux,base.cpio}
expect 'trace: a QEMU that is none' 125 'went away' env VPT_QEMU=/bin/true VPT_CACHE="$work/cache" "$vpt" trace -- true
expect 'report: --only of what' 2 "no half 'both'" "$vpt" report --only both x
expect 'report: --only of a page' 2 'is for sums' "$vpt" report --only user --between a,b x
expect 'capture: of what' 2 'takes --domain or --qmp' "$vpt" capture "$work/x"
expect 'capture: of two' 2 'takes --domain or --qmp' "$vpt" capture --domain x --qmp y "$work/x"
expect 'capture: --connect without --domain' 2 'is for --domain' "$vpt" capture --qmp x --connect y "$work/x"
expect 'capture: no file' 2 'takes one FILE' "$vpt" capture --qmp x
expect 'capture: --status of a file' 2 'take no FILE' "$vpt" capture --qmp x --status "$work/x"
expect 'capture: --status and --stop' 2 'either' "$vpt" capture --qmp x --status --stop
expect 'capture: no such socket' 4 'No such file' "$vpt" capture --qmp "$work/nothing" "$work/x"
expect 'capture: name of a socket too long' 4 'too long' "$vpt" capture --qmp "$(printf '%0200d' 0)" "$work/x"
expect 'capture: no such image' 3 'No such file' "$vpt" capture --qmp x --image "$work/nothing" "$work/x"
expect 'capture: unknown option' 2 'unknown option' "$vpt" capture --frobnicate x
for bad in 0 -1 soon 999999999; do
    expect "capture: bad --seconds $bad" 2 'seconds takes' "$vpt" capture --seconds "$bad" --qmp x "$work/x"
done
for bad in 5 5- -5 9-5 a-b; do
    expect "capture: bad --range $bad" 2 'range takes' "$vpt" capture --range="$bad" --qmp x "$work/x"
done
expect 'capture: bad --only' 2 'only takes' "$vpt" capture --only guest --qmp x "$work/x"
expect 'capture: bad --cr3' 2 'cr3 takes' "$vpt" capture --cr3 all --qmp x "$work/x"
expect 'bad --mem' 2 'mem takes' "$vpt" run --mem 5T x.elf
for bad in 0 9 two -1; do
    expect "bad --cpus $bad" 2 'cpus takes 1 to 8' "$vpt" run --cpus "$bad" x.elf
done
for bad in 0 999 20000001 fast -1; do
    expect "bad --tsc-khz $bad" 2 'tsc-khz takes 1000 to 20000000' "$vpt" run --tsc-khz "$bad" x.elf
done
expect '--tsc-khz of a guest that is saved' 2 'no --tsc-khz' "$vpt" run --tsc-khz 2000000 --save-to x \
    "$guests/status.elf"
for bad in 1M 1M: 0:4K 1M:100 1234567:4K 1M:0 1M:9G x:4K; do
    expect "bad --absent $bad" 2 'absent takes GPA:SIZE' "$vpt" run --absent "$bad" x.elf
done
expect 'absent memory outside of memory' 2 'outside' "$vpt" run --absent 128M:4K "$guests/status.elf"
expect 'absent memory under the image' 3 'what --absent names' "$vpt" run --absent 1M:4K "$guests/status.elf"
expect 'bad --source' 2 'source takes step or host-pt' "$vpt" run --source x x.elf
expect 'bad --behind' 2 'behind takes wait or overflow' "$vpt" run --behind x x.elf
expect '--behind without --source host-pt' 2 'behind is of' "$vpt" run --behind overflow "$guests/status.elf"
for cannot in --verify '--path-out x' '--save-to x' --lab '--tsc-khz 2000000' '--absent 32M:4K'; do
    # shellcheck disable=SC2086 # words
    expect "--source host-pt with $cannot" 2 'source host-pt' "$vpt" run --source host-pt $cannot "$guests/status.elf"
done
[ -d /sys/bus/event_source/devices/intel_pt ] ||
    expect '--source host-pt without Intel PT' 4 'this host has no Intel PT' "$vpt" run --source host-pt "$guests/status.elf"
expect 'bad --save-after' 2 'save-after takes' "$vpt" run --save-after soon "$guests/status.elf"
expect 'bad --timeout' 2 'timeout takes' "$vpt" run --timeout soon x.elf
expect 'bad --profile' 2 'no profile' "$vpt" run --profile pentium "$guests/status.elf"

# ---- Images ----
head -c 200 "$guests/status.elf" >"$work/truncated.elf"
head -c 30 "$guests/status.elf" >"$work/stump.elf"
echo 'not an image' >"$work/text.elf"
: >"$work/empty.elf"
expect 'missing image' 3 'No such file' "$vpt" run "$work/nofile"
expect 'truncated image' 3 'truncated|not an ELF|nothing to load' "$vpt" run "$work/truncated.elf"
expect 'stump of an image' 3 'not an ELF|truncated' "$vpt" run "$work/stump.elf"
expect 'text as image' 3 'not an ELF' "$vpt" run "$work/text.elf"
expect 'empty image' 3 'not an ELF' "$vpt" run "$work/empty.elf"
expect 'folder as image' 3 'not an ELF' "$vpt" run "$work"
expect '32-bit image' 3 'not a 64-bit' "$vpt" run "$guests/small32.elf"
expect 'shared object as image' 3 'ET_EXEC' "$vpt" run "$vpt"

# ---- Guests ----
need_backend 'guests, and what is made of their traces'
find_backends
for backend in "${backends[@]}"; do
    where=${backend:+ in the lab}
    run=("$vpt" run)
    [ -z "$backend" ] || run+=("$backend")
    expect "guest status$where" 1 'status 3' "${run[@]}" "$guests/status.elf"
    expect "endless guest$where" 6 'did not end' "${run[@]}" --timeout 1 "$guests/forever.elf"
    expect "command line$where" 0 '' "${run[@]}" --append 'some words' "$guests/echo.elf"
    check "words of --append$where" grep -qE '^some words vpt.steps=[0-9]+$' "$work/out"
    expect "json report$where" 0 '' "${run[@]}" --verify --json "$guests/traced-loop.elf"
    check "json report is JSON$where" jq -e '.path == "identical" and .errors == 0' "$work/out"
    expect "traced loop$where" 0 '' "${run[@]}" --verify --trace-out "$work/loop.pt" "$guests/traced-loop.elf"
    if [ "$(tail -n 1 "$work/out" | cut -c 1-15)" = 'path: identical' ]; then
        pass "path of the traced loop$where"
    else
        fail "path of the traced loop$where" "$(tail -n 1 "$work/out")"
    fi
done
# What a guest does to the VMM: on the local KVM alone, if there is one.
expect "triple fault$where" 5 'triple|internal error' "${run[@]}" "$guests/triple.elf"
expect "halted guest$where" 5 'nothing can wake it' "${run[@]}" --timeout 5 "$guests/halt.elf"
expect "fault without IDT while traced$where" 5 'no IDT entry' "${run[@]}" "$guests/traced-fault.elf"
expect "hostile notes and ports$where" 0 '' "${run[@]}" "$guests/wild.elf"
for guest in trace faults; do
    expect "$guest$where" 0 '' "${run[@]}" --verify "$guests/$guest.elf"
    check "path of $guest$where" grep -q '^path: identical' "$work/out"
done

# For jq: each line is an object with a type, and there are some.
# shellcheck disable=SC2016 # jq's variable
lines_have_a_type='reduce inputs as $line (0; if $line.type then . + 1 else error("no type") end) | . > 0'

# ---- RTIT: errata and cycle counts (ctl=2); E8 loses packets ----
demo="guest-tests/build/demo.elf"
expect 'bad --rtit-errata' 2 'rtit-errata takes' "$vpt" run --rtit-errata 9 "$guests/status.elf"
expect 'errata without RTIT' 2 'no RTIT' "$vpt" run --rtit-errata 1 "$guests/status.elf"
expect 'save with RTIT' 2 'cannot be saved' "$vpt" run --profile silvermont --save-to "$work/x" "$demo"
rtit=("$vpt" run --profile silvermont --append 'rounds=1 ctl=2' --trace-out "$work/rtit.pt")
[ -w /dev/kvm ] || rtit+=(--lab)
for errata in 8 1,2,3,4,5,6,7 none; do
    case $errata in
    8)
        expect 'RTIT with E8' 0 '' "${rtit[@]}" --rtit-errata 8 "$demo"
        ;;
    *)
        expect "RTIT, errata $errata" 0 '' "${rtit[@]}" --rtit-errata "$errata" --verify "$demo"
        check "path of RTIT, errata $errata" grep -q '^path: identical' "$work/out"
        ;;
    esac
done
expect 'dump of RTIT' 0 '' "$vpt" dump "$work/rtit.pt"
check 'dump shows FUP.PGE' grep -q 'FUP.PGE' "$work/out"
expect 'dump --json of RTIT' 0 '' "$vpt" dump --json "$work/rtit.pt"
check 'dump --json of RTIT is JSON' jq -en "$lines_have_a_type" "$work/out"
cp "$work/rtit.pt" "$work/bare.pt"
expect 'dump --rtit without sidecar' 0 '' "$vpt" dump --rtit --cycle-acc "$work/bare.pt"
expect 'decode of RTIT' 0 '' "$vpt" decode --calls "$work/rtit.pt"
check 'decode of RTIT names functions' grep -qE '^ +[0-9]+ .* guest_main( \{|\(\);)$' "$work/out"

# ---- Traces ----
expect 'dump' 0 '' "$vpt" dump "$work/loop.pt"
check 'dump shows TIP.PGE' grep -q 'TIP.PGE' "$work/out"
expect 'dump --json' 0 '' "$vpt" dump --json "$work/loop.pt"
check 'dump --json is JSON' jq -en "$lines_have_a_type" "$work/out"
for view in insns blocks calls; do
    expect "decode --$view" 0 '' "$vpt" decode "--$view" "$work/loop.pt"
    expect "decode --$view --json" 0 '' "$vpt" decode "--$view" --json "$work/loop.pt"
done
expect 'decode --image' 0 '' "$vpt" decode --image "$guests/traced-loop.elf" "$work/loop.pt"
expect 'decode --cpu' 0 '' "$vpt" decode --cpu 6/0x4e "$work/loop.pt"
expect 'bad --cpu' 2 'cpu takes' "$vpt" decode --cpu skylake "$work/loop.pt"
timeout 120 "$vpt" run --json "$guests/many.elf" >"$work/out" 2>/dev/null </dev/null
check 'a report names 5,000 functions' jq -e '.processes[0].functions | length == 5002' "$work/out"
printf '\2\202%.0s' {1..8} >"$work/skz84.pt"
printf '\2\163\377\377\0\377\1\375\2\3\37\0\2\43' >>"$work/skz84.pt" # TMA, a byte too many, CBR, PSBEND
expect 'dump of a packet that is one of no processor' 3 '1 errors' "$vpt" dump "$work/skz84.pt"
echo '{ "vpt": 1, "cpu": { "family": 6, "model": 207 } }' >"$work/skz84.pt.json"
expect 'dump tolerates errata of the processor of TRACE.json' 0 '' "$vpt" dump "$work/skz84.pt"
check 'dump shows the CBR behind it' grep -q 'CBR 31' "$work/out"
expect 'dump of nothing' 3 'No such file' "$vpt" dump "$work/nofile"
expect 'decode without sidecar' 3 'no --image' "$vpt" decode "$work/text.elf"
(cat "$work/loop.pt" && printf '\xff\xff\xff') >"$work/damaged.pt"
expect 'dump of a damaged trace' 3 '1 errors' "$vpt" dump "$work/damaged.pt"

for command in dump decode 'decode --format folded' 'decode --summary' index parts; do
    expect "$command, on a full disk" 3 'standard output cannot be written' \
        bash -c "'$vpt' $command '$work/loop.pt' >/dev/full"
done
expect 'profiles, on a full disk' 3 'standard output cannot be written' bash -c "'$vpt' profiles >/dev/full"

# ---- Files that are none of a command's ----
head -c 4096 /dev/zero | tr '\0' '\331' >"$work/garbage"
expect 'convert' 0 '' "$vpt" convert "$work/loop.pt" "$work/loop.data"
expect 'index of a perf.data' 3 'no raw trace' "$vpt" index "$work/loop.data"
expect 'parts of a perf.data' 0 '' "$vpt" parts "$work/loop.data"
check 'parts of a perf.data: lines' grep -q '^CPU ' "$work/out"
expect 'parts of a perf.data as JSON' 0 '' "$vpt" parts --json "$work/loop.data"
check 'parts of a perf.data as JSON: lines' jq -e .begin "$work/out"
expect 'parts of an RTIT trace' 3 'an RTIT trace' "$vpt" parts "$work/rtit.pt"
for file in empty.elf garbage; do
    expect "parts of $file" 3 'no PSB' "$vpt" parts "$work/$file"
done
expect 'parts of a folder' 3 'a folder, but not one of perf record' "$vpt" parts "$work"
demux() { # NAME STATUS PATTERN ARGUMENT...
    local name=$1 status=$2 pattern=$3
    shift 3
    expect "demux $name" "$status" "$pattern" "$vpt" demux --out "$work/guests" "$@"
}
expect 'demux without a folder' 2 'needs --out' "$vpt" demux "$work/loop.pt"
demux 'of a perf.data without a map' 3 'is in no perf.data; --map' "$work/loop.data"
echo '{"vpt-map": 1, "vms": [{"name": "one", "vcpus": [{"tid": 5}]}]}' >"$work/one.json"
demux 'of a perf.data without guests' 3 'no guest runs' --map "$work/one.json" "$work/loop.data"
demux '--json of that' 3 'no guest runs' --json --map "$work/one.json" "$work/loop.data"
check 'demux --json says that there is nothing' jq -e '.traces == [] and .unknown_instructions == 0' "$work/out"
demux '--like of a perf.data' 2 'is for a raw trace' --like "$work/loop.pt" "$work/loop.data"
demux '--symfs of a raw trace' 2 'is for a perf.data' --symfs "$work" "$work/loop.pt"
demux 'of an RTIT trace' 3 'an RTIT trace' "$work/rtit.pt"
demux 'of a folder' 3 'a folder, but not one of perf record' "$work"
demux 'without code' 3 'No such file.*no --map' "$work/garbage"
demux 'of garbage' 3 'no guest runs' --like "$work/loop.pt" "$work/garbage"
demux 'of a guest alone' 3 'no guest runs' "$work/loop.pt"
demux 'into what is no folder' 3 'Not a directory|exists' --out "$work/garbage/x" "$work/loop.pt"
demux '--ctl with CYCEn' 2 'CYCEn' --ctl 2 "$work/loop.pt"
demux '--user --kernel' 2 'leave nothing' --user --kernel "$work/loop.pt"
demux '--cr3 --hide-cr3' 2 'leaves out' --cr3 0x1000 --hide-cr3 "$work/loop.pt"
demux '--filter backwards' 2 'FIRST-LAST' --filter 5-1 "$work/loop.pt"
demux '--filter of words' 2 'FIRST-LAST' --filter 5-x "$work/loop.pt"
demux '--filter, too many' 2 'at most 4' --filter 1-2 --filter 1-2 --stop 1-2 --stop 1-2 --stop 1-2 "$work/loop.pt"
demux '--profile of nobody' 2 'no profile' --profile nobody "$work/loop.pt"
demux '--vm of nobody' 2 'no VM' --vm nobody "$work/loop.pt"
expect 'convert of a folder' 3 'Is a directory' "$vpt" convert "$work" "$work/x.data"
expect 'parts with an empty map' 3 'ends too early' "$vpt" parts --map "$work/empty.elf" "$work/loop.pt"
for option in '--symfs x' '--vmlinux x' '--buildid-dir x' '--raw-code x'; do
    read -ra words <<<"$option"
    expect "decode $option of a raw trace" 2 'is for a perf.data' "$vpt" decode "${words[@]}" "$work/loop.pt"
done
for option in --summary --rtit '--start-ip 1' '--like x'; do
    read -ra words <<<"$option"
    expect "decode $option of a perf.data" 2 'is for a raw trace' "$vpt" decode "${words[@]}" "$work/loop.data"
done
# shellcheck disable=SC2016 # for the other shell
check 'convert into a pipe' bash -c '"$0" convert "$1" /dev/stdout | cmp - "$2"' \
    "$vpt" "$work/loop.pt" "$work/loop.data"
expect 'convert to a full disk' 3 'cannot be written' "$vpt" convert "$work/loop.pt" /dev/full
check 'leaves the device alone' test -c /dev/full
expect 'convert to a folder' 3 'Is a directory' "$vpt" convert "$work/loop.pt" "$work"
expect 'convert to nowhere' 3 'No such file' "$vpt" convert "$work/loop.pt" "$work/nowhere/x.data"
"$vpt" decode --json "$work/loop.pt" >"$work/want"
expect 'decode: the last of --format and --json' 0 '' "$vpt" decode --format folded --json "$work/loop.pt"
check 'counts' cmp "$work/out" "$work/want"

# A log of code beside the images: perf.data has no place for it.
cp "$work/loop.pt" "$work/logged.pt"
jq '.code = "logged.code"' "$work/loop.pt.json" >"$work/logged.pt.json"
expect 'convert of a trace with a log of code' 0 'cannot hold the code .*logged.code' \
    "$vpt" convert "$work/logged.pt" "$work/logged.data"
check 'has the rest' cmp "$work/logged.data" "$work/loop.data"
jq '.code = "logged.code" | .images = []' "$work/loop.pt.json" >"$work/logged.pt.json"
expect 'convert of a trace with nothing else' 0 'cannot hold the code .*logged.code' \
    "$vpt" convert "$work/logged.pt" "$work/logged.data"
expect 'convert with a log of code that is not there' 3 'logged.code: No such file' \
    "$vpt" convert --code "$work/laid-out" "$work/logged.pt" "$work/logged.data"
echo vptcode >"$work/logged.code"
expect 'convert with a log of code that is none' 3 'no code log' \
    "$vpt" convert --code "$work/laid-out" "$work/logged.pt" "$work/logged.data"
printf 'vptcode1' >"$work/logged.code"
expect 'convert with a log of no code' 0 '' \
    "$vpt" convert --code "$work/laid-out" "$work/logged.pt" "$work/logged.data"
expect 'demux into a file' 3 'loop.pt: Not a directory' "$vpt" demux --out "$work/loop.pt" "$work/loop.pt"
expect 'a piece into a file' 3 'loop.pt: Not a directory' \
    "$vpt" decode --summary --shards "$work/loop.pt" --shard 1/2 "$work/loop.pt"
expect 'convert with code into a file' 3 'loop.pt: Not a directory' \
    "$vpt" convert --code "$work/loop.pt" "$work/logged.pt" "$work/logged.data"

# PSB+ with a PIP of the host; then VMCS, PIP.NR, TIP.
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x2d\x00\x10'
    printf '\x02\xc8\x07\x00\x00\x00\x00\x02\x43\x01\x05\x00\x00\x00\x00\x2d\x00\x10'
} >"$work/guests.pt"
cat >"$work/map.json" <<'END'
{ "vpt-map": 1, "vms": [ { "name": "one", "vmcs": "0x7000",
  "processes": [ { "name": "cc", "cr3": "0x5000" } ] } ] }
END
expect 'parts' 0 '' "$vpt" parts "$work/guests.pt"
check 'parts shows the host' grep -q 'host   CR3 0x5000$' "$work/out"
check 'parts shows a guest' grep -q 'guest  VMCS 0x7000  CR3 0x5000$' "$work/out"
expect 'parts --map' 0 '' "$vpt" parts --map "$work/map.json" "$work/guests.pt"
check 'parts --map names VM and process' grep -q 'CR3 0x5000  VM one  process cc$' "$work/out"
expect 'parts --map --json' 0 '' "$vpt" parts --json --map "$work/map.json" "$work/guests.pt"
check 'parts --json is JSON' \
    jq -es 'length > 0 and all(.[]; .end and (.nr | not) or .process == "cc")' "$work/out"
# A names log beside the trace: the host's part by its begin, and not the guest's.
cp "$work/guests.pt" "$work/told.pt"
echo '{ "vpt": 1, "names": "told.names" }' >"$work/told.pt.json"
printf '%s\n' '{"vpt-names":1,"begin":100}' '{"at":90,"pid":7,"tid":7,"comm":"sh\u001b","cr3":[20480],"new":true}' \
    '{"at":125,"pid":8,"tid":9,"comm":"ls","cr3":[20480],"new":true}' >"$work/told.names"
expect 'parts with a names log' 0 '' "$vpt" parts "$work/told.pt"
check 'parts says the process of the log' grep -qF 'host   CR3 0x5000  process sh\x1b, pid 7' "$work/out"
expect 'parts with a names log, as JSON' 0 '' "$vpt" parts --json "$work/told.pt"
check 'parts of the host alone have its pids' \
    jq -es 'any(.[]; .pid == 7 and (.nr | not)) and all(.[]; (.nr and .pid) | not)' "$work/out"
echo '{"vpt-names":1,"begin":0}x' >"$work/told.names"
expect 'parts with a bad names log' 3 'told.names' "$vpt" parts "$work/told.pt"
echo '{ "vpt-map": 1, "vms": [ { "vmcs": 1 } ] }' >"$work/bad.json"
expect 'parts with a bad map' 3 'vms\[0\].vmcs: not a VMCS' "$vpt" parts --map "$work/bad.json" "$work/guests.pt"
expect 'parts of nothing' 3 'No such file' "$vpt" parts "$work/nofile"

# The same with code: VMLAUNCH at 5000H of the host, a loop at 6000H of the guest, an interrupt out.
printf '\x0f\x01\xc2\xff\xe0' >"$work/host.bin"
printf '\x90\xeb\xfd' >"$work/guest.bin"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\xc8\x07\x00\x00\x00\x00\x99\x01'
    printf '\x7d\x00\x50\x00\x00\x00\x00\x02\x23'
    printf '\x02\x43\x01\x05\x00\x00\x00\x00\x2d\x00\x60'
    printf '\x3d\x01\x60\x02\x43\x00\x05\x00\x00\x00\x00\x2d\x03\x50\x2d\x03\x50'
} >"$work/entry.pt"
cat >"$work/code.json" <<'END'
{ "vpt-map": 1,
  "host": { "processes": [ { "name": "qemu", "cr3": "0x5000",
    "images": [ { "path": "host.bin", "address": "0x5000" } ] } ] },
  "vms": [ { "name": "one", "vmcs": "0x7000", "processes": [ { "name": "cc", "cr3": "0x5000",
    "images": [ { "path": "guest.bin", "address": "0x6000" } ] } ] } ] }
END
expect 'decode --map' 0 '' "$vpt" decode --map "$work/code.json" "$work/entry.pt"
check 'decode --map tells host and guest apart' test "$(grep -c '^  == ' "$work/out")" = 3
check 'decode --map names the VM and the process' \
    grep -q '== guest process, VM one, process cc, CR3 0x5000$' "$work/out"
expect 'decode --map --json' 0 '' "$vpt" decode --map "$work/code.json" --json "$work/entry.pt"
check 'decode --map --json names them' \
    jq -es 'map(select(.vm == "one" and .process == "cc" and .cr3 == 20480) | .type) ==
        ["cr3", "insn", "interrupt"]' "$work/out"

# Another file takes the place of the first amid a trace: JMP RAX to itself, five TIPs, of which the
# names log has two behind the change.
printf '\xff\xe0' >"$work/host.bin"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x71\x00\x50\x00\x00\x00\x00'
    for _ in 1 2 3 4 5; do printf '\x2d\x00\x50'; done
} >"$work/two.pt"
echo '{ "vpt": 1, "names": "two.names" }' >"$work/two.pt.json"
printf '%s\n' '{"vpt-names":1,"begin":0}' '{"at":0,"pid":7,"tid":7,"comm":"sh","cr3":[20480],"new":true}' \
    '{"at":0,"cr3":[20480],"start":20480,"end":24576,"offset":0,"path":"/bin/one"}' \
    '{"at":42,"cr3":[20480],"start":20480,"end":24576,"offset":0,"path":"/bin/two"}' >"$work/two.names"
expect 'decode --summary with a names log' 0 '' "$vpt" decode --summary --json --map "$work/code.json" "$work/two.pt"
check 'sums by the names of each place' jq -e '[.functions[] | "\(.name) \(.instructions)"] == ["[one] 3", "[two] 2"]' \
    "$work/out"
expect 'report with a names log' 0 '' "$vpt" report --by function --json --map "$work/code.json" "$work/two.pt"
check 'reports the same' jq -e '[.rows[] | "\(.function) \(.instructions)"] == ["[one] 3", "[two] 2"]' "$work/out"

# 40H is INC EAX in 32-bit code and a prefix in 64-bit code: the trace does not say which, TRACE.json does.
printf '\x40\xc3' >"$work/host.bin"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x71\x00\x50\x00\x00\x00\x00\x2d\x00\x50'
} >"$work/mode.pt"
echo '{ "mode": 32 }' >"$work/mode.pt.json"
expect 'decode in the mode of TRACE.json' 0 '' "$vpt" decode --map "$work/code.json" "$work/mode.pt"
check 'is of 32 bits' grep -q 'inc eax' "$work/out"
expect 'decode in the mode of --mode' 0 '' "$vpt" decode --mode 64 --map "$work/code.json" "$work/mode.pt"
check 'is of 64 bits' test "$(grep -c 'inc eax' "$work/out")" = 0

# Code that is missing: where decoding goes on, and who decides it. JMP RAX to 6000H, which has no
# code; a TNT and a TIP of it; JZ at 5002H.
printf '\xff\xe0\x74\x00' >"$work/host.bin"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x71\x00\x50\x00\x00\x00\x00'
    printf '\x2d\x00\x60\x04\x2d\x02\x50\x06'
} >"$work/gap.pt"
psb='^error: no code known at this address: 0x6000; 4 bytes lost$'
ip='^error: no code known at this address: 0x6000; 0 bytes lost; goes on at 0x5002$'
# gap NAME PATTERN SIDECAR OPTION...
gap() {
    local name=$1 pattern=$2 sidecar=$3
    shift 3
    rm -f "$work/gap.pt.json"
    [ -z "$sidecar" ] || echo "$sidecar" >"$work/gap.pt.json"
    expect "a gap: $name" 3 '1 errors' "$vpt" decode "$@" --map "$work/code.json" "$work/gap.pt"
    check "a gap: $name: where decoding goes on" grep -q "$pattern" "$work/out"
}
gap 'nothing is known' "$psb" ''
gap 'a model that defers no TIPs' "$ip" '{ "deferred_tips": false }'
gap 'a model that does' "$psb" '{ "deferred_tips": true }'
gap 'a processor that is known' "$ip" '{ "cpu": { "family": 6, "model": 94 } }'
gap 'another' "$psb" '{ "cpu": { "family": 6, "model": 92 } }'
gap '--cpu' "$ip" '' --cpu 6/94
gap '--cpu, and TIPs are deferred' "$psb" '{ "deferred_tips": true }' --cpu 6/94
gap '--resync psb' "$psb" '' --resync psb --cpu 6/94
gap '--resync ip' "$ip" '{ "deferred_tips": true }' --resync ip
gap '--resync ip --json' '"text":"no code known at this address","address":"0x6000",.*"to":"0x5002","lost_bytes":0' \
    '' --resync ip --json
gap '--resync ip --format perf' 'no code known at this address 0x6000, 0 bytes lost$' \
    '' --resync ip --format perf
gap '--resync ip --summary' '^the first    no code known at this address: 0x6000$' '' --resync ip --summary
gap '--resync psb --summary' '^instructions 1$' '' --resync psb --summary
expect 'decode --resync with another word' 2 "takes psb or ip, not 'tip'" \
    "$vpt" decode --resync tip --map "$work/code.json" "$work/gap.pt"
rm -f "$work/gap.pt.json"

# Behind a gap, a PSB+ without PIP: only code of all address spaces is known, at 7000H.
printf '\xff\xe0' >"$work/any.bin"
{
    cat "$work/gap.pt"
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x23\x71\x00\x70\x00\x00\x00\x00\x2d\x00\x70'
} >"$work/unknown.pt"
jq 'del(.vms) | .host.images = [{ "path": "any.bin", "address": "0x7000" }]' "$work/code.json" >"$work/any.json"
expect 'decode: CR3 is not known' 3 '1 errors' \
    "$vpt" decode --resync psb --map "$work/any.json" "$work/unknown.pt"
check 'decode: and says so' grep -q '== host process, CR3 unknown$' "$work/out"
expect 'decode --json: CR3 is not known' 3 '1 errors' \
    "$vpt" decode --resync psb --map "$work/any.json" --json --blocks "$work/unknown.pt"
check 'decode --json: and leaves it out' jq -es 'map(select(.ip == "0x7000" and .type == "block")) |
    length == 1 and (.[0] | has("cr3") | not)' "$work/out"
expect 'decode --calls: CR3 is not known' 3 '1 errors' \
    "$vpt" decode --resync psb --map "$work/any.json" --calls "$work/unknown.pt"

printf '\2\202' >"$work/nopath.pt"
echo '{ "images": [ { "bias": 0 } ] }' >"$work/nopath.pt.json"
expect 'decode with an image without a path' 3 'nopath.pt.json: images.0.: an image without a path' \
    "$vpt" decode "$work/nopath.pt"
printf '{ "images": [' >"$work/nopath.pt.json"
for command in dump index parts decode 'decode --image guest-tests/build/demo.elf'; do
    read -ra words <<<"$command"
    expect "$command with half a TRACE.json" 3 'nopath.pt.json: not JSON' "$vpt" "${words[@]}" "$work/nopath.pt"
done
expect 'convert with half a TRACE.json' 3 'nopath.pt.json: not JSON' \
    "$vpt" convert "$work/nopath.pt" "$work/x.data"
expect 'dump --like a trace without TRACE.json' 3 'there is no' "$vpt" dump --like "$work/nofile" "$work/loop.pt"
expect 'decode with a bad map' 3 'vms\[0\].vmcs: not a VMCS' "$vpt" decode --map "$work/bad.json" "$work/entry.pt"

# ---- Names of a guest ----
zeros() { head -c "$1" /dev/zero; }
{
    printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\4\0\76\0\1\0\0\0' && zeros 8 && printf '\100' && zeros 15
    zeros 4 && printf '\100\0\70\0\1\0\0\0\0\0\0\0' # of 64 bytes, and one segment of 56
    printf '\1\0\0\0\0\0\0\0\170' && zeros 23 && printf '\0\20\0\0\0\0\0\0\0\20' && zeros 14
    zeros 4096
} >"$work/empty.core"
expect 'names without a dump' 2 'takes one core dump' "$vpt" names
expect 'names of nothing' 3 'No such file' "$vpt" names "$work/nofile"
expect 'names of a folder' 3 'Is a directory|not a regular file' "$vpt" names "$work"
expect 'names of what is no dump' 3 'garbage: not an ELF core dump' "$vpt" names "$work/garbage"
expect 'names of a program' 3 'not an ELF core dump' "$vpt" names --out "$work/named" "$guests/status.elf"
expect 'names of a guest that is no Linux' 3 'empty.core: no Linux kernel is found' "$vpt" names "$work/empty.core"
expect 'names to nowhere' 3 'No such file' "$vpt" names --out "$work/nowhere/x" "$work/empty.core"
check 'leave no files' test -z "$(find "$work" -name '*.kallsyms*' -o -name '*.map' -o -name '*.vdso*' -o -name '*.symbols*')"

# ---- Nothing is left ----
has_lab || skip_rest 'a killed vpt takes QEMU along' 'no lab (make lab)'
"$vpt" run --lab "$guests/forever.elf" >/dev/null 2>&1 </dev/null &
lab=$!
for _ in $(seq 50); do
    qemu=$(pgrep -P "$lab" -f qemu-system || true)
    [ -z "$qemu" ] || break
    sleep 0.1
done
kill -TERM "$lab"
wait "$lab" 2>/dev/null
for _ in $(seq 200); do
    running "$qemu" || break
    sleep 0.1
done
if [ -z "$qemu" ]; then
    fail 'a killed vpt takes QEMU along' 'QEMU never started'
elif running "$qemu"; then
    fail 'a killed vpt takes QEMU along' "process $qemu is still there"
    kill -KILL "$qemu"
else
    pass 'a killed vpt takes QEMU along'
fi

summary
