/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a user program begins: RDI = its argument, RSP = top of its stack.
 */
    .section .text.start, "ax", @progbits
    .globl _start
    .type _start, @function
_start:
    xorl %ebp, %ebp
    call user_main
    movl %eax, %edi
    xorl %eax, %eax /* SYSCALL_EXIT */
    syscall
    ud2
    .size _start, . - _start

    .section .note.GNU-stack, "", @progbits
