/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces itself at CPL 0, so that every KVM can step it: branches of all kinds in a loop, flags that
 * go through the stack, repeated string instructions, interrupts of its own making. Output goes to
 * one region, and is handed over at the end. Ends with status 0, or 1 if tracing had an error or
 * RFLAGS.TF was seen.
 */
#include "guest.inc"

#define REGION_MASK 0xfffff
#define ROUNDS      2000

#define PORT_NOTE  0x5b0
#define APIC       0xfee00000
#define APIC_EOI   0xb0
#define APIC_SVR   0xf0
#define APIC_ICR   0x300
#define SELF_40    0x40040      /* fixed, vector 40H, to itself */

        .globl  _start
_start: mov     $STACK_TOP, %esp
        gate    13, on_gp
        gate    0x40, on_interrupt
        lidt    idt_pointer(%rip)
        mov     $APIC, %r15d
        movl    $0x1ff, APIC_SVR(%r15)

        write_msr MSR_OUTPUT_BASE, REGION
        write_msr MSR_OUTPUT_MASK, REGION_MASK
        write_msr MSR_STATUS, 0
        write_msr MSR_CTL, CTL_TRACE

        mov     $ROUNDS, %ebx
        xor     %r12d, %r12d            /* bits of RFLAGS seen */
        sti
round:  call    work
        pushfq
        pop     %rax
        or      %eax, %r12d
        push    %rax
        popfq
        test    $0xff, %bl
        jnz     1f
        movl    $SELF_40, APIC_ICR(%r15)
        mov     $MSR_CTL, %ecx          /* a #GP while tracing: a reserved bit */
        mov     $0x40000, %eax
        xor     %edx, %edx
        wrmsr
1:      dec     %ebx
        jnz     round

        cli
        write_msr MSR_CTL, 0
        mov     $MSR_STATUS, %ecx
        rdmsr
        test    $0x30, %eax
        jnz     fail
        test    $RFLAGS_TF, %r12d
        jnz     fail
        cmpl    $(ROUNDS / 256), interrupts(%rip)
        jne     fail
        cmpl    $(ROUNDS / 256), faults(%rip)
        jne     fail
        mov     $MSR_OUTPUT_MASK, %ecx
        rdmsr
        mov     %edx, note_len(%rip)
        mov     $PORT_NOTE, %edx
        mov     $note, %eax
        outl    %eax, %dx
        finish  0
fail:   finish  1

/* Calls through a table and a jump through another, string instructions, a call to the next line. */
work:   mov     %ebx, %eax
        and     $1, %eax
        lea     table(%rip), %rcx
        call    *(%rcx, %rax, 8)
        call    1f                      /* a zero-length call: no RET belongs to it */
1:      pop     %rax
        mov     $buffer, %edi
        mov     $buffer + 64, %esi
        mov     $17, %ecx
        rep movsb
        xor     %ecx, %ecx
        rep stosb
        lea     2f(%rip), %rax
        jmp     *%rax
        ud2
2:      ret

even:   test    $2, %bl
        jz      1f
        nop
1:      ret

odd:    mov     $3, %ecx
1:      loop    1b
        jrcxz   2f
        ud2
2:      ret

on_interrupt:
        push    %rax
        mov     24(%rsp), %rax          /* RFLAGS as they were */
        or      %eax, %r12d
        incl    interrupts(%rip)
        movl    $0, APIC_EOI(%r15)
        pop     %rax
        iretq

on_gp:  add     $8, %rsp                /* the error code */
        mov     16(%rsp), %rax
        or      %eax, %r12d
        incl    faults(%rip)
        addq    $2, (%rsp)              /* past the WRMSR */
        iretq

        .data
        .balign 16
table:  .quad   even, odd
idt_pointer:
        .word   16 * 0x41 - 1
        .quad   idt
        .balign 8
note:   .long   1, 24
        .quad   REGION
note_len:
        .quad   0
interrupts:
        .long   0
faults: .long   0
        .bss
        .balign 16
idt:    .skip   16 * 0x41
buffer: .skip   128
