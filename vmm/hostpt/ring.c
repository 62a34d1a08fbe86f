/* SPDX-License-Identifier: BSD-3-Clause */
/* perf's rings, see ring.h. */
#include "hostpt/ring.h"

#include <string.h>

static uint64_t load(const __u64 *head)
{
    return __atomic_load_n(head, __ATOMIC_ACQUIRE);
}

static void store(__u64 *tail, uint64_t value)
{
    __atomic_store_n(tail, value, __ATOMIC_RELEASE);
}

/* Bytes from a position of a ring on, which may go round. */
static void copy(const uint8_t *ring, size_t ring_bytes, uint64_t at, void *to, size_t len)
{
    const size_t offset = (size_t)(at & (ring_bytes - 1)), first = ring_bytes - offset;

    memcpy(to, ring + offset, len < first ? len : first);
    if (len > first)
        memcpy((uint8_t *)to + first, ring, len - first);
}

static void take_record(const struct ring *ring, uint64_t at,
                        const struct perf_event_header *header, struct ring_news *news)
{
    uint64_t aux[3]; /* offset, size, flags */

    if (header->type == PERF_RECORD_LOST)
        news->lost = true;
    if (header->type != PERF_RECORD_AUX || header->size < sizeof(*header) + sizeof(aux))
        return;
    copy(ring->records, ring->record_bytes, at + sizeof(*header), aux, sizeof(aux));
    news->lost = news->lost || (aux[2] & (PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL));
    news->collided = news->collided || (aux[2] & PERF_AUX_FLAG_COLLISION);
}

void ring_records(struct ring *ring, struct ring_news *news)
{
    const uint64_t head = load(&ring->page->data_head);
    uint64_t at = ring->page->data_tail;
    struct perf_event_header header;

    *news = (struct ring_news){.lost = false};
    while (head - at >= sizeof(header) && head - at <= ring->record_bytes) {
        copy(ring->records, ring->record_bytes, at, &header, sizeof(header));
        if (header.size < sizeof(header) || header.size > head - at)
            break;
        take_record(ring, at, &header, news);
        at += header.size;
    }
    news->lost = news->lost || at != head;
    store(&ring->page->data_tail, head);
}

bool ring_take(struct ring *ring, struct bytes *to)
{
    const uint64_t head = load(&ring->page->aux_head), tail = ring->page->aux_tail;
    const size_t len = (size_t)(head - tail);
    const size_t first = ring->aux_bytes - (size_t)(tail & (ring->aux_bytes - 1));

    if (head - tail > ring->aux_bytes)
        return false;
    if (!bytes_add(to, ring->aux + (tail & (ring->aux_bytes - 1)), len < first ? len : first) ||
        (len > first && !bytes_add(to, ring->aux, len - first)))
        return false;
    store(&ring->page->aux_tail, head);
    return true;
}
