/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that ends with status 3. */
    .text
    .globl _start
_start:
    mov $3, %eax
    out %eax, $0xf4
1:  jmp 1b
