/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: compressed records, one zstd stream over all of them. */
#ifndef PTD_PERF_INFLATE_H
#define PTD_PERF_INFLATE_H

#include <stddef.h>
#include <stdint.h>

struct perf_inflate;

struct perf_inflate *ptd_perf_inflate_new(void); /* NULL: no memory */
void ptd_perf_inflate_free(struct perf_inflate *inflate);
/* More compressed bytes; those before must be used up. limit_bytes: the most that may come out. */
void ptd_perf_inflate_feed(struct perf_inflate *inflate, const uint8_t *bytes, size_t len_bytes,
                           uint64_t limit_bytes);
/*
 * The next whole record, valid until the next call. PTD_OK; PTD_END: more input is needed;
 * PTD_E_FORMAT and a sentence in *why.
 */
int ptd_perf_inflate_record(struct perf_inflate *inflate, const uint8_t **record, size_t *len_bytes,
                            const char **why);
/* Bytes of a record that has begun and not ended. */
size_t ptd_perf_inflate_left(const struct perf_inflate *inflate);

#endif
