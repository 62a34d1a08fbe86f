#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
#
# drcov.pl DRCOV LOG PROGRAM: whether a drcov file is one, by what is published of the format, and has
# what ran. LOG is of decoder/roundtrip/stepped.c; PROGRAM, an ELF file, is one of the modules.
use strict;
use warnings;
no warnings 'portable'; # numbers of 64 bits

my ($name, $log, $program) = @ARGV;
open my $file, '<:raw', $name or die "$name: $!\n";
chomp(my @head = map { scalar <$file> // '' } 1 .. 4);
die "no drcov file\n" unless $head[0] eq 'DRCOV VERSION: 2' && $head[1] =~ /^DRCOV FLAVOR: \S+$/;
$head[2] =~ /^Module Table: version 2, count (\d+)$/ or die "no table of modules\n";
my $count = $1;
die "columns: $head[3]\n" unless $head[3] eq 'Columns: id, base, end, entry, path';

my @modules;
for my $id (0 .. $count - 1) {
    (scalar <$file>) =~ /^ *(\d+), 0x([0-9a-f]{16}), 0x([0-9a-f]{16}), 0x[0-9a-f]{16}, (.+)\n$/
        or die "no row of a module\n";
    die "module $1 is not $id\n" unless $1 == $id;
    push @modules, {base => hex $2, end => hex $3, path => $4};
}
(scalar <$file>) =~ /^BB Table: (\d+) bbs\n$/ or die "no table of blocks\n";
$count = $1;
my $records = do { local $/; <$file> };
die "not $count blocks\n" unless length $records == 8 * $count;

# Every byte that blocks cover, and where they begin.
my (%covered, %first);
for my $record (unpack '(a8)*', $records) {
    my ($start, $bytes, $id) = unpack 'V v v', $record;
    die "a block of nothing\n" unless $bytes && $id < @modules;
    my $ip = $modules[$id]{base} + $start;
    die "a block outside its module\n" if $ip + $bytes > $modules[$id]{end};
    $first{$ip} = 1;
    $covered{$_} = 1 for $ip .. $ip + $bytes - 1;
}

my %ran;
open my $lines, '<', $log or die "$log: $!\n";
while (<$lines>) {
    my (undef, $address) = split;
    $ran{hex $address} = 1;
}
die "nothing ran\n" unless %ran;
for (keys %ran) { die sprintf "%#x ran, and is not there\n", $_ unless $covered{$_} }
for (keys %first) { die sprintf "a block begins at %#x, which did not run\n", $_ unless $ran{$_} }

# Instructions of the program that did not run are in no block.
my @of = grep { $_->{path} eq $program } @modules;
die "the program is not one module, but " . @of . "\n" unless @of == 1;
my ($inside, $outside) = (0, 0);
for (`objdump -d '$program'`) {
    next unless /^ *([0-9a-f]+):\t/;
    my $ip = $of[0]{base} + hex $1;
    die sprintf "%#x did not run, and is there\n", $ip if $covered{$ip} && !$ran{$ip} && !/^ *[0-9a-f]+:\t(?:[0-9a-f]{2} )+\s*$/;
    $ran{$ip} ? $inside++ : $outside++;
}
die "it is not where it was: $inside instructions ran, $outside did not\n" unless $inside > 100 && $outside > 50;
print scalar(keys %ran), " instructions, $count blocks, $inside of the program\n";
