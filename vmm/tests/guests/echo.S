/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints its command line, and ends with status 0. */
#include "guest.inc"

#define CMDLINE_PADDR 24 /* in struct hvm_start_info */

        .globl  _start
_start: mov     CMDLINE_PADDR(%rdi), %rsi
1:      lodsb
        test    %al, %al
        jz      2f
        out     %al, $PORT_CONSOLE
        jmp     1b
2:      mov     $'\n', %al
        out     %al, $PORT_CONSOLE
        finish  0
