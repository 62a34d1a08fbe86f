/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMRUN and what goes with it: VMRUN and #VMEXIT leave all registers but RAX, RSP and RIP alone.
 */
    .text

/* void svm_enter(uint64_t vmcb_phys): runs the guest up to its next exit. */
    .globl svm_enter
    .type svm_enter, @function
svm_enter:
    pushq %rbx
    pushq %rbp
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq guest_registers(%rip), %rbx
    movq guest_registers + 8(%rip), %rcx
    movq guest_registers + 16(%rip), %rdx
    movq guest_registers + 24(%rip), %rsi
    movq guest_registers + 32(%rip), %rbp
    movq guest_registers + 40(%rip), %r8
    movq guest_registers + 48(%rip), %r9
    movq guest_registers + 56(%rip), %r10
    movq guest_registers + 64(%rip), %r11
    movq guest_registers + 72(%rip), %r12
    movq guest_registers + 80(%rip), %r13
    movq guest_registers + 88(%rip), %r14
    movq guest_registers + 96(%rip), %r15
    movq %rdi, %rax
    movq guest_registers + 104(%rip), %rdi
    .globl svm_vmrun
svm_vmrun:
    vmrun %rax
    .globl svm_behind
svm_behind:
    movq %rdi, guest_registers + 104(%rip)
    movq %rbx, guest_registers(%rip)
    movq %rcx, guest_registers + 8(%rip)
    movq %rdx, guest_registers + 16(%rip)
    movq %rsi, guest_registers + 24(%rip)
    movq %rbp, guest_registers + 32(%rip)
    movq %r8, guest_registers + 40(%rip)
    movq %r9, guest_registers + 48(%rip)
    movq %r10, guest_registers + 56(%rip)
    movq %r11, guest_registers + 64(%rip)
    movq %r12, guest_registers + 72(%rip)
    movq %r13, guest_registers + 80(%rip)
    movq %r14, guest_registers + 88(%rip)
    movq %r15, guest_registers + 96(%rip)
    stgi
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbp
    popq %rbx
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
