/* SPDX-License-Identifier: BSD-3-Clause */
/* A small ELF file with code, for tests. */
#ifndef VMM_TEST_ELF_FILE_H
#define VMM_TEST_ELF_FILE_H

#include "common/bytes.h"

#define ELF_FILE_OFFSET 4096u /* of the code, which is linked for that address too */

/* Code of one function. False: no memory. */
bool elf_file(struct bytes *file, const char *name, const void *code, size_t len);
/* The same to a path; it must succeed. */
void write_elf_file(const char *path, const char *name, const void *code, size_t len);

#endif
