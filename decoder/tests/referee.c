/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares the other ways to decode with the general one, item by item. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "referee.h"
#include "flow/threads.h"

#define LOOK_EVERY 16u /* runs of marks: to look ahead takes as long as it is far */

#define MARKS (2 * PTD_RUN_ROOM) /* the most that ptd_flow_run() has room for */

/* Where any setting will do. */
static const struct ptd_time_config any_clocks = {
    .tsc_den = 2, .tsc_num = 250, .mtc_freq = 3, .max_nonturbo_ratio = 24};

struct referee {
    const struct referee_trace *trace;
    bool compounds;        /* steps may be compound ones */
    struct ptd_flow *flow; /* the general way */
    /* For marks: by all packets, and in bulk. */
    struct ptd_time *time, *bulk_time;
    struct ptd_packets packets, bulk_packets;
    struct ptd_time_point *points;
    size_t told;    /* so many marks of a run have their points */
    unsigned looks; /* of both clocks behind a run */
    struct referee_verdict verdict;
};

static bool is_timing(const struct ptd_item *item)
{
    if (item->type == PTD_ITEM_TSC || item->type == PTD_ITEM_CBR)
        return true;
    if (item->type != PTD_ITEM_PACKET)
        return false;
    switch (item->packet.type) {
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
    case PTD_MNT:
        return true;
    default:
        return false;
    }
}

static bool is_left_out(const struct referee *referee, const struct ptd_item *item)
{
    switch (referee->trace->timing) {
    case PTD_TIMING_NONE:
        return is_timing(item);
    case PTD_TIMING_MARKS:
        return item->type == PTD_ITEM_PACKET && item->packet.type == PTD_MNT;
    default:
        return false;
    }
}

static int next_expected(struct referee *referee, struct ptd_item *item)
{
    int status;

    do
        status = ptd_flow_next(referee->flow, item);
    while (status == PTD_OK && is_left_out(referee, item));
    return status;
}

static bool differs(struct referee *referee, const struct ptd_item *want,
                    const struct ptd_item *got, const char *how)
{
    if (referee->verdict.same)
        (void)snprintf(referee->verdict.difference, sizeof(referee->verdict.difference),
                       "item %" PRIu64 " (%s): type %d offset %" PRIu64 " ip %" PRIx64
                       " wanted, type %d offset %" PRIu64 " ip %" PRIx64 " found",
                       referee->verdict.items, how, want ? want->type : -1, want ? want->offset : 0,
                       want ? want->ip : 0, got ? got->type : -1, got ? got->offset : 0,
                       got ? got->ip : 0);
    referee->verdict.same = false;
    return false;
}

/* A packet has fields that are not set, so its text is compared. */
static bool same_packet(const struct ptd_packet *want, const struct ptd_packet *got)
{
    char texts[2][128];

    (void)ptd_packet_format(want, texts[0], sizeof(texts[0]));
    (void)ptd_packet_format(got, texts[1], sizeof(texts[1]));
    return want->offset == got->offset && want->type == got->type &&
           want->size_bytes == got->size_bytes && strcmp(texts[0], texts[1]) == 0;
}

static bool same_item(const struct ptd_item *want, const struct ptd_item *got)
{
    const bool has_packet = want->type == PTD_ITEM_PACKET || want->type == PTD_ITEM_PTWRITE;

    return want->type == got->type && want->has_from == got->has_from &&
           want->has_to == got->has_to && want->nr == got->nr && want->in_psb == got->in_psb &&
           want->offset == got->offset && want->cr3 == got->cr3 && want->from == got->from &&
           want->to == got->to && want->value == got->value && want->error == got->error &&
           want->ip == got->ip && want->last_ip == got->last_ip && want->insns == got->insns &&
           want->mode == got->mode && want->last_class == got->last_class &&
           want->last_bytes == got->last_bytes && want->taken == got->taken &&
           (!has_packet || same_packet(&want->packet, &got->packet));
}

/* Of a block in a step, all but what a step does not say. */
static bool same_block(const struct ptd_item *want, const struct ptd_item *got)
{
    return want->type == PTD_ITEM_BLOCK && want->ip == got->ip && want->last_ip == got->last_ip &&
           want->insns == got->insns && want->last_class == got->last_class &&
           want->last_bytes == got->last_bytes && want->taken == got->taken &&
           want->cr3 == got->cr3 && want->mode == got->mode &&
           (!got->has_to || (want->has_to && want->to == got->to));
}

/* What a step stands for has the same blocks, one behind the other, and as many instructions. */
static bool compare_edges(struct referee *referee, const struct ptd_flow *flow, uint32_t step)
{
    const uint32_t *const insns = ptd_flow_insns(flow, NULL);
    uint32_t edges[PTD_STEP_EDGES], sum = 0;
    const int count = ptd_step_edges(flow, step, edges);
    struct ptd_item whole, part;
    size_t index = 0;

    if (count < 1 || (count == 1 && !(step & PTD_STEP_COMPOUND) && edges[0] != step))
        return differs(referee, NULL, NULL, "a step without edges");
    for (int i = 0; i < count; i++) {
        if (edges[i] & PTD_STEP_COMPOUND)
            return differs(referee, NULL, NULL, "an edge that is a compound step");
        sum += insns[edges[i] >> 2];
        for (size_t n = 0; ptd_step_block(flow, edges[i], n, &part) == PTD_OK; n++)
            if (ptd_step_block(flow, step, index++, &whole) != PTD_OK || !same_block(&part, &whole))
                return differs(referee, &part, NULL, "an edge of a step");
    }
    if (ptd_step_block(flow, step, index, &whole) != PTD_END || sum != insns[step >> 2])
        return differs(referee, NULL, NULL, "edges that are not all of a step");
    return true;
}

static bool compare_step(struct referee *referee, const struct ptd_flow *flow, uint32_t step)
{
    struct ptd_item want, got;
    uint32_t insns = 0;
    size_t index = 0;
    int status;

    if ((step & PTD_STEP_COMPOUND) && !referee->compounds)
        return differs(referee, NULL, NULL, "a compound step that nobody wanted");
    if ((step & PTD_STEP_COMPOUND) && !compare_edges(referee, flow, step))
        return false;
    referee->verdict.compounds += (step & PTD_STEP_COMPOUND) != 0;

    while ((status = ptd_step_block(flow, step, index, &got)) == PTD_OK) {
        if (next_expected(referee, &want) != PTD_OK)
            return differs(referee, NULL, &got, "step behind the end");
        if (!same_block(&want, &got))
            return differs(referee, &want, &got, "step");
        referee->verdict.items++;
        referee->verdict.in_steps++;
        insns += got.insns;
        index++;
    }
    if (status != PTD_END || index == 0 || insns != ptd_flow_insns(flow, NULL)[step >> 2])
        return differs(referee, NULL, NULL, "no such step");
    return true;
}

/* Tells time all packets up to a mark. */
static void tell_to(struct referee *referee, uint64_t offset)
{
    struct ptd_packet packet;

    while (ptd_packets_offset(&referee->packets) < offset &&
           ptd_time_next(referee->time, &referee->packets, &packet))
        ptd_time_packet(referee->time, &packet);
    if (ptd_packets_offset(&referee->packets) != offset) {
        ptd_time_lost(referee->time);
        (void)ptd_packets_seek(&referee->packets, offset);
    }
}

static bool same_time(const struct ptd_time_point *want, const struct ptd_time_point *got)
{
    return want->tsc == got->tsc && want->earliest == got->earliest &&
           want->latest == got->latest && want->cycles == got->cycles;
}

static bool compare_mark(struct referee *referee, const struct ptd_mark *mark,
                         const struct ptd_time_point *got)
{
    struct ptd_time_point point;
    struct ptd_item want;

    if (next_expected(referee, &want) != PTD_OK)
        return differs(referee, NULL, NULL, "mark behind the end");
    if (!is_timing(&want) || mark->offset <= want.offset || mark->offset > want.offset + 16)
        return differs(referee, &want, NULL, "mark");
    tell_to(referee, mark->offset);
    ptd_time_point(referee->time, &point);
    if (!same_time(&point, got))
        return differs(referee, &want, NULL, "time");
    referee->verdict.items++;
    return true;
}

/*
 * Both clocks hold the same, whatever comes next: told the same packets, they have the same state,
 * and say the same with what the trace says later.
 */
static bool compare_clocks(struct referee *referee)
{
    struct ptd_time_point want, got;

    if (ptd_time_fingerprint(referee->time) != ptd_time_fingerprint(referee->bulk_time) ||
        ptd_time_set_backs(referee->time) != ptd_time_set_backs(referee->bulk_time))
        return differs(referee, NULL, NULL, "the state of the clock");
    if (ptd_packets_offset(&referee->packets) != ptd_packets_offset(&referee->bulk_packets))
        return differs(referee, NULL, NULL, "where time stands");
    if (referee->looks++ % LOOK_EVERY != 0)
        return true;
    ptd_time_point_ahead(referee->time, &referee->packets, &want);
    ptd_time_point_ahead(referee->bulk_time, &referee->bulk_packets, &got);
    return same_time(&want, &got) || differs(referee, NULL, NULL, "time, looking ahead");
}

/* Tells time more marks, if there are any whose times are not known yet. */
static void tell_marks(struct referee *referee, const struct ptd_run *run, size_t next)
{
    const size_t most = referee->trace->most_marks;
    const size_t left = run->mark_count - next;

    if (next < referee->told)
        return;
    referee->told = next + (most > 0 && most < left ? most : left);
    ptd_time_marks(referee->bulk_time, &referee->bulk_packets, run->marks + next,
                   referee->told - next, referee->points + next);
}

/* The marks in front of a step. */
static bool compare_marks(struct referee *referee, const struct ptd_run *run, size_t step,
                          size_t *next)
{
    for (; *next < run->mark_count && run->marks[*next].step <= step; (*next)++) {
        tell_marks(referee, run, *next);
        if (run->marks[*next].step != step ||
            !compare_mark(referee, &run->marks[*next], &referee->points[*next]))
            return differs(referee, NULL, NULL, "the step of a mark");
        if (*next + 1 == referee->told && !compare_clocks(referee))
            return false;
    }
    return true;
}

static bool compare(struct referee *referee, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct ptd_item want;
    size_t mark = 0;

    free(referee->points);
    referee->points = calloc(run->mark_count + 1, sizeof(*referee->points));
    if (!referee->points)
        return differs(referee, NULL, NULL, "no memory");
    referee->told = 0;
    for (size_t i = 0; i < run->count; i++)
        if (!compare_marks(referee, run, i, &mark) || !compare_step(referee, flow, run->steps[i]))
            return false;
    if (!compare_marks(referee, run, run->count, &mark))
        return false;
    if (mark != run->mark_count)
        return differs(referee, NULL, NULL, "mark of no step");
    if (!run->has_item)
        return true;
    if (next_expected(referee, &want) != PTD_OK)
        return differs(referee, NULL, &run->item, "item behind the end");
    if (!same_item(&want, &run->item))
        return differs(referee, &want, &run->item, "item");
    referee->verdict.items++;
    return true;
}

/* That of a trace, with compound steps or without. */
static struct ptd_flow_config config_of(const struct referee_trace *trace, bool compounds)
{
    struct ptd_flow_config config = {.mode = PTD_MODE_64};

    if (trace->config)
        config = *trace->config;
    config.compounds = compounds;
    return config;
}

static bool start(struct referee *referee, const struct referee_trace *trace, bool compounds)
{
    const struct ptd_time_config *const clocks = trace->clocks ? trace->clocks : &any_clocks;

    *referee = (struct referee){.trace = trace, .compounds = compounds, .verdict = {.same = true}};
    referee->flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, trace->config);
    referee->time = ptd_time_new(clocks);
    referee->bulk_time = ptd_time_new(clocks);
    ptd_packets_init(&referee->packets, trace->bytes, trace->len_bytes);
    if (trace->config)
        ptd_packets_set_errata(&referee->packets, trace->config->errata);
    if (!trace->config || !trace->config->at_start)
        (void)ptd_packets_sync(&referee->packets);
    referee->bulk_packets = referee->packets;
    if (referee->flow && referee->time && referee->bulk_time)
        return true;
    return differs(referee, NULL, NULL, "no memory");
}

static bool is_enough(const struct referee *referee)
{
    const uint64_t most = referee->trace->most_items;

    return most > 0 && referee->verdict.items >= most;
}

/* The fast way came to its end: the general one must be there too. */
static struct referee_verdict finish(struct referee *referee)
{
    struct ptd_item want;

    if (referee->verdict.same && !is_enough(referee) && next_expected(referee, &want) != PTD_END)
        (void)differs(referee, &want, NULL, "end");
    ptd_flow_free(referee->flow);
    ptd_time_free(referee->time);
    ptd_time_free(referee->bulk_time);
    free(referee->points);
    return referee->verdict;
}

/* The general way has nothing more to tell up to an offset. */
static bool is_there(struct referee *referee, uint64_t offset)
{
    struct ptd_item item;
    int status;

    do
        status = ptd_flow_next_before(referee->flow, offset, &item);
    while (status == PTD_OK && is_left_out(referee, &item));
    return status == 1 || differs(referee, &item, NULL, "stopped too early");
}

struct referee_verdict referee_run(const struct referee_trace *trace, size_t room)
{
    return referee_run_before(trace, room, UINT64_MAX);
}

/* What differed, or else the second. */
static struct referee_verdict both(struct referee_verdict first, struct referee_verdict second)
{
    return first.same ? second : first;
}

static struct referee_verdict run_before(const struct referee_trace *trace, size_t room,
                                         uint64_t stride_bytes, bool compounds)
{
    const struct ptd_flow_config config = config_of(trace, compounds);
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, &config);
    uint32_t *const steps = calloc(room, sizeof(*steps));
    struct ptd_mark marks[MARKS];
    struct ptd_run run = {.steps = steps,
                          .room = room,
                          .timing = trace->timing,
                          .marks = marks,
                          .mark_room = PTD_RUN_ROOM + room % PTD_RUN_ROOM};
    struct referee referee;
    uint64_t offset = stride_bytes;
    int status = PTD_OK;

    if (start(&referee, trace, compounds) && flow && steps)
        while (!is_enough(&referee) &&
               ((status = ptd_flow_run_before(flow, offset, &run)) == PTD_OK || status == 1)) {
            if (run.count > run.room || run.mark_count > run.mark_room)
                (void)differs(&referee, NULL, NULL, "more than there is room for");
            if (status == PTD_OK ? !compare(&referee, flow, &run) : !is_there(&referee, offset))
                break;
            offset += status == 1 ? stride_bytes : 0;
        }
    if (status == 1)
        status = PTD_OK;
    if (!flow || !steps || (status != PTD_OK && status != PTD_END))
        (void)differs(&referee, NULL, NULL, "an error of ptd_flow_run()");
    ptd_flow_free(flow);
    free(steps);
    return finish(&referee);
}

struct referee_verdict referee_run_before(const struct referee_trace *trace, size_t room,
                                          uint64_t stride_bytes)
{
    return both(run_before(trace, room, stride_bytes, false),
                run_before(trace, room, stride_bytes, true));
}

/* The result of a callback, which ptd_flow_parallel() has to return. */
#define ENOUGH 4711

static int compare_part(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct referee *const referee = context;

    return compare(referee, flow, run) && !is_enough(referee) ? 0 : ENOUGH;
}

static struct referee_verdict parallel(const struct referee_trace *trace, unsigned threads,
                                       size_t segment_bytes, bool compounds)
{
    const struct ptd_flow_config config = config_of(trace, compounds);
    struct referee referee;

    if (start(&referee, trace, compounds)) {
        const int status =
            ptd_flow_parallel_by(segment_bytes, trace->bytes, trace->len_bytes, trace->image,
                                 &config, trace->timing, threads, compare_part, &referee);
        const bool stopped = !referee.verdict.same || is_enough(&referee);

        if (status != (stopped ? ENOUGH : PTD_OK))
            (void)differs(&referee, NULL, NULL, "the result of ptd_flow_parallel()");
    }
    return finish(&referee);
}

struct referee_verdict referee_parallel(const struct referee_trace *trace, unsigned threads,
                                        size_t segment_bytes)
{
    return both(parallel(trace, threads, segment_bytes, false),
                parallel(trace, threads, segment_bytes, true));
}

/* ---- Streams ---- */

/* Time over the whole trace: of the packets in front of an offset, and at least one TSC packet. */
struct whole_time {
    struct ptd_time *time; /* NULL: not wanted */
    struct ptd_packets packets;
    struct ptd_time_point point;
    bool has_tsc;
};

static bool open_time(struct whole_time *whole, const struct referee_trace *trace,
                      const struct ptd_time_config *config)
{
    *whole = (struct whole_time){.point = {PTD_TIME_UNKNOWN, 0, PTD_TIME_UNKNOWN, 0}};
    ptd_packets_init(&whole->packets, trace->bytes, trace->len_bytes);
    (void)ptd_packets_sync(&whole->packets);
    whole->time = config ? ptd_time_new(config) : NULL;
    return !config || whole->time;
}

static void go_to(struct whole_time *whole, uint64_t offset)
{
    struct ptd_packet packet;
    bool moved = false;

    while ((ptd_packets_offset(&whole->packets) < offset || !whole->has_tsc) &&
           ptd_time_next(whole->time, &whole->packets, &packet)) {
        ptd_time_packet(whole->time, &packet);
        whole->has_tsc = whole->has_tsc || packet.type == PTD_TSC;
        moved = true;
    }
    if (moved)
        ptd_time_point_ahead(whole->time, &whole->packets, &whole->point);
}

/* All items that the stream has by now. PTD_MORE, PTD_END, or that there was a difference. */
static int compare_stream(struct referee *referee, struct ptd_stream *stream,
                          struct whole_time *time)
{
    struct ptd_time_point point;
    struct ptd_item want, got;
    int status;

    while (!is_enough(referee) && (status = ptd_stream_next(stream, &got, &point)) == PTD_OK) {
        if (next_expected(referee, &want) != PTD_OK) {
            (void)differs(referee, NULL, &got, "item behind the end");
            return ENOUGH;
        }
        if (time->time)
            go_to(time, want.offset);
        if (!same_item(&want, &got) || (time->time && !same_time(&time->point, &point))) {
            (void)differs(referee, &want, &got, same_item(&want, &got) ? "time" : "stream");
            return ENOUGH;
        }
        referee->verdict.items++;
    }
    return is_enough(referee) ? ENOUGH : status;
}

static size_t next_piece(uint64_t *random, size_t most, size_t left)
{
    size_t piece;

    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    piece = 1 + (size_t)(*random % most);
    return piece < left ? piece : left;
}

struct referee_verdict referee_stream(const struct referee_trace *trace, uint64_t random,
                                      size_t most_bytes, const struct ptd_time_config *time)
{
    const struct referee_trace with_timing = {.bytes = trace->bytes,
                                              .len_bytes = trace->len_bytes,
                                              .image = trace->image,
                                              .config = trace->config,
                                              .most_items = trace->most_items};
    struct ptd_stream *const stream = ptd_stream_new(trace->image, trace->config, time);
    struct whole_time whole;
    struct referee referee;
    int status = PTD_MORE;
    size_t fed = 0;

    if (start(&referee, &with_timing, false) && stream && open_time(&whole, trace, time)) {
        while (status == PTD_MORE && fed < trace->len_bytes) {
            const size_t piece = next_piece(&random, most_bytes, trace->len_bytes - fed);

            if (ptd_stream_feed(stream, (const uint8_t *)trace->bytes + fed, piece) != PTD_OK)
                (void)differs(&referee, NULL, NULL, "an error of ptd_stream_feed()");
            fed += piece;
            status = compare_stream(&referee, stream, &whole);
        }
        if (status == PTD_MORE) {
            ptd_stream_end(stream);
            status = compare_stream(&referee, stream, &whole);
        }
        if (status != PTD_END && status != ENOUGH)
            (void)differs(&referee, NULL, NULL, "the result of ptd_stream_next()");
        ptd_time_free(whole.time);
    }
    ptd_stream_free(stream);
    return finish(&referee);
}
