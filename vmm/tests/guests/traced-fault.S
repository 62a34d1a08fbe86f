/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces itself, without an IDT, and touches memory that is not mapped while it is being stepped. */
    .text
    .globl _start
_start:
    mov $0x560, %ecx           /* OUTPUT_BASE: 2 MiB */
    mov $0x200000, %eax
    xor %edx, %edx
    wrmsr
    mov $0x561, %ecx           /* MASK: 4 KiB */
    mov $0xfff, %eax
    wrmsr
    mov $0x570, %ecx           /* BranchEn, OS, TraceEn; single range */
    mov $0x2005, %eax
    wrmsr
    movabs $0x8000000000, %rbx
    mov (%rbx), %rax
1:  jmp 1b
