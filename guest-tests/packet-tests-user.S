/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User code to trace. It is copied to a page of user memory (packet-tests-context.c), and must not change R8;
 * each piece ends with SYSCALL.
 */
#define USER_PATTERN 0x55aa1234

    .macro label name
    .globl \name
\name:
    .endm

    .text
    .balign 64
label user_code

/* Taken, not taken, an indirect JMP, a CALL with its RET. */
label user_branches
    xorl %eax, %eax
    jz 1f
    nop
1:  testl %eax, %eax
    jnz 1b
    leaq user_jmp_target(%rip), %rax
    jmp *%rax
    nop
label user_jmp_target
    call 2f
label user_syscall
    syscall
2:  ret

label user_ud
    nop
label user_ud_insn
    ud2
label user_ud_next
    syscall

/* The page under the stack is not there. */
label user_pf
    leaq -0x2000(%rsp), %rdx
label user_pf_insn
    movl $0, (%rdx)
label user_pf_next
    syscall

label user_ptw
    movl $USER_PATTERN, %eax
label user_ptw_insn
    ptwrite %eax
    syscall

label user_code_end

/* ---- Handlers, in supervisor mode --------------------------------------------------------- */

label user_ud_handler
    addq $(user_ud_next - user_ud_insn), (%rsp)
label user_ud_iret
    iretq

label user_pf_handler
    addq $8, %rsp
    addq $(user_pf_next - user_pf_insn), (%rsp)
label user_pf_iret
    iretq

    .section .note.GNU-stack, "", @progbits
