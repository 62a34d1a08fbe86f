#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# build.sh CC SONAME FOLDER HEADER...: the module ptdec in FOLDER, with what the headers declare. Where no
# Python has cffi, the declarations are an empty file, and a line says so the first time.
set -euo pipefail

cc=$1 soname=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
cp "$here/ptdec/__init__.py" "$folder/"

if python=$("$here/python.sh"); then
    "$python" "$here/declare.py" "$cc" "$soname" "$folder/_declared.py" "$@" >/dev/null
elif [ ! -e "$folder/_declared.py" ]; then
    echo 'there is no module for Python: python3-cffi is not installed'
    : >"$folder/_declared.py"
fi
