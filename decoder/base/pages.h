/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processor's caches and pages ask of data that threads work with. */
#ifndef PTD_PAGES_H
#define PTD_PAGES_H

#include <stddef.h>

#define CACHE_LINE_BYTES ((size_t)64)

/*
 * For large arrays of which only a part is used, as a rule: memory is taken page by page when it is
 * written for the first time, and is zero then. Aligned to a huge page. The first huge_bytes, as
 * far as they fill such pages, are in huge ones, if the system has them at hand: they save faults
 * where at least a third of a page will be written, and cost more where less will. NULL: no memory.
 */
void *ptd_pages_new(size_t len_bytes, size_t huge_bytes);
/* Of the same length. pages may be NULL. */
void ptd_pages_free(void *pages, size_t len_bytes);

#endif
