/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: bytes that are taken from the front, each checked once. */
#ifndef PTD_PERF_SPAN_H
#define PTD_PERF_SPAN_H

#include <string.h>

#include "base/array.h"

/*
 * Bytes that are taken from the front. Taking more than there are gives zeros and sets `missing`,
 * so that a layout is read first and judged once.
 */
struct span {
    const uint8_t *pos, *end;
    bool missing;
};

static inline size_t span_left(const struct span *span)
{
    return (size_t)(span->end - span->pos);
}

static inline const uint8_t *span_take(struct span *span, size_t len)
{
    const uint8_t *const at = span->pos;

    if (len > span_left(span)) {
        span->missing = true;
        return NULL;
    }
    span->pos += len;
    return at;
}

static inline uint64_t take_le(struct span *span, unsigned count)
{
    const uint8_t *const at = span_take(span, count);

    return at ? little_endian(at, count) : 0;
}

static inline uint16_t take16(struct span *span)
{
    return (uint16_t)take_le(span, 2);
}

static inline uint32_t take32(struct span *span)
{
    return (uint32_t)take_le(span, 4);
}

static inline uint64_t take64(struct span *span)
{
    return take_le(span, 8);
}

/* A string that ends inside the span, which is then used up; NULL and missing if it does not. */
static inline const char *take_string(struct span *span)
{
    const char *const at = (const char *)span->pos;

    if (!at || !memchr(at, 0, span_left(span))) {
        span->missing = true;
        return "";
    }
    span->pos = span->end;
    return at;
}

#endif
