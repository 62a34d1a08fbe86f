/* SPDX-License-Identifier: BSD-3-Clause */
/* Notes, ports and addresses that mean harm; ends with status 0. */
#include "guest.inc"

#define PORT_NOTE 0x5b0

        .globl  _start
_start: mov     $PORT_NOTE, %edx
        lea     addresses(%rip), %rsi
        mov     $(addresses_end - addresses) / 4, %ecx
1:      lodsl
        outl    %eax, %dx
        outw    %ax, %dx
        loop    1b
        mov     $0xcf8, %edx            /* there is no PCI */
        inl     %dx, %eax
        cmp     $-1, %eax
        jne     fail
        mov     $0xd0000000, %eax       /* nor memory there */
        movl    $1, (%rax)
        mov     (%rax), %ecx
        cmp     $-1, %ecx
        jne     fail
        mov     $0xfee00000, %eax       /* the APIC is asked for 32 bits at a time only */
        movb    $1, 0xb0(%rax)
        movb    0x31(%rax), %cl
        mov     0xff0(%rax), %ecx
        finish  0
fail:   finish  1

        .data
        .balign 4
addresses:
        .long   0, 1, 0x7fffffff, 0xffffffff, 0xfee00000, notes, notes + 24
addresses_end:

        .balign 8
notes:  .long   1, 24
        .quad   0xfffffffffffff000, 0x2000
        .long   2, 0xffffffff
