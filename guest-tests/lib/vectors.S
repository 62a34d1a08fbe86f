/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways into the kernel and out of it: the 256 interrupt vectors, SYSCALL, the switch between kernel
 * stacks, and the MSR accesses that may fault.
 *
 * Every way in leaves a `struct frame` (trap.h) on the stack.
 */

#include "asm.inc"

#define USER_CS        0x2b
#define USER_SS        0x23
#define VECTOR_SYSCALL 0x100

    .macro save_registers
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rbx
    pushq %rbp
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    .endm

    .macro restore_registers
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rbp
    popq %rbx
    popq %rdx
    popq %rcx
    popq %rax
    .endm

    .text

/* ---- The vectors: one stub each, 16 bytes apart ------------------------------------------- */

    .altmacro
    .macro make_vector n, has_error
    .balign 16
    .type vector_\n, @function
vector_\n:
    .if \has_error == 0
    pushq $0
    .endif
    pushq $\n
    jmp trap_entry
    .size vector_\n, . - vector_\n
    .endm

    .balign 16
    .globl vectors
vectors:
    .set number, 0
    .rept 256
    /* #DF, #TS to #PF, #AC, #CP, #VC, #SX */
    .if number == 8 || (number >= 10 && number <= 14) || number == 17 || number == 21 || \
        number == 29 || number == 30
    make_vector %number, 1
    .else
    make_vector %number, 0
    .endif
    .set number, number + 1
    .endr
    .noaltmacro

    .balign 16
    .type trap_entry, @function
trap_entry:
    save_registers
    cld
    movq %rsp, %rdi
    call trap
    jmp frame_return
    .size trap_entry, . - trap_entry

/* Leaves by IRETQ through the frame at RSP. */
    .globl frame_return
    .type frame_return, @function
frame_return:
    restore_registers
    addq $16, %rsp
    iretq
    .size frame_return, . - frame_return

/* ---- SYSCALL ------------------------------------------------------------------------------ */

/* One processor and IF = 0 here, so static words serve for the two stack pointers. */
    .globl syscall_entry
    .type syscall_entry, @function
syscall_entry:
    movq %rsp, syscall_user_rsp(%rip)
    movq kernel_stack_top(%rip), %rsp
    pushq $USER_SS
    pushq syscall_user_rsp(%rip)
    pushq %r11
    pushq $USER_CS
    pushq %rcx
    pushq $0
    pushq $VECTOR_SYSCALL
    save_registers
    movq %rsp, %rdi
    call system_call
    restore_registers
    movq 16(%rsp), %rcx
    movq 32(%rsp), %r11
    movq 40(%rsp), %rsp
    sysretq
    .size syscall_entry, . - syscall_entry

/* ---- void stack_switch(uint64_t *save_rsp, uint64_t rsp) ---------------------------------- */

    .globl stack_switch
    .type stack_switch, @function
stack_switch:
    push_kept
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    pop_kept
    ret
    .size stack_switch, . - stack_switch

/* ---- MSR accesses that may fault ---------------------------------------------------------- */

/* unsigned rdmsr_safe(uint32_t msr, uint64_t *value) */
    .globl rdmsr_safe
    .type rdmsr_safe, @function
rdmsr_safe:
    movl %edi, %ecx
1:  rdmsr
    shlq $32, %rdx
    orq %rdx, %rax
    movq %rax, (%rsi)
    xorl %eax, %eax
2:  ret
    .size rdmsr_safe, . - rdmsr_safe
    may_fault 1b, 2b

/* unsigned wrmsr_safe(uint32_t msr, uint64_t value) */
    .globl wrmsr_safe
    .type wrmsr_safe, @function
wrmsr_safe:
    movl %edi, %ecx
    movl %esi, %eax
    movq %rsi, %rdx
    shrq $32, %rdx
1:  wrmsr
    xorl %eax, %eax
2:  ret
    .size wrmsr_safe, . - wrmsr_safe
    may_fault 1b, 2b

    .bss
    .balign 8
syscall_user_rsp:
    .skip 8

    .section .note.GNU-stack, "", @progbits
