/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces a loop in supervisor mode, stops, and ends with status 0. */
#include "guest.inc"

    .text
    .globl _start
_start:
    write_msr MSR_OUTPUT_BASE, REGION
    write_msr MSR_OUTPUT_MASK, 0xffff   /* 64 KiB */
    write_msr MSR_CTL, CTL_TRACE
    mov $1000, %esi
1:  dec %esi
    test $3, %esi
    jz 2f
    nop
2:  test %esi, %esi
    jnz 1b
    xor %eax, %eax             /* TraceEn = 0 */
    wrmsr
    out %eax, $0xf4
3:  jmp 3b
