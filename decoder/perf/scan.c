/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that come in pieces, as packets. Whatever is asked of a packet is answered as of the whole
 * trace: there is more in the window than any packet has, and what tells the time may be looked for
 * in as much as ptd_time_sees_enough() wants.
 */
#include <stdlib.h>
#include <string.h>

#include "packets/part.h"
#include "perf/scan.h"
#include "time/time.h"

#ifndef PTD_PERF_SMALL
#define ROOM_AT_FIRST (256u << 10)
#define PIECE_BYTES   (64u << 10) /* taken at a time */
#define AHEAD         (16u << 10) /* there is at least so much, unless the end is near */
#else                             /* so that short traces are long ones for a fuzzer */
#define ROOM_AT_FIRST 2048u
#define PIECE_BYTES   128u
#define AHEAD         768u
#endif

/* ---- Pieces ---- */

void ptd_perf_pass(const struct ptd_perf_store *store, uint64_t from, uint64_t to)
{
    if (store && store->passed && from / PTD_PERF_PASS_BYTES != to / PTD_PERF_PASS_BYTES)
        store->passed(store->owner);
}

static bool read_piece(void *owner, const uint8_t **bytes, size_t *len_bytes)
{
    struct perf_pieces *const pieces = owner;
    const struct ptd_perf_piece *const list = pieces->trace->pieces;
    const size_t count = pieces->trace->piece_count;

    if (pieces->at < count && pieces->passed == list[pieces->at].len_bytes) {
        pieces->at++;
        pieces->passed = 0;
    }
    *len_bytes = 0;
    if (pieces->at == count)
        return true;
    *bytes = list[pieces->at].bytes + pieces->passed;
    *len_bytes = list[pieces->at].len_bytes - pieces->passed;
    if (*len_bytes > PIECE_BYTES)
        *len_bytes = PIECE_BYTES;
    pieces->passed += *len_bytes;
    ptd_perf_pass(pieces->store, pieces->offset, pieces->offset + *len_bytes);
    pieces->offset += *len_bytes;
    return true;
}

struct perf_source ptd_perf_pieces_source(struct perf_pieces *pieces,
                                          const struct ptd_perf_session *session,
                                          const struct ptd_perf_trace *trace)
{
    *pieces = (struct perf_pieces){.store = session->store, .trace = trace};
    return (struct perf_source){read_piece, pieces};
}

/* ---- The window ---- */

static bool take(struct perf_scan *scan)
{
    const size_t used = (size_t)(ptd_packets_offset(&scan->packets) - scan->base);
    const uint8_t *bytes = NULL;
    size_t len = 0, room = scan->room;
    uint8_t *grown;

    if (!scan->source.read(scan->source.owner, &bytes, &len))
        return false;
    scan->has_ended = len == 0;
    if (len > room - scan->len && used >= room / 2) { /* else it would be moved too often */
        memmove(scan->bytes, scan->bytes + used, scan->len - used);
        scan->len -= used;
        scan->base += used;
    }
    if (len > SIZE_MAX / 2 - scan->len)
        return false;
    while (room - scan->len < len)
        room *= 2;
    grown = room == scan->room ? scan->bytes : realloc(scan->bytes, room);
    if (!grown)
        return false;
    if (len)
        memcpy(grown + scan->len, bytes, len);
    scan->bytes = grown;
    scan->room = room;
    scan->len += len;
    ptd_packets_slide(&scan->packets, scan->bytes, scan->len, scan->base);
    return true;
}

/* So many bytes are there, or the end is. False: no memory. */
static bool see(struct perf_scan *scan, size_t len)
{
    while (!scan->has_ended && (size_t)(scan->packets.end - scan->packets.pos) < len) {
        if (!take(scan)) {
            scan->no_memory = true;
            return false;
        }
    }
    return true;
}

bool ptd_perf_scan_begin(struct perf_scan *scan, struct perf_source source)
{
    *scan = (struct perf_scan){.source = source, .room = ROOM_AT_FIRST};
    scan->bytes = calloc(1, scan->room);
    scan->no_memory = !scan->bytes;
    if (!scan->bytes)
        return false;
    ptd_packets_init(&scan->packets, scan->bytes, 0);
    return true;
}

void ptd_perf_scan_end(struct perf_scan *scan)
{
    free(scan->bytes);
    scan->bytes = NULL;
}

const uint8_t *ptd_perf_scan_bytes(const struct perf_scan *scan, uint64_t offset)
{
    return scan->bytes + (offset - scan->base);
}

/* ---- Packets ---- */

/*
 * On the way to a PSB. SCAN_PACKET: here it is. What was looked at before may end in one, so there
 * has to be more; and what is passed over here stays in the window.
 */
static enum perf_scan_end search(struct perf_scan *scan)
{
    if (!see(scan, (size_t)(scan->packets.end - scan->packets.pos) + 1))
        return SCAN_END;
    if (scan->has_ended)
        return ptd_packets_sync(&scan->packets) == PTD_OK ? SCAN_PACKET : SCAN_END;
    return ptd_packets_sync_part(&scan->packets) ? SCAN_PACKET : SCAN_SKIPPED;
}

enum perf_scan_end ptd_perf_scan_next(struct perf_scan *scan, struct ptd_time *time,
                                      struct ptd_packet *packet)
{
    enum perf_scan_end end = SCAN_PACKET;
    int status;

    if (!see(scan, AHEAD))
        return SCAN_END;
    if (scan->is_searching)
        end = search(scan);
    if (end != SCAN_PACKET)
        return end;
    scan->is_searching = false;
    status = ptd_packets_next(&scan->packets, packet);
    if (status == PTD_OK || status == PTD_END)
        return status == PTD_OK ? SCAN_PACKET : SCAN_END;
    if (time)
        ptd_time_lost(time);
    ptd_packets_skip_byte(&scan->packets);
    scan->is_searching = true;
    return SCAN_SKIPPED;
}

bool ptd_perf_scan_packet(struct perf_scan *scan, struct ptd_time *time, struct ptd_packet *packet)
{
    enum perf_scan_end end;

    do
        end = ptd_perf_scan_next(scan, time, packet);
    while (end == SCAN_SKIPPED);
    return end == SCAN_PACKET;
}

void ptd_perf_scan_pass(struct perf_scan *scan, struct ptd_time *time)
{
    struct ptd_packets *const packets = &scan->packets;
    size_t behind;

    if (scan->is_searching || !see(scan, AHEAD))
        return;
    behind = scan->has_ended ? TIME_PASS_BYTES : AHEAD;
    if ((size_t)(packets->end - packets->pos) > behind)
        ptd_time_pass(time, packets, packets->end - behind);
}

void ptd_perf_scan_point(struct perf_scan *scan, struct ptd_time *time,
                         struct ptd_time_point *point)
{
    while (!scan->has_ended && !ptd_time_sees_enough(time, &scan->packets) &&
           see(scan, 2 * (size_t)(scan->packets.end - scan->packets.pos)))
        ;
    ptd_time_point_ahead(time, &scan->packets, point);
}
