#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# sanitized.sh: qemu.sh and hostile.sh on a QEMU with AddressSanitizer and UndefinedBehaviorSanitizer, which
# may report nothing of ours, and nothing that ends QEMU. What UndefinedBehaviorSanitizer reports of QEMU's
# own files is counted only.
set -u

# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
mkdir "$work/reports"
# Leaks are not what this is about: QEMU leaves much to its end.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:log_path=$work/reports/asan
export UBSAN_OPTIONS=log_path=$work/reports/ubsan

for script in qemu hostile; do
    if "vmm/qemu/tests/$script.sh" >"$work/out" 2>&1; then
        pass "$script.sh: $(tail -n 1 "$work/out")"
    else
        fail "$script.sh" "$(grep -A 5 '^FAIL' "$work/out" | head -n 20)"
    fi
done
cat "$work"/reports/* >"$work/all" 2>/dev/null
grep -E 'ERROR: AddressSanitizer|vpt/[^ ]*: runtime error' "$work/all" | sort | uniq -c >"$work/ours"
if [ -s "$work/ours" ]; then
    fail 'no report' "$(head -n 20 "$work/ours")"
else
    pass "no report of ours ($(grep -c 'runtime error' "$work/all") of QEMU's own)"
fi
summary
