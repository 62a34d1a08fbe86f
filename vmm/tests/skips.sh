# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it counts passed and failed
# Sourced by lib.sh and suite.sh: what is skipped, and how a script ends.

why= # a script cannot run here, see skip_all

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
