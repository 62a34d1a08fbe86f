/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces merged by time: a heap of those that have items, the one with the earliest on top.
 */
#include "view/merge.h"

static bool is_earlier(const struct lane *a, const struct lane *b)
{
    return a->stream->time != b->stream->time ? a->stream->time < b->stream->time
                                              : a->order < b->order;
}

/* The lane at an index goes down to where none behind it in the heap is earlier. */
static void sift(struct lane **heap, size_t count, size_t at)
{
    for (;;) {
        struct lane *const lane = heap[at];
        size_t least = at;

        for (size_t i = 2 * at + 1; i <= 2 * at + 2 && i < count; i++) {
            if (is_earlier(heap[i], heap[least]))
                least = i;
        }
        if (least == at)
            return;
        heap[at] = heap[least];
        heap[least] = lane;
        at = least;
    }
}

int merge_lanes(struct lane **lanes, size_t count)
{
    for (size_t i = count; i-- > 0;)
        sift(lanes, count, i);
    while (count > 0) {
        struct lane *const lane = lanes[0];
        int error = stream_put(lane->options, lane->stream);

        if (!error && !stream_next(lane->options, lane->stream))
            error = lane->next(lane->owner, lane);
        if (error)
            return error;
        if (!lane->stream)
            lanes[0] = lanes[--count];
        sift(lanes, count, 0);
    }
    return 0;
}
