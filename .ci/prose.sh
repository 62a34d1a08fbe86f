#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# prose.sh [FILE.md...]: what a script can tell of the pages (all that git knows, if none is named).
#
#   - lines outside of tables and code have at most 100 columns;
#   - a link to a file of the tree leads to a file, and its anchor to a heading there;
#   - README links to every page of docs/;
#   - `vpt NAME` and `make NAME` name a subcommand and a target that exist.
#
# A line for each fault; the status is 0 only if there is none.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
export LC_ALL=C.UTF-8 # columns are characters

if [ $# -gt 0 ]; then
    pages=("$@")
else
    mapfile -t pages < <(git ls-files -co --exclude-standard -- '*.md' | sort -u)
fi
faults=$(mktemp)
trap 'rm -f "$faults"' EXIT

fault() {
    printf '%s\n' "$*" >>"$faults"
}

# prose FILE: its lines with their numbers, as 'N:LINE', without blocks of code.
prose() {
    awk '/^ *```/ { code = !code; next } !code { print NR ":" $0 }' "$1"
}

# code FILE: the lines of its blocks of code, in the same form.
code() {
    awk '/^ *```/ { code = !code; next } code { print NR ":" $0 }' "$1"
}

# anchors FILE: what its headings are called in links.
anchors() {
    prose "$1" | sed -n 's/^[0-9]*:#\{1,6\} \{1,\}//p' | tr '[:upper:]' '[:lower:]' |
        sed 's/\[\([^]]*\)\]([^)]*)/\1/g; s/[^[:alnum:] _-]//g; s/ /-/g' |
        awk '{ print (seen[$0]++ ? $0 "-" seen[$0] - 1 : $0) }'
}

columns() {
    local line
    while IFS= read -r line; do
        fault "$1:${line%%:*}: more than 100 columns"
    done < <(prose "$1" | grep -v '^[0-9]*:|' | grep -E '^[0-9]+:.{101,}')
}

links() {
    local line target file anchor
    while IFS=: read -r line target; do
        case $target in
        *://* | mailto:*) continue ;;
        esac
        file=${target%%#*}
        anchor=
        [ "$file" = "$target" ] || anchor=${target#*#}
        [ -z "$file" ] && file=$1 || file=$(dirname "$1")/$file
        if [ ! -e "$file" ]; then
            fault "$1:$line: no such file: $target"
        elif [ -n "$anchor" ] && ! anchors "$file" | grep -qxF -- "$anchor"; then
            fault "$1:$line: no such heading: $target"
        fi
    done < <(prose "$1" | awk '{
        at = $0; sub(/:.*/, "", at)
        gsub(/`[^`]*`/, "")
        while (match($0, /\]\([^) ]+\)/)) {
            print at ":" substr($0, RSTART + 2, RLENGTH - 3)
            $0 = substr($0, RSTART + RLENGTH)
        }
    }')
}

# called FILE PROGRAM: 'N:WORD' for each command that begins with PROGRAM and has WORD behind it, in
# blocks of code and between backquotes.
called() {
    {
        code "$1" | sed -nE "s/^([0-9]+):(\\$ )?(build\/)?$2 ([a-z][a-z-]*).*/\1:\4/p"
        prose "$1" | grep -oE "^[0-9]+:|\`(build/)?$2 [a-z][a-z-]*" |
            sed -nE "/^[0-9]+:$/h; /^\`/{G; s/^\`(build\/)?$2 ([a-z-]*)\n([0-9]+):/\3:\2/p}"
    } | sort -u
}

# names FILE PROGRAM LIST: each command of PROGRAM in FILE is one of LIST.
names() {
    local line word
    while IFS=: read -r line word; do
        case " $3 " in
        *" $word "*) ;;
        *) fault "$1:$line: there is no '$2 $word'" ;;
        esac
    done < <(called "$1" "$2")
}

subcommands="help $(grep -oE '\<(cmd|command)_[a-z_]+' vmm/cli/commands.h | sed 's/^[a-z]*_//; s/_/-/g' | tr '\n' ' ')"
targets=$(git ls-files -co --exclude-standard -- Makefile '*.mk' | xargs cat |
    sed -nE 's/^([a-z-]+):.*/\1/p' | tr '\n' ' ')

for page in "${pages[@]}"; do
    [ -f "$page" ] || continue
    [ "$page" = CHANGELOG.md ] && continue # it tells of what is no more
    columns "$page"
    links "$page"
    names "$page" vpt "$subcommands"
    names "$page" make "$targets"
done
for page in docs/*.md; do
    grep -qF "($page)" README.md || fault "README.md: no link to $page"
done

cat "$faults"
[ ! -s "$faults" ]
