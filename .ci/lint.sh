#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# lint.sh: clang-format, clang-tidy, cppcheck and shellcheck over the tree, and who may include whom
# (includes.sh). Ends with status 1 if any of them has something to say. JOBS processes at once.
#
# shellcheck disable=SC2317,SC2034 # functions are called, and flags named, through check()
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
JOBS=${JOBS:-$(nproc)}

# Files of the tree, tracked or new, that match a pattern and exist.
files() {
    git ls-files -co --exclude-standard -- "$@" | sort -u | while IFS= read -r file; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done
}

mapfile -t sources < <(files '*.c' '*.h')
# What QEMU's own build compiles, with QEMU's headers, is only formatted here.
mapfile -t host < <(files '*.c' ':!guest-tests/*' ':!vmm/qemu/glue/*' ':!vmm/qemu/vmx/*' ':!vmm/qemu/tests/execlog.c' \
    ':!vmm/qemu/tests/threads.c' ':!vmm/qemu/tests/stand-in.h')
mapfile -t guest < <(files 'guest-tests/*.c')
mapfile -t scripts < <(files '*.sh' .ci/run)
mapfile -t texts < <(files '*.c' '*.h' '*.S' '*.sh' '*.mk' Makefile .ci/run)

# The examples include the public headers as installed ones.
flags=(-std=c11 -D_GNU_SOURCE -iquote emulation -iquote decoder -iquote vmm -Iemulation -Idecoder)
# Headers that are made from messages, as vmm/build.mk does.
if command -v protoc-c >/dev/null; then
    messages=$(mktemp -d)
    trap 'rm -rf "$messages"' EXIT
    protoc-c --proto_path=vmm/view --c_out="$messages" vmm/view/perfetto.proto
    flags+=(-DVPT_PERFETTO -isystem "$messages")
fi
# What libraries that may be missing are for is looked at where they are there.
for feature in LIBIBERTY:libiberty/demangle.h LZMA:lzma.h LIBDW:elfutils/libdw.h; do
    [ ! -f "/usr/include/${feature#*:}" ] || flags+=("-DVPT_${feature%:*}")
done
guest_flags=(-std=c11 -ffreestanding -mgeneral-regs-only -Iguest-tests -Iguest-tests/lib)
failed=0

# check NAME COMMAND...
check() {
    local name=$1 start=$SECONDS
    shift
    if "$@"; then
        printf '%-14s ok (%d s)\n' "$name" $((SECONDS - start))
    else
        printf '%-14s FAILED\n' "$name"
        failed=1
    fi
}

format() {
    clang-format --dry-run -Werror "${sources[@]}"
}

# tidy NAME-OF-FLAGS FILE...: clang-tidy counts on stderr what it left out; that is not shown.
tidy() {
    local -n compile=$1
    shift
    [ $# -gt 0 ] || return 0
    # shellcheck disable=SC2016 # the inner shell expands these
    printf '%s\n' "$@" | FLAGS="${compile[*]}" xargs -n 1 -P "$JOBS" \
        sh -c 'clang-tidy --quiet "$1" -- $FLAGS 2>/dev/null' tidy
}

cpp() {
    cppcheck --quiet --std=c11 -j "$JOBS" --error-exitcode=1 --inline-suppr \
        --enable=warning,performance,portability --suppress=missingIncludeSystem \
        -D_GNU_SOURCE -D__x86_64__ -Iemulation -Idecoder -Ivmm "${host[@]}"
}

# Every file that can carry a licence line does; what becomes a part of QEMU has QEMU's.
licence() {
    local without
    without=$(grep -LE 'SPDX-License-Identifier: (BSD-3-Clause|GPL-2.0-or-later)' "${texts[@]}")
    [ -z "$without" ] || { printf 'no SPDX line: %s\n' "$without" && false; }
}

check clang-format format
check clang-tidy tidy flags "${host[@]}"
check guest-tidy tidy guest_flags "${guest[@]}"
check cppcheck cpp
check prose .ci/prose.sh
check shellcheck shellcheck -x "${scripts[@]}"
check licence licence
check includes .ci/includes.sh
check includes-test .ci/includes-test.sh
exit "$failed"
