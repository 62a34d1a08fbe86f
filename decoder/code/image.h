/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the image: what the reader of ELF files needs of it. */
#ifndef PTD_IMAGE_H
#define PTD_IMAGE_H

#include "code/symbols.h"
#include "ptdec.h"

struct code_log;

/*
 * Adds bytes, which outlive the image as symbols do (NULL: none); these are bias below the
 * addresses here. len_bytes may be 0. PTD_OK, PTD_E_NOMEM, PTD_E_ARG.
 */
int ptd_image_add_shared(struct ptd_image *image, uint64_t vaddr, const uint8_t *bytes,
                         size_t len_bytes, const struct symbols *symbols, uint64_t bias,
                         uint64_t cr3);
/* The same of symbols alone, of code that others added before. PTD_OK, PTD_E_NOMEM. */
int ptd_image_add_symbols(struct ptd_image *image, const struct symbols *symbols, uint64_t cr3);
/* ptd_image_add_region() with the symbols themselves; NULL: none. */
int ptd_image_name_region(struct ptd_image *image, const char *name, uint64_t vaddr,
                          uint64_t len_bytes, const struct symbols *symbols, uint64_t bias,
                          uint64_t cr3);
/*
 * The symbols of the file that the code at vaddr is from, or of its region, and the address there.
 * NULL: none.
 */
const struct symbols *ptd_image_symbols_at(const struct ptd_image *image, uint64_t cr3,
                                           uint64_t vaddr, uint64_t *address);
/* The image frees it at its end. PTD_OK; PTD_E_NOMEM: it does not. */
int ptd_image_own_file(struct ptd_image *image, struct ptd_file *file);
/* ptd_image_add_file() of a file that becomes the image's, also on failure. */
int ptd_image_take_file(struct ptd_image *image, struct ptd_file *file, uint64_t bias,
                        uint64_t cr3);
/* NULL: there is none. Whoever decodes with the image replays it, one at a time. */
struct code_log *ptd_image_code_log(const struct ptd_image *image);
/* The address space of who is not known: the host's code in all of its address spaces, or none. */
uint64_t ptd_image_unknown_space(const struct ptd_image *image);
/* A number that is another one whenever code was added. */
const uint64_t *ptd_image_generation(const struct ptd_image *image);

#endif
