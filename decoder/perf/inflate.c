/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compressed records of perf.data (`perf record -z`). All of them together are one zstd stream,
 * flushed at the end of each; a record inside may begin in one and end in the next. Memory is
 * bounded by one buffer whatever the ratio of compression is.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "perf/inflate.h"
#include "base/array.h"
#include "perf/layout.h"
#include "ptdec_perf.h"

/* A record has at most 64 KiB. */
#define BUFFER_BYTES (256u * 1024)

struct perf_inflate {
    ZSTD_DStream *zstd;
    ZSTD_inBuffer in;
    uint64_t limit_bytes;
    size_t begin, end; /* of what is in the buffer */
    bool more;         /* zstd may hold output back although its input is used up */
    uint8_t buffer[BUFFER_BYTES];
};

struct perf_inflate *ptd_perf_inflate_new(void)
{
    struct perf_inflate *const inflate = calloc(1, sizeof(*inflate));

    if (!inflate)
        return NULL;
    inflate->zstd = ZSTD_createDStream();
    if (!inflate->zstd) {
        free(inflate);
        return NULL;
    }
    return inflate;
}

void ptd_perf_inflate_free(struct perf_inflate *inflate)
{
    if (!inflate)
        return;
    ZSTD_freeDStream(inflate->zstd);
    free(inflate);
}

void ptd_perf_inflate_feed(struct perf_inflate *inflate, const uint8_t *bytes, size_t len_bytes,
                           uint64_t limit_bytes)
{
    inflate->in = (ZSTD_inBuffer){.src = bytes, .size = len_bytes};
    inflate->limit_bytes = limit_bytes;
}

/* Fills the buffer as far as the input goes. */
static int inflate_more(struct perf_inflate *inflate, const char **why)
{
    ZSTD_outBuffer out;
    size_t status;

    memmove(inflate->buffer, inflate->buffer + inflate->begin, inflate->end - inflate->begin);
    inflate->end -= inflate->begin;
    inflate->begin = 0;
    out = (ZSTD_outBuffer){.dst = inflate->buffer, .size = BUFFER_BYTES, .pos = inflate->end};
    status = ZSTD_decompressStream(inflate->zstd, &out, &inflate->in);
    if (ZSTD_isError(status)) {
        *why = ZSTD_getErrorName(status);
        return PTD_E_FORMAT;
    }
    if (out.pos - inflate->end > inflate->limit_bytes) {
        *why = "more comes out of a compressed record than perf can have put in";
        return PTD_E_FORMAT;
    }
    inflate->limit_bytes -= out.pos - inflate->end;
    inflate->end = out.pos;
    inflate->more = out.pos == out.size;
    return PTD_OK;
}

int ptd_perf_inflate_record(struct perf_inflate *inflate, const uint8_t **record, size_t *len_bytes,
                            const char **why)
{
    for (;;) {
        const uint8_t *const at = inflate->buffer + inflate->begin;
        const size_t left = inflate->end - inflate->begin;

        if (left >= PERF_RECORD_HEADER) {
            const size_t size = (size_t)little_endian(at + 6, 2);

            if (size < PERF_RECORD_HEADER) {
                *why = "a record that is smaller than its header";
                return PTD_E_FORMAT;
            }
            if (size <= left) {
                *record = at;
                *len_bytes = size;
                inflate->begin += size;
                return PTD_OK;
            }
        }
        if (inflate->in.pos == inflate->in.size && !inflate->more)
            return PTD_END;

        const int error = inflate_more(inflate, why);

        if (error)
            return error;
    }
}

size_t ptd_perf_inflate_left(const struct perf_inflate *inflate)
{
    return inflate->end - inflate->begin;
}
