/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a guest image begins: two entries that join in one path.
 *
 *   start64  64-bit mode, RDI = boot information, memory mapped one to one (`vpt run`)
 *   start32  32-bit protected mode, EBX = boot information (PVH: QEMU -kernel; Multiboot2: GRUB,
 *            with its magic number in EAX, which kernel_start() has in RSI)
 *
 * Both load the image's own page tables and go on at kernel_entry in the upper half:
 *
 *   0000000000000000  the first 4 GiB one to one, only until kernel_entry
 *   ffff800000000000  the first 4 GiB (DIRECT_MAP of memory.h)
 *   ffffffff80000000  the first 1 GiB (the image)
 */

#include "asm.inc"

#define PTE_TABLE 0x003 /* present, writable */
#define PTE_2MIB  0x083 /* the same, large page */
#define PTE_APIC  0x09b /* the same, uncached */

    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18 /* sizes of name and value; type XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .quad start32

#define MULTIBOOT2_HEADER_MAGIC 0xe85250d6

    .section .multiboot2, "a", @progbits
    .balign 8
multiboot2:
    .long MULTIBOOT2_HEADER_MAGIC, 0, multiboot2_end - multiboot2 /* architecture: i386 */
    .long -(MULTIBOOT2_HEADER_MAGIC + multiboot2_end - multiboot2)
    .short 1, 0 /* asks for the command line (1) and the memory map (6) */
    .long 16, 1, 6
    .short 3, 0 /* where to enter, instead of the ELF header's 64-bit entry */
    .long 12, start32, 0
    .short 0, 0
    .long 8
multiboot2_end:

    .section .boot.text, "ax", @progbits
    .code32
    .globl start32
    .type start32, @function
start32:
    cli
    movl %eax, %esi
    lgdt boot_gdt_pointer
    enter_long_mode
    movl %ebx, %edi
    ljmp $8, $start64
    .size start32, . - start32

    .code64
    .globl start64
    .type start64, @function
start64:
    cli
    movl $boot_pml4, %eax
    movq %rax, %cr3
    movabsq $kernel_entry, %rax
    jmp *%rax
    .size start64, . - start64

    .section .boot.data, "aw", @progbits
    .balign 4096
    .globl boot_pml4
boot_pml4:
    .quad boot_pdpt + PTE_TABLE
    .fill 255, 8, 0
    .quad boot_pdpt + PTE_TABLE
    .fill 254, 8, 0
    .quad image_pdpt + PTE_TABLE

boot_pdpt:
    .quad boot_pd + PTE_TABLE
    .quad boot_pd + 0x1000 + PTE_TABLE
    .quad boot_pd + 0x2000 + PTE_TABLE
    .quad boot_pd + 0x3000 + PTE_TABLE
    .fill 508, 8, 0

image_pdpt:
    .fill 510, 8, 0
    .quad boot_pd + PTE_TABLE
    .quad 0

boot_pd:
    .set large_page, 0
    .rept 2048
    .if large_page == 0xfee00000 >> 21
    .quad (large_page << 21) + PTE_APIC
    .else
    .quad (large_page << 21) + PTE_2MIB
    .endif
    .set large_page, large_page + 1
    .endr

boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff /* 64-bit code */
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .quad boot_gdt

    .text
    .type kernel_entry, @function
kernel_entry:
    leaq boot_stack_top(%rip), %rsp
    xorl %ebp, %ebp
    call kernel_start
    ud2
    .size kernel_entry, . - kernel_entry

    .bss
    .balign 4096
    .skip 32768
boot_stack_top:

    .section .note.GNU-stack, "", @progbits
