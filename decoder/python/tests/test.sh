#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The module ptdec on the library of this build. Without python3-cffi there is none, and that is counted.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 2
BUILD=$(realpath -m "${BUILD:-build}")

if [ ! -s "$BUILD/python/ptdec/_declared.py" ]; then
    echo 'SKIP: the module ptdec for Python: there is no python3-cffi'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
library=$(echo "$BUILD"/libptdec.so.*)
export PYTHONPATH=$BUILD/python PTDEC_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1
EXAMPLES=$PWD/decoder/python/examples HEADERS=$(printf '%s ' "$PWD"/decoder/ptdec*.h) \
    exec "$(decoder/python/python.sh)" decoder/python/tests/test_ptdec.py
