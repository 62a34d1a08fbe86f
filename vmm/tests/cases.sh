# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by lib.sh and suite.sh: a folder for what the cases leave, how they are counted, what is skipped,
# and how a script ends. `summary` is its last command.

work=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf "$work"' EXIT # KEEP=1 leaves it, to look at
passed=0 failed=0 skipped=0
why= # a script cannot run here, see skip_all

pass() {
    passed=$((passed + 1))
    echo "PASS: $1"
}
# fail NAME [WHY]
fail() {
    failed=$((failed + 1))
    echo "FAIL: $1${2:+: $2}"
}
# fail_with NAME FILE: the end of the file says why.
fail_with() {
    fail "$1"
    sed 's/^/    /' "$2" | tail -n 12
}
# check NAME COMMAND...: the command has to succeed. What it prints is in $work/why.
check() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then pass "$name"; else fail_with "$name" "$work/why"; fi
}

# skip NAME [WHY]
skip() {
    skipped=$((skipped + 1))
    echo "SKIP: $1${2:+: $2}"
}
# skip_rest NAME [WHY]: the script ends here.
skip_rest() {
    skip "$@"
    summary
    exit
}
# skip_all WHAT [NAME...]: if there is a $why, the script ends here, with WHAT skipped, or each WHAT NAME.
skip_all() {
    local what=$1 name
    shift
    [ -n "$why" ] || return 0
    [ $# -gt 0 ] || skip "$what" "$why"
    for name in "$@"; do
        skip "${what:+$what }$name" "$why"
    done
    summary
    exit
}

summary() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
