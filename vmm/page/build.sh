#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# build.sh CACHE PAGE [SOURCES]: bundles the page of `vpt report --html`. Libraries come by npm into CACHE,
# once for each lockfile. Where that cannot be, PAGE is empty, and a line says why. The folder SOURCES gets
# what of the libraries was bundled, for who hands out the page as source.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" "$(dirname "$2")"
cache=$(cd "$1" && pwd)
page=$2

none() {
    echo "there is no page for vpt report --html: $1"
    : >"$page"
    exit 0
}

# A source package has the page bundled, since it is built without a network.
if [ -f "$here/bundled.html" ]; then
    cp "$here/bundled.html" "$page"
    exit 0
fi

command -v npm >/dev/null || none 'npm is not installed'
command -v node >/dev/null || none 'node is not installed'

key=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c 1-16)
modules=$cache/$key
if [ ! -e "$modules/.complete" ]; then
    fresh=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    cp "$here/package.json" "$here/package-lock.json" "$fresh"
    # No script of a package is run, and nobody is asked about anything else.
    timeout 300 npm ci --prefix "$fresh" --ignore-scripts --no-audit --no-fund --no-update-notifier \
        --fetch-retries=1 --fetch-timeout=20000 >"$fresh/log" 2>&1 </dev/null ||
        none "npm cannot fetch its libraries ($(grep -m 1 -E 'npm (error|ERR!)' "$fresh/log" | cut -c 1-100 || true))"
    touch "$fresh/.complete"
    mv -T "$fresh" "$modules" 2>/dev/null || [ -e "$modules/.complete" ]
fi

node "$here/build.mjs" "$modules/node_modules" "$page.new" >&2 || none 'it cannot be bundled'
mv "$page.new" "$page"

if [ -n "${3:-}" ]; then
    mkdir -p "$3"
    (cd "$modules/node_modules" && tar -c echarts/{package.json,LICENSE,NOTICE,licenses,core.js,charts.js} \
        echarts/{components.js,renderers.js,lib} zrender/{package.json,LICENSE,lib} tslib \
        tabulator-tables/{package.json,LICENSE,src} tabulator-tables/dist/{js/tabulator_esm.mjs,css/tabulator_simple.css}) |
        tar -x -C "$3"
fi
