/* SPDX-License-Identifier: BSD-3-Clause */
/* Halts, and nothing can wake it. */

        .globl  _start
_start: hlt
        jmp     _start
