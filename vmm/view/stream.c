/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace on its way through vpt decode: from packets to items, and those of the window to the
 * output.
 */
#include "view/decode.h"
#include "common/progress.h"
#include "trace/rtit-trace.h"
#include "trace/clock.h"
#include "trace/code-files.h"
#include "view/out.h"

#include <errno.h>
#include <stdio.h>

/* The output begins with the window. */
static int begin_output(const struct decode_options *options, struct stream *stream)
{
    if (window_has_time(&options->window) && !stream->clock.is_tsc)
        return reason_set(stream->why, -EINVAL, "the trace does not tell the time; take an offset");
    if (window_has_nanoseconds(&options->window) && !stream->thread.to_ns)
        return reason_set(stream->why, -EINVAL,
                          "nothing tells the seconds of this trace; take tsc:TICKS");
    if (!options->format || stream->begun || options->window.from.kind != BOUND_NONE)
        return 0;
    stream->begun = true;
    return options->format->begin(stream->out, &stream->thread) ? 0 : reason_no_memory(stream->why);
}

/* Threads have other names at other times. */
static bool needs_clock(const struct decode_options *options, const struct stream *stream)
{
    if (options->format && options->format->is_timeless)
        return false;
    return options->format || options->by_time || window_has_time(&options->window) ||
           stream->thread.who || options->filter;
}

/* The flow and the clock of a trace that is all there. 0 or -errno. */
static int open_whole(struct decode_options *options, struct stream *stream)
{
    const struct ptd_time_config *const clocks =
        options->count_insns || options->is_rtit ? NULL : &stream->clocks;

    if (!trace_flow_open(&stream->flow, &stream->packets, stream->image, &options->config,
                         options->is_rtit ? &options->rtit : NULL))
        return reason_no_memory(stream->why);
    stream->thread.image = stream->image;
    if (!needs_clock(options, stream))
        return 0;
    stream->clocks.errata = options->config.errata;
    if (!clock_open(&stream->clock, stream->packets.data, stream->packets.len, clocks,
                    shards_are_timeless(options)))
        return reason_no_memory(stream->why);
    stream->thread.is_tsc = stream->clock.is_tsc;
    stream->thread.start = clock_start(&stream->clock);
    return 0;
}

static void close_all(struct stream *stream)
{
    clock_close(&stream->clock);
    trace_flow_close(&stream->flow);
    ptd_stream_free(stream->pieces);
    stream->pieces = NULL;
    code_timeline_free(stream->timeline);
    stream->timeline = NULL;
}

/* Its code may change, as only a trace that is all there tells in advance. */
static int open_code(struct stream *stream)
{
    int error = 0;

    if (stream->changes)
        error = code_timeline_new(stream->changes, &stream->packets, stream->image,
                                  &stream->timeline, stream->why);
    if (stream->timeline) {
        stream->image = code_timeline_image(stream->timeline);
        stream->thread.renames = code_timeline_renames(stream->timeline);
    }
    return error;
}

static const char *file_at(void *files, const struct ptd_image *image, uint64_t cr3, uint64_t ip)
{
    return code_files_file_at(files, image, cr3, ip);
}

int stream_open(struct decode_options *options, struct stream *stream)
{
    int error;

    if (options->is_rtit) {
        options->rtit.mode = options->config.mode;
        options->rtit.at_start = options->config.at_start;
    }
    options->thread = &stream->thread;
    stream->thread.cycles = &stream->clock.cycles;
    stream->thread.shown = options->names;
    stream->thread.filter = options->filter;
    stream->thread.file_at = file_at;
    stream->thread.files = options->code.files;
    error = open_code(stream);
    stream->thread.image = stream->image;
    if (!error)
        error = stream->input ? pieces_open(options, stream) : open_whole(options, stream);
    if (!error)
        error = begin_output(options, stream);
    stream->is_open = error == 0;
    if (error)
        close_all(stream);
    return error;
}

static bool is_before(const struct stream *stream, const struct bound *bound)
{
    const struct out_thread *const thread = &stream->thread;

    if (bound->kind == BOUND_TIME)
        return thread->to_ns(thread->to_ns_owner, stream->time) < bound->value;
    return bound_is_ahead(bound, stream->item.offset, stream->time);
}

/* Nothing that comes from here on is in the window. */
static bool is_behind(const struct decode_options *options, const struct stream *stream)
{
    const struct bound *const to = &options->window.to;

    if (to->kind == BOUND_NONE || is_before(stream, to))
        return false;
    return to->kind != BOUND_OFFSET || stream->item.type == PTD_ITEM_PSB;
}

bool stream_change_code(const struct decode_options *options, struct stream *stream)
{
    if (stream->begun && options->format->names_end && !options->format->names_end(stream->out)) {
        stream->error = reason_no_memory(stream->why);
        return false;
    }
    return code_timeline_change(stream->timeline);
}

/* The next item of a trace that is all there. As ptd_flow_next(). */
static int next_of_whole(const struct decode_options *options, struct stream *stream)
{
    int status;

    if (!stream->timeline)
        return trace_flow_next(&stream->flow, &stream->item);
    do {
        status = ptd_flow_next_before(stream->flow.pt, code_timeline_place(stream->timeline),
                                      &stream->item);
        if (status == 1 && !stream_change_code(options, stream))
            return PTD_END;
    } while (status == 1);
    return status;
}

void stream_pass(const struct decode_options *options, struct stream *stream, uint64_t offset)
{
    if (offset <= stream->passed)
        return;
    progress_add(offset - stream->passed);
    scratch_pass(options->scratch, stream->passed, offset);
    stream->passed = offset;
}

bool stream_next(struct decode_options *options, struct stream *stream)
{
    if (stream->input) {
        if (!pieces_next(stream))
            return false;
    } else if (next_of_whole(options, stream) == PTD_OK) {
        if (needs_clock(options, stream))
            stream->time = clock_at(&stream->clock, &stream->item);
    } else {
        return false;
    }
    if (stream->cpu_trace)
        stream->item.offset = ptd_perf_cpu_trace_offset(stream->cpu_trace, stream->item.offset);
    stream_pass(options, stream, stream->item.offset);
    options->is_reached = options->is_reached || !is_before(stream, &options->window.from);
    return !is_behind(options, stream);
}

/* 0 or -errno. */
static int put_formatted(struct decode_options *options, struct stream *stream)
{
    const struct out_format *const format = options->format;

    if (!stream->begun && !format->begin(stream->out, &stream->thread))
        return reason_no_memory(stream->why);
    stream->begun = true;
    if (!format->item(stream->out, &stream->item, stream->time))
        return reason_no_memory(stream->why);
    return ferror(stdout) ? -EIO : 0;
}

bool stream_go_to(const struct decode_options *options, struct stream *stream, uint64_t offset)
{
    const struct out_format *const format = options->format;

    if (stream->begun && format->names_end && named_next(stream->named) <= offset &&
        !format->names_end(stream->out))
        return false;
    return named_go_to(stream->named, offset);
}

int stream_put(struct decode_options *options, struct stream *stream)
{
    const struct window *const window = &options->window;

    if (is_before(stream, &window->from) ||
        (window->to.kind != BOUND_NONE && !is_before(stream, &window->to))) {
        view_skip(stream);
        stream->thread.start = stream->time;
        return 0;
    }
    options->errors += stream->item.type == PTD_ITEM_ERROR;
    if (stream->named && !stream_go_to(options, stream, stream->item.offset))
        return reason_no_memory(stream->why);
    if (options->format)
        return put_formatted(options, stream);
    options->now = stream->time;
    view_print(options, stream);
    return ferror(stdout) ? -EIO : 0;
}

int stream_close(struct decode_options *options, struct stream *stream, int error)
{
    if (stream->begun && !options->format->end(stream->out) && !error)
        error = reason_no_memory(stream->why);
    if (!error && stream->timeline)
        error = code_timeline_result(stream->timeline, stream->why);
    close_all(stream);
    stream->is_open = false;
    return error ? error : stream->error;
}

static int decode_open(struct decode_options *options, struct stream *stream)
{
    int error = 0;

    if (options->shards)
        return shards_decode(options, stream);
    if (bulk_can(options, stream))
        return bulk_decode(options, stream);
    while (!error && stream_next(options, stream))
        error = stream_put(options, stream);
    return error;
}

int stream_decode(struct decode_options *options, struct stream *stream)
{
    int error = bulk_map(options, stream);

    if (!error)
        error = stream_open(options, stream);
    if (!error)
        error = stream_close(options, stream, decode_open(options, stream));
    bulk_unmap(stream);
    return error;
}
