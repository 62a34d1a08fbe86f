/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of a trace in which some packets are others, made piece by piece as it is read. */
#ifndef PTD_PERF_COPY_H
#define PTD_PERF_COPY_H

#include "perf/scan.h"

#define PERF_INSERTED_BYTES 8u /* what is put in has so many bytes each time */

struct perf_copy {
    struct perf_scan scan; /* of the original */
    /*
     * Puts something in the place of a packet (ptd_perf_copy_*()), of those that are not passed
     * (ptd_perf_scan_pass()) and stay as they are. False: no memory.
     */
    bool (*packet)(void *owner, const struct ptd_packet *packet);
    void *owner;
    uint8_t *bytes; /* of the copy, those that are read next */
    size_t len, room;
    uint64_t base; /* offset in the copy of the first of them */
    uint64_t done; /* bytes of the original that are in the copy */
    bool has_ended;
    uint64_t *inserted; /* offsets in the copy of what the original does not have */
    size_t inserted_count, inserted_room;
};

/* The rest of *copy is begun. False: no memory. */
bool ptd_perf_copy_begin(struct perf_copy *copy, struct perf_source original);
void ptd_perf_copy_end(struct perf_copy *copy);
struct perf_source ptd_perf_copy_source(struct perf_copy *copy);

/* For .packet: bytes as they are given, the packet's own, and PERF_INSERTED_BYTES in front of it.
 */
bool ptd_perf_copy_put(struct perf_copy *copy, const uint8_t *bytes, size_t len);
bool ptd_perf_copy_same(struct perf_copy *copy, const struct ptd_packet *packet);
bool ptd_perf_copy_insert(struct perf_copy *copy, const uint8_t *bytes);

/* What is read of bytes, put together: struct ptd_perf_store says where. */
struct perf_whole {
    const struct ptd_perf_store *store; /* NULL: the C library's memory */
    uint8_t *bytes;
    size_t len, room;
};

/* likely_bytes: how many there will be. False: no room; nothing is kept. */
bool ptd_perf_copy_all(struct perf_whole *whole, struct perf_source source, size_t likely_bytes);
void ptd_perf_copy_free(const struct ptd_perf_store *store, uint8_t *bytes, size_t room);

#endif
