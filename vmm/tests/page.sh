#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# vpt report --html: pages that a browser opens from disk. With LONG=1 one of them is of a trace with more
# than 10 million calls and returns. Ends with 'N passed, N failed, N skipped'. Pictures stay in
# $BUILD/page-test.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=vmm/tests/recorded.sh
. "$(dirname "$0")/recorded.sh"
cache=${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/page
pages=$BUILD/page-test

# A host whose process calls f, and then enters guests of two VMs, which leave them; TSC in between.
printf '\xe8\x0b\x00\x00\x00\x0f\xc7\x30\x0f\x01\xc2' >"$work/host.bin" # CALL 5010H; VMPTRLD; VMLAUNCH
printf '\xc3' >"$work/f.bin"
printf '\x90\xff\xe0' >"$work/guest.bin" # NOP; JMP RAX
# tsc N: a TSC packet. enter_guest VMCS: VMCS, PIP of 6000H with NR, TIP 6000H; around again by JMP RAX.
tsc() {
    # shellcheck disable=SC2059 # the format is the bytes
    printf "\\x19\\x00\\x$(printf %02x "$1")\\x00\\x00\\x00\\x00\\x00"
}
enter_guest() {
    # shellcheck disable=SC2059
    printf "\\x02\\xc8\\x$1\\x00\\x00\\x00\\x00"
    printf '\x02\x43\x01\x06\x00\x00\x00\x00\x2d\x00\x60\x2d\x00\x60'
}
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    tsc 1
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x99\x01' # PIP 5000H, MODE
    printf '\x7d\x00\x50\x00\x00\x00\x00\x02\x23'     # FUP, PSBEND
    tsc 2
    printf '\x2d\x05\x50' # TIP 5005H: RET of f
    tsc 3
    enter_guest 07
    tsc 4
    printf '\x3d\x00\x60\x02\x43\x00\x05\x00\x00\x00\x00\x2d\x05\x50' # out: FUP, PIP, TIP 5005H
    tsc 6
    enter_guest 08
    tsc 7
    printf '\x2d\x00\x60'
} >"$work/t.pt"
hostile='</script><script>window.hostile=1</script><img src=x onerror=alert(1) data-hostile><!--<script>'
cat >"$work/map.json" <<END
{ "vpt-map": 1,
  "host": { "processes": [ { "name": "$hostile", "pid": 812, "cr3": "0x5000",
    "images": [ { "path": "host.bin", "address": "0x5000" }, { "path": "f.bin", "address": "0x5010" } ] } ] },
  "vms": [
    { "name": "$hostile", "vmcs": "0x7000", "processes": [ { "name": "init", "pid": 1, "cr3": "0x6000",
      "images": [ { "path": "guest.bin", "address": "0x6000" } ] } ] },
    { "name": "two", "vmcs": "0x8000", "processes": [ { "name": "<b>&amp;\u202e{{script}}", "pid": 1, "cr3": "0x6000",
      "images": [ { "path": "guest.bin", "address": "0x6000" } ] } ] } ] }
END

mkdir -p "$pages"
rm -f "$pages"/*.html "$pages"/*.png
says=$("$vpt" report --html "$work/none.html" --map "$work/map.json" "$work/t.pt" 2>&1)
if [ $? = 4 ]; then
    skip 'the page' "${says#vpt: }"
    check 'without a page, no file is left' test ! -e "$work/none.html"
    summary
    exit
fi

expect '--html has no --json' 2 'vpt: --html has none of .*' "$vpt" report --html "$work/x.html" --json "$work/t.pt"
expect '--html has no --by' 2 'vpt: --html has none of .*' "$vpt" report --html "$work/x.html" --by vm "$work/t.pt"
expect 'a trace that is not there leaves no page' 3 'vpt: .*' "$vpt" report --html "$work/x.html" "$work/nothing"
check 'no file is left' test ! -e "$work/x.html"
expect 'a folder that is not there' 3 'vpt: .*' "$vpt" report --html "$work/no/x.html" "$work/t.pt"
expect 'a page' 0 '' "$vpt" report --html "$pages/hostile.html" --map "$work/map.json" "$work/t.pt"

# What the data say is what the report says.
sed -n 's|.*<script type="application/json" id="data">\(.*\)</script>.*|\1|p' "$pages/hostile.html" >"$work/data"
"$vpt" report --json --map "$work/map.json" "$work/t.pt" >"$work/report"
check 'the data are JSON without "<"' bash -c "jq -e . <'$work/data' && ! grep -q '<' '$work/data'"
check 'its report is that of --json' bash -c "diff <(jq -S .report '$work/data') <(jq -S . '$work/report')"
check 'instructions of the tree are those of the report' test "$(jq '.tree.insns | add' "$work/data")" = \
    "$(jq .instructions "$work/report")"
check 'the exit took so many ticks' test "$(jq -c '[.latencies[] | .count, .most]' "$work/data")" = '[1,512]'
check 'each VM has a track' test "$(jq '[.tracks[] | select(.kind == "vm")] | length' "$work/data")" = 2
check 'data are between the tags that the template has' test "$(grep -o '</script>' "$pages/hostile.html" | wc -l)" = 3

# ---- Sources ----

expect '--lines is of --html' 2 'vpt: --lines and --sources are of --html.*' "$vpt" report --lines "$work/t.pt"
expect '--sources is, too' 2 'vpt: --lines and --sources are of --html.*' "$vpt" report --sources / "$work/t.pt"

# sources PAGE: what it says of them.
sources() {
    sed -n 's|.*<script type="application/json" id="data">\(.*\)</script>.*|\1|p' "$1" | jq -c .sources
}

# Instructions by file and line, of a function, as vpt annotate has them.
lines_are_counted() { # PAGE FUNCTION
    sources "$1" | jq -r --arg name "$2" '.[] | select(.function == $name) | .file as $file | .lines[] |
        select(.[1] > 0) | "\($file) \(.[0]) \(.[1])"' | sort >"$work/shown"
    "$vpt" annotate --json --lines "$2" "$work/data" | jq -r '.functions[].lines[] | select(.file) |
        "\(.file) \(.line) \(.executed // .instructions)"' | sort >"$work/counted"
    [ -s "$work/shown" ] && diff "$work/shown" "$work/counted"
}

texts_are_the_files() { # PAGE ROOT
    sources "$1" | jq -r '.[] | .file as $file | .lines[] | select(.[2]) | "\($file)\t\(.[0])\t\(.[2])"' >"$work/texts"
    [ -s "$work/texts" ] || { echo 'no text'; return 1; }
    while read -r file line text; do
        # read takes blanks away from both ends.
        read -r there < <(sed -n "${line}p" "$2/$file")
        [ "$there" = "$text" ] || { echo "$file:$line: $text"; return 1; }
    done <"$work/texts"
}

if ! build_crew; then
    fail 'a page with sources' 'its program cannot be built'
elif ! step_crew; then
    skip 'a page with sources' "no program can be single-stepped here: $(tail -n 1 "$work/recorded")"
elif ! "$vpt" report --html "$work/lines.html" --lines "$work/data" 2>"$work/err"; then
    skip 'a page with sources' "$(sed 's/^vpt: //' "$work/err")"
else
    for function in main choose tool_mix compare; do
        check "sources of $function: lines ran as often as vpt annotate says" lines_are_counted "$work/lines.html" $function
    done
    check 'no file is read unless a folder is named' test "$(sources "$work/lines.html" | jq '[.[].lines[] | select(.[2])] | length')" = 0
    # The folder has a copy of what is asked for, with hostile lines; what leads out of it is not followed.
    mkdir -p "$work/root"
    sources "$work/lines.html" | jq -r '.[].file' | sort -u >"$work/files"
    while read -r file; do
        mkdir -p "$work/root/$(dirname "$file")"
        case $file in
        *crew.c) sed "s|\$| /* $hostile */|" "$file" >"$work/root/$file" 2>"$work/err" ;;
        *tools.c) ln -s "$(realpath "$file")" "$work/root/$file" ;;
        esac
    done <"$work/files"
    expect 'a page with sources' 0 '' "$vpt" report --html "$pages/sources.html" --sources "$work/root" "$work/data"
    check 'its texts are those of the files' texts_are_the_files "$pages/sources.html" "$work/root"
    check 'a link that leads out of the folder is not followed' test \
        "$(sources "$pages/sources.html" | jq '[.[] | select(.file | endswith("tools.c")) | .lines[] | select(.[2])] | length')" = 0
    check 'no text ends the data' test "$(grep -o '</script>' "$pages/sources.html" | wc -l)" = 3
fi

# ---- In a browser ----

browser=$(command -v chromium || true)
modules=
for one in "$cache"/*/.complete; do
    [ -e "$one" ] && [ -d "${one%/*}/node_modules/playwright-core" ] && modules=${one%/*}/node_modules
done
if [ -z "$browser" ] || [ -z "$modules" ] || ! command -v node >/dev/null; then
    skip_rest 'the page in a browser' "$([ "$browser" ] && echo 'no libraries of npm' || echo 'no chromium')"
fi

# A guest that was stepped, if there is where to step it; and a program that ran for long.
list=("$pages/hostile.html")
if [ -w /dev/kvm ] || has_lab; then
    expect 'a guest is traced' 0 '' "$vpt" run --trace-out "$work/loop.pt" "$guests/traced-loop.elf"
    expect 'a page of a guest' 0 '' "$vpt" report --html "$pages/guest.html" "$work/loop.pt"
    list+=("$pages/guest.html")
else
    skip 'a page of a guest' 'neither /dev/kvm nor the lab (make lab)'
fi
[ ! -e "$pages/sources.html" ] || list+=("$pages/sources.html")
if [ "${LONG:-}" ]; then
    long=$BUILD/bench/traces/interpreter
    images=()
    at=0
    while read -r address length; do
        dd if="$long.code" of="$work/code.$address" iflag=skip_bytes,count_bytes bs=1M skip="$at" \
            count=$((16#$length)) status=none
        at=$((at + 16#$length))
        images+=("{ \"path\": \"$work/code.$address\", \"address\": \"0x$address\" }")
    done <"$long.map"
    echo "{ \"vpt-map\": 1, \"host\": { \"images\": [ $(IFS=,; echo "${images[*]}") ] } }" >"$work/long.json"
    head -c 15000000 "$long.cyc.pt" >"$work/long.pt"
    "$vpt" report --html "$pages/long.html" --map "$work/long.json" "$work/long.pt" 2>"$work/err"
    check 'a page of a long trace' test -s "$pages/long.html"
    list+=("$pages/long.html")
fi

timeout 300 node vmm/page/test.mjs "$modules" "$browser" "$pages" "${list[@]}" >"$work/browser" 2>&1 ||
    echo "FAIL: the browser ends well ($(tail -n 1 "$work/browser"))" >>"$work/browser"
while read -r line; do
    case $line in
    PASS:*) pass "${line#PASS: }" ;;
    FAIL:*) fail "${line#FAIL: }" "see $pages" ;;
    esac
done <"$work/browser"
check 'the browser came to each page' test "$(grep -c 'the console is empty' "$work/browser")" = ${#list[@]}

summary
