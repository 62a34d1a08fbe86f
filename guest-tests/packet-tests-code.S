/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Supervisor code to trace: every instruction between the two WRMSRs is known by its label, so that the
 * guest can tell which packets it must leave. See trace_body in packet-tests.h for what a body is.
 *
 * Bodies may change RAX, RCX, RDX, RDI, RSI and R9 to R11; R8 holds `off` for the second WRMSR.
 */
#define MSR_RTIT_CTL  0x570
#define KERNEL_CS     0x08
#define USER_CS       0x2b
#define USER_SS       0x23
#define RFLAGS_ONE    0x2
#define APIC_EOI      0xffff8000fee000b0 /* in the direct map */
#define SOFT_VECTOR   0x50
#define RAX_PATTERN   0x1122334455667788

    .macro label name
    .globl \name
\name:
    .endm

    /* IA32_RTIT_CTL = RDI; R8 = RSI, R9 = arg0, R10 = arg1 */
    .macro trace_on name
    movq %rsi, %r8
    movq %rdx, %r9
    movl $MSR_RTIT_CTL, %ecx
    movl %edi, %eax
    movq %rdi, %rdx
    shrq $32, %rdx
    wrmsr
label \name\()_on
    .endm

    .macro trace_off name
    movl $MSR_RTIT_CTL, %ecx
    movl %r8d, %eax
    movq %r8, %rdx
    shrq $32, %rdx
label \name\()_off
    wrmsr
    .endm

    .macro body name
    .balign 16
    .type \name, @function
label \name
    movq %rcx, %r10
    trace_on \name
    .endm

    .macro body_end name
    trace_off \name
    ret
    .size \name, . - \name
    .endm

    .text

/* ---- Near branches ------------------------------------------------------------------------ */

    body nothing_body
    nop
    body_end nothing_body

/* arg0: a pattern, arg1: its bits. For each bit, lowest first: a JC taken if it is 1, and a JNZ. */
    body jcc_body
1:  shrq $1, %r9
    jc 2f
    nop
2:  decq %r10
    jnz 1b
    body_end jcc_body

/* LOOP three times, JRCXZ with RCX = 0 and with RCX = 1. */
    body loop_body
    movl $3, %ecx
1:  loop 1b
    jrcxz 2f
    nop
2:  movl $1, %ecx
    jrcxz 3f
    nop
3:  body_end loop_body

/* Taken and not taken to the very next instruction. */
    body jcc_next_body
    xorl %eax, %eax
    jz 1f
1:  jnz 2f
2:  cmpl $1, %eax
    jl 3f
3:  jge 4f
4:  movl $1, %ecx
    loop 5f
5:  jrcxz 6f
6:  body_end jcc_next_body

/* Direct transfers only: JMP, CALL that does not come back by RET. */
    body direct_body
    jmp 1f
    nop
1:  call 2f
    nop
2:  popq %rax
    body_end direct_body

    body indirect_body
    leaq indirect_jmp_target(%rip), %rax
    jmp *%rax
    nop
label indirect_jmp_target
    leaq indirect_call_target(%rip), %rax
    call *%rax
    nop
label indirect_call_target
    popq %rax
    body_end indirect_body

/* TNT and TIP in turns: not taken, JMP, taken, not taken, JMP, taken. */
    body mixed_body
    xorl %eax, %eax
    jnz 9f
    leaq mixed_first(%rip), %r9
    jmp *%r9
label mixed_first
    testl %eax, %eax
    jz 1f
    nop
1:  testl %eax, %eax
    jnz 9f
    leaq mixed_second(%rip), %r9
    jmp *%r9
    nop
label mixed_second
    testl %eax, %eax
    jz 2f
    nop
2:
9:  body_end mixed_body

/* arg0: addresses to jump to, one after the other; the last one is chain_end. */
    body chain_body
    jmp *(%r9)
label chain_end
    body_end chain_body

/* A link of the chain: position-independent, and it may be copied. */
label chain_link
    addq $8, %r9
    jmp *(%r9)
label chain_link_end

/* ---- CALL and RET ------------------------------------------------------------------------- */

/* Two calls inside each other. */
    body ret_body
    call 1f
label ret_next
    jmp 3f
1:  call 2f
label ret_inner_next
    ret
2:  ret
3:  body_end ret_body

/* A zero-length CALL is not on the stack of CALLs: the RET still answers the CALL before it. */
    body zero_call_body
    call 1f
label zero_call_next
    jmp 2f
1:  call 3f
3:  popq %rax
    ret
2:  body_end zero_call_body

/* A RET to an address that no CALL left. */
    body ret_wrong_body
    call 1f
    nop
1:  popq %rax
    leaq ret_wrong_target(%rip), %rax
    pushq %rax
    ret
    nop
label ret_wrong_target
    body_end ret_wrong_body

/* Tracing begins inside of a function. */
    .balign 16
    .type ret_old_body, @function
label ret_old_body
    call 1f
label ret_old_next
    trace_off ret_old_body
    ret
1:  trace_on ret_old_body
    ret
    .size ret_old_body, . - ret_old_body

/* arg0: calls inside each other. */
    body deep_body
    call 1f
label deep_last_next
    jmp 2f
1:  decq %r9
    jz 3f
    call 1b
label deep_next
3:  ret
2:  body_end deep_body

/* arg0: a chain whose last link is psb_ret_back: much trace between a CALL and its RET. */
    body psb_ret_body
    call 1f
label psb_ret_next
    jmp 2f
1:  jmp *(%r9)
label psb_ret_back
    ret
2:  body_end psb_ret_body

/* ---- Events ------------------------------------------------------------------------------- */

/* A taken branch stands in the TNT when the exception comes. */
    body ud_body
    xorl %eax, %eax
    jz ud_insn
    nop
label ud_insn
    ud2
label ud_next
    body_end ud_body

label ud_handler
    addq $(ud_next - ud_insn), (%rsp)
label ud_iret
    iretq

/* arg0: an address without a page */
    body pf_body
label pf_insn
    movq (%r9), %rax
label pf_next
    body_end pf_body

label pf_handler
    addq $8, %rsp /* error code */
    addq $(pf_next - pf_insn), (%rsp)
label pf_iret
    iretq

/* WRMSR of a reserved bit: #GP in the middle of a trace. */
    body gp_body
    movl $MSR_RTIT_CTL, %ecx
    movl $(1 << 18), %eax
    xorl %edx, %edx
label gp_insn
    wrmsr
label gp_next
    body_end gp_body

label gp_handler
    addq $8, %rsp
    addq $(gp_next - gp_insn), (%rsp)
    iretq

    body soft_body
label soft_insn
    int $SOFT_VECTOR
label soft_next
    body_end soft_body

    body break_body
label break_insn
    int3
label break_next
    body_end break_body

label soft_handler
label soft_iret
    iretq

/* An interrupt waits: it comes when the instruction behind STI is done. */
    body intr_body
label intr_sti
    sti
    nop
label intr_next
label intr_cli
    cli
    body_end intr_body

label intr_handler
    pushq %rax
    movabsq $APIC_EOI, %rax
    movl $0, (%rax)
    popq %rax
label intr_iret
    iretq

/* Where it struck, and how far the chain had come. */
label pmi_handler
    pushq %rax
    movq 8(%rsp), %rax
    movq %rax, pmi_rip(%rip)
    movq %r9, pmi_link(%rip)
    movabsq $APIC_EOI, %rax
    movl $0, (%rax)
    popq %rax
    iretq

    body flags_body
label flags_sti
    sti
label flags_cli
    cli
    pushq $(RFLAGS_ONE | 0x200)
label flags_popf
    popfq
    sti /* changes nothing */
label flags_last
    cli
    body_end flags_body

/* Far RET and far JMP within the segment. */
    body far_body
    pushq $KERNEL_CS
    leaq far_ret_target(%rip), %rax
    pushq %rax
    lretq
    nop
label far_ret_target
    body_end far_body

/* ---- Context ------------------------------------------------------------------------------ */

/* CR3 = arg0, then arg1. Both map this code. */
    body cr3_body
    movq %r9, %cr3
label cr3_between
    xorl %eax, %eax
    jz 1f
    nop
1:  movq %r10, %cr3
label cr3_back
    body_end cr3_body

/* To user mode at arg0 with the stack pointer arg1, and back by SYSCALL; the rest is packet-tests-user.S. */
    body user_body
    movq %rsp, user_body_rsp(%rip)
    pushq $USER_SS
    pushq %r10
    pushq user_rflags(%rip)
    pushq $USER_CS
    pushq %r9
label user_iret
    iretq
label user_back
    movq user_body_rsp(%rip), %rsp
    body_end user_body

/* The same by SYSRET. */
    body sysret_body
    movq %rsp, user_body_rsp(%rip)
    movq %r9, %rcx
    movq user_rflags(%rip), %r11
    movq %r10, %rsp
    sysretq
label sysret_back
    movq user_body_rsp(%rip), %rsp
    body_end sysret_body

/* ---- IP filters --------------------------------------------------------------------------- */

/* In and out of [range_base, range_limit]: the example of Table 33-2, then by JMP and RET, then by Jcc. */
    body range_body
    jmp range_base
    nop
label range_out_direct
    leaq range_indirect_in(%rip), %rax
    jmp *%rax
    nop
label range_out_indirect
    xorl %eax, %eax
    jz range_cond_in
    nop
label range_out_cond
    call range_call_in
label range_call_next
    nop
    body_end range_body

    .balign 64
label range_base
    xorl %eax, %eax
    jnz 1f
    addl $1, %eax
1:  jmp range_out_direct
label range_indirect_in
    leaq range_out_indirect(%rip), %rax
    jmp *%rax
label range_cond_in
    xorl %eax, %eax
    jz range_out_cond
    nop
label range_call_in
    nop
label range_limit
    ret

/* A CALL in [range_call_base, range_call_limit], out of it and back, and its RET. */
    body range_ret_body
    jmp range_call_base
label range_ret_outside
    jmp range_ret_inside
label range_ret_done
    body_end range_ret_body

    .balign 64
label range_call_base
    call 1f
label range_ret_next
    jmp range_ret_done
1:  jmp range_ret_outside
label range_ret_inside
label range_call_limit
    ret

/* Into [stop_base, stop_limit] by the kind of branch that arg0 says: 0 direct, 1 indirect, 2 conditional. */
    body stop_body
    cmpl $1, %r9d
    ja 2f
    jb 1f
    leaq stop_base(%rip), %rax
    jmp *%rax
1:  jmp stop_base
2:  xorl %eax, %eax
    jz stop_base
label stop_back
    body_end stop_body

    .balign 64
label stop_base
    nop
label stop_limit
    jmp stop_back

/* ---- Time --------------------------------------------------------------------------------- */

/* arg0: turns of a loop. */
    body spin_body
1:  decq %r9
    jnz 1b
    body_end spin_body

/* ---- Instructions with packets of their own ------------------------------------------------ */

    body ptw_body
    movabsq $RAX_PATTERN, %rax
label ptw_32
    ptwrite %eax
label ptw_64
    ptwrite %rax
    movq %rax, ptw_memory(%rip)
label ptw_mem32
    ptwritel ptw_memory(%rip)
label ptw_mem64
    ptwriteq ptw_memory(%rip)
    body_end ptw_body

/* Begins a transaction and commits it, or aborts it if arg0 is 1. RAX at tx_fallback says why. */
    body tx_body
label tx_begin
    xbegin tx_fallback
    testl %r9d, %r9d
    jz tx_end
label tx_abort
    xabort $1
label tx_end
    xend
label tx_fallback
    movl %eax, tx_status(%rip)
    body_end tx_body

    body hlt_body
    sti
label hlt_insn
    hlt
label hlt_next
    cli
    body_end hlt_body

    /*
     * The command is none that firmware knows. QEMU 7.2 takes the SMI only behind a branch.
     */
    body smi_body
    movl $0xa5, %eax
    outb %al, $0xb2
label smi_behind_out
    jmp smi_next
label smi_next
    body_end smi_body

    /* MONITOR of the stack, and MWAIT. */
    body mwait_body
    pushq %rcx
    pushq %rdx
    movq %rsp, %rax
    xorl %ecx, %ecx
    xorl %edx, %edx
    monitor
    xorl %eax, %eax
    sti
label mwait_insn
    mwait
label mwait_next
    cli
    popq %rdx
    popq %rcx
    body_end mwait_body

    .data
    .balign 8
label user_rflags
    .quad RFLAGS_ONE
    .bss
    .balign 8
user_body_rsp:
    .skip 8
ptw_memory:
    .skip 8
label pmi_rip
    .skip 8
label pmi_link
    .skip 8
label tx_status
    .skip 4

    .section .note.GNU-stack, "", @progbits
