/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces a loop in supervisor mode, stops, and ends with status 0. */
    .text
    .globl _start
_start:
    mov $0x560, %ecx           /* OUTPUT_BASE: 2 MiB */
    mov $0x200000, %eax
    xor %edx, %edx
    wrmsr
    mov $0x561, %ecx           /* MASK: 64 KiB */
    mov $0xffff, %eax
    wrmsr
    mov $0x570, %ecx           /* BranchEn, OS, TraceEn; single range */
    mov $0x2005, %eax
    wrmsr
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
