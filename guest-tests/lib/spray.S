/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * void pt_spray(uint64_t branches): see pt.h.
 *
 * The code stands in the image's mapping and in the direct map. Each turn jumps to the loop's start
 * in the other one, which changes so many bits of the IP that compression leaves at least 6 bytes
 * of it.
 */
#define DIRECT_MAP  0xffff800000000000
#define KERNEL_BASE 0xffffffff80000000

    .text
    .balign 64
    .globl pt_spray
    .type pt_spray, @function
pt_spray:
    leaq 1f(%rip), %rax
    movabsq $DIRECT_MAP - KERNEL_BASE, %rdx
    addq %rax, %rdx
1:  subq $1, %rdi
    jc 2f
    xchgq %rax, %rdx
    jmp *%rax
2:  ret
    .size pt_spray, . - pt_spray

    .section .note.GNU-stack, "", @progbits
