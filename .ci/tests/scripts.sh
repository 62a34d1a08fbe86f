#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The scripts that fetch and measure, where something is missing: bench.sh, prepare.sh, fetch.sh and
# selftests.sh with programs in front of the real ones that play an archive; and docs-test.py, which judges
# pages. Ends with 'N passed, N failed, N skipped'.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh

# ---- bench.sh ----

# fake_bench NAME VALUE
fake_bench() {
    # shellcheck disable=SC2016 # "$2" is the fake's own
    printf '#!/bin/sh\necho "{\\"value\\": %s}" >"$2"\n' "$2" >"$work/$1"
    chmod +x "$work/$1"
}

# The joined file has the name of one of its parts.
bench_joins() {
    fake_bench model 1 && fake_bench decoder 2 && .ci/bench.sh "$work/bench" "$work/model" "$work/decoder" &&
        [ "$(jq -c '[.model.value, .decoder.value]' "$work/bench/model.json")" = '[1,2]' ]
}
check 'bench.sh keeps the part of each program' bench_joins

# ---- demo.sh ----

# demo STATUS: with a vpt in front that ends so
mkdir -p "$work/build"
cat >"$work/build/vpt" <<'S'
#!/bin/sh
printf 'backend: none\npath: %s\n' "$SAYS"
exit "$STATUS"
S
chmod +x "$work/build/vpt"
demo() {
    BUILD=$work/build STATUS=$1 SAYS=$2 .ci/demo.sh >"$work/said"
}
hint_then_verdict() {
    demo 0 'identical (2 instructions)' && [ "$(head -n 1 "$work/said")" = 'backend: none' ] &&
        grep -q "^next: $work/build/vpt decode" "$work/said" &&
        [ "$(tail -n 1 "$work/said")" = 'path: identical (2 instructions)' ]
}
no_hint_for_a_failure() {
    ! demo 7 'different: here' && ! grep -q '^next:' "$work/said" &&
        [ "$(tail -n 1 "$work/said")" = 'path: different: here' ]
}
check 'demo.sh: what to try next stands before the verdict' hint_then_verdict
check 'demo.sh: a failure stays one' no_hint_for_a_failure

# ---- test.sh ----

# counts NAME TEXT: a script that ends with this line.
counts() {
    # shellcheck disable=SC2016 # the script's own
    printf '#!/bin/sh\nprintf "SKIP: all of %s: why not\\n%s\\n"\n' "$1" "$2" >"$work/$1"
    chmod +x "$work/$1"
}
# adds_up STATUS LINE NAME...: what test.sh says of these scripts in the end.
adds_up() {
    local want=$1 line=$2 status=0
    shift 2
    BUILD=$work/build .ci/test.sh --scripts "${*/#/$work/}" >"$work/said" || status=$?
    [ "$status" = "$want" ] && [ "$(tail -n 1 "$work/said")" = "$line" ]
}
counts some '3 passed, 0 failed'
counts skipping '0 passed, 0 failed, 1 skipped'
counts nothing '0 passed, 0 failed'
check 'test.sh: a script that skips all it has is named, and no failure' \
    adds_up 0 '3 passed, 0 failed, 1 skipped' some skipping
check 'test.sh: its reason is told' grep -q 'skipping: SKIP: all of skipping: why not' "$work/said"
check 'test.sh: a script that does nothing is a failure' adds_up 1 '3 passed, 1 failed, 0 skipped' some nothing
check 'test.sh: where all is skipped, nothing has passed' adds_up 1 '0 passed, 0 failed, 1 skipped' skipping

# ---- TRACE.json ----

# QEMU links nothing of vmm/trace, so its own writer could drift from what everybody else reads and writes.
members() {
    sed '/x86_vpt_host/q' "$1" |
        grep -oE '(qdict_put[a-z_]*|add_int|json_add|json_object_object_get_ex)\([a-z>-]+, "[a-z_]+"' |
        grep -oE '"[a-z_]+"' | tr -d '"' | LC_ALL=C sort -u
}
members_are_documented() {
    local file=$1 member
    [ "$(members "$file" | wc -l)" -gt 3 ] || return 1
    for member in $(members "$file"); do
        grep -q "\`$member\`" docs/trace-files.md || { echo "$file: $member" && return 1; }
    done
}
for file in vmm/trace/sidecar-write.c vmm/trace/sidecar.c vmm/qemu/glue/sidecar.c; do
    check "docs/trace-files.md names all members of $file" members_are_documented "$file"
done
# Whatever both write stands for the same: QEMU writes nothing else that a reader takes.
qemu_writes_what_is_read() {
    local member
    for member in $(members vmm/qemu/glue/sidecar.c); do
        case $member in vcpu | tsc_offset | profile | stepping | name) continue ;; esac # for people
        grep -q "\"$member\"" vmm/trace/sidecar.c || { echo "nobody reads $member" && return 1; }
    done
}
check 'what QEMU writes into TRACE.json is read' qemu_writes_what_is_read

# ---- make ----

# make_object V: what make says while it builds one file
make_object() {
    rm -rf "$work/object"
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory V="$1" BUILD="$work/object" \
        "$work/object/emulation/smm.o" >"$work/said"
}
quiet_line() {
    make_object 0 && [ "$(cat "$work/said")" = "  CC  $work/object/emulation/smm.o" ]
}
loud_command() {
    make_object 1 && grep -q -- ' -c -o ' "$work/said"
}
check 'make says a line for a file' quiet_line
check 'make V=1 shows the command' loud_command

# ---- prepare.sh ----

# An archive with two kernels. apt-get says what APT_SAYS is and fails, or gives away $work/good.deb.
mkdir -p "$work/bin"
cat >"$work/bin/apt-cache" <<'S'
#!/bin/sh
case $1 in
depends) echo '  Depends: linux-image-6.1.0-2-cloud-amd64' ;;
pkgnames) printf 'linux-image-6.1.0-%s-cloud-amd64\n' 1 2 ;;
show) cat "$WORK/show" 2>/dev/null ;;
esac
S
cat >"$work/bin/apt-get" <<'S'
#!/bin/sh
echo "$*" >>"$WORK/asked"
if [ -n "$APT_SAYS" ]; then
    echo "$APT_SAYS" >&2
    exit 100
fi
for name in "$@"; do :; done
cp "$WORK/good.deb" "${name}_1_amd64.deb"
S
chmod +x "$work/bin/apt-cache" "$work/bin/apt-get"

# make_deb FILE MODULES...: a package with a kernel.
make_deb() {
    local file=$1 tree=$work/tree module
    shift
    rm -rf "$tree" && mkdir -p "$tree/DEBIAN" "$tree/boot" "$tree/lib/modules"
    printf 'Package: linux-image\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: none\n' \
        >"$tree/DEBIAN/control"
    echo kernel >"$tree/boot/vmlinuz-6.1"
    for module in irqbypass kvm kvm-amd kvm-intel virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev \
        virtio_pci virtio_blk "$@"; do
        echo "$module" >"$tree/lib/modules/$module.ko"
    done
    dpkg-deb --root-owner-group -b "$tree" "$file"
}

# prepare STATUS [SAYS]: prepare.sh into $work/lab, apt-get failing with these words.
prepare() {
    local status
    : >"$work/asked"
    WORK=$work APT_SAYS=${2:-} PATH=$work/bin:$PATH vmm/lab/prepare.sh "$work/lab" 2>"$work/said"
    status=$?
    [ "$status" = "$1" ]
}
asked() {
    [ "$(wc -l <"$work/asked")" = "$1" ]
}
vmlinuz_is() {
    [ "$(cat "$work/lab/vmlinuz")" = "$1" ]
}
forget() {
    rm -f "$work"/lab/SHA256SUMS-* "$work/lab/vmlinuz"
}
unreachable="E: Failed to fetch x  Temporary failure resolving 'archive'"

offline_is_one_try() {
    prepare 77 "$unreachable" && asked 1 && [ "$(wc -l <"$work/said")" = 1 ] &&
        grep -q 'cannot be reached' "$work/said"
}
absent_is_next_kernel() {
    prepare 77 'E: Failed to fetch x  404  Not Found' && asked 2
}
fetches() {
    prepare 0 && asked 1 && vmlinuz_is kernel
}
whole_is_used_again() {
    forget && prepare 0 "$unreachable" && asked 0 && vmlinuz_is kernel
}
# A whole package, but not the one that came.
changed_is_fetched_again() {
    make_deb "$work/other.deb" another && forget &&
        cp "$work/other.deb" "$work"/lab/packages/linux-image-6.1.0-2-cloud-amd64_1_amd64.deb &&
        prepare 0 && asked 1 && cmp "$work/good.deb" "$work"/lab/packages/*-2-cloud-amd64_1_amd64.deb
}
changed_is_not_used() {
    forget && cp "$work/other.deb" "$work"/lab/packages/linux-image-6.1.0-2-cloud-amd64_1_amd64.deb &&
        prepare 77 "$unreachable" && [ ! -e "$work/lab/vmlinuz" ]
}

if command -v cpio busybox dpkg-deb apt-get apt-cache >"$work/found" && [ "$(wc -l <"$work/found")" = 5 ]; then
    check 'a package for the archive that is played' make_deb "$work/good.deb"
    check 'prepare.sh: no network is one try and one line' offline_is_one_try
    check 'prepare.sh: a package that is gone is followed by the next' absent_is_next_kernel
    check 'prepare.sh: a package is fetched' fetches
    check 'prepare.sh: one that is whole is used again' whole_is_used_again
    check 'prepare.sh: one that changed in the cache is fetched again' changed_is_fetched_again
    check 'prepare.sh: one that changed is not used without a network' changed_is_not_used
else
    skip 'prepare.sh' 'cpio, busybox, dpkg-deb, apt-get or apt-cache is not installed'
fi

# ---- fetch.sh ----

# An archive that has the source, and a dpkg-source that is interrupted while it unpacks.
mkdir -p "$work/bin-source"
cat >"$work/bin-source/apt-get" <<'S'
#!/bin/sh
case $* in
*' source '*) echo description >qemu_2.dsc && echo sources >qemu_2.tar.xz ;;
esac
S
cat >"$work/bin-source/dpkg-source" <<'S'
#!/bin/sh
for folder in "$@"; do :; done
mkdir -p "$folder"
exit "$INTERRUPTED"
S
chmod +x "$work/bin-source/apt-get" "$work/bin-source/dpkg-source"

# fetch INTERRUPTED: the status of dpkg-source
fetch() {
    INTERRUPTED=$1 PATH=$work/bin-source:$PATH vmm/qemu/fetch.sh qemu bookworm "$work/qemu"
}
half_is_not_whole() {
    fetch 0 && rm -r "$work/qemu/source" && ! fetch 1 && [ -d "$work/qemu/source" ] && ! fetch 1 && fetch 0
}
changed_source_is_fetched_again() {
    echo other >"$work/qemu/qemu_2.tar.xz" && fetch 0 && [ "$(cat "$work/qemu/qemu_2.tar.xz")" = sources ]
}
if command -v dpkg-source dpkg-deb >/dev/null && [ -r /etc/os-release ]; then
    check 'fetch.sh: a source that was unpacked by half is not taken for whole' half_is_not_whole
    check 'fetch.sh: a source that changed in the cache is fetched again' changed_source_is_fetched_again
else
    skip 'fetch.sh' 'this is no Debian system'
fi

# ---- docs-test.py ----

# page STATUS LAST: of the page on standard input, with @@@ for a fence, what docs-test.py says in the end.
page() {
    local status=0
    sed 's/^@@@/```/' >"$work/page.md"
    VPT_CACHE=$work/cache .ci/docs-test.py "$work/page.md" >"$work/said" || status=$?
    cat "$work/said"
    [ "$status" = "$1" ] && [ "$(tail -n 1 "$work/said")" = "$2" ]
}
commands_go_on() {
    page 0 '4 passed, 0 failed, 1 skipped' <<'P'
<!-- docs-test: as words -->
@@@json
one
@@@
@@@
there() {
    cat words
}
cat >more <<'W'
two
W
@@@
@@@python
this is no command
@@@
<!-- docs-test: skip it is not for here -->
@@@
false
@@@
<!-- docs-test: stable -->
@@@sh
$ there && cat \
    more
one
...
$ [ "$(id -u)" != 0 ]
@@@
P
}
numbers_differ() {
    page 0 '2 passed, 0 failed, 0 skipped' <<'P'
<!-- docs-test: but numbers, status 0 or 3 -->
@@@
$ echo '   12.5 %  0xabc deadbeef00  name'; echo more; echo end
 3 % 0x1 f00dfeed name
...
end
$ (exit 3)
@@@
P
}
lines_change_places() {
    page 0 '1 passed, 0 failed, 0 skipped' <<'P'
<!-- docs-test: in any order, status 0 or 3 -->
@@@
$ echo head; echo 7 second; echo 4 first; (exit 3)
head
5 first
3 second
@@@
P
}
# fails WHY: of the commands on standard input, the second, and none behind it is run.
fails() {
    { echo "<!-- docs-test: $2 -->" && echo @@@ && cat && printf '$ touch %s/behind\n@@@\n' "$work"; } |
        page 1 '1 passed, 1 failed, 0 skipped' && grep "$1" "$work/said" && [ ! -e "$work/behind" ]
}
failed_command() { printf '$ true\n$ (exit 3)\n' | fails 'status 3' stable; }
other_output() { printf '$ true\n$ echo one\ntwo\n' | fails 'does not print: two' stable; }
more_output() { printf '$ true\n$ printf "1\\n2\\n"\n1\n' | fails 'nothing more' stable; }
other_word() { printf '$ true\n$ echo 7 cats\n5 dogs\n' | fails 'does not print: 5 dogs' 'but numbers'; }
line_twice() { printf '$ true\n$ echo 1 cat; echo a dog\n2 cat\n5 cat\n' | fails 'does not print: 5 cat' 'in any order'; }
line_too_many() { printf '$ true\n$ echo 1 cat; echo a dog\n2 cat\n' | fails 'nothing more' 'in any order'; }
ended_shell() { printf '$ true\n$ exit 0\n' | fails 'ended the shell' stable; }
if [ "$(id -u)" != 0 ] || unshare --user --map-user=1000 true 2>/dev/null; then
    check 'docs-test.py: commands of a page are run, one after the other, by no root' commands_go_on
    check 'docs-test.py: but numbers' numbers_differ
    check 'docs-test.py: lines may change places' lines_change_places
    check 'docs-test.py: but each is there as often as it is shown' line_twice
    check 'docs-test.py: and no other' line_too_many
    check 'docs-test.py: a command that fails ends the page' failed_command
    check 'docs-test.py: other output is a failure' other_output
    check 'docs-test.py: so is more output' more_output
    check 'docs-test.py: so is another word where numbers may differ' other_word
    check 'docs-test.py: a command that ends the shell is told' ended_shell
else
    skip 'docs-test.py' 'root can be no user here'
fi

# ---- selftests.sh ----

without_a_kernel() {
    local status=0
    vmm/qemu/selftests.sh "$work/selftests" "$work/no-lab" || status=$?
    [ "$status" = 77 ]
}
check 'selftests.sh: without a kernel, there is no source to have' without_a_kernel
summary
