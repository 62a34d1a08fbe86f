# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# What the scripts that test the program vpt from outside share: the program, its guests, and cases.sh.
# Sourced.

BUILD=${BUILD:-build}
# shellcheck disable=SC2034 # these two are used by the scripts
vpt=$BUILD/vpt
# shellcheck disable=SC2034 # used by the scripts
guests=$BUILD/vmm/tests/guests
export VPT_PAGER= # output is looked at where it comes out
# shellcheck source=vmm/tests/cases.sh
. "${BASH_SOURCE[0]%/*}/cases.sh"

# expect NAME STATUS PATTERN COMMAND...: the exit status, and standard error as one line like PATTERN.
# With several_lines=yes, others may stand beside that line.
several_lines=
expect() {
    local name=$1 want=$2 pattern=$3 status lines
    shift 3
    timeout 120 "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    lines=$(wc -l <"$work/err")
    if [ "$status" != "$want" ]; then
        fail "$name" "status $status, not $want: $(tail -n 1 "$work/err")"
    elif [ -n "$pattern" ] && ! grep -qE "$pattern" "$work/err"; then
        fail "$name" "says '$(head -n 1 "$work/err")', not '$pattern'"
    elif [ -n "$pattern" ] && [ "$lines" != 1 ] && [ -z "$several_lines" ]; then
        fail "$name" "$lines lines of error, not one"
    elif [ -z "$pattern" ] && [ "$lines" != 0 ]; then
        fail "$name" "says '$(head -n 1 "$work/err")'"
    else
        pass "$name"
    fi
}

has_lab() {
    [ -r "${VPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vpt}/lab/vmlinuz" ]
}

# need_backend WHAT: the script ends here, with WHAT skipped, if vpt run has nowhere to run guests.
need_backend() {
    [ -w /dev/kvm ] || has_lab || skip_rest "$1" 'neither /dev/kvm nor the lab (make lab)'
}

# find_backends: the lab and the local KVM, each if it is there, as arguments of vpt run in ${backends[@]}.
find_backends() {
    backends=()
    if has_lab; then
        backends+=('--lab')
    else
        skip 'guests in the lab' 'no kernel (make lab)'
    fi
    if [ -w /dev/kvm ]; then
        backends+=('')
    else
        skip 'guests on the local KVM' 'no /dev/kvm'
    fi
}
