/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Firmware of 64 KiB that runs pages of 32-bit code which only goes forward, as full of branches as
 * they can be: conditional ones up to the next page, or up to a PAUSE that leads there, and CALLs. A
 * capture that writes branches down has to look for room often enough.
 */
#define ROM        0xf000
#define ROM_LINEAR 0xf0000
#define AREA       0x200000
#define PAGES      12
#define PAGE       4096
#define STACK      0x80000
#define ROUNDS     2

#define PORT_EXIT 0xf4

        .code16
        .text
begin:
        mov     $ROM, %ax
        mov     %ax, %ds
        lgdtl   gdtr
        mov     %cr0, %eax
        or      $1, %al
        mov     %eax, %cr0
        ljmpl   $8, $ROM_LINEAR+protected

        .balign 8
gdt:
        .quad   0
        .quad   0x00cf9b000000ffff /* code and data of 4 GiB */
        .quad   0x00cf93000000ffff
gdtr:
        .word   gdtr - gdt - 1
        .long   ROM_LINEAR+gdt

/* What was filled up to EDI is run ROUNDS times; it ends in a jump to EBX. */
.macro run
        movw    $0xe3ff, (%edi) /* JMP *%ebx */
        mov     $ROUNDS, %ebp
        mov     $ROM_LINEAR+2f, %ebx
1:      mov     $STACK, %esp
        mov     $AREA, %eax
        cmp     %eax, %eax
        jmp     *%eax
2:      dec     %ebp
        jnz     1b
.endm

        .code32
protected:
        mov     $16, %ax
        mov     %ax, %ds
        mov     %ax, %es
        mov     %ax, %ss

        mov     $AREA, %edi
        mov     $0x00740075, %eax /* JNZ, which does not jump, and JZ: to what follows */
        mov     $PAGES*PAGE/4, %ecx
        rep stosl
        run

        mov     $AREA, %edi
        mov     $PAGES, %edx
1:      mov     $0x00740075, %eax
        mov     $PAGE/4-1, %ecx
        rep stosl
        mov     $0x90f30075, %eax /* JNZ and PAUSE */
        stosl
        dec     %edx
        jnz     1b
        run

        mov     $AREA, %edi
        mov     $PAGES, %edx
1:      mov     $PAGE/6, %ecx
2:      mov     $0x000001e8, %eax /* CALL to behind the NOP that follows it */
        stosl
        mov     $0x9000, %ax
        stosw
        loop    2b
        mov     $0x90909090, %eax
        stosl
        dec     %edx
        jnz     1b
        run

        xor     %al, %al
        out     %al, $PORT_EXIT
        hlt

        .org    0xfff0          /* here, a processor begins */
        .code16
        ljmp    $ROM, $begin
        .org    0x10000
