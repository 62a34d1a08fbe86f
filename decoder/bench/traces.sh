#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# traces.sh RECORDER FOLDER: traces of a compressor, a compiler and an interpreter at work, as
# QEMU's user mode runs them. What is there already is kept. Prints the prefix of each, one a line.
# PREFIX.native says how long such a program runs without QEMU: "seconds instructions".
set -euo pipefail

recorder=$(realpath "$1")
folder=$2
bytes=$((42 * 1000 * 1000)) # where recording ends
least=$((40 * 1000 * 1000))

mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# record NAME PROGRAM ARGUMENT...
record() {
    local name=$1 prefix=$folder/$1
    shift
    if [ ! -s "$prefix.truth" ] || [ ! -s "$prefix.cyc.pt" ]; then
        rm -f "$prefix".*
        echo "recording $name" >&2
        qemu-x86_64 -plugin "$recorder,out=$prefix,limit=$bytes" "$@" >/dev/null
        if [ "$(stat -c %s "$prefix.pt")" -lt "$least" ]; then
            echo "traces.sh: $name ended too early for a trace of $least bytes" >&2
            rm -f "$prefix".*
            exit 1
        fi
    fi
    echo "$prefix"
}

# native NAME PROGRAM ARGUMENT...: the least processor time of several runs of a whole program, which
# need not be as long as the one that is recorded.
native() {
    local prefix=$folder/$1 seconds
    shift
    [ ! -s "$prefix.native" ] || return 0
    echo "timing ${prefix##*/} without QEMU" >&2
    seconds=$(for _ in 1 2 3 4 5 6 7; do
        TIMEFORMAT='%U %S'
        { time "$@" >/dev/null 2>&3; } 3>&2 2>&1
    done | awk 'NR == 1 || $1 + $2 < least { least = $1 + $2 } END { print least }')
    qemu-x86_64 -plugin "$recorder,out=$prefix,count=on" "$@" >/dev/null
    echo "$seconds $(cat "$prefix.count")" >"$prefix.native"
    rm "$prefix.count"
}

work=$folder/work
mkdir -p "$work"

# Something to compress that is neither noise nor one thing again and again.
[ -s "$work/input" ] || cat /usr/bin/qemu-x86_64 >"$work/input"
record compressor /usr/bin/xz --threads=1 -6 --stdout "$work/input"
[ -s "$work/short" ] || head -c 3M "$work/input" >"$work/short"
native compressor /usr/bin/xz --threads=1 -6 --stdout "$work/short"

# A program that needs no headers, so that one call of the compiler proper is all.
[ -s "$work/input.i" ] || "${CC:-gcc}" -E -P -D_GNU_SOURCE -iquote emulation -iquote decoder decoder/time/time.c \
    >"$work/input.i"
compile=("$("${CC:-gcc}" -print-prog-name=cc1)" -quiet -O3 -fpreprocessed "$work/input.i"
    -o "$work/output.s")
record compiler "${compile[@]}"
native compiler "${compile[@]}"

# shellcheck disable=SC2016 # Perl's variables
script='
    my (%words, @numbers);
    for my $i (1 .. $ARGV[0]) {
        my $text = "line $i of " . ($i * 7919 % 10007);
        $words{$_}++ for split / /, $text;
        $text =~ s/(\d)(\d)/$2$1/g;
        push @numbers, $i * 31 % 257;
        next if @numbers < 40;
        @numbers = sort { $a <=> $b } @numbers;
        $words{join "", @numbers[3, 7, 31]}++;
        @numbers = ();
        %words = () if keys %words > 50_000;
    }'
record interpreter /usr/bin/perl -e "$script" 100000000
native interpreter /usr/bin/perl -e "$script" 60000
