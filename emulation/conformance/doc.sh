#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# doc.sh: whether docs/conformance.md and docs/conformance-text.md are what the rules and the
# inventory say. Ends with 'N passed, N failed'.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
program=${BUILD:-build}/tests/conformance
passed=0
failed=0

same() { # PAGE OPTION
    if diff -u "$1" <("$program" "$2"); then
        passed=$((passed + 1))
    else
        echo "$1 is out of date: make conformance-doc"
        failed=$((failed + 1))
    fi
}

same docs/conformance.md --markdown
same docs/conformance-text.md --inventory
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
