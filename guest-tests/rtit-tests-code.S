/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the RTIT tests trace: see rtit-tests.h. The code lies within 64 KiB, aligned, so that only the
 * low 16 bits of addresses differ.
 */
#define MSR_RTIT_CTL 0x768

    .text
    .balign 1024
    .globl traced_run, traced_begin, traced_back, traced_end
    .type traced_run, @function
traced_run:
    pushq %rbx
    pushq %r12
    pushq %r13
    movq %rdi, %rbx
    movq %rsi, %r12
    movl $MSR_RTIT_CTL, %ecx
    movl %ebx, %eax
    xorl %edx, %edx
    orl $1 << 13, %eax
    wrmsr
traced_begin:
    callq *%r12
traced_back:
    movl $MSR_RTIT_CTL, %ecx
    rdmsr
    andl $~(3 << 2), %eax
    wrmsr
traced_end:
    andl $~(1 << 13), %eax
    wrmsr
    popq %r13
    popq %r12
    popq %rbx
    ret
    .size traced_run, . - traced_run

    .globl body_branches
body_branches:
    testl %esp, %esp /* ZF = 0 */
    .rept 6
    jz 1f
    .endr
    jnz 1f
    ud2
1:  jz 1b
    jnz 2f
    ud2
2:  jnz 3f
    ud2
3:  ret

    .globl body_jump, body_jump_to
body_jump:
    leaq body_jump_to(%rip), %rax
    jmp *%rax
    ud2
body_jump_to:
    ret

    .globl body_call, body_callee, body_returned
body_call:
    callq body_callee
body_returned:
    ret
body_callee:
    ret

    .globl body_push, body_pushed
body_push:
    leaq body_pushed(%rip), %rax
    pushq %rax
    ret
    ud2
body_pushed:
    ret

    .globl body_fault, body_fault_at, body_fault_next
body_fault:
    nop
body_fault_at:
    ud2
body_fault_next:
    ret

    .globl body_range, body_range_in, body_range_out
body_range:
    testl %esp, %esp
    jz body_range
body_range_in:
    jz body_range
    jnz 1f
    ud2
1:  nop
body_range_out:
    jz body_range
    ret

    .globl body_cr3
body_cr3:
    movq %cr3, %rax
    movq %rax, %cr3
    ret

    .section .note.GNU-stack, "", @progbits
