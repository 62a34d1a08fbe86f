/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole trace in bulk, on several threads, for a format that takes what comes so: the same as
 * item by item, many times as fast.
 */
#include "view/decode.h"
#include "common/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RUN_STEPS 4096u

struct bulk {
    struct decode_options *options;
    struct stream *stream;
    struct ptd_time *time; /* NULL: the trace tells none */
    struct ptd_packets packets;
    struct ptd_time_point *points;
    size_t point_room;
};

static bool is_wanted(const struct decode_options *options)
{
    return options->format && options->format->run && !options->is_rtit &&
           options->window.from.kind == BOUND_NONE && options->window.to.kind == BOUND_NONE;
}

int bulk_map(const struct decode_options *options, struct stream *stream)
{
    struct input *const input = stream->input;
    struct stat status;
    void *bytes;

    stream->is_mapped = false;
    if (!input || !input->is_file || !is_wanted(options))
        return 0;
    if (fstat(input->fd, &status) != 0)
        return reason_of_file(stream->why, -errno, input->name);
    if (status.st_size == 0)
        return 0;
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, input->fd, 0);
    if (bytes == MAP_FAILED)
        return reason_of_file(stream->why, -errno, input->name);
    stream->packets = (struct bytes){.data = bytes, .len = (size_t)status.st_size};
    stream->input = NULL;
    stream->is_mapped = true;
    return 0;
}

void bulk_unmap(struct stream *stream)
{
    if (stream->is_mapped)
        (void)munmap(stream->packets.data, stream->packets.len);
    stream->is_mapped = false;
}

bool bulk_can(const struct decode_options *options, const struct stream *stream)
{
    return is_wanted(options) && !stream->input;
}

/* The times of a run's marks. False: no memory. */
static bool tell_times(struct bulk *bulk, const struct ptd_run *run)
{
    if (run->mark_count > bulk->point_room) {
        struct ptd_time_point *const grown =
            reallocarray(bulk->points, run->mark_count, sizeof(*grown));

        if (!grown)
            return false;
        bulk->points = grown;
        bulk->point_room = run->mark_count;
    }
    ptd_time_marks(bulk->time, &bulk->packets, run->marks, run->mark_count, bulk->points);
    return true;
}

static void pass(struct stream *stream, uint64_t offset)
{
    if (offset > stream->passed) {
        progress_add(offset - stream->passed);
        stream->passed = offset;
    }
}

static int take_run(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct bulk *const bulk = context;
    struct stream *const stream = bulk->stream;

    if (bulk->time && !tell_times(bulk, run))
        return PTD_E_NOMEM;
    if (run->has_item) {
        pass(stream, run->item.offset);
        bulk->options->errors += run->item.type == PTD_ITEM_ERROR;
    }
    return bulk->options->format->run(stream->out, flow, run, bulk->time ? bulk->points : NULL)
               ? 0
               : PTD_E_NOMEM;
}

/* Clocks that begin with the trace. False: no memory. */
static bool begin_time(struct bulk *bulk)
{
    const struct stream *const stream = bulk->stream;

    if (!stream->clock.is_tsc)
        return true;
    ptd_packets_init(&bulk->packets, stream->packets.data, stream->packets.len);
    ptd_packets_set_errata(&bulk->packets, stream->clocks.errata);
    (void)ptd_packets_sync(&bulk->packets);
    bulk->time = ptd_time_new(&stream->clocks);
    if (!bulk->time) /* out of range, or no memory: then this fails too */
        bulk->time = ptd_time_new(NULL);
    return bulk->time;
}

/* What was told up to a place, holds no more. */
static int pass_place(const struct bulk *bulk, uint64_t place)
{
    struct stream *const stream = bulk->stream;

    if (stream->timeline && code_timeline_place(stream->timeline) <= place &&
        !stream_change_code(bulk->options, stream))
        return PTD_END;
    return !stream->named || stream_go_to(bulk->options, stream, place) ? PTD_OK : PTD_E_NOMEM;
}

static uint64_t next_place(const struct stream *stream)
{
    const uint64_t of_code = stream->timeline ? code_timeline_place(stream->timeline) : UINT64_MAX;
    const uint64_t of_names = stream->named ? named_next(stream->named) : UINT64_MAX;

    return of_code < of_names ? of_code : of_names;
}

/*
 * A log of names goes by places, and so does code that changes: steps up to each of them come
 * before what holds from there on.
 */
static int run_to_places(struct bulk *bulk, struct ptd_flow *flow, struct ptd_run *run)
{
    int status = pass_place(bulk, 0);

    while (status == PTD_OK) {
        const uint64_t next = next_place(bulk->stream);

        status = ptd_flow_run_before(flow, next, run);
        if (status == PTD_OK)
            status = take_run(bulk, flow, run);
        else if (status == 1)
            status = pass_place(bulk, next);
    }
    return status == PTD_END ? PTD_OK : status;
}

static int decode_by_places(struct bulk *bulk)
{
    const struct stream *const stream = bulk->stream;
    struct ptd_flow *const flow = ptd_flow_new(stream->packets.data, stream->packets.len,
                                               stream->image, &bulk->options->config);
    struct ptd_run run = {.room = RUN_STEPS,
                          .timing = bulk->time ? PTD_TIMING_MARKS : PTD_TIMING_NONE,
                          .mark_room = RUN_STEPS};
    int status = PTD_E_NOMEM;

    run.steps = calloc(run.room, sizeof(*run.steps));
    run.marks = calloc(run.mark_room, sizeof(*run.marks));
    if (flow && run.steps && run.marks)
        status = run_to_places(bulk, flow, &run);
    free(run.steps);
    free(run.marks);
    ptd_flow_free(flow);
    return status;
}

static int decode_all(struct bulk *bulk)
{
    const struct stream *const stream = bulk->stream;
    const struct decode_options *const options = bulk->options;

    return ptd_flow_parallel(stream->packets.data, stream->packets.len, stream->image,
                             &options->config, bulk->time ? PTD_TIMING_MARKS : PTD_TIMING_NONE,
                             options->threads ? options->threads : 1, take_run, bulk);
}

int bulk_decode(struct decode_options *options, struct stream *stream)
{
    struct bulk bulk = {.options = options, .stream = stream};
    int status = PTD_E_NOMEM;

    trace_flow_close(&stream->flow); /* a code log serves one flow at a time */
    stream->flow = (struct trace_flow){0};
    options->is_reached = true;
    if (begin_time(&bulk))
        status = stream->named || stream->timeline ? decode_by_places(&bulk) : decode_all(&bulk);
    ptd_time_free(bulk.time);
    free(bulk.points);
    return status == PTD_OK ? 0 : reason_no_memory(stream->why);
}
