/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processor's caches and pages ask of data that threads work with. */
#ifndef PTD_PAGES_H
#define PTD_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define CACHE_LINE_BYTES ((size_t)64)
/* From so many bytes on, a trace makes use of whole huge pages. */
#define LONG_TRACE_BYTES (1u << 20)

/*
 * For large arrays of which only a part is used, as a rule: memory is taken page by page when it is
 * written for the first time, and is zero then. Aligned to a huge page. Huge pages, if the system
 * has them at hand, save faults where most of a page will be written; those of small pages were a
 * tenth of the time of two threads. NULL: no memory.
 */
void *ptd_pages_new(size_t len_bytes, bool huge);
/* Of the same length. pages may be NULL. */
void ptd_pages_free(void *pages, size_t len_bytes);

#endif
