/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code of code logs (docs/trace-files.md) laid out in pages, for programs that map files and
 * know of no code that changes. A page is what was told of it first. Where something else was told
 * later, or for another address space, it is unclear.
 */
#ifndef VMM_FLAT_CODE_H
#define VMM_FLAT_CODE_H

#include "common/bytes.h"

#include <stdint.h>

#define FLAT_PAGE_BYTES  4096u
#define FLAT_OWNER_UPPER UINT32_MAX /* of the upper half of addresses, a kernel's, in all logs */

/* Pages that stand one behind the other, and zeros for some between them of which nothing is told.
 */
struct flat_run {
    uint64_t address, len_bytes;
    uint32_t owner;
    size_t first; /* private */
};

struct flat_code;

/* NULL: no memory. */
struct flat_code *flat_code_new(void);
void flat_code_free(struct flat_code *code);
/*
 * Adds a log, whose bytes must stay. Pages of the lower half of addresses are of that owner. 0;
 * -EBADMSG: it is none; -ENOMEM.
 */
int flat_code_add(struct flat_code *code, const struct bytes *log, uint32_t owner);
/*
 * When all logs are there: the runs, valid until the code is freed. 0; -EFBIG: there are too many
 * pages; -ENOMEM.
 */
int flat_code_lay_out(struct flat_code *code, const struct flat_run **runs, size_t *count);

struct flat_sums {
    size_t pages, unclear; /* unclear: of them */
};

/* A run, page by page, which is added to sums. 0, or what put returned. */
int flat_code_write(const struct flat_code *code, const struct flat_run *run,
                    int (*put)(void *owner, const void *page), void *owner, struct flat_sums *sums);

#endif
