/* SPDX-License-Identifier: BSD-3-Clause */
/* A guest that traces itself through 5,000 functions, one after the other, and ends with status 0. */
#include "guest.inc"

    .altmacro
    .macro  function number
        .type   function_\number, @function
function_\number:
        jmp     1f                  /* of another block, too */
1:
        .size   function_\number, . - function_\number
    .endm

    .text
    .globl _start
    .type   _start, @function
_start:
    mov     $STACK_TOP, %esp
    write_msr MSR_OUTPUT_BASE, REGION
    write_msr MSR_OUTPUT_MASK, 0xffff   /* 64 KiB */
    write_msr MSR_CTL, CTL_TRACE
    call    function_0
    write_msr MSR_CTL, 0
    finish  0
    .size   _start, . - _start

    .set    number, 0
    .rept   5000
        function %number
        .set    number, number + 1
    .endr
    ret
