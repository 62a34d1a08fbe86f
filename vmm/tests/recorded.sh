# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2154 # who sources it has lib.sh
#
# Sourced, behind lib.sh: a recording of programs/crew.c, a program with threads, a process that it makes
# and a shared library, by single-stepping it.

programs=$(dirname "${BASH_SOURCE[0]}")/programs

# A function is one, and has the name that stands in the source.
build_crew() {
    local flags=(-O2 -fno-ipa-cp -fno-ipa-sra -g '-Wl,--build-id=sha1')
    "${CC:-gcc}" "${flags[@]}" -fPIC -shared -o "$work/libtools.so" "$programs/tools.c" &&
        "${CC:-gcc}" "${flags[@]}" -fPIE -pie -rdynamic -Wl,-rpath,"$work" -o "$work/crew" \
            "$programs/crew.c" -pthread -L"$work" -ltools
}

# $work/recorded says why it cannot be.
step_crew() {
    "$BUILD/tests/stepped" "$work/data" "$work/log" "$work/crew" >"$work/recorded" 2>&1
}

# record_crew WHAT: $work/data is the perf.data, $work/log what ran ("thread address executed taken").
# Where that cannot be, the script ends, with WHAT skipped.
record_crew() {
    if ! build_crew; then
        fail "$1" 'its program cannot be built'
        summary
        exit
    fi
    step_crew || skip_rest "$1" "no program can be single-stepped here: $(tail -n 1 "$work/recorded")"
}
