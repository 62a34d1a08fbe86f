/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user programs of the demo, as ELF files inside its image.
 */
    .macro embed name, file
    .balign 16
    .globl \name\()_elf, \name\()_elf_end
\name\()_elf:
    .incbin "\file"
\name\()_elf_end:
    .endm

    .section .rodata
    embed sort, "sort.elf"
    embed hash, "hash.elf"

    .section .note.GNU-stack, "", @progbits
