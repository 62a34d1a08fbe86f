#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A part of `make faults` that takes seconds: one call site of four, each failing once.
BUILD=${BUILD:-build}
EVERY=4 exec vmm/tests/faults/run.sh "$BUILD/vpt-faults"
