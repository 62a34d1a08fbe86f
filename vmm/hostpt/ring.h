/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What perf hands over by shared memory: a ring of trace bytes (AUX), and a ring of records that
 * say what became of them. Both were filled by the time that they are read: the event is disabled.
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

#endif
