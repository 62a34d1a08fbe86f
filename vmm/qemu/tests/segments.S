/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Firmware of 64 KiB whose 16-bit code runs at one linear address in two segments, in turn. There, a
 * jump leads to a jump in the same page; and that one wraps in the first segment, but not in the
 * second. Packets do not tell where it leads to.
 */
#define ROM      0xf000
#define FIRST    0x1000         /* the code is at its end */
#define AT_FIRST 0xff00
#define SECOND   0x1800         /* here it is in its middle */
#define AT_SECOND 0x7f00
#define FAR      0x1000         /* so far does the second jump go */
#define ROUNDS   100

#define PORT_EXIT 0xf4

.macro copy what, segment, offset
        mov     $\segment, %ax
        mov     %ax, %es
        mov     $(\offset) & 0xffff, %di
        mov     $\what, %si
        mov     $\what\()_end - \what, %cx
        rep movsb
.endm

        .code16
        .text
begin:
        mov     $ROM, %ax
        mov     %ax, %ds
        copy    jumps, FIRST, AT_FIRST
        copy    behind_first, FIRST, AT_FIRST+FAR+jumps_end-jumps
        copy    behind_second, SECOND, AT_SECOND+FAR+jumps_end-jumps
        mov     $ROUNDS, %bp
        ljmp    $FIRST, $AT_FIRST

jumps:
        jmp     1f
1:      .byte   0xe9            /* JMP rel16 */
        .word   FAR
jumps_end:

behind_first:
        dec     %bp
        jz      1f
        ljmp    $SECOND, $AT_SECOND
1:      xor     %al, %al
        out     %al, $PORT_EXIT
        hlt
behind_first_end:

behind_second:
        ljmp    $FIRST, $AT_FIRST
behind_second_end:

        .org    0xfff0          /* here, a processor begins */
        ljmp    $ROM, $begin
        .org    0x10000
