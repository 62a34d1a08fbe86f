# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # lib.sh says what $work is
#
# A trace of a host with three processes and of a VM with one, as $work/a with $work/map.json, and the
# packets that it is made of. Sourced behind lib.sh.

# bytes COUNT N: N in so many bytes, the low one first.
bytes() {
    local i value=$2
    for ((i = 0; i < $1; i++)); do
        # shellcheck disable=SC2059 # the format is the byte
        printf "\\x$(printf '%02x' $((value & 255)))"
        value=$((value >> 8))
    done
}
tsc() { printf '\x19' && bytes 7 "$1"; }
tip() { printf '\x6d' && bytes 6 "$1"; }
pge() { printf '\x71' && bytes 6 "$1"; }
pgd() { printf '\x01'; }
pip() { printf '\x02\x43' && bytes 6 $(($1 >> 5 << 1 | $2)); } # CR3 NR
vmcs() { printf '\x02\xc8' && bytes 5 $(($1 >> 12)); }
psb() { # TSC CR3 IP
    local i
    for i in 1 2 3 4 5 6 7 8; do printf '\x02\x82'; done
    tsc "$1" && pip "$2" 0
    printf '\x99\x01\x7d' && bytes 6 "$3"
    printf '\x02\x23'
}
fup() { printf '\x7d' && bytes 6 "$1"; }
vm_exit() { printf '\x02\x53\x02' && bytes 8 "$1" && printf '\x02\x13\x08\x00'; } # REASON; a FUP follows

# one: JMP RAX; two: NOP, JMP RAX; so 1 instruction and 2.
printf '\xff\xe0' >"$work/one.bin"
printf '\x90\xff\xe0' >"$work/two.bin"
printf '0000000000005000 t one\n0000000000006000 t two\n' >"$work/host.kallsyms"
printf '0000000000006000 t guest_two\n' >"$work/vm.kallsyms"
code='"images": [ { "path": "one.bin", "address": "0x5000" }, { "path": "two.bin", "address": "0x6000" } ]'
cat >"$work/map.json" <<TEXT
{ "vpt-map": 1,
  "host": { $code, "kallsyms": "host.kallsyms",
            "processes": [ { "name": "first", "pid": 11, "cr3": "0x1000" },
                           { "name": "=2+3", "pid": 12, "cr3": "0x2000" },
                           { "name": "first", "pid": 13, "cr3": "0x3000" } ] },
  "vms": [ { "name": "small", "vmcs": "0x7000", $code, "kallsyms": "vm.kallsyms",
             "processes": [ { "name": "first", "pid": 11, "cr3": "0x1000" } ] } ] }
TEXT
{
    psb 1000 0x1000 0x5000 # a TIP tells what ran up to there
    tip 0x6000 && tsc 1100 # one, for 100
    tip 0x5000 && tip 0x6000 && tsc 1400 # two and one share 300
    tip 0x6000 && tsc 1500 && pgd        # two, for 100
    tsc 1600 && pip 0x2000 0 && pge 0x6000 # 100 in which tracing was off
    tip 0x5000 && tsc 1800 && pgd          # two of the second process, for 200
    vmcs 0x7000 && pip 0x1000 1 && pge 0x6000
    tip 0x6000 && tip 0x6000 && tsc 2000 # two of the guest, twice, for 200
    vm_exit 30 && fup 0x6000 && pgd
    pip 0x3000 0 && pge 0x5000 && tip 0x5000 && tip 0x5000
    tsc 2050 && pgd # one of the third, twice, for 50
    vmcs 0x7000 && pip 0x1000 1 && pge 0x6000
    tip 0x6000 && tsc 2060
    tip 0x6000 && pgd
} >"$work/a"
echo '{ "vpt": 1, "vcpu": 4 }' >"$work/a.json"
