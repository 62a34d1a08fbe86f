#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Prints a Python that has cffi. It need not be the first one: Debian's packages serve Debian's Python.
for python in "${PYTHON:-python3}" /usr/bin/python3; do
    if "$python" -c 'import cffi, pycparser' 2>/dev/null; then
        echo "$python"
        exit
    fi
done
exit 1
