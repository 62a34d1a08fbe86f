#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# kit-doc.sh VPT DOCUMENT: runs the guest tests on the hypervisors of this machine, and writes their
# commands and what came of them between '<!-- make kit-doc writes what follows -->' and '<!-- up to here -->'.
set -euo pipefail

usage='usage: kit-doc.sh VPT DOCUMENT'
vpt=${1:?$usage}
document=${2:?$usage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pc='qemu-system-x86_64 -M pc -m 128 -smp {cpus} -display none -serial none -monitor none -no-reboot'
pc+=' -debugcon stdio -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel {image} -append {append}'
ours='vpt qemu --append {append} {image} --'

# hypervisor NAME COMMAND: one block of the page. NAME's result is kept for the table.
hypervisor() {
    local name=$1 command=$2 status=0
    PATH="$(dirname "$(realpath "$vpt")"):$PATH" "$vpt" guest-tests --json --with "$command" >"$work/suites" || status=$?
    [ "$status" -le 1 ] || { echo "kit-doc.sh: $name: vpt guest-tests ends with status $status" >&2; exit 1; }
    printf '**%s**\n\n```\nvpt guest-tests --with \\\n' "$name"
    fold -s -w 88 <<<"$command" | sed -E "1s/^/    '/; 2,\$s/^/        /; s/ *\$/ \\\\/; \$s/ .\$/'/"
    printf '```\n\n| suite | passed | failed | skipped |\n| --- | --- | --- | --- |\n'
    jq -r '"| `\(.suite)` | \(.passed) | \(.failed) | \(.skipped) |"' "$work/suites"
    echo
    jq -r '.suite as $suite | .cases[] | select(.result == "FAIL") |
        "| `\($suite)` | \(.name) | \(.reason // "") | \(.rule // "") |"' "$work/suites" >"$work/failures"
    if [ -s "$work/failures" ]; then
        printf '| suite | what fails | what came | rule |\n| --- | --- | --- | --- |\n'
        cat "$work/failures"
        echo
    fi
}

{
    echo
    hypervisor "Stock QEMU under TCG, $(qemu-system-x86_64 --version | grep -oE 'version [0-9.]+'): no Intel PT" "$pc -cpu max"
    if [ -w /dev/kvm ]; then
        hypervisor 'Stock QEMU on this machine'"'"'s KVM: no Intel PT' "$pc -accel kvm -cpu host"
    fi
    # shellcheck disable=SC2016 # backquotes of Markdown
    hypervisor 'The QEMU of `make qemu`, with Intel PT and VMX' "$ours -smp {cpus} -cpu max,+vmx,vendor=GenuineIntel,vpt-profile=max"
} >"$work/made"

awk -v made="$work/made" '
    /^<!-- up to here -->$/ { inside = 0 }
    !inside { print }
    /^<!-- make kit-doc writes what follows -->$/ { inside = 1; while ((getline line < made) > 0) print line }
' "$document" >"$work/document"
cat "$work/document" >"$document"
