/* SPDX-License-Identifier: BSD-3-Clause */
/* The first process of the guest, a part of the program: both ends of the wire are of one build. */
    .section .rodata
    .globl agent_image
    .type agent_image, @object
agent_image:
    .incbin AGENT
end:
    .size agent_image, end - agent_image

    .balign 8
    .globl agent_image_bytes
    .type agent_image_bytes, @object
agent_image_bytes:
    .quad end - agent_image
    .size agent_image_bytes, 8

    .section .note.GNU-stack, "", @progbits
