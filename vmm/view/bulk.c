/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole trace in bulk, on several threads, for a format that takes what comes so: the same as
 * item by item, many times as fast.
 */
#include "view/bulk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RUN_STEPS 4096u

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
    if (!input || !input->is_file || !(is_wanted(options) || options->shards))
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
    stream->modified =
        (uint64_t)status.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)status.st_mtim.tv_nsec;
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

static int take_run(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct bulk *const bulk = context;
    struct stream *const stream = bulk->stream;

    if (bulk->time && !tell_times(bulk, run))
        return PTD_E_NOMEM;
    if (run->has_item) {
        stream_pass(bulk->options, stream, run->item.offset);
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
int bulk_run(struct bulk *bulk)
{
    int status = pass_place(bulk, 0);

    while (status == PTD_OK) {
        const uint64_t next = next_place(bulk->stream);

        status = ptd_flow_run_before(bulk->flow, next, &bulk->part);
        if (status == PTD_OK)
            status = take_run(bulk, bulk->flow, &bulk->part);
        else if (status == 1)
            status = pass_place(bulk, next);
    }
    return status == PTD_END ? PTD_OK : status;
}

void bulk_pass_time(struct bulk *bulk, uint64_t offset)
{
    struct ptd_packet packet;

    while (bulk->time && ptd_packets_offset(&bulk->packets) < offset &&
           ptd_time_next(bulk->time, &bulk->packets, &packet))
        ptd_time_packet(bulk->time, &packet);
}

/* Of a format that takes steps. */
static struct ptd_flow_config flow_config(const struct decode_options *options)
{
    struct ptd_flow_config config = options->config;

    config.compounds = options->format->takes_compounds;
    return config;
}

bool bulk_open(struct bulk *bulk, struct decode_options *options, struct stream *stream)
{
    const struct ptd_flow_config config = flow_config(options);
    struct ptd_run *const part = &bulk->part;

    *bulk = (struct bulk){.options = options, .stream = stream};
    trace_flow_close(&stream->flow); /* a code log serves one flow at a time */
    stream->flow = (struct trace_flow){0};
    options->is_reached = true;
    if (!begin_time(bulk))
        return false;
    *part = (struct ptd_run){.room = RUN_STEPS,
                             .timing = bulk->time ? PTD_TIMING_MARKS : PTD_TIMING_NONE,
                             .mark_room = RUN_STEPS};
    part->steps = calloc(part->room, sizeof(*part->steps));
    part->marks = calloc(part->mark_room, sizeof(*part->marks));
    bulk->flow = ptd_flow_new(stream->packets.data, stream->packets.len, stream->image, &config);
    return bulk->flow && part->steps && part->marks;
}

void bulk_close(struct bulk *bulk)
{
    ptd_flow_free(bulk->flow);
    ptd_time_free(bulk->time);
    free(bulk->part.steps);
    free(bulk->part.marks);
    free(bulk->points);
}

static int decode_by_places(struct decode_options *options, struct stream *stream)
{
    struct bulk bulk;
    const int status = bulk_open(&bulk, options, stream) ? bulk_run(&bulk) : PTD_E_NOMEM;

    bulk_close(&bulk);
    return status;
}

static int decode_all(struct bulk *bulk)
{
    const struct stream *const stream = bulk->stream;
    const struct decode_options *const options = bulk->options;
    const struct ptd_flow_config config = flow_config(options);

    return ptd_flow_parallel(stream->packets.data, stream->packets.len, stream->image, &config,
                             bulk->time ? PTD_TIMING_MARKS : PTD_TIMING_NONE,
                             options->threads ? options->threads : 1, take_run, bulk);
}

static int decode_on_threads(struct decode_options *options, struct stream *stream)
{
    struct bulk bulk = {.options = options, .stream = stream};
    int status = PTD_E_NOMEM;

    trace_flow_close(&stream->flow); /* a code log serves one flow at a time */
    stream->flow = (struct trace_flow){0};
    options->is_reached = true;
    if (begin_time(&bulk))
        status = decode_all(&bulk);
    bulk_close(&bulk);
    return status;
}

int bulk_decode(struct decode_options *options, struct stream *stream)
{
    const int status =
        (stream->named || stream->timeline ? decode_by_places : decode_on_threads)(options, stream);

    return status == PTD_OK ? 0 : reason_no_memory(stream->why);
}
