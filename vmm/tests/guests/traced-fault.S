/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces itself, without an IDT, and touches memory that is not mapped while it is being stepped. */
#include "guest.inc"

    .text
    .globl _start
_start:
    write_msr MSR_OUTPUT_BASE, REGION
    write_msr MSR_OUTPUT_MASK, 0xfff    /* 4 KiB */
    write_msr MSR_CTL, CTL_TRACE
    movabs $0x8000000000, %rbx
    mov (%rbx), %rax
1:  jmp 1b
