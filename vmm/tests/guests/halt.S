/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that halts with nothing to wake it. */
    .text
    .globl _start
_start:
    hlt
    jmp _start
