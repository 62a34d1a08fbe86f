#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What an earlier vpt left (saved/README), from before processors had choices: a guest that was saved
# amid its trace goes on as it began, and a trace decodes to what ran. Ends with 'N passed, N failed,
# N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"
saved=vmm/tests/saved

for file in guest.elf guest.saved guest.pt guest.pt.path; do
    check "there is $file" bash -c "gzip -dc $saved/$file.gz >$work/$file"
done
cp "$saved/guest.pt.json" "$work/"

# ---- The trace ----
expect 'a trace of an earlier vpt' 0 '' "$vpt" decode --insns --json "$work/guest.pt"
jq -r 'select(.type == "insn") | .ip' "$work/out" >"$work/decoded"
# Words of the path that begin with 8000H are the marks of address spaces.
od -An -v -t x8 -w8 "$work/guest.pt.path" | tr -d ' ' | grep -v '^8000' >"$work/executed"
check 'it is not empty' test "$(wc -l <"$work/executed")" -gt 10000
check 'decodes to what ran' cmp <(sed 's/^0x0*//' "$work/decoded") <(sed 's/^0*//' "$work/executed")

# ---- The guest: one of the lab ----
has_lab || skip_rest 'a guest of an earlier vpt goes on as it began' 'no lab (make lab)'
expect 'a guest of an earlier vpt arrives amid its trace' 0 '' "$vpt" run --lab --verify \
    --restore "$work/guest.saved" --trace-out "$work/now.pt" "$work/guest.elf"
check 'its path is its trace' grep -q '^path: identical' "$work/out"
check 'it handed its trace over' grep -q '^guest buffers: identical' "$work/out"
check 'it goes on with the packets of then' cmp "$work/now.pt" "$work/guest.pt"
check 'on a processor that is none of those with choices' jq -e '.cpu.family == 0' "$work/now.pt.json"
expect 'the guest anew, on skylake' 0 '' "$vpt" run --verify --profile skylake --mem 3M \
    --trace-out "$work/anew.pt" "$work/guest.elf"
check 'sends something else' bash -c "! cmp -s $work/anew.pt $work/guest.pt"

summary
