/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libptdec: what is kept of a file with code or names, for any number of images. */
#ifndef PTD_FILE_H
#define PTD_FILE_H

#include "code/symbols.h"
#include "ptdec.h"

struct file_part {
    uint64_t vaddr;
    uint8_t *bytes;
    size_t len_bytes;
};

#define NO_SECTION SIZE_MAX

/* Where names stand, a byte of zero behind the last; section: of an ELF file, or NO_SECTION. */
struct file_texts {
    size_t section;
    char *bytes;
    size_t len_bytes;
};

struct ptd_file {
    struct file_part *parts;
    size_t part_count, part_room;
    struct file_texts *texts;
    size_t texts_count, texts_room;
    struct symbols symbols; /* by the addresses that the file was linked for */
    uint64_t held_bytes, max_bytes;
};

/* NULL: no memory. */
struct ptd_file *ptd_file_new(uint64_t max_bytes);
/* Counts what is about to be kept. PTD_OK or PTD_E_LIMIT. */
int ptd_file_hold(struct ptd_file *file, uint64_t len_bytes);
/*
 * Reads a part of what fd is, to be freed, with a byte of zero behind it. PTD_OK, PTD_E_IO,
 * PTD_E_NOMEM, PTD_E_LIMIT.
 */
int ptd_file_read(struct ptd_file *file, int fd, uint64_t offset, uint64_t len_bytes,
                  uint8_t **bytes);
/* Room for one more. PTD_OK or PTD_E_NOMEM. */
int ptd_file_grow(struct ptd_file *file);
/* Counted too. PTD_OK, PTD_E_NOMEM, PTD_E_LIMIT. */
int ptd_file_add_symbol(struct ptd_file *file, const struct symbol *symbol);

#endif
