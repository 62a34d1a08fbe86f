#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# doc.sh: whether docs/conformance.md is what the rules say. Ends with 'N passed, N failed'.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2

if diff -u docs/conformance.md <("${BUILD:-build}/tests/conformance" --markdown); then
    echo "1 passed, 0 failed"
else
    echo "docs/conformance.md is out of date: make conformance-doc"
    echo "0 passed, 1 failed"
    exit 1
fi
