#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Call stacks of the threads of one process, which a log of names tells apart. Ends with 'N passed,
# N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

# Three functions, at 5000H, 5010H and 5020H: main calls f; f and g jump to wherever RAX says.
"${CC:-gcc}" -nostdlib -static -no-pie -Wl,--build-id=none,-Ttext=0x5000,-e,0x5000 -x assembler -o "$work/program" - <<'END'
    .macro function name
    .balign 16
    .type \name, @function
    .size \name, 16
\name:
    .endm
    function main
    call f
    function f
    jmp *%rax
    function g
    jmp *%rax
    .balign 16
END
cat >"$work/program.map" <<'END'
{ "vpt-map": 1, "host": { "processes": [
    { "name": "work", "pid": 11, "cr3": "0x5000", "images": [ { "path": "program" } ] } ] } }
END
{
    for _ in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    printf '\x02\x43\x00\x05\x00\x00\x00\x00\x99\x01'     # PIP 5000H, MODE
    printf '\x7d\x00\x50\x00\x00\x00\x00\x02\x23'         # FUP, PSBEND
    printf '\x2d\x10\x50\x2d\x20\x50\x2d\x10\x50\x2d\x20\x50' # TIP: from f to f, to g, to f, to g
} >"$work/t"
# g runs in the second thread, and f in the first one.
cat >"$work/t.names" <<'END'
{"vpt-names":1,"begin":0}
{"at":0,"pid":11,"tid":11,"comm":"first","cr3":[20480],"new":true}
{"at":44,"pid":11,"tid":12,"comm":"second","cr3":[20480]}
{"at":47,"pid":11,"tid":11,"comm":"first","cr3":[20480]}
END
echo '{ "vpt": 1, "vcpu": 0, "names": "t.names" }' >"$work/t.json"
decode=("$vpt" decode --map "$work/program.map")

# Lines of --calls, without times.
calls() {
    "${decode[@]}" "$@" "$work/t" | sed '1d; s/^[0-9 ]*//'
}
with_threads() {
    calls --calls | diff - <(printf '%s\n' '== first, pid 11, tid 11, CR3 0x5000' 'main {' 'f {' \
        '== second, pid 11, tid 12, CR3 0x5000' 'g {')
}
check 'each thread has a stack' with_threads
one_function_after_the_other() {
    calls --calls | diff - <(printf '%s\n' '== work, pid 11, tid 11, CR3 0x5000' 'main {' 'f();' 'g();' 'f {')
}
folded() {
    "${decode[@]}" --format folded "$work/t" | sort | diff - <(printf '%s\n' 'first;main 1' 'first;main;f 3' 'second;g 1')
}
check 'folded: each thread has its own' folded
# tracks: "thread: function function..." of the events that begin.
tracks() {
    "${decode[@]}" --format chrome "$work/t" | jq -r '.traceEvents | [.[] | select(.ph == "B")] | group_by(.tid)[] |
        "\(.[0].tid): \(map(.name) | join(" "))"' | diff - <(printf '%s\n' '11: main f' '12: g')
}
check 'chrome: each thread has a track' tracks
ends() {
    "${decode[@]}" --format chrome "$work/t" | jq -e '.traceEvents | [.[] | select(.ph == "B") | [.tid, .name]] as $begun |
        [.[] | select(.ph == "E") | [.tid, .name]] as $ended | ($begun | sort) == ($ended | sort)' >/dev/null
}
check 'chrome: what begins on a track ends there' ends
echo '{ "vpt": 1, "vcpu": 0 }' >"$work/t.json"
check 'without a log, the process has one' one_function_after_the_other

summary
