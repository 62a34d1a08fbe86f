#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What `make install` brings, as somebody has it who has nothing else: the examples are built with
# pkg-config against the installed libraries, shared and static, and run; the installed program finds its
# guests and names scripts that are there; uninstall leaves nothing behind.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=vmm/tests/lib.sh
. vmm/tests/lib.sh

export DESTDIR=$work/root PREFIX=/opt/vpt LIBDIR=/opt/vpt/lib BUILD
top=$DESTDIR$PREFIX
examples=$top/share/doc/vpt/examples

export MAN_PAGES COMPLETIONS=$BUILD/completions/vpt
MAN_PAGES=$(echo "$BUILD"/man/*.1)

# flags ARGUMENT...: what pkg-config says, with paths as they are under DESTDIR.
flags() {
    PKG_CONFIG_PATH=$DESTDIR$LIBDIR/pkgconfig pkg-config --define-variable=prefix="$top" \
        --define-variable=libdir="$DESTDIR$LIBDIR" "$@"
}

# compile NAME SOURCE FLAG...: a program outside of the tree.
compile() {
    local name=$1 source=$2
    shift 2
    # shellcheck disable=SC2086 # CC may be several words
    ${CC:-gcc} -Wall -Wextra -Werror -o "$work/$name" "$source" "$@"
}

# build HOW: all examples; "static" takes the archives, and what pkg-config says that these need.
build_examples() {
    local how=$1 vpt ptdec
    if [ "$how" = static ]; then
        vpt=$(flags --static --cflags --libs libvpt) ptdec=$(flags --static --cflags --libs libptdec)
        vpt=${vpt/-lvpt/-l:libvpt.a} ptdec=${ptdec/-lptdec/-l:libptdec.a}
    else
        vpt=$(flags --cflags --libs libvpt) ptdec=$(flags --cflags --libs libptdec)
    fi
    # shellcheck disable=SC2086 # lists of flags
    compile "vmm-$how" "$examples/vmm.c" $vpt && compile "decode-$how" "$examples/decode.c" $ptdec &&
        compile "coverage-$how" "$examples/coverage.c" $ptdec
}

# The guest of the examples, as the program that it is and as the bytes that are loaded.
build_guest() {
    # shellcheck disable=SC2086 # CC may be several words
    ${CC:-gcc} -m32 -nostdlib -static -no-pie -Wl,-Ttext=0x1000 -Wl,--build-id=none \
        -o "$work/guest.elf" "$examples/guest.S" &&
        objcopy -O binary -j .text "$work/guest.elf" "$work/guest.bin"
}

# run_examples HOW: the instructions that the VMM stepped are those that the decoder finds.
run_examples() {
    local stepped decoded
    rm -f "$work/trace.pt"
    stepped=$("$work/vmm-$1" "$work/guest.bin" "$work/trace.pt") || return 1
    decoded=$("$work/decode-$1" "$work/trace.pt" "$work/guest.elf") || return 1
    new_places "$1" && [ "${stepped%% *}" = "$(awk '/ instructions in / { all += $1 } END { print all }' <<<"$decoded")" ]
}

# new_places HOW: the same trace twice: it has edges, and their places are new but once.
new_places() {
    local said edges new
    said=$("$work/coverage-$1" "$work/guest.elf" "$work/trace.pt" "$work/trace.pt") || return 1
    read -r edges new < <(awk '{ print $2, $4 }' <<<"$said") && [ "$edges" -gt 0 ] && [ "$new" -gt 0 ] &&
        [ "$(awk 'NR == 2 { print $2, $4 }' <<<"$said")" = "$edges 0" ]
}

needs() {
    readelf -d "$1" | grep "NEEDED.*\[$2\]"
}

all_headers_in_cxx() {
    local header
    for header in "$top"/include/*.h; do
        echo "#include <${header##*/}>"
    done >"$work/user.cc"
    cat >>"$work/user.cc" <<'C'
int main()
{
    struct vpt_caps caps;
    struct ptd_image *image = ptd_image_new();

    ptd_image_free(image);
    return !image || !vpt_profile(vpt_profile_name(0), &caps) || vpt_caps_check(&caps);
}
C
    # shellcheck disable=SC2046 # a list of flags
    g++ -std=c++17 -Wall -Wextra -Werror -o "$work/user" "$work/user.cc" \
        $(flags --cflags --libs libvpt libptdec) && "$work/user"
}

# names COMMAND...: the command fails, and says which installed script helps: one that can be run.
names_script() {
    local said script
    said=$(VPT_CACHE=$work/cache "$top/bin/vpt" "$@" 2>&1 </dev/null) && return 1
    script=$(sed -n 's/.*; \(to build it, \)\{0,1\}run: \([^ ]*\) .*/\2/p' <<<"$said")
    [[ $script == "$top"/share/vpt/* ]] && [ -x "$script" ]
}

# As the package vpt-qemu installs it: it is taken though the cache has none.
takes_installed_qemu() {
    local own=$top/libexec/vpt/qemu-system-x86_64 said
    ln -s "$(type -P true)" "$own" || return 1
    said=$(VPT_CACHE=$work/cache "$top/bin/vpt" qemu --dry-run demo.elf)
    rm "$own"
    [[ $said == "'$own' "* ]]
}

# Every patch of a series, the glue, all of libvpt's sources, and what looks at Linux, where build.sh looks
# for them.
sources_of_qemu() {
    local qemu=$top/share/vpt/vmm/qemu file
    for file in emulation/*.[ch] vmm/linux/look/*.[ch]; do
        cmp "$file" "$qemu/../../$file" || return 1
    done
    for file in $(cd vmm/qemu && ls glue/* vmx/* && sed 's,^,patches/,' patches/series &&
        sed 's,^,patches-10.0/,' patches-10.0/series); do
        cmp "vmm/qemu/$file" "$qemu/$file" || return 1
    done
}

all_there() {
    local file
    for file in bin/vpt lib/libvpt.a lib/libptdec.a lib/libvpt.so lib/libptdec.so \
        share/man/man1/vpt.1 share/man/man1/vpt-run.1 share/bash-completion/completions/vpt share/vpt/guests/demo.elf; do
        [ -e "$top/$file" ] || return 1
    done
}

python_finds_it() {
    PYTHONPATH=$top/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 "$(decoder/python/python.sh)" -c '
import ptdec
print(ptdec.ffi.string(ptdec.lib.ptd_strerror(ptdec.lib.PTD_E_NOMAP)).decode())' | grep 'no code known'
}

left_nothing() {
    .ci/install.sh uninstall && ! find "$DESTDIR" ! -type d | grep . &&
        [ ! -e "$top/share/vpt" ] && [ ! -e "$top/share/doc/vpt" ]
}

check 'install' .ci/install.sh install
check 'program, libraries, links, guests, page and completion are there' all_there
check 'the examples build against the shared libraries' build_examples shared
check 'they name the soname of libvpt' needs "$work/vmm-shared" 'libvpt.so.0'
check 'they name the soname of libptdec' needs "$work/decode-shared" 'libptdec.so.0'
check 'the examples build against the static libraries' build_examples static
check 'the guest of the examples builds' build_guest
export LD_LIBRARY_PATH=$DESTDIR$LIBDIR
if [ -w /dev/kvm ]; then
    check 'the VMM traces its guest, the decoder finds what ran (shared)' run_examples shared
    check 'the VMM traces its guest, the decoder finds what ran (static)' run_examples static
else
    skip 'the examples run' 'there is no /dev/kvm that can be written to'
fi
check 'all headers serve a program in C++' all_headers_in_cxx
if [ -s "$BUILD/python/ptdec/_declared.py" ]; then
    check 'the module for Python finds the library by its soname' python_finds_it
else
    skip 'the module for Python' 'there is no python3-cffi'
fi
unset LD_LIBRARY_PATH
check 'vpt --version' "$top/bin/vpt" --version
check 'vpt run without a lab names its script' names_script run --lab demo.elf
check 'vpt qemu without a QEMU names its script' names_script qemu demo.elf
check 'vpt qemu takes the QEMU of a package' takes_installed_qemu
check 'what builds QEMU is there' sources_of_qemu
check 'uninstall leaves nothing' left_nothing
summary
