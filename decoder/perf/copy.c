/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of a trace that is made as it is read. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "perf/copy.h"

#define PIECE_BYTES (64u << 10) /* made at a time */

/* ---- What a packet becomes ---- */

bool ptd_perf_copy_put(struct perf_copy *copy, const uint8_t *bytes, size_t len)
{
    if (len > copy->room - copy->len) {
        const size_t room = 2 * copy->room + len + PIECE_BYTES;
        uint8_t *const grown = realloc(copy->bytes, room);

        if (!grown)
            return false;
        copy->bytes = grown;
        copy->room = room;
    }
    if (len)
        memcpy(copy->bytes + copy->len, bytes, len);
    copy->len += len;
    return true;
}

bool ptd_perf_copy_same(struct perf_copy *copy, const struct ptd_packet *packet)
{
    return ptd_perf_copy_put(copy, ptd_perf_scan_bytes(&copy->scan, packet->offset),
                             packet->size_bytes);
}

bool ptd_perf_copy_insert(struct perf_copy *copy, const uint8_t *bytes)
{
    if (!array_grow((void **)&copy->inserted, &copy->inserted_room, copy->inserted_count,
                    sizeof(*copy->inserted)))
        return false;
    copy->inserted[copy->inserted_count++] = copy->base + copy->len;
    return ptd_perf_copy_put(copy, bytes, PERF_INSERTED_BYTES);
}

/* ---- The way over the original ---- */

/* Bytes of the original up to an offset stay as they are: nothing was found in them. */
static bool keep_until(struct perf_copy *copy, uint64_t offset)
{
    const uint64_t from = copy->done;

    copy->done = offset;
    return ptd_perf_copy_put(copy, ptd_perf_scan_bytes(&copy->scan, from), (size_t)(offset - from));
}

static bool step(struct perf_copy *copy)
{
    struct perf_scan *const scan = &copy->scan;
    struct ptd_packet packet;

    ptd_perf_scan_pass(scan, NULL);
    if (!keep_until(copy, ptd_packets_offset(&scan->packets)))
        return false;
    switch (ptd_perf_scan_next(scan, NULL, &packet)) {
    case SCAN_PACKET:
        if (!keep_until(copy, packet.offset) || !copy->packet(copy->owner, &packet))
            return false;
        copy->done = packet.offset + packet.size_bytes;
        return true;
    case SCAN_SKIPPED:
        return keep_until(copy, ptd_packets_offset(&scan->packets));
    case SCAN_END:
        break;
    }
    copy->has_ended = true;
    return !scan->no_memory && keep_until(copy, scan->base + scan->len);
}

static bool read_copy(void *owner, const uint8_t **bytes, size_t *len_bytes)
{
    struct perf_copy *const copy = owner;

    copy->base += copy->len;
    copy->len = 0;
    while (copy->len < PIECE_BYTES && !copy->has_ended)
        if (!step(copy))
            return false;
    *bytes = copy->bytes;
    *len_bytes = copy->len;
    return true;
}

bool ptd_perf_copy_begin(struct perf_copy *copy, struct perf_source original)
{
    return ptd_perf_scan_begin(&copy->scan, original);
}

void ptd_perf_copy_end(struct perf_copy *copy)
{
    ptd_perf_scan_end(&copy->scan);
    free(copy->bytes);
    free(copy->inserted);
    copy->bytes = NULL;
    copy->inserted = NULL;
}

struct perf_source ptd_perf_copy_source(struct perf_copy *copy)
{
    return (struct perf_source){read_copy, copy};
}

/* ---- All of it ---- */

static bool make_room(struct perf_whole *whole, size_t room)
{
    const struct ptd_perf_store *const store = whole->store;
    uint8_t *const bytes = store ? store->resize(store->owner, whole->bytes, whole->room, room)
                                 : realloc(whole->bytes, room);

    if (!bytes)
        return false;
    whole->bytes = bytes;
    whole->room = room;
    return true;
}

void ptd_perf_copy_free(const struct ptd_perf_store *store, uint8_t *bytes, size_t room)
{
    if (!store)
        free(bytes);
    else if (bytes)
        (void)store->resize(store->owner, bytes, room, 0);
}

static bool add(struct perf_whole *whole, const uint8_t *bytes, size_t len)
{
    if (len > whole->room - whole->len &&
        !make_room(whole, whole->room + whole->room / 8 + len + PIECE_BYTES))
        return false;
    memcpy(whole->bytes + whole->len, bytes, len);
    whole->len += len;
    return true;
}

bool ptd_perf_copy_all(struct perf_whole *whole, struct perf_source source, size_t likely_bytes)
{
    const uint8_t *bytes = NULL;
    size_t len = 0;
    bool ok = make_room(whole, likely_bytes ? likely_bytes : 1);

    do
        ok = ok && source.read(source.owner, &bytes, &len) && (len == 0 || add(whole, bytes, len));
    while (ok && len > 0);
    if (ok)
        return true;
    ptd_perf_copy_free(whole->store, whole->bytes, whole->room);
    *whole = (struct perf_whole){.store = whole->store};
    return false;
}

/* ---- A trace as it is ---- */

int ptd_perf_whole(const struct ptd_perf_session *session, const struct ptd_perf_trace *trace,
                   struct ptd_perf_whole *whole)
{
    struct perf_whole copy = {.store = session->store};
    struct perf_pieces pieces;

    *whole = (struct ptd_perf_whole){.bytes = trace->bytes, .len_bytes = trace->len_bytes};
    if (trace->bytes)
        return PTD_OK;
    if (!ptd_perf_copy_all(&copy, ptd_perf_pieces_source(&pieces, session, trace),
                           trace->len_bytes))
        return PTD_E_NOMEM;
    whole->bytes = whole->copy = copy.bytes;
    whole->room = copy.room;
    whole->store = copy.store;
    return PTD_OK;
}

void ptd_perf_whole_free(struct ptd_perf_whole *whole)
{
    ptd_perf_copy_free(whole->store, whole->copy, whole->room);
    *whole = (struct ptd_perf_whole){0};
}
