/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The spans of a page as its script reads them: for each track several levels of detail, the finest
 * first, each cut into chunks. A chunk is compressed (zlib) and in base64, so that the page unpacks
 * what it shows and nothing else. Unpacked it is five columns of numbers, of 7 bits a byte, the
 * lowest first: how much later than the one before a span begins, how long it is, its depth, its
 * name, and how many more it stands for.
 */
#ifndef VMM_REPORT_PAGE_CHUNKS_H
#define VMM_REPORT_PAGE_CHUNKS_H

#include "common/bytes.h"
#include "report/spans.h"

#define CHUNK_SPANS      16384u
#define CHUNKS_BYTES_MAX (11u << 20) /* of base64, of all levels */

struct chunk {
    uint32_t track;
    uint32_t line;       /* in the text */
    unsigned shift;      /* of its level */
    uint32_t count;      /* of spans */
    uint64_t start, end; /* all of it is in between; 0 is the first time of the page */
};

/* Begins as zeros. */
struct chunks {
    struct chunk *list; /* by track, by level, by start */
    size_t count, room;
    struct bytes text; /* a line for each */
};

/*
 * Makes all levels; spans are merged on the way, until they have room. names: what each name is
 * called in the page. 0 or -ENOMEM; to be freed in either case.
 */
int chunks_make(struct chunks *chunks, struct spans *spans, uint64_t first, const uint32_t *names,
                size_t track_count);
void chunks_free(struct chunks *chunks);

#endif
