/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that never ends. */
    .text
    .globl _start
_start:
1:  pause
    jmp 1b
