/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX instructions as functions (insn.h), VM entry with the guest's registers, and where the
 * events of guests arrive.
 */
#include "asm.inc"

#define FAULTED       0x100
#define VMCS_HOST_RSP 0x6c14

    .text

/* Gives CF, and ZF in bit 1, as EAX. */
.macro flags_to_eax
    setc %al
    setz %cl
    movzbl %al, %eax
    movzbl %cl, %ecx
    leal (%rax, %rcx, 2), %eax
.endm

/* A function of one VMX instruction, whose operands are where C has its first arguments. */
.macro vmx_function name, instruction:vararg
    .globl \name
    .type \name, @function
\name:
1:  \instruction
    flags_to_eax
    ret
2:  orl $FAULTED, %eax
    ret
    .size \name, . - \name
    may_fault 1b, 2b
.endm

    vmx_function vmxon, vmxon (%rdi)
    vmx_function vmxoff, vmxoff
    vmx_function vmclear, vmclear (%rdi)
    vmx_function vmptrld, vmptrld (%rdi)
    vmx_function vmptrst, vmptrst (%rdi)
    vmx_function vmread, vmread %rdi, (%rsi)
    vmx_function vmwrite, vmwrite %rsi, %rdi
    vmx_function vmcall, vmcall
    vmx_function invept, invept (%rsi), %rdi
    vmx_function invvpid, invvpid (%rsi), %rdi

/* MOV to CR0 and CR4: 0, or how they faulted. */
.macro write_function name, register
    .globl \name
    .type \name, @function
\name:
1:  movq %rdi, %\register
    xorl %eax, %eax
    ret
2:  orl $FAULTED, %eax
    ret
    .size \name, . - \name
    may_fault 1b, 2b
.endm

    write_function write_cr0_safe, cr0
    write_function write_cr4_safe, cr4

/* The registers in the order of struct vm_registers, but RDI, which is the last there. */
.macro each_register move:vararg
    .set place, 0
    .irp register, rax, rbx, rcx, rdx, rsi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    \move \register
    .set place, place + 8
    .endr
.endm

.macro load_register register
    movq place(%rdi), %\register
.endm

.macro store_register register
    movq %\register, place(%rdi)
.endm

#define RDI_PLACE (8 * 14)

/* A function that enters by this instruction: it comes back from vmx_exit, or by failing. */
.macro enter_function name, before, instruction
    .globl \name
    .type \name, @function
\name:
    push_kept
    pushq %rdi
    movl $VMCS_HOST_RSP, %eax
3:  vmwrite %rsp, %rax
    each_register load_register
    movq RDI_PLACE(%rdi), %rdi
    \before
1:  \instruction
    .globl \name\()_next
\name\()_next:
    popq %rdi
    pop_kept
    flags_to_eax
    ret
2:  orl $FAULTED, %eax
    popq %rdi
    pop_kept
    ret
    .size \name, . - \name
    may_fault 1b, 2b
    may_fault 3b, 2b
.endm

    enter_function vmlaunch, nop, vmlaunch
    enter_function vmresume, nop, vmresume
    /* Blocking by MOV SS lasts for one instruction. */
    enter_function vmlaunch_behind_mov_ss, "movl %ss, %eax; movl %eax, %ss", vmlaunch

    .globl vmx_exit
    .type vmx_exit, @function
vmx_exit:
    pushq %rdi
    movq 8(%rsp), %rdi
    each_register store_register
    popq RDI_PLACE(%rdi)
    popq %rdi
    pop_kept
    xorl %eax, %eax
    ret
    .size vmx_exit, . - vmx_exit

    .globl unblock_nmis
    .type unblock_nmis, @function
unblock_nmis:
    popq %rcx
    movq %rsp, %rdx
    movl %ss, %eax
    pushq %rax
    pushq %rdx
    pushfq
    movl %cs, %eax
    pushq %rax
    pushq %rcx
    iretq
    .size unblock_nmis, . - unblock_nmis

/* Where events arrive in a guest: RIP tells the vector. */
    .balign 16
    .globl vmx_vectors
vmx_vectors:
    .rept 256
    .balign 16
    vmcall
    .endr

    .section .note.GNU-stack, "", @progbits
