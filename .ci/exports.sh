#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# exports.sh PREFIX HEADER...: the functions that public headers declare and do not define inline, one
# a line: what a library exports, and all that it exports. CC is the compiler that reads the headers.
#
# exports.sh --map NODE PREFIX HEADER...: the same as a version script for the linker.
set -euo pipefail
export LC_ALL=C

node=
[ "${1:-}" != --map ] || { node=$2 && shift 2; }
prefix=${1:?usage: exports.sh [--map NODE] PREFIX HEADER...}
shift

# A name of the library in front of a parenthesis is a declaration, a definition, or a call in one.
functions() {
    local header text
    for header in "$@"; do
        # shellcheck disable=SC2086 # CC may be several words
        text=$(${CC:-gcc} -std=c11 -E -P "$header")
        grep -oE "\b${prefix}_[a-z0-9_]+ ?\(" <<<"$text" | sort -u | comm -23 - <(
            grep -oE "\bstatic inline [^;{(]*\(" <<<"$text" |
                grep -oE "\b${prefix}_[a-z0-9_]+ ?\(" | sort -u
        )
    done | tr -d ' (' | sort -u
}

if [ -z "$node" ]; then
    functions "$@"
else
    echo "$node {"
    echo "global:"
    functions "$@" | sed 's/.*/    &;/'
    echo "local:"
    echo "    *;"
    echo "};"
fi
