/* SPDX-License-Identifier: BSD-3-Clause */
/* perf's rings, see ring.h. */
#include "hostpt/ring.h"
#include "pt_packets.h"

#include <string.h>

#define PSB_NEAR (256u << 10) /* perf asks for a PSB every 16 KiB of packets, if it is not told */

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

/* Up to where the records could be read. */
static uint64_t walk_records(const struct ring *ring, uint64_t at, uint64_t head,
                             struct ring_news *news)
{
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
    return at;
}

/* ---- Looking ---- */

uint64_t ring_trace_end(const struct ring *ring)
{
    return load(&ring->page->aux_head);
}

uint64_t ring_records_end(const struct ring *ring)
{
    return load(&ring->page->data_head);
}

void ring_look(const struct ring *ring, uint64_t from, struct ring_news *news)
{
    (void)walk_records(ring, from, ring_records_end(ring), news);
    if (ring_records_end(ring) - from > ring->record_bytes)
        news->lost = true;
}

bool ring_copy(const struct ring *ring, uint64_t from, uint64_t end, struct bytes *to)
{
    const uint64_t mask = ring->aux_bytes - 1;
    const size_t len = (size_t)(end - from), first = ring->aux_bytes - (size_t)(from & mask);

    if (end - from > ring->aux_bytes)
        return false;
    return bytes_add(to, ring->aux + (from & mask), len < first ? len : first) &&
           (len <= first || bytes_add(to, ring->aux, len - first));
}

bool ring_has(const struct ring *ring, uint64_t from)
{
    return ring_trace_end(ring) - from <= ring->aux_bytes;
}

static bool is_psb(const struct ring *ring, uint64_t at)
{
    uint8_t bytes[PT_PSB_LEN];

    copy(ring->aux, ring->aux_bytes, at, bytes, sizeof(bytes));
    for (unsigned i = 0; i < sizeof(bytes); i += 2)
        if (bytes[i] != PT_OPC_EXT || bytes[i + 1] != PT_EXT_PSB)
            return false;
    return true;
}

bool ring_find_psb(const struct ring *ring, uint64_t end, uint64_t *psb)
{
    const uint64_t near = ring->aux_bytes / 4 < PSB_NEAR ? ring->aux_bytes / 4 : PSB_NEAR;

    for (uint64_t back = PT_PSB_LEN; back <= near && back <= end; back++) {
        if (ring->aux[(end - back) & (ring->aux_bytes - 1)] == PT_OPC_EXT &&
            is_psb(ring, end - back)) {
            *psb = end - back;
            return true;
        }
    }
    return false;
}

/* ---- Taking ---- */

void ring_records(struct ring *ring, struct ring_news *news)
{
    const uint64_t head = load(&ring->page->data_head);

    (void)walk_records(ring, ring->page->data_tail, head, news);
    store(&ring->page->data_tail, head);
}

bool ring_take(struct ring *ring, struct bytes *to)
{
    const uint64_t head = ring_trace_end(ring);

    if (!ring_copy(ring, ring->page->aux_tail, head, to))
        return false;
    store(&ring->page->aux_tail, head);
    return true;
}
