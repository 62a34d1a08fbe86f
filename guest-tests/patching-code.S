/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A function with a place that is either a NOP of five bytes or a jump, which changes while the
 * function runs. Nothing else is on its page.
 */
#include "asm.inc"

    .text
    .balign 4096
/* uint64_t patched(uint64_t turns): how often it came by the jump. */
    .globl patched, patched_site, patched_far
patched:
    xorl %eax, %eax
1:
patched_site:
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
    jmp 2f
patched_far:
    incq %rax
2:
    decq %rdi
    jnz 1b
    ret
    .balign 4096

    .section .note.GNU-stack, "", @progbits
