/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an application processor begins: in real mode, at the page that the start-up IPI names. The
 * code is copied there. It loads the page tables of the bootstrap processor, goes straight to 64-bit mode
 * and on to ap_main(APIC ID) with a stack of its own.
 */
#include "asm.inc"
#include "smp-tests-start.h"

#define at(symbol)   (AP_PAGE + symbol - ap_code)
#define near(symbol) (symbol - ap_code)

    .section .rodata
    .code16
    .globl ap_code
ap_code:
    cli
    movw %cs, %ax
    movw %ax, %ds
    lgdtl near(ap_gdt_pointer)
    enter_long_mode
    ljmpl $8, $at(ap_long_mode)

    .code64
ap_long_mode:
    movl $16, %eax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $1, %eax
    cpuid
    shrl $24, %ebx /* the initial APIC ID */
    movl %ebx, %edi
    leal 1(%rbx), %eax
    imulq $AP_STACK_BYTES, %rax, %rax
    movq $ap_stacks, %rsp
    addq %rax, %rsp
    xorl %ebp, %ebp
    movq $ap_main, %rax
    call *%rax
    ud2

    .balign 8
ap_gdt:
    .quad 0
    .quad 0x00af9b000000ffff /* 64-bit code */
    .quad 0x00cf93000000ffff /* data */
ap_gdt_pointer:
    .word . - ap_gdt - 1
    .long at(ap_gdt)
    .globl ap_code_end
ap_code_end:

    .section .note.GNU-stack, "", @progbits
