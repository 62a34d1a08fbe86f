#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What a terminal gets to see: names of others only with their control characters escaped, and
# progress of long work, which is gone at its end. Needs $BUILD/vpt and, for progress, 'script' of
# util-linux. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# ---- Names of others ----

# plain NAME: what was printed has no control character but the line feed, and no line of its own
# that begins as ours do; letters that are none of these stand as they were.
plain() {
    local name=$1 text
    text=$(cat "$work/out" "$work/err")
    if [ -n "$(LC_ALL=C tr -d '\n\40-\176\200-\377' <<<"$text")" ]; then
        fail "$name: no control characters" "$(cat -v <<<"$text" | head -n 3)"
    elif LC_ALL=C grep -q $'\302[\200-\237]\|\342\200[\250-\256]\|\342\201[\246-\251]' <<<"$text"; then
        fail "$name: none of two bytes, and none that turns text around" "$(cat -v <<<"$text" | head -n 3)"
    elif grep -q '^vpt: forged' <<<"$text"; then
        fail "$name: no forged lines" "$(grep '^vpt: forged' <<<"$text")"
    elif ! grep -q '\\x1b\[31m' <<<"$text" || ! grep -q 'größe' <<<"$text"; then
        fail "$name: the name is shown" "$(head -n 3 <<<"$text")"
    else
        pass "$name"
    fi
}

# plain_json NAME FILE: the same of JSON, whose line feeds stand between its words; it has the name.
plain_json() {
    local name=$1 file=$2 control=$'[\1-\11\13-\37\177]\|\302[\200-\237]'
    if LC_ALL=C grep -q "$control"$'\|\342\200[\250-\256]\|\342\201[\246-\251]' "$file"; then
        fail "$name: nothing that a terminal obeys" "$(cat -v "$file" | head -n 3)"
    elif ! jq -es --arg name "$json_name" '[.. | strings | select(contains($name))] | length > 0' "$file" \
        >"$work/why" 2>&1; then
        fail "$name: the name is read" "$(cat -v "$file" | head -n 3)"
    else
        pass "$name"
    fi
}

# A name that colours the terminal, begins a line of its own, and turns letters around.
json_name=$'gr\303\266\303\237e \e[31m\nvpt: forged\r\302\233 \342\200\256\177'
evil="$json_name "$'\377'
json_evil='größe \u001b[31m\nvpt: forged\r\u009b \u202e\u007f'

# An ELF file whose function has that name: a word of the same length is changed in its tables.
word=$(printf '%*s' "$(LC_ALL=C; printf %s "${#evil}")" '' | tr ' ' x)
cat >"$work/loop.S" <<END
    .globl _start, $word
_start:
    call $word
    jmp _start
    .type $word, @function
$word:
    ret
    .size $word, . - $word
END
gcc -nostdlib -static -no-pie -Wl,-Ttext=0x401000 -Wl,--build-id=none -o "$work/plain.elf" "$work/loop.S"
perl -0pe 'BEGIN { ($w, $e) = (shift, shift) } s/\Q$w\E/$e/g' "$word" "$evil" <"$work/plain.elf" >"$work/evil.elf"

# PSB, MODE.Exec of 64 bits, TIP.PGE _start; TIPs: the RETs and, last, an error.
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x23\x99\x01\x71\x00\x10\x40\x00\x00\x00'
    printf '\x2d\x05\x10\x2d\x05\x10\x01\x00'
} >"$work/t.pt"
entry=$(readelf -hW "$work/plain.elf" | sed -n 's/.*Entry point address: *//p')
check 'the guest begins where its trace does' test "$entry" = 0x401000
for view in --insns --blocks --calls --summary '--format perf' '--format perf-branches' '--format folded' \
    '--format callgrind'; do
    read -ra arguments <<<"$view"
    several_lines=yes expect "decode $view" 0 '' "$vpt" decode "${arguments[@]}" --image "$work/evil.elf" "$work/t.pt"
    plain "decode $view"
done
for view in --insns --blocks --calls --summary; do
    several_lines=yes expect "decode $view --json" 0 '' \
        "$vpt" decode "$view" --json --image "$work/evil.elf" "$work/t.pt"
    plain_json "decode $view --json" "$work/out"
done
expect 'decode --format chrome' 0 '' "$vpt" decode --format chrome --image "$work/evil.elf" "$work/t.pt"
check 'decode --format chrome is JSON' jq -e '.traceEvents | length > 2' "$work/out"
plain_json 'decode --format chrome' "$work/out"

# Maps of a host and its guests.
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x2d\x00\x10'
    printf '\x02\xc8\x07\x00\x00\x00\x00\x02\x43\x01\x05\x00\x00\x00\x00\x2d\x00\x10'
} >"$work/guests.pt"
printf '{ "vpt-map": 1, "vms": [ { "name": "%s", "vmcs": "0x7000",
  "processes": [ { "name": "%s", "cr3": "0x5000" } ] } ] }' "$json_evil" "$json_evil" >"$work/map.json"
expect 'parts --map' 0 '' "$vpt" parts --map "$work/map.json" "$work/guests.pt"
plain 'parts --map'
expect 'parts --map --json' 0 '' "$vpt" parts --json --map "$work/map.json" "$work/guests.pt"
check 'parts --map --json is JSON with the name' \
    jq -es 'map(select(.vm | values | startswith("größe \u001b[31m\nvpt"))) | length == 1' "$work/out"
plain_json 'parts --map --json' "$work/out"

# Sums and counts: of a function, in a file.
cp "$work/evil.elf" "$work/file $json_name"
sums=("$vpt" report --image "$work/file $json_name")
for what in '' '--by function' '--by file' '--by mode,function,file' --csv; do
    read -ra arguments <<<"$what"
    several_lines=yes expect "report $what" 0 '' "${sums[@]}" "${arguments[@]}" "$work/t.pt"
    plain "report $what"
done
several_lines=yes expect 'report --between' 0 '' "${sums[@]}" --between "$evil,$evil" "$work/t.pt"
plain 'report --between'
several_lines=yes expect 'report --json' 0 '' "${sums[@]}" --json "$work/t.pt"
plain_json 'report --json' "$work/out"
several_lines=yes expect 'a point of that name' 3 'größe' "${sums[@]}" --between "no $evil,_start" "$work/t.pt"
plain 'a point of that name'
several_lines=yes expect 'annotate' 0 '' "$vpt" annotate --image "$work/file $json_name" "$evil" "$work/t.pt"
plain annotate
several_lines=yes expect 'annotate --json' 0 '' "$vpt" annotate --json --image "$work/file $json_name" "$evil" "$work/t.pt"
plain_json 'annotate --json' "$work/out"
several_lines=yes expect 'annotate a function that did not run' 3 'größe' \
    "$vpt" annotate --image "$work/file $json_name" "no $evil" "$work/t.pt"
plain 'annotate a function that did not run'

# in_all_forms NAME ARGUMENT...: what has that name in every view and format, sums and parts included.
in_all_forms() {
    local name=$1 view words=()
    shift
    for view in --insns --blocks --calls '--format perf' '--format perf-branches' '--format folded'; do
        read -ra words <<<"$view"
        several_lines=yes expect "decode $view: $name" 0 '' "$vpt" decode "${words[@]}" "$@"
        plain "decode $view: $name"
    done
    if "$vpt" decode --format perfetto "$@" 2>"$work/err" >"$work/out"; [ $? != 4 ]; then
        check "decode --format perfetto: $name" only_plain "$work/out"
    else
        skip "decode --format perfetto: $name" "$(cat "$work/err")"
    fi
    several_lines=yes expect "decode --format chrome: $name" 0 '' "$vpt" decode --format chrome "$@"
    plain_json "decode --format chrome: $name" "$work/out"
    several_lines=yes expect "decode --json: $name" 0 '' "$vpt" decode --json "$@"
    plain_json "decode --json: $name" "$work/out"
    for view in '' '--by vm,process' '--by name,thread,function' '--csv'; do
        read -ra words <<<"$view"
        several_lines=yes expect "report $view: $name" 0 '' "$vpt" report "${words[@]}" "$@"
        plain "report $view: $name"
    done
    several_lines=yes expect "report --json: $name" 0 '' "$vpt" report --json "$@"
    plain_json "report --json: $name" "$work/out"
}
# A file in which the name stands in its harmless form, and not as it is.
only_plain() { # FILE
    grep -aqF '\x1b[31m' "$1" && ! grep -aqF $'\e[31m' "$1"
}

# A VM and its process; its code is JMP RAX.
printf '\xff\xe0' >"$work/jump.bin"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\xc8\x07\x00\x00\x00\x00\x02\x43\x01\x05\x00\x00\x00\x00\x99\x01\x02\x23'
    printf '\x71\x00\x10\x00\x00\x00\x00\x2d\x00\x10\x2d\x00\x10'
} >"$work/vm.pt"
printf '{ "vpt-map": 1, "vms": [ { "name": "%s", "vmcs": "0x7000", "processes": [ { "name": "%s", "cr3": "0x5000",
  "images": [ { "path": "jump.bin", "address": "0x1000" } ] } ] } ] }' "$json_evil" "$json_evil" >"$work/vm.json"
in_all_forms 'a VM' --map "$work/vm.json" "$work/vm.pt"

# A log of names: a thread, and a file.
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x99\x01\x71\x00\x10\x40\x00\x00\x00'
    printf '\x2d\x05\x10\x2d\x05\x10\x2d\x05\x10'
} >"$work/named.pt"
printf '{"vpt":1,"names":"named.names"}' >"$work/named.pt.json"
printf '%s\n' '{"vpt-names":1,"begin":0}' \
    "{\"at\":0,\"pid\":7,\"tid\":8,\"comm\":\"$json_evil\",\"cr3\":[20480],\"new\":true}" >"$work/named.names"
in_all_forms 'a thread' --image "$work/plain.elf" "$work/named.pt"
printf '%s\n' '{"vpt-names":1,"begin":0}' '{"at":0,"pid":7,"tid":8,"comm":"one","cr3":[20480],"new":true}' \
    "{\"at\":0,\"cr3\":[20480],\"start\":4096,\"end\":8192,\"offset\":0,\"path\":\"/$json_evil\"}" >"$work/named.names"
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x02\x23\x99\x01\x71\x00\x10\x00\x00\x00\x00'
    printf '\x2d\x00\x10\x2d\x00\x10'
} >"$work/named.pt"
echo '{ "vpt-map": 1, "host": { "images": [ { "path": "jump.bin", "address": "0x1000" } ] } }' >"$work/jump.json"
for view in --insns --blocks --calls '--format perf' '--format folded'; do
    read -ra arguments <<<"$view"
    several_lines=yes expect "decode $view: a file" 0 '' "$vpt" decode "${arguments[@]}" --map "$work/jump.json" "$work/named.pt"
    plain "decode $view: a file"
done
several_lines=yes expect 'report: a file' 0 '' "$vpt" report --map "$work/jump.json" "$work/named.pt"
plain 'report: a file'

# TRACE.json, which names the guest's image.
if [ -w /dev/kvm ]; then
    cp "$guests/traced-loop.elf" "$work/guest $json_name"
    expect 'run an image of that name' 0 '' "$vpt" run --trace-out "$work/run.pt" "$work/guest $json_name"
    plain_json 'TRACE.json' "$work/run.pt.json"
    expect 'decode what it names' 0 '' "$vpt" decode "$work/run.pt"
else
    skip 'TRACE.json of an image of that name' 'no /dev/kvm'
fi

# What we complain of.
expect 'a file of that name' 3 'No such file' "$vpt" dump "$work/$evil"
: >"$work/out"
plain 'a file of that name'
printf '{ "images": [ { "path": "%s" } ] }' "$json_evil" >"$work/t.pt.json"
several_lines=yes expect 'an image of that name' 3 'größe' "$vpt" decode "$work/t.pt"
plain 'an image of that name'
rm "$work/t.pt.json"
expect 'a word of that kind' 2 'no command' "$vpt" "$evil"
plain 'a word of that kind'

# A perf.data whose thread and map have that name.
"$vpt" convert --image "$work/evil.elf" --name "$(printf 'gr\303\266\303\237e \e[31m\n')" "$work/t.pt" "$work/t.data"
for view in --insns '--format perf' '--format folded'; do
    read -ra arguments <<<"$view"
    several_lines=yes expect "decode $view of a perf.data" 0 '' "$vpt" decode "${arguments[@]}" "$work/t.data"
    plain "decode $view of a perf.data"
done
expect 'dump --records' 0 '' "$vpt" dump --records "$work/t.data"
plain 'dump --records'

# ---- Progress, and the pager ----
command -v script >"$work/null" || skip_rest 'progress on a terminal' 'no script of util-linux'

# on_terminal COMMAND: what a terminal gets.
on_terminal() {
    script -qec "$1" /dev/null </dev/null >"$work/terminal"
}
# shows NAME PATTERN: there was such progress, and the line was taken away.
shows() {
    if ! grep -q "vpt: $2" "$work/terminal"; then
        fail "$1" "no progress: '$(cat -v "$work/terminal")'"
    elif tr -d '\r' <"$work/terminal" | sed 's/vpt: [^\x1b]*\x1b\[K//g' | grep -q 'vpt: '; then
        fail "$1" "is not taken away: '$(cat -v "$work/terminal")'"
    else
        pass "$1"
    fi
}
shows_none() {
    check "$1" test -s "$work/terminal" -a "$(grep -cE 'decoding|reading|writing|looking' "$work/terminal")" = 0
}
decode="'$vpt' decode --image '$work/plain.elf' '$work/t.pt'"
on_terminal "$decode --summary"
shows 'decode --summary' 'decoding: 0 of 0 kB, 0 %'
on_terminal "$decode --summary --json"
sed 's/vpt: [^\x1b]*\x1b\[K//g; s/\r//g' "$work/terminal" >"$work/out"
shows 'decode --summary --json' 'decoding'
check 'its JSON is whole' jq -e '.instructions > 0' "$work/out"
for format in perf folded chrome callgrind jsonl; do
    on_terminal "$decode --format $format >'$work/file'"
    shows "decode --format $format into a file" 'decoding'
done
on_terminal "'$vpt' dump '$work/t.pt' >'$work/file'"
shows 'dump into a file' 'reading packets'
on_terminal "'$vpt' index '$work/t.pt' >'$work/file'"
shows 'index' 'looking for PSBs'
on_terminal "'$vpt' parts '$work/t.pt' >'$work/file'"
shows 'parts into a file' 'looking for parts'
on_terminal "'$vpt' convert --image '$work/plain.elf' '$work/t.pt' '$work/file'"
shows 'convert' 'writing'
on_terminal "$decode"
shows_none 'none where the lines are shown themselves'
"$vpt" decode --image "$work/plain.elf" "$work/t.pt" >"$work/lines"
on_terminal "VPT_PAGER='cat >$work/paged' $decode"
check 'lines go to the pager' cmp "$work/paged" "$work/lines"
check 'and nowhere else' test ! -s "$work/terminal"
on_terminal "VPT_PAGER= PAGER='cat >$work/other' $decode"
check 'an empty VPT_PAGER is none, whatever PAGER says' test ! -e "$work/other" -a -s "$work/terminal"
on_terminal "PAGER='cat >$work/other'; export PAGER; unset VPT_PAGER; $decode"
check 'without it, PAGER counts' cmp "$work/other" "$work/lines"
rm "$work/other"
on_terminal "VPT_PAGER='cat >$work/other' $decode --no-pager"
check '--no-pager' test ! -e "$work/other" -a -s "$work/terminal"
on_terminal "VPT_PAGER='cat >$work/other' $decode --json"
check 'JSON is not for a pager' test ! -e "$work/other" -a -s "$work/terminal"
on_terminal "VPT_PAGER='cat >$work/other' $decode >'$work/file'"
check 'nor is a file' test ! -e "$work/other" -a -s "$work/file"
# More than a pipe holds, so that the command still writes when the pager is gone.
{
    head -c -2 "$work/t.pt"
    for ((i = 0; i < 20000; i++)); do printf '\x2d\x05\x10'; done
} >"$work/long.pt"
on_terminal "VPT_PAGER='head -n 1' '$vpt' decode --image '$work/plain.elf' '$work/long.pt'; echo status \$?"
check 'a pager that is left early is no failure' grep -q 'status 0' "$work/terminal"
on_terminal "VPT_PAGER=cat\ - '$vpt' decode --image '$work/plain.elf' '$work/nothing'; echo status \$?"
check 'the exit code is that of the work' grep -q 'status 3' "$work/terminal"
on_terminal "VPT_PAGER=no-such-pager $decode; echo status \$?"
check 'a pager that is not there: a failure' grep -q 'status 3' "$work/terminal"
check 'that is told' grep -q 'vpt: the pager cannot be started' "$work/terminal"
on_terminal "unset VPT_PAGER PAGER; PATH=$work/nowhere $decode"
check 'without less, lines come to the terminal' diff <(tr -d '\r' <"$work/terminal") "$work/lines"
on_terminal "NO_COLOR= VPT_PAGER='cat >$work/other' '$vpt' report --image '$work/plain.elf' '$work/t.pt'"
check 'a report has the colours of the terminal' grep -q "$(printf '\033')\[1m" "$work/other"
on_terminal "NO_COLOR=1 VPT_PAGER='cat >$work/out' '$vpt' report --image '$work/evil.elf' '$work/t.pt'"
: >"$work/err"
plain 'a report in a pager'
on_terminal "$decode | cat"
shows_none 'none where a pipe may lead back to the terminal'
on_terminal "$decode --summary 2>'$work/file'"
shows_none 'none where standard error is no terminal'
check 'and none in its place' test ! -s "$work/file"
# Followed in its pieces: the line is there while nothing comes.
on_terminal "cat '$work/t.pt' | '$vpt' decode --image '$work/plain.elf' - >'$work/file'"
shows 'decode of a pipe' 'decoding: 0 kB'

# A guest that runs until it is ended: how long, and how much it executed.
if [ -w /dev/kvm ]; then
    script -qfec "echo \$\$ >'$work/pid'; exec '$vpt' run --timeout 0 '$guests/forever.elf'" /dev/null \
        >"$work/terminal" </dev/null &
    pid=$!
    until grep -q 'instructions stepped' "$work/terminal" || ! kill -0 "$pid"; do sleep 0.1; done
    kill -TERM "$(cat "$work/pid")"
    wait "$pid"
    check 'run' grep -q 'vpt: [0-9]* s, [0-9]* instructions stepped, [0-9]* trace bytes' "$work/terminal"
else
    skip 'progress of a run' 'no /dev/kvm'
fi

summary
