/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode of a raw trace that is read piece by piece: memory does not grow with its length, and
 * what a pipe has brought is shown as soon as it can be told.
 */
#include "view/decode.h"
#include "trace/clock.h"

/* Whether times are TSC ticks, which formats want to know at first. 0 or -errno. */
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
    return reason_of_file(stream->why, error, input->name);
}

/* PTD_OK, PTD_END; else stream->error says what is wrong. */
static int take(struct stream *stream)
{
    const uint8_t *bytes;
    int status, n;

    while ((status = ptd_stream_next(stream->pieces, &stream->item, &stream->point)) == PTD_MORE) {
        n = input_take(stream->input, &bytes);
        if (n == 0)
            ptd_stream_end(stream->pieces);
        if (n < 0)
            stream->error = reason_of_file(stream->why, n, stream->input->name);
        else if (ptd_stream_feed(stream->pieces, bytes, (size_t)n) == PTD_E_NOMEM)
            stream->error = reason_no_memory(stream->why);
        if (stream->error)
            return PTD_END;
    }
    return status;
}

/* From where the window can be decoded. 0 or -errno. */
static int open_at_window(struct decode_options *options, struct stream *stream,
                          const struct ptd_time_config *clocks)
{
    struct ptd_flow_config config = options->config;
    uint64_t offset;
    int error = window_begin(&options->window, stream->input, stream->clocks.vm_count > 0, &offset);

    if (!error && offset > 0)
        error = input_seek(stream->input, offset);
    if (error)
        return reason_of_file(stream->why, error, stream->input->name);
    if (offset > 0) /* a start state is that of the first byte */
        config.at_start = config.has_ip = false;
    stream->pieces = ptd_stream_new(stream->image, &config, clocks);
    if (!stream->pieces)
        return reason_no_memory(stream->why);
    if (offset > 0)
        ptd_stream_begin_at(stream->pieces, offset);
    return 0;
}

int pieces_open(struct decode_options *options, struct stream *stream)
{
    int error = 0;

    if (ptd_time_check(&stream->clocks) != PTD_OK)
        stream->clocks = (struct ptd_time_config){0};
    stream->clocks.errata = options->config.errata;
    if ((options->format && !options->count_insns) || options->by_time ||
        window_has_time(&options->window))
        error = begin_clock(stream);
    if (!error)
        error = open_at_window(options, stream, stream->clock.is_tsc ? &stream->clocks : NULL);
    if (error)
        return error;
    stream->thread.is_tsc = stream->clock.is_tsc;
    stream->peeked = (options->format || options->by_time) && take(stream) == PTD_OK;
    if (stream->peeked && stream->clock.is_tsc)
        stream->thread.start =
            clock_at_point(&stream->clock, &(struct ptd_item){0}, &stream->point);
    return stream->error;
}

bool pieces_next(struct stream *stream)
{
    if (!stream->peeked && take(stream) != PTD_OK)
        return false;
    stream->peeked = false;
    stream->time = clock_at_point(&stream->clock, &stream->item, &stream->point);
    return true;
}
