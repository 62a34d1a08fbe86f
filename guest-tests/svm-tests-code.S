/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMRUN and what goes with it: VMRUN and #VMEXIT leave all registers but RAX, RSP and RIP alone.
 */
#include "asm.inc"

/* The guest's registers but RAX, RSP and RDI, as guest_registers has them; RDI is the last there. */
.macro each_register move:vararg
    .set place, 0
    .irp register, rbx, rcx, rdx, rsi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
    \move \register
    .set place, place + 8
    .endr
.endm

.macro load_register register
    movq guest_registers + place(%rip), %\register
.endm

.macro store_register register
    movq %\register, guest_registers + place(%rip)
.endm

#define RDI_PLACE (8 * 13)

    .text

/* void svm_enter(uint64_t vmcb_phys): runs the guest up to its next exit. */
    .globl svm_enter
    .type svm_enter, @function
svm_enter:
    push_kept
    each_register load_register
    movq %rdi, %rax
    movq guest_registers + RDI_PLACE(%rip), %rdi
    .globl svm_vmrun
svm_vmrun:
    vmrun %rax
    .globl svm_behind
svm_behind:
    movq %rdi, guest_registers + RDI_PLACE(%rip)
    each_register store_register
    stgi
    pop_kept
    ret
    .size svm_enter, . - svm_enter

/* Where an injected event arrives in the guest. */
    .globl svm_guest_vector
svm_guest_vector:
    vmmcall
    iretq

/* The guest's #UD, which is intercepted. */
    .globl svm_guest_ud
    .type svm_guest_ud, @function
svm_guest_ud:
    .globl svm_guest_ud_ip
svm_guest_ud_ip:
    ud2
    ret
    .size svm_guest_ud, . - svm_guest_ud

    .bss
    .balign 8
    .globl guest_registers
guest_registers:
    .skip 112

    .section .note.GNU-stack, "", @progbits
