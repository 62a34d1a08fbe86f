/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode of a raw trace that is read piece by piece: memory does not grow with its length, and
 * what a pipe has brought is shown as soon as it can be told.
 */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(void)
{
    return complain(EXIT_CODE_HOST, "no memory for decoding");
}

static int cannot_read(const struct input *input, int error)
{
    return complain(EXIT_CODE_FILE, "%s: %s", input->name, strerror(-error));
}

/* Whether times are TSC ticks, which formats want to know at first. 0 or an exit code. */
static int begin_clock(struct stream *stream)
{
    struct input *const input = stream->input;
    size_t len = INPUT_PIECE;
    int error;

    while ((error = input_look(input, len)) == 0) {
        if (clock_begin(&stream->clock, input->head.data, input->head.len, &stream->clocks) ||
            input->at_end)
            return 0;
        len = 2 * input->head.len;
    }
    return cannot_read(input, error);
}

/* PTD_OK, PTD_END; else stream->code says what is wrong. */
static int take(struct stream *stream)
{
    const uint8_t *bytes;
    int status, n;

    while ((status = ptd_stream_next(stream->pieces, &stream->item, &stream->point)) == PTD_MORE) {
        n = input_take(stream->input, &bytes);
        if (n == 0)
            ptd_stream_end(stream->pieces);
        if (n < 0)
            stream->code = cannot_read(stream->input, n);
        else if (ptd_stream_feed(stream->pieces, bytes, (size_t)n) == PTD_E_NOMEM)
            stream->code = no_memory();
        if (stream->code)
            return PTD_END;
    }
    return status;
}

int pieces_open(struct decode_options *options, struct stream *stream)
{
    const struct ptd_time_config *clocks = NULL;
    int code = 0;

    if (ptd_time_check(&stream->clocks) != PTD_OK)
        stream->clocks = (struct ptd_time_config){0};
    if (options->format && !options->count_insns)
        code = begin_clock(stream);
    if (stream->clock.is_tsc)
        clocks = &stream->clocks;
    if (code)
        return code;
    stream->pieces = ptd_stream_new(stream->image, &options->config, clocks);
    if (!stream->pieces)
        return no_memory();
    stream->thread.image = stream->image;
    stream->thread.is_tsc = stream->clock.is_tsc;
    stream->peeked = options->format && take(stream) == PTD_OK;
    if (stream->peeked && stream->clock.is_tsc)
        stream->thread.start =
            clock_at_point(&stream->clock, &(struct ptd_item){0}, &stream->point);
    return stream->code;
}

bool pieces_next(struct decode_options *options, struct stream *stream)
{
    if (!stream->peeked && take(stream) != PTD_OK)
        return false;
    stream->peeked = false;
    stream->time =
        options->format ? clock_at_point(&stream->clock, &stream->item, &stream->point) : 0;
    return true;
}
