/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest of guest.stream.gz (README): firmware of 64 KiB that traces itself in 64-bit mode, to one
 * range of memory, without timing packets, so that what it sends is the same in every run. Half way
 * it says "halted" and sleeps until an NMI comes, with TNT bits that are not sent yet. At the end it
 * says "traced", writes its packets to the debug console, and ends with status 0.
 */
#define MSR_OUTPUT_BASE 0x560
#define MSR_OUTPUT_MASK 0x561
#define MSR_CTL         0x570
#define CTL_TRACE       0x2005  /* BranchEn, OS, TraceEn */
#define REGION          0x10000
#define REGION_MASK     0xffff

#define PAGE_TABLES 0x1000      /* a PML4, then page-directory pointers */
#define IDT         0x3000
#define STACK_TOP   0x8000
#define ROM         0xf0000     /* where this stands below 1 MiB, too */
#define CODE_CS     8
#define ROUNDS      2000

#define PORT_CONSOLE 0xe9
#define PORT_EXIT    0xf4
#define APIC_SVR     0xfee000f0
#define APIC_LINT1   0xfee00360
#define LVT_NMI      0x400

/* Clobbers EAX, ECX and EDX. */
.macro write_msr msr, value
        mov     $\msr, %ecx
        mov     $\value, %eax
        xor     %edx, %edx
        wrmsr
.endm

/* Clobbers RSI, ECX and EDX. */
.macro say text, len
        lea     \text(%rip), %rsi
        mov     $\len, %ecx
        mov     $PORT_CONSOLE, %edx
        rep outsb
.endm

        .text
        .globl  _start
_start: .code16
        xor     %ax, %ax
        mov     %ax, %ds
        movl    $(PAGE_TABLES + 0x1003), PAGE_TABLES
        movl    $0x83, PAGE_TABLES + 0x1000             /* four pages of 1 GiB */
        movl    $0x40000083, PAGE_TABLES + 0x1008
        movl    $0x80000083, PAGE_TABLES + 0x1010
        movl    $0xc0000083, PAGE_TABLES + 0x1018
        mov     $PAGE_TABLES, %eax
        mov     %eax, %cr3
        mov     $0x20, %eax                             /* PAE */
        mov     %eax, %cr4
        mov     $0xc0000080, %ecx                       /* EFER.LME */
        mov     $0x100, %eax
        xor     %edx, %edx
        wrmsr
        lgdtl   %cs:gdt_pointer
        mov     $0x80000001, %eax                       /* PG, PE */
        mov     %eax, %cr0
        ljmpl   $CODE_CS, $(ROM + long_mode)

        .code64
long_mode:
        mov     $STACK_TOP, %esp
        movw    $(on_nmi), IDT + 16 * 2                 /* the gate of vector 2 */
        movw    $CODE_CS, IDT + 16 * 2 + 2
        movl    $(0x8e00 + ROM), IDT + 16 * 2 + 4
        lidt    idt_pointer(%rip)
        mov     $APIC_SVR, %ebx
        movl    $0x1ff, (%rbx)
        mov     $APIC_LINT1, %ebx
        movl    $LVT_NMI, (%rbx)
        xor     %ebp, %ebp                              /* NMIs */

        write_msr MSR_OUTPUT_BASE, REGION
        write_msr MSR_OUTPUT_MASK, REGION_MASK
        write_msr MSR_CTL, CTL_TRACE
        mov     $ROUNDS, %ebx
round:  call    work
        cmp     $(ROUNDS / 2), %ebx
        jne     1f
        say     halted, 7
        hlt
1:      dec     %ebx
        jnz     round
        write_msr MSR_CTL, 0

        mov     $1, %eax
        cmp     %eax, %ebp
        jne     end
        say     traced, 7
        mov     $MSR_OUTPUT_MASK, %ecx
        rdmsr
        mov     $REGION, %esi
        mov     %edx, %ecx
        mov     $PORT_CONSOLE, %edx
        rep outsb
        xor     %eax, %eax
end:    out     %eax, $PORT_EXIT
1:      hlt
        jmp     1b

/* A call through a register, a loop, and RETs that are compressed. */
work:   lea     even(%rip), %rcx
        lea     odd(%rip), %rdx
        test    $1, %bl
        cmovnz  %rdx, %rcx
        call    *%rcx
        mov     $3, %ecx
1:      loop    1b
        ret

even:   test    $2, %bl
        jz      1f
        nop
1:      ret

odd:    lea     1f(%rip), %rax
        jmp     *%rax
        ud2
1:      ret

on_nmi: inc     %ebp
        iretq

halted: .ascii  "halted\n"
traced: .ascii  "traced\n"

        .balign 8
gdt:    .quad   0, 0x00af9b000000ffff                   /* 64-bit code */
gdt_pointer:
        .word   15
        .long   ROM + gdt
idt_pointer:
        .word   16 * 3 - 1
        .quad   IDT

        .org    0xfff0                                  /* where a processor begins */
        .code16
        ljmp    $(ROM >> 4), $_start
        .org    0x10000
