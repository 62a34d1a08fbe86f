/* SPDX-License-Identifier: BSD-3-Clause */
/* Spans in bounded memory. */
#include "report/spans.h"

#include <stdlib.h>

#define SHIFT_MAX 62u

static bool is_short(const struct span *span, unsigned shift)
{
    return span->count > 1 || span->end - span->start < UINT64_C(1) << shift;
}

static bool are_one(const struct span *last, const struct span *span, unsigned shift)
{
    return last->start >> shift == span->start >> shift && is_short(last, shift) &&
           is_short(span, shift);
}

static void put_together(struct span *last, const struct span *span)
{
    if (span->longest > last->longest) {
        last->longest = span->longest;
        last->name = span->name;
    }
    if (span->end > last->end)
        last->end = span->end;
    last->count = span->count > UINT32_MAX - last->count ? UINT32_MAX : last->count + span->count;
}

/* Behind the first count of the list, or into the last one of its lane there. */
static bool put(struct spans *spans, const struct span *span, size_t *count)
{
    struct sum *const lane = table_at(&spans->lanes, span->track, span->depth, 0);

    if (!lane)
        return false;
    if (lane->count > 0 && are_one(&spans->list[lane->count - 1], span, spans->shift)) {
        put_together(&spans->list[lane->count - 1], span);
        return true;
    }
    spans->list[*count] = *span;
    lane->count = ++*count;
    return true;
}

bool spans_merge(struct spans *spans, unsigned shift)
{
    size_t count = 0;

    if (shift > spans->shift)
        spans->shift = shift;
    for (size_t i = 0; i < spans->lanes.count; i++)
        spans->lanes.sums[i].count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct span span = spans->list[i];

        if (!put(spans, &span, &count))
            return false;
    }
    spans->count = count;
    return true;
}

/* A quarter of the list becomes free, so that it takes a while until it is full again. */
static bool thin_out(struct spans *spans)
{
    while (spans->count > SPANS_MAX / 4 * 3 && spans->shift < SHIFT_MAX) {
        if (!spans_merge(spans, spans->shift + 1))
            return false;
    }
    return true;
}

static bool make_room(struct spans *spans)
{
    size_t room = spans->room ? 2 * spans->room : 4096;
    struct span *grown;

    if (spans->count == SPANS_MAX)
        return thin_out(spans);
    if (spans->count < spans->room)
        return true;
    if (room > SPANS_MAX)
        room = SPANS_MAX;
    grown = reallocarray(spans->list, room, sizeof(*grown));
    if (!grown)
        return false;
    spans->list = grown;
    spans->room = room;
    return true;
}

bool spans_add(struct spans *spans, const struct span *span)
{
    if (span->depth >= SPANS_DEPTH) {
        spans->is_cut_off = true;
        return true;
    }
    if (!make_room(spans))
        return false;
    if (spans->count == SPANS_MAX) { /* as many lanes as that */
        spans->is_cut_off = true;
        return true;
    }
    return put(spans, span, &spans->count);
}

static int by_place(const void *left, const void *right)
{
    const struct span *const a = left, *const b = right;

    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (int)a->depth - (int)b->depth;
}

void spans_sort(struct spans *spans)
{
    if (spans->count > 0)
        qsort(spans->list, spans->count, sizeof(*spans->list), by_place);
}

void spans_free(struct spans *spans)
{
    table_free(&spans->lanes);
    free(spans->list);
}
