/* SPDX-License-Identifier: BSD-3-Clause */
/* The packets of bytes that come in pieces: a window is slid along them, so that memory is bounded.
 */
#ifndef PTD_PERF_SCAN_H
#define PTD_PERF_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptdec_perf.h"

/* The next bytes, valid until the next call; *len_bytes 0: the end. False: no memory. */
struct perf_source {
    bool (*read)(void *owner, const uint8_t **bytes, size_t *len_bytes);
    void *owner;
};

/* The pieces of a trace, one after the other. */
struct perf_pieces {
    const struct ptd_perf_store *store;
    const struct ptd_perf_trace *trace;
    size_t at;     /* in its pieces */
    size_t passed; /* bytes of this one */
    uint64_t offset;
};

struct perf_source ptd_perf_pieces_source(struct perf_pieces *pieces,
                                          const struct ptd_perf_session *session,
                                          const struct ptd_perf_trace *trace);
/* One that is at so many bytes tells the store, each time that there are many more. */
void ptd_perf_pass(const struct ptd_perf_store *store, uint64_t from, uint64_t to);

struct perf_scan {
    struct perf_source source;
    struct ptd_packets packets; /* those that come next; many of them are there */
    uint8_t *bytes;             /* the window */
    size_t len, room;
    uint64_t base; /* offset of the first of them */
    bool has_ended, no_memory;
    bool is_searching; /* for a PSB, behind bytes that are no packets */
};

enum perf_scan_end { SCAN_PACKET, SCAN_SKIPPED, SCAN_END };

bool ptd_perf_scan_begin(struct perf_scan *scan, struct perf_source source);
void ptd_perf_scan_end(struct perf_scan *scan);
/*
 * The next packet, as ptd_time_next() gives it; time, unless it is NULL, learns what is lost, but
 * not the packet. SCAN_SKIPPED: bytes up to ptd_packets_offset(&scan->packets) are no packets, or
 * not yet known as such. SCAN_END: also if there is no memory (scan->no_memory).
 */
enum perf_scan_end ptd_perf_scan_next(struct perf_scan *scan, struct ptd_time *time,
                                      struct ptd_packet *packet);
/* The same without a word of what is skipped. False: the end. */
bool ptd_perf_scan_packet(struct perf_scan *scan, struct ptd_time *time, struct ptd_packet *packet);
/*
 * Passes over what most of a trace is, which only a clock wants to know: short TNTs, TIPs that have
 * an IP, MTC packets and short CYC packets, as far as they are there. time, unless it is NULL, is
 * told them. The next packet is anything.
 */
void ptd_perf_scan_pass(struct perf_scan *scan, struct ptd_time *time);
/* As ptd_time_point_ahead(). */
void ptd_perf_scan_point(struct perf_scan *scan, struct ptd_time *time,
                         struct ptd_time_point *point);
/* The bytes from an offset up to where the scan is, which none of the calls since has passed. */
const uint8_t *ptd_perf_scan_bytes(const struct perf_scan *scan, uint64_t offset);

#endif
