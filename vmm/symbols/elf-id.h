/* SPDX-License-Identifier: BSD-3-Clause */
/* The build id of an ELF file: a linker's hash of what it wrote, which debug files go by. */
#ifndef VMM_ELF_ID_H
#define VMM_ELF_ID_H

#include <libelf.h>
#include <stdbool.h>
#include <stdint.h>

#define ELF_ID_BYTES_MAX 64u
#define ELF_ID_TEXT      (2 * ELF_ID_BYTES_MAX + 1)

struct elf_id {
    uint8_t bytes[ELF_ID_BYTES_MAX];
    uint8_t len; /* 0: there is none */
};

/* As its program headers tell it, else its sections. */
void elf_id_of(Elf *elf, struct elf_id *id);
bool elf_id_is_same(const struct elf_id *left, const struct elf_id *right);
/* As a text of hexadecimal digits, and back. False: it is none. */
const char *elf_id_text(const struct elf_id *id, char text[ELF_ID_TEXT]);
bool elf_id_parse(const char *text, struct elf_id *id);

#endif
