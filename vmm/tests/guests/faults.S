/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces itself at CPL 0 through exceptions of many kinds, foreseen or not. Each handler goes on
 * behind the instruction that faulted. Ends with status 0, or 1 if an exception was missing or
 * RFLAGS.TF was seen.
 */
#include "guest.inc"

#define REGION_MASK 0xfffff
#define ROUNDS      50
#define FAULTS      7           /* in a round */

/* Says where a handler shall go on, and faults. */
.macro fault insn:vararg
        lea     1f(%rip), %r8
        \insn
        jmp     fail
1:
.endm

        .globl  _start
_start: mov     $STACK_TOP, %esp
        gate    0, on_fault
        gate    6, on_fault
        gate    12, on_fault_code
        gate    13, on_fault_code
        gate    14, on_fault_code
        lidt    idt_pointer(%rip)
        mov     $0x8000000000000000, %rbx /* not canonical */
        mov     $0x8000000000, %rsi       /* not mapped */
        xor     %r12d, %r12d              /* bits of RFLAGS seen */
        xor     %r13d, %r13d              /* faults */

        write_msr MSR_OUTPUT_BASE, REGION
        write_msr MSR_OUTPUT_MASK, REGION_MASK
        write_msr MSR_CTL, CTL_TRACE

        mov     $ROUNDS, %ebp
round:  xor     %edx, %edx
        xor     %ecx, %ecx
        fault   div %ecx
        fault   mov (%rbx), %rax
        fault   ud2
        fault   mov (%rsi), %rax
        fault   movb $1, (%rsi)
        fault   lock incl (%rbx)
        mov     $0x560, %ecx            /* a trace MSR, while tracing */
        mov     $0x1000, %eax
        fault   wrmsr
        dec     %ebp
        jnz     round

        mov     $MSR_CTL, %ecx
        xor     %eax, %eax
        xor     %edx, %edx
        wrmsr
        cmp     $(ROUNDS * FAULTS), %r13d
        jne     fail
        test    $RFLAGS_TF, %r12d
        jnz     fail
        finish  0
fail:   finish  1

on_fault_code:
        add     $8, %rsp
on_fault:
        mov     16(%rsp), %r14
        or      %r14, %r12
        inc     %r13d
        mov     %r8, (%rsp)
        iretq

        .data
idt_pointer:
        .word   16 * 15 - 1
        .quad   idt
        .balign 16
idt:    .skip   16 * 15
