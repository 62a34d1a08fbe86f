#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The tables of options in a document, as the program says them: --write puts them there, --check
# fails if they differ. A table stands between '<!-- options: COMMAND -->' and '<!-- end -->'.
set -euo pipefail

usage='usage: options-doc.sh --write|--check VPT DOCUMENT'
how=${1:?$usage}
vpt=${2:?$usage}
document=${3:?$usage}

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

inside=
while IFS= read -r line; do
    if [ "$line" = '<!-- end -->' ]; then
        inside=
    fi
    if [ -z "$inside" ]; then
        printf '%s\n' "$line"
    fi
    if [[ $line =~ ^'<!-- options: '([a-z-]+)' -->'$ ]]; then
        inside=yes
        "$vpt" help --markdown "${BASH_REMATCH[1]}"
    fi
done <"$document" >"$fresh"
if [ -n "$inside" ]; then
    echo "$document: a table of options has no end" >&2
    exit 1
fi

case $how in
--write) cmp -s "$fresh" "$document" || cat "$fresh" >"$document" ;;
--check) diff -u "$document" "$fresh" ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
