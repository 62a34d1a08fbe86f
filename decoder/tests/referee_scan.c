/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "perf/scan.h"
#include "tests/referee.h"

/* The trace in pieces. */
struct pieces {
    const struct referee_trace *trace;
    size_t at, piece_bytes;
};

struct side {
    struct pieces pieces;
    struct perf_scan scan;
    struct ptd_time *time;
};

static bool read_piece(void *owner, const uint8_t **bytes, size_t *len_bytes)
{
    struct pieces *const pieces = owner;
    const size_t left = pieces->trace->len_bytes - pieces->at;

    *bytes = (const uint8_t *)pieces->trace->bytes + pieces->at;
    *len_bytes = left < pieces->piece_bytes ? left : pieces->piece_bytes;
    pieces->at += *len_bytes;
    return true;
}

static bool open_side(struct side *side, const struct referee_trace *trace, size_t piece_bytes)
{
    side->pieces = (struct pieces){.trace = trace, .piece_bytes = piece_bytes};
    side->time = ptd_time_new(trace->clocks);
    if (!ptd_perf_scan_begin(&side->scan, (struct perf_source){read_piece, &side->pieces}) ||
        !side->time)
        return false;
    if (trace->config)
        ptd_packets_set_errata(&side->scan.packets, trace->config->errata);
    return true;
}

static void close_side(struct side *side)
{
    ptd_perf_scan_end(&side->scan);
    ptd_time_free(side->time);
}

/* One by one up to an offset, or to the end. False: there is no packet at it. */
static bool go_to(struct side *side, const struct ptd_packet *want)
{
    struct ptd_packet packet;

    while (ptd_perf_scan_packet(&side->scan, side->time, &packet)) {
        if (want && packet.offset >= want->offset)
            return packet.offset == want->offset && packet.type == want->type;
        ptd_time_packet(side->time, &packet);
    }
    return !want;
}

static bool same_clocks(const struct side *one, const struct side *other)
{
    return ptd_time_fingerprint(one->time) == ptd_time_fingerprint(other->time) &&
           ptd_time_set_backs(one->time) == ptd_time_set_backs(other->time);
}

/* The clocks are told a packet, and look ahead. */
static bool tell(struct side *one, struct side *other, const struct ptd_packet *packet)
{
    struct ptd_time_point a, b;

    ptd_time_packet(one->time, packet);
    ptd_time_packet(other->time, packet);
    ptd_perf_scan_point(&one->scan, one->time, &a);
    ptd_perf_scan_point(&other->scan, other->time, &b);
    return a.tsc == b.tsc && a.earliest == b.earliest && a.latest == b.latest &&
           a.cycles == b.cycles;
}

static bool compare(struct side *passing, struct side *all)
{
    struct ptd_packet packet;
    bool has_packet;

    do {
        ptd_perf_scan_pass(&passing->scan, passing->time);
        has_packet = ptd_perf_scan_packet(&passing->scan, passing->time, &packet);
        if (!go_to(all, has_packet ? &packet : NULL) || !same_clocks(passing, all) ||
            (has_packet && !tell(passing, all, &packet)))
            return false;
    } while (has_packet);
    return true;
}

bool referee_scan(const struct referee_trace *trace, size_t piece_bytes)
{
    struct side passing = {.time = NULL}, all = {.time = NULL};
    const bool same = open_side(&passing, trace, piece_bytes) &&
                      open_side(&all, trace, piece_bytes) && compare(&passing, &all);

    close_side(&passing);
    close_side(&all);
    return same;
}
