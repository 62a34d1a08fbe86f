/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the image: what the reader of ELF files needs of it. */
#ifndef PTD_IMAGE_H
#define PTD_IMAGE_H

#include "code/symbols.h"
#include "ptdec.h"

struct code_log;

/* Takes bytes (from malloc) over, also on failure. len_bytes may be 0. */
int ptd_image_add_owned(struct ptd_image *image, uint64_t vaddr, uint8_t *bytes, size_t len_bytes,
                        uint64_t cr3);
/* NULL: there is none. Whoever decodes with the image replays it, one at a time. */
struct code_log *ptd_image_code_log(const struct ptd_image *image);
/* A number that is another one whenever code was added. */
const uint64_t *ptd_image_generation(const struct ptd_image *image);
/*
 * size_bytes 0: unknown; then it reaches to the next symbol, to limit (its last address, UINT64_MAX
 * if nothing tells) or to the end of the code that it is in, whichever is first.
 */
int ptd_image_add_symbol(struct ptd_image *image, const char *name, uint64_t vaddr,
                         uint64_t size_bytes, uint64_t limit, enum symbol_rank rank, uint64_t cr3);

#endif
