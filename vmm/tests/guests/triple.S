/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest without an IDT that faults: a triple fault. */
    .text
    .globl _start
_start:
    ud2
