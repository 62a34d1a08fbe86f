#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# sanitized.sh [SEEDS]: qemu.sh, svm.sh, vmx.sh, hostile.sh and vmx-hostile.sh with some seeds (4) and boot.sh on a
# QEMU with AddressSanitizer and UndefinedBehaviorSanitizer, which may report nothing.
#
# Needs `make qemu-asan`; without it, it is skipped. Some minutes.
set -u

# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh
seeds=${1:-4}
qemu=${QEMU_DIR:?}/build/qemu-system-x86_64
[ -x "$qemu" ] || why='no such QEMU (make qemu-asan)'
skip_all 'guests on a QEMU with sanitizers'

# Leaks are not what this is about: QEMU leaves much to its end.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1

# Beside AddressSanitizer, the other one cannot be told a file. So each QEMU's errors are kept here.
reports=$work/reports
mkdir -p "$reports" "$work/qemu/build"
cat >"$work/qemu/build/qemu-system-x86_64" <<END
#!/bin/sh
"$(realpath "$qemu")" "\$@" 2>"$reports/\$\$"
status=\$?
cat "$reports/\$\$" >&2
exit \$status
END
chmod +x "$work/qemu/build/qemu-system-x86_64"

# Without both, no report would be no news.
for sanitizer in asan_init ubsan_handle; do
    if nm -D "$qemu" | grep -q "__$sanitizer"; then
        pass "this QEMU has $sanitizer"
    else
        fail "this QEMU has $sanitizer" "$qemu has not"
    fi
done

for script in qemu svm vmx "hostile $seeds" "vmx-hostile $seeds" boot; do
    read -r name argument <<<"$script"
    if QEMU_DIR=$work/qemu "vmm/qemu/tests/$name.sh" ${argument:+"$argument"} >"$work/out" 2>&1; then
        pass "$name.sh: $(tail -n 1 "$work/out")"
    else
        fail "$name.sh" "$(grep -A 5 '^FAIL' "$work/out" | head -n 20)"
    fi
done

cat "$reports"/* | grep -E 'runtime error|ERROR: AddressSanitizer' | sed 's/^==[0-9]*==//' | sort | uniq -c >"$work/reported"
if [ -s "$work/reported" ]; then
    fail 'no report' "$(head -n 40 "$work/reported")"
    grep -h -A 8 -m 1 -E 'runtime error|ERROR: AddressSanitizer' "$reports"/* | head -n 100
else
    pass "no report of $(find "$reports" -type f | wc -l) QEMUs"
fi
summary
