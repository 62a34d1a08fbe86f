/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces merged by time: a heap of those that have items, the one with the earliest on top.
 */
#include "view/merge.h"

int merge_open(struct decode_options *options, struct stream *stream, bool *has_item)
{
    int error;

    *has_item = false;
    stream->out = options->format ? options->format->open(stdout) : NULL;
    if (options->format && !stream->out)
        return reason_no_memory(stream->why);
    error = stream_open(options, stream);
    if (!error)
        *has_item = stream_next(options, stream);
    return error;
}

int merge_close(struct decode_options *options, struct stream *stream, int error)
{
    if (stream->is_open)
        error = stream_close(options, stream, error);
    if (stream->out)
        (void)options->format->close(stream->out);
    stream->out = NULL;
    return error;
}

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
