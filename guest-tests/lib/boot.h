/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the guest learns at its start: boot information of the PVH protocol, command line, and the
 * vpt port. See docs/guests.md.
 */
#ifndef GUEST_BOOT_H
#define GUEST_BOOT_H

#include <stdbool.h>
#include <stdint.h>

/* Each image has one; its result is the exit status. */
int guest_main(void);

/* Whether the command line has this word ("notrace"). */
bool boot_word(const char *word);
/* Whether it has "key=NUMBER" (decimal, or hexadecimal after 0x): then *value is the number. */
bool boot_number(const char *key, uint64_t *value);
/* Whether it has "key=text" with exactly this text. */
bool boot_choice(const char *key, const char *text);

/* Whether a vpt host listens on the note port. */
bool note_port_present(void);
/* Hands len_bytes bytes of trace at a physical address to the host. Nothing without a vpt host. */
void note_trace(uint64_t phys, uint64_t len_bytes);
/* Says that address space cr3 is the process called name, built as the ELF file image. */
void note_process(uint64_t cr3, const char *name, const char *image);

#endif
