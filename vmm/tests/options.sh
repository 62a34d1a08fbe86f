#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What comes from the tables of options: help, suggestions, manual pages, completion for bash, and the
# tables of docs/vpt.md. Needs $BUILD/vpt. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail

# shellcheck source=vmm/tests/lib.sh
. "$(dirname "$0")/lib.sh"

all=(run qemu trace capture record check dump decode report annotate coverage index parts demux shard merge convert names guest-tests profiles)

# ---- Help ----
"$vpt" --help >"$work/help"
for words in -h help 'help --help' 'help -h'; do
    read -ra arguments <<<"$words"
    expect "vpt $words" 0 '' "$vpt" "${arguments[@]}"
    check "vpt $words is vpt --help" cmp "$work/out" "$work/help"
done
check 'nothing is unknown' test "$(sed -n 's/^  \([a-z-]*\)  *[a-z].*/\1/p' "$work/help" | xargs)" = "${all[*]} help"
for command in "${all[@]}"; do
    "$vpt" "$command" --help >"$work/help"
    check "$command --help: 80 columns" test "$(awk 'length > 80' "$work/help" | wc -l)" = 0
    for words in "$command -h" "help $command"; do
        read -ra arguments <<<"$words"
        expect "vpt $words" 0 '' "$vpt" "${arguments[@]}"
        check "vpt $words is vpt $command --help" cmp "$work/out" "$work/help"
    done
done
expect 'help of nothing' 2 "no command 'frobnicate'; see vpt --help" "$vpt" help frobnicate
expect 'help of two' 2 'takes one command' "$vpt" help run dump
expect 'help in no form' 2 'takes no --pdf' "$vpt" help --pdf

# ---- Did you mean ----
while read -r words; do
    meant=${words##* }
    read -ra arguments <<<"${words% *}"
    expect "vpt ${words% *}: $meant" 2 "did you mean '(--)?$meant'\?" "$vpt" "${arguments[@]}"
done <<'END'
decod decode
dcode decode
edcode decode
profile profiles
hlep help
help pats parts
run --prfile profile
run --trace-oot=x trace-out
decode --sumary summary
decode --jsno json
capture --ony=user only
qemu --dryrun dry-run
convert --nmae=x name
check --jason json
decode --format foldet x folded
run --profile icelake-sever x icelake-server
END
expect 'nothing is near' 2 'unknown option --frobnicate; see vpt run --help' "$vpt" run --frobnicate
expect 'an option that is hidden is not named' 2 'unknown option --record-too; see' "$vpt" run --record-too=x
expect 'an unknown letter' 2 'unknown option -x; see vpt dump --help' "$vpt" dump -x y
expect 'a value too many' 2 'json takes no value' "$vpt" dump --json=yes x
expect 'an option cut short' 3 'No such file' "$vpt" dump --no-sy "$work/nothing"

# ---- Manual pages ----
for page in '' "${all[@]}"; do
    # shellcheck disable=SC2086 # no word, or one
    expect "manual page ${page:-of the program}" 0 '' "$vpt" help --man $page
    cp "$work/out" "$work/page.1"
    check "its name${page:+, $page}" grep -qx "vpt${page:+\\\\-$page} \\\\- .*" "$work/page.1"
    if command -v man >"$work/null" && command -v groff >"$work/null"; then
        man --warnings -l "$work/page.1" >"$work/shown" 2>"$work/warnings"
        groff -man -ww -Tutf8 "$work/page.1" >"$work/null" 2>>"$work/warnings"
        check "is shown without a warning${page:+, $page}" test ! -s "$work/warnings"
        check "has its parts${page:+, $page}" test "$(grep -cE '^(NAME|SYNOPSIS|EXIT STATUS)$' "$work/shown")" = 3
    else
        skip "manual page ${page:-of the program} as it is shown" 'no man or no groff'
    fi
done
for command in "${all[@]}"; do
    "$vpt" "$command" --help | grep -oE '^  (-., )?--[a-z0-9-]+' | grep -oE -- '--.*' | sort >"$work/helped"
    "$vpt" help --man "$command" | sed '/^.SH EXIT/,$d; s/\\-/-/g; s/\\f[BIR]//g' | grep -oE '^(-., )?--[a-z0-9-]+' |
        grep -oE -- '--.*' | sort >"$work/paged"
    check "help and manual page have the same options: $command" cmp "$work/helped" "$work/paged"
done

# ---- Completion ----
"$vpt" help --bash >"$work/completion"
check 'completion is a script' bash -n "$work/completion"
# complete WANT WORD...: what the last word may become.
complete_to() {
    local want=$1 got
    shift
    # shellcheck disable=SC2016 # for the other shell
    got=$(cd "$work/folder" && bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vpt
        printf "%s\n" "${COMPREPLY[@]}" | sort | xargs' "$work/completion" "$@")
    if [ "$got" = "$want" ]; then
        pass "completion of '$*'"
    else
        fail "completion of '$*'" "'$got', not '$want'"
    fi
}
mkdir -p "$work/folder/sub"
: >"$work/folder/a trace"
complete_to 'capture check convert coverage' vpt c
complete_to 'decode' vpt help dec
complete_to '--trace-out' vpt run --tr
complete_to '' vpt run --record-
complete_to 'folded' vpt decode --format fo
complete_to '16' vpt decode --mode 1
complete_to 'kernel user' vpt capture --only ''
complete_to 'silvermont' vpt run --profile sil
complete_to 'silvermont' vpt run --profile = sil
complete_to 'sub' vpt decode --symfs ''
complete_to 'a trace sub' vpt decode ''
complete_to 'a trace' vpt run --trace-out a
complete_to '' vpt run --cpus ''

# ---- The document ----
expect 'docs/vpt.md has the options that there are (make options-doc writes them)' 0 '' \
    vmm/cli/options-doc.sh --check "$vpt" docs/vpt.md
# shellcheck disable=SC2016 # backquotes of Markdown
sed 's/^| `--json`.*/| nothing |/' docs/vpt.md >"$work/vpt.md"
check 'and another would be seen' bash -c "! vmm/cli/options-doc.sh --check '$vpt' '$work/vpt.md'"
check 'docs/vpt.md has them all' test "$(grep -c '^<!-- options: ' docs/vpt.md)" = "${#all[@]}"

summary
