/* SPDX-License-Identifier: BSD-3-Clause */
/* What the assembler files of guest images share: macros and constants, no code. */

#define CR0_PG_WP_PE 0x80010001
#define CR4_PAE      (1 << 5)
#define MSR_EFER     0xc0000080
#define EFER_LME     (1 << 8)

/* The registers that a C function keeps for its caller, but for RSP. */
.macro push_kept
    .irp register, rbx, rbp, r12, r13, r14, r15
    pushq %\register
    .endr
.endm

.macro pop_kept
    .irp register, r15, r14, r13, r12, rbp, rbx
    popq %\register
    .endr
.endm

/*
 * Paging with the image's own tables, and long mode: a far jump to 64-bit code has to follow, with a GDT
 * that is loaded. Clobbers EAX, ECX and EDX.
 */
.macro enter_long_mode
    movl %cr4, %eax
    orl $CR4_PAE, %eax
    movl %eax, %cr4
    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_LME, %eax
    wrmsr
    movl $CR0_PG_WP_PE, %eax
    movl %eax, %cr0
.endm
