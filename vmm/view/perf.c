/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode of a perf.data: one trace after the other, or all of them merged by time where a
 * format wants that.
 */
#include "view/merge.h"
#include "view/perf-job.h"
#include "common/escape.h"
#include "common/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

struct decoding {
    struct decode_options *options;
    struct perf_job *job;
    const struct ptd_perf_session *session;
    struct reason *why; /* the caller's */
};

/* Says whose trace begins. */
static void print_trace(const struct decode_options *options, const struct out_thread *thread,
                        const struct ptd_perf_trace *trace)
{
    struct escaped room;

    if (!options->json) {
        printf("-- buffer %" PRIu32 ", cpu %d, tid %d (%s): %zu bytes\n", trace->idx, trace->cpu,
               trace->tid, escaped(thread->comm, &room), trace->len_bytes);
        return;
    }
    json_object *line = json_object_new_object();
    json_object_object_add(line, "type", json_object_new_string("trace"));
    json_add_number(line, "buffer", trace->idx);
    json_object_object_add(line, "cpu", json_object_new_int(trace->cpu));
    json_add_number(line, "pid", thread->pid);
    json_object_object_add(line, "tid", json_object_new_int(trace->tid));
    json_object_object_add(line, "comm", json_object_new_string(thread->comm));
    json_print(line, JSON_C_TO_STRING_PLAIN);
}

/* One trace after the other. */
static int decode_in_turn(struct decoding *decoding)
{
    int error = 0;

    for (size_t i = 0; !error && i < decoding->session->trace_count; i++) {
        struct perf_packets packets = {0};
        struct stream stream;

        error = perf_job_prepare(decoding->job, &decoding->session->traces[i], &stream, &packets);
        if (!error && (!decoding->options->format || decoding->options->format->is_view))
            print_trace(decoding->options, &stream.thread, &decoding->session->traces[i]);
        if (!error)
            error = stream_decode(decoding->options, &stream);
        perf_packets_free(&packets);
    }
    return error;
}

/* ---- All traces by time ---- */

#define BUFFERS_MAX 1024u /* that are merged */

struct merged {
    struct stream stream;
    struct perf_packets packets;
    size_t at; /* in session->traces */
};

struct merging {
    struct decoding *decoding;
    struct merged *traces; /* those of the session */
    struct lane lanes[BUFFERS_MAX];
    struct lane *heap[BUFFERS_MAX];
    size_t count;
};

/* The lane goes on with the first trace from merged on, all of one buffer, that has an item. */
static int begin_lane(struct merging *merging, struct lane *lane, struct merged *merged)
{
    const struct ptd_perf_session *const session = merging->decoding->session;
    const uint32_t buffer = session->traces[merged->at].idx;
    bool has_item = false;
    int error = 0;

    for (;; merged++) {
        error = merge_open(lane->options, &merged->stream, &has_item);
        if (error || has_item)
            break;
        error = merge_close(lane->options, &merged->stream, 0);
        if (error || merged->at + 1 == session->trace_count ||
            session->traces[merged->at + 1].idx != buffer)
            break;
    }
    lane->stream = has_item ? &merged->stream : NULL;
    return error;
}

/* Traces of one buffer follow each other. 0 or -errno. */
static int next_in_buffer(void *owner, struct lane *lane)
{
    struct merging *const merging = owner;
    const struct ptd_perf_session *const session = merging->decoding->session;
    struct merged *const ended = (struct merged *)lane->stream; /* its first member */
    const int error = merge_close(lane->options, &ended->stream, 0);

    lane->stream = NULL;
    if (error || ended->at + 1 == session->trace_count ||
        session->traces[ended->at + 1].idx != session->traces[ended->at].idx)
        return error;
    return begin_lane(merging, lane, ended + 1);
}

static size_t count_buffers(const struct ptd_perf_session *session)
{
    size_t count = 0;

    for (size_t i = 0; i < session->trace_count; i++)
        count += i == 0 || session->traces[i].idx != session->traces[i - 1].idx;
    return count;
}

/* A lane for each buffer that has an item. 0 or -errno. */
static int begin_lanes(struct merging *merging)
{
    const struct ptd_perf_session *const session = merging->decoding->session;
    int error = 0;

    for (size_t i = 0; !error && i < session->trace_count; i++) {
        struct lane *const lane = &merging->lanes[merging->count];

        if (i && session->traces[i].idx == session->traces[i - 1].idx)
            continue;
        *lane = (struct lane){.options = merging->decoding->options,
                              .order = i,
                              .next = next_in_buffer,
                              .owner = merging};
        error = begin_lane(merging, lane, &merging->traces[i]);
        merging->heap[merging->count] = lane;
        merging->count += lane->stream != NULL;
    }
    return error;
}

static int decode_merged(struct decoding *decoding)
{
    const size_t count = decoding->session->trace_count;
    struct merging *const merging = calloc(1, sizeof(*merging));
    struct merged *const traces = calloc(count, sizeof(*traces));
    int error = 0;

    if (!traces || !merging) {
        free(merging);
        free(traces);
        return reason_no_memory(decoding->why);
    }
    merging->decoding = decoding;
    merging->traces = traces;
    /* All code is there before a flow looks at it. */
    for (size_t i = 0; !error && i < count; i++) {
        error = perf_job_prepare(decoding->job, &decoding->session->traces[i], &traces[i].stream,
                                 &traces[i].packets);
        traces[i].at = i;
        traces[i].stream.out = NULL;
    }
    if (!error)
        error = begin_lanes(merging);
    if (!error)
        error = merge_lanes(merging->heap, merging->count);
    for (size_t i = 0; i < count; i++) {
        error = merge_close(decoding->options, &traces[i].stream, error);
        perf_packets_free(&traces[i].packets);
    }
    free(merging);
    free(traces);
    return error;
}

int decode_perf(struct decode_options *options, const char *file, const struct bytes *bytes,
                struct reason *why)
{
    struct decoding decoding = {.options = options, .why = why};
    int error = perf_job_open(options, file, bytes, &decoding.job, why);

    if (error)
        return error;
    decoding.session = perf_job_session(decoding.job);
    if (options->format && options->format->merges &&
        count_buffers(decoding.session) <= BUFFERS_MAX)
        error = decode_merged(&decoding);
    else
        error = decode_in_turn(&decoding);
    return perf_job_close(decoding.job, error);
}
