/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest of vmm.c: 32-bit code at 1000H that counts down, calls a function at every turn, and
 * ends by writing a port. It has a conditional branch, a CALL and a RET, and no other branch.
 */
    .code32
    .text
    .globl _start
    .type _start, @function
_start:
    mov $0x8000, %esp
    mov $10, %ecx
    xor %eax, %eax
again:
    call add_one
    dec %ecx
    jnz again
    out %al, $0xf4
    .size _start, . - _start

    .type add_one, @function
add_one:
    inc %eax
    ret
    .size add_one, . - add_one

    .section .note.GNU-stack, "", @progbits
