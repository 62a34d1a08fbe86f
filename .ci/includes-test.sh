#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# includes-test.sh: whether includes.sh reports what it says it reports, and nothing else, in small
# trees that are made for it. Ends with status 1 if it does not.
#
# shellcheck disable=SC2016 # what stands in backquotes are words of the page
set -euo pipefail

includes=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# put FILE LINE...: a file of the tree.
put() {
    local file=$tree/$1
    shift
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$@" >"$file"
}

# A tree in which all is well.
begin() {
    rm -rf "${tree:?}"/* "$tree/.git"
    git init -q "$tree"
    put docs/design.md '| folder | may include | holds |' '| --- | --- | --- |' \
        '| `emulation/` | | |' '| `decoder/` | | |' \
        '| `decoder/base/` | `decoder/` `emulation/one.h` | |' \
        '| `decoder/flow/` | `decoder/base/` `decoder/` | |' \
        '| `decoder/time/` | `decoder/flow/` | |' \
        '| `vmm/glue/` | `emulation/one.h`, and QEMU'\''s own | |' \
        '' 'There are at most 3' 'floors of files.'
    put emulation/one.h
    put emulation/two.h
    put decoder/ptdec.h
    put decoder/base/array.h '#include "ptdec.h"' '#include "one.h"'
    put decoder/flow/flow.h '#include "base/array.h"' '#include <stdio.h>'
    put decoder/flow/flow.c '#include "flow.h"'
    put vmm/glue/port.c '#include "hw/isa/isa.h"' '#include "libvpt/one.h"'
}

# expect WHAT TEXT: includes.sh reports one line, with this text in it; '' for nothing.
expect() {
    local said
    said=$("$includes" "$tree" 2>&1) || [ -n "$said" ] || said='failed in silence'
    case "$2" in
    '') [ -z "$said" ] || complain "$1" "$said" ;;
    *) [[ $(wc -l <<<"$said") = 1 && $said == *"$2"* ]] || complain "$1" "$said" ;;
    esac
}

complain() {
    printf 'includes-test.sh: %s: reported was: %s\n' "$1" "${2:-nothing}"
    failed=1
}

begin
expect 'a tree that keeps to its table' ''

put decoder/base/pages.c '#include "flow/flow.h"'
rm "$tree/decoder/flow/flow.h" "$tree/decoder/flow/flow.c"
put decoder/flow/flow.h
expect 'a room that includes one above it' \
    'decoder/base/pages.c:1: decoder/base may not include "flow/flow.h" of decoder/flow'

begin
put decoder/base/pages.c '' '#include "two.h"'
expect 'another header than the one allowed' \
    'decoder/base/pages.c:2: decoder/base may not include "two.h" of emulation'

begin
put vmm/glue/ring.c '#include "libvpt/two.h"'
expect 'the same in QEMU' 'vmm/glue may not include "two.h" of emulation'

begin
put decoder/flow/walk.c '#include "../base/array.h"'
expect 'a name with ..' '"../base/array.h" is not named from a root'

begin
put decoder/flow/walk.c '#  include "flow/nothing.h"'
expect 'a header that is not there' '"flow/nothing.h" stands nowhere'

begin
put emulation/base/array.h
put decoder/flow/walk.c '#include "base/array.h"'
put decoder/flow/flow.h
expect 'a name of two headers' 'decoder/flow/walk.c:1: "base/array.h" can mean two files'

begin
put other/new.c
expect 'a folder without a row' 'other/new.c: its folder has no row'

begin
put decoder/flow/walk.h '#include "flow/flow.h"'
put decoder/flow/flow.c '#include "flow/walk.h"'
put decoder/flow/flow.h
expect 'a circle of files, through NAME.c and NAME.h' 'circle of files: decoder/flow/'

begin
put emulation/events.c '#include "events.h"' '#include "packets.h"'
put emulation/events.h
put emulation/packets.h '#include "events.h"'
expect 'the same in the model' 'circle of files: emulation/'

begin
sed -i 's/^\(| `decoder.flow.` | \)/\1`decoder\/time\/` /' "$tree/docs/design.md"
put decoder/time/time.h '#include "flow/one.h"'
put decoder/flow/one.h
put decoder/flow/two.h '#include "time/time.h"'
expect 'a circle of folders, though the table allows it' 'circle of folders: decoder/'

begin
put decoder/time/time.h '#include "flow/flow.h"'
expect 'a floor too many' 'decoder/time/time: stands on floor 4 of at most 3'

begin
sed -i '/^floors/d' "$tree/docs/design.md"
expect 'a page that does not say how many floors' 'docs/design.md: says nothing of at most'

exit "$failed"
