/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces of a host's processors, merged by time: whose next run of steps is the earliest comes
 * first. Times are estimates, and the packets say more: a virtual processor that is told to enter
 * on one processor, and has not left another one, is followed there before.
 */
#include "cli/demux-perf.h"
#include "cli/demux-who.h"
#include "common/progress.h"

#include <errno.h>
#include <stdlib.h>

#define BUFFERS_MAX 1024u
#define RUN_STEPS   4096u

/* One of the session's traces. */
struct source {
    struct stream stream;
    struct perf_packets packets;
    bool is_open;
};

/* A processor, whose traces follow each other. */
struct lane {
    struct source *source; /* that it is in, or NULL: it has ended */
    size_t left;           /* sources that come behind */
    struct demux_cpu *cpu;
    struct ptd_run run; /* the next one, with its time */
    uint64_t time;
};

struct hosts {
    struct decode_options *options;
    struct perf_job *job;
    const struct ptd_perf_session *session;
    struct demux_who *who;
    struct demux *demux;
    struct source *sources;
    struct lane *lanes;
    size_t lane_count;
    struct reason *why;
};

/* ---- A processor ---- */

/* The next run into lane->run. PTD_OK, PTD_END, or what went wrong. */
static int run_on(struct hosts *hosts, struct lane *lane)
{
    struct stream *const stream = &lane->source->stream;
    int status;

    do {
        const uint64_t place =
            stream->timeline ? code_timeline_place(stream->timeline) : UINT64_MAX;

        status = ptd_flow_run_before(stream->flow.pt, place, &lane->run);
        if (status == 1 && !stream_change_code(hosts->options, stream))
            return PTD_END; /* which stream_close() says */
    } while (status == 1);
    if (status != PTD_OK || !lane->run.has_item)
        return status;
    lane->time = clock_at(&stream->clock, &lane->run.item);
    stream_pass(hosts->options, stream, lane->run.item.offset);
    return PTD_OK;
}

static int open_source(struct hosts *hosts, struct lane *lane)
{
    struct source *const source = lane->source;
    const int error = stream_open(hosts->options, &source->stream);

    if (error)
        return error;
    source->is_open = true;
    demux_cpu_begin(lane->cpu, source->stream.image, source->stream.clock.is_tsc);
    lane->time = clock_start(&source->stream.clock);
    return 0;
}

static int close_source(struct hosts *hosts, struct lane *lane)
{
    struct source *const source = lane->source;

    demux_cpu_end(lane->cpu);
    source->is_open = false;
    lane->source = lane->left > 0 ? source + 1 : NULL;
    lane->left -= lane->left > 0;
    return stream_close(hosts->options, &source->stream, 0);
}

/* To the next run, in the next source if there is none in this one. 0 or -errno. */
static int go_on(struct hosts *hosts, struct lane *lane)
{
    int error = 0, status;

    while (!error && lane->source) {
        if (!lane->source->is_open)
            error = open_source(hosts, lane);
        if (error)
            break;
        status = run_on(hosts, lane);
        if (status == PTD_OK)
            return 0;
        error = status == PTD_END ? close_source(hosts, lane) : reason_no_memory(hosts->why);
    }
    return error;
}

/* ---- All of them ---- */

static struct lane *earliest(const struct hosts *hosts)
{
    struct lane *first = NULL;

    for (struct lane *lane = hosts->lanes; lane < hosts->lanes + hosts->lane_count; lane++)
        if (lane->source && (!first || lane->time < first->time))
            first = lane;
    return first;
}

static struct lane *lane_of(const struct hosts *hosts, const struct demux_cpu *cpu)
{
    struct lane *lane = hosts->lanes;

    while (lane->cpu != cpu)
        lane++;
    return lane;
}

/* Whoever runs elsewhere leaves there first. Where each waits for another one, nobody does. */
static struct lane *first_to_go(const struct hosts *hosts)
{
    struct lane *const first = earliest(hosts);
    struct lane *lane = first;

    for (size_t i = 0; lane && i < hosts->lane_count; i++) {
        const struct demux_cpu *const other = demux_waits_for(lane->cpu, &lane->run);

        if (!other)
            return lane;
        lane = lane_of(hosts, other);
    }
    return first;
}

static int tell(struct hosts *hosts, struct lane *lane)
{
    const struct stream *const stream = &lane->source->stream;
    const struct ptd_time_point point = {.tsc = lane->time};
    const bool has_time = stream->clock.is_tsc && lane->time;
    const int error =
        demux_take_run(lane->cpu, stream->flow.pt, &lane->run, has_time ? &point : NULL);

    if (error == -EILSEQ)
        (void)reason_set(hosts->why, error,
                         "a virtual processor ran on several processors, and no packet tells the "
                         "time: what it did has no order");
    return error;
}

/* All code is there before a flow looks at it. 0 or -errno. */
static int open_sources(struct hosts *hosts)
{
    const struct ptd_perf_session *const session = hosts->session;
    uint64_t bytes = 0;
    int error = 0;

    for (size_t i = 0; !error && i < session->trace_count; i++) {
        error = perf_job_prepare(hosts->job, &session->traces[i], &hosts->sources[i].stream,
                                 &hosts->sources[i].packets);
        bytes += hosts->sources[i].stream.packets.len;
    }
    progress_begin("taking apart", bytes, PROGRESS_ALONE);
    return error;
}

/* Traces of one buffer follow each other. 0 or -errno. */
static int open_lane(struct hosts *hosts, size_t first, size_t count)
{
    struct lane *const lane = &hosts->lanes[hosts->lane_count];

    if (hosts->lane_count == BUFFERS_MAX)
        return reason_set(hosts->why, -E2BIG, "more than %u buffers", BUFFERS_MAX);
    hosts->lane_count++;
    *lane = (struct lane){.source = &hosts->sources[first],
                          .left = count - 1,
                          .cpu = demux_cpu_new(hosts->demux, hosts->session->traces[first].cpu),
                          .run = {.room = RUN_STEPS, .timing = PTD_TIMING_ITEMS}};
    lane->run.steps = calloc(RUN_STEPS, sizeof(*lane->run.steps));
    if (!lane->cpu || !lane->run.steps)
        return reason_no_memory(hosts->why);
    return go_on(hosts, lane);
}

static int open_lanes(struct hosts *hosts)
{
    const struct ptd_perf_session *const session = hosts->session;
    size_t count;
    int error = 0;

    for (size_t i = 0; !error && i < session->trace_count; i += count) {
        for (count = 1; i + count < session->trace_count; count++)
            if (session->traces[i + count].idx != session->traces[i].idx)
                break;
        error = open_lane(hosts, i, count);
    }
    return error;
}

static void close_all(struct hosts *hosts)
{
    for (size_t i = 0; hosts->sources && i < hosts->session->trace_count; i++) {
        if (hosts->sources[i].is_open)
            (void)stream_close(hosts->options, &hosts->sources[i].stream, 0);
        perf_packets_free(&hosts->sources[i].packets);
    }
    for (size_t i = 0; i < hosts->lane_count; i++) {
        demux_cpu_free(hosts->lanes[i].cpu);
        free(hosts->lanes[i].run.steps);
    }
    demux_free(hosts->demux);
    free(hosts->sources);
    free(hosts->lanes);
    demux_who_free(hosts->who);
}

static int take_all(struct hosts *hosts)
{
    struct lane *lane;
    int error = open_sources(hosts);

    if (!error)
        error = open_lanes(hosts);
    while (!error && (lane = first_to_go(hosts))) {
        error = tell(hosts, lane);
        if (!error)
            error = go_on(hosts, lane);
    }
    progress_end();
    return error;
}

int demux_perf(struct perf_job *job, struct decode_options *options, bool has_time,
               struct demux_files *files, struct demux_sums *sums)
{
    struct hosts hosts = {
        .options = options, .job = job, .session = perf_job_session(job), .why = &files->why};
    const struct demux_who_config of_who = {.files = files,
                                            .map = &options->map,
                                            .image = options->image,
                                            .session = hosts.session,
                                            .has_time = has_time};
    struct demux_config config = {
        .contexts = options->map.contexts, .found = demux_who_found, .may_run = demux_who_may_run};
    int error = 0;

    hosts.who = config.owner = demux_who_new(&of_who);
    hosts.sources = calloc(hosts.session->trace_count, sizeof(*hosts.sources));
    hosts.lanes = calloc(BUFFERS_MAX, sizeof(*hosts.lanes));
    hosts.demux = demux_new(&config);
    options->by_time = true; /* streams have clocks */
    if (!hosts.sources || !hosts.lanes || !hosts.demux || !hosts.who)
        error = reason_no_memory(hosts.why);
    else
        error = take_all(&hosts);
    if (!error)
        *sums = *demux_sums(hosts.demux);
    close_all(&hosts);
    return error;
}
