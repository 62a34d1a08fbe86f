/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symbols of the files that a guest has mapped, from its page cache: all of them in one ELF file
 * that holds nothing else. Each file has a place of its own there.
 */
#ifndef VMM_LINUX_FILE_SYMBOLS_H
#define VMM_LINUX_FILE_SYMBOLS_H

#include "common/bytes.h"
#include "common/output.h"
#include "common/table.h"
#include "linux/look/maps.h"

/* Begins as zeros. */
struct file_symbols {
    struct bytes symbols, texts; /* of the ELF file: Elf64_Sym, and names */
    struct table places;         /* by the file's contents: where in the list it stands */
    struct file_place {
        uint64_t base; /* 0: it has no symbols */
        uint64_t count;
    } * list;
    size_t count, room;
};

/*
 * Takes the symbols of a file by its page cache, unless they were taken before. *at: the address in
 * the ELF file of what stands at an offset of it; 0: nothing is known of it. 0 or -ENOMEM.
 */
int file_symbols_take(struct file_symbols *symbols, const struct look_kernel *kernel,
                      uint64_t cache, uint64_t offset, uint64_t *at);
/* How many there are. */
uint64_t file_symbols_count(const struct file_symbols *symbols);
/* Writes the ELF file. 0, or -errno and the reason. */
int file_symbols_write(const struct file_symbols *symbols, struct output *output,
                       struct reason *why);
void file_symbols_free(struct file_symbols *symbols);

#endif
