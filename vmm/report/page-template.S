/* SPDX-License-Identifier: BSD-3-Clause */
/* The page without data. PAGE is its file. */
    .section .rodata
    .globl page_template
    .type page_template, @object
page_template:
    .incbin PAGE
end:
    .size page_template, end - page_template

    .balign 8
    .globl page_template_bytes
    .type page_template_bytes, @object
page_template_bytes:
    .quad end - page_template
    .size page_template_bytes, 8

    .section .note.GNU-stack, "", @progbits
