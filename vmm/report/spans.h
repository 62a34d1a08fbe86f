/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What began and ended on the tracks of a time line, in bounded memory. Where there are too many,
 * those that are too short are put together: short ones of one lane (a depth of a track) that begin
 * in the same piece of time are one, which is called as the longest of them. Pieces are 2^shift
 * long, and become longer until there is room.
 */
#ifndef VMM_REPORT_SPANS_H
#define VMM_REPORT_SPANS_H

#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPANS_MAX   3000000u
#define SPANS_DEPTH 255u /* what is deeper is left out */

struct span {
    uint64_t start, end;
    uint64_t longest; /* of those that were put together */
    uint32_t name;
    uint32_t count; /* how many they are; 1: it is as it was */
    uint32_t track;
    uint16_t depth;
};

/* Begins as zeros. */
struct spans {
    struct span *list;
    size_t count, room;
    struct table lanes; /* key: track, depth; count: number of its last span, plus 1 */
    unsigned shift;
    bool is_cut_off; /* something was too deep */
};

/* On a lane, spans come in the order of time. False: no memory, here and below. */
bool spans_add(struct spans *spans, const struct span *span);
/* Pieces of time are so long from here on, at least. */
bool spans_merge(struct spans *spans, unsigned shift);
/* By track and start, and of two that begin together the upper first. */
void spans_sort(struct spans *spans);
void spans_free(struct spans *spans);

#endif
