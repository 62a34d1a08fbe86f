#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# demo.sh: what `make run` runs: a guest traces itself, and vpt reads its path back. What that left and
# what to try next stands before the last line, which is vpt's verdict. BUILD is the folder of the build.
set -uo pipefail
BUILD=${BUILD:-build}
vpt=$BUILD/vpt
trace=$BUILD/run/demo.pt

# Lines as they come, so that the guest can be watched; the verdict is kept.
verdict=
exec 3< <("$vpt" run guest-tests/build/demo.elf --verify --trace-out "$trace")
while IFS= read -r line || [ -n "$line" ]; do
    case $line in
    'path: '*) verdict=$line ;;
    *) printf '%s\n' "$line" ;;
    esac
done <&3
wait $!
status=$?

if [ "$status" = 0 ]; then
    cat <<TEXT

left in $BUILD/run: demo.pt, the trace, and demo.pt.json, which names the code that it is of
next: $vpt decode --calls $trace   which function called which
      $vpt decode $trace           every instruction that ran
      $vpt dump $trace             the packets
      docs/vpt.md says more, and make help what else can be made here

TEXT
fi
[ -z "$verdict" ] || printf '%s\n' "$verdict"
exit "$status"
