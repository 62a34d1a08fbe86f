/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What perf hands over by shared memory: a ring of trace bytes (AUX), and a ring of records that
 * say what became of them. Who has the event takes out of them what was not taken yet, while the
 * event is disabled. Others may look at what stands there, and go by positions, which only grow.
 */
#ifndef VMM_HOSTPT_RING_H
#define VMM_HOSTPT_RING_H

#include "common/bytes.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    struct perf_event_mmap_page *page;
    const uint8_t *records, *aux; /* of so many bytes, powers of two */
    size_t record_bytes, aux_bytes;
};

/* What the records say that were not read before. */
struct ring_news {
    bool lost;     /* trace bytes are missing, or records */
    bool collided; /* somebody else had the hardware */
};

/* The records. */
void ring_records(struct ring *ring, struct ring_news *news);
/*
 * The trace bytes, appended to *to; the ring then has room for others. False: no memory, or what
 * the page says is impossible, and then nothing was read.
 */
bool ring_take(struct ring *ring, struct bytes *to);

/* Where the next trace byte, or the next record, will stand. */
uint64_t ring_trace_end(const struct ring *ring);
uint64_t ring_records_end(const struct ring *ring);
/* The records from a position on; nothing is taken. */
void ring_look(const struct ring *ring, uint64_t from, struct ring_news *news);
/*
 * The trace bytes between two positions, appended to *to; nothing is taken. False: no memory, or
 * they cannot be there. They count only if ring_has(from) holds afterwards.
 */
bool ring_copy(const struct ring *ring, uint64_t from, uint64_t end, struct bytes *to);
/* No byte from a position on has given way to another one, as far as the page tells. */
bool ring_has(const struct ring *ring, uint64_t from);
/* The last PSB that ends at a position or in front of it, and is near. False: there is none. */
bool ring_find_psb(const struct ring *ring, uint64_t end, uint64_t *psb);

#endif
