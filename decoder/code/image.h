/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the image: what the reader of ELF files needs of it. */
#ifndef PTD_IMAGE_H
#define PTD_IMAGE_H

#include "ptdec.h"

struct code_log;

/* The lower rank wins among symbols of one address. */
enum symbol_rank { SYMBOL_GLOBAL, SYMBOL_WEAK, SYMBOL_LOCAL, SYMBOL_LABEL };

/* Takes bytes (from malloc) over, also on failure. len_bytes may be 0. */
int ptd_image_add_owned(struct ptd_image *image, uint64_t vaddr, uint8_t *bytes, size_t len_bytes,
                        uint64_t cr3);
/* NULL: there is none. Whoever decodes with the image replays it, one at a time. */
struct code_log *ptd_image_code_log(const struct ptd_image *image);
/* A number that is another one whenever code was added. */
const uint64_t *ptd_image_generation(const struct ptd_image *image);
/* size_bytes 0: unknown. Call ptd_image_sort_symbols() after the last one. */
int ptd_image_add_symbol(struct ptd_image *image, const char *name, uint64_t vaddr,
                         uint64_t size_bytes, enum symbol_rank rank, uint64_t cr3);
void ptd_image_sort_symbols(struct ptd_image *image, uint64_t cr3);

#endif
