/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes a trace in the ways that libptdec has: steps, threads, times, items, packets. */
#include "ways.h"

#define MARKS 4096u

const struct ptd_flow_config single_steps = {.mode = PTD_MODE_64};
const struct ptd_flow_config compound_steps = {.mode = PTD_MODE_64, .compounds = true};

/* The processor of record.c. */
static const struct ptd_time_config clocks = {.tsc_den = TRUTH_TSC_DEN,
                                              .tsc_num = TRUTH_TSC_NUM,
                                              .mtc_freq = TRUTH_MTC_FREQ,
                                              .max_nonturbo_ratio = TRUTH_RATIO};

/* ---- Steps ---- */

static int add_up(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    const uint32_t *const step_insns = ptd_flow_insns(flow, NULL);
    uint64_t *const sum = context;
    uint64_t insns = 0;

    for (size_t i = 0; i < run->count; i++)
        insns += step_insns[run->steps[i] >> 2];
    if (run->has_item && run->item.type == PTD_ITEM_BLOCK)
        insns += run->item.insns;
    *sum += insns;
    return 0;
}

static uint64_t run_steps(const struct trace *trace, enum ptd_timing timing,
                          const struct ptd_flow_config *config)
{
    static uint32_t steps[ROOM];
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, config);
    struct ptd_run run = {.steps = steps, .room = ROOM, .timing = (uint8_t)timing};
    uint64_t insns = 0;

    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        (void)add_up(&insns, flow, &run);
    ptd_flow_free(flow);
    return insns;
}

uint64_t run_ours(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_ITEMS, &single_steps);
}

uint64_t run_compounds(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_ITEMS, &compound_steps);
}

static uint64_t run_threads(const struct trace *trace, unsigned threads)
{
    uint64_t insns = 0;

    (void)ptd_flow_parallel(trace->bytes, trace->len_bytes, trace->image, NULL, PTD_TIMING_ITEMS,
                            threads, add_up, &insns);
    return insns;
}

uint64_t run_one_thread(const struct trace *trace)
{
    return run_threads(trace, 1);
}

uint64_t run_two_threads(const struct trace *trace)
{
    return run_threads(trace, 2);
}

uint64_t run_untimed(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_NONE, &single_steps);
}

/* ---- Time ---- */

void run_with_time(const struct trace *trace, timed_fn consume, void *context)
{
    static uint32_t steps[ROOM];
    static struct ptd_mark marks[MARKS];
    static struct ptd_time_point points[MARKS];
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_time *const time = ptd_time_new(&clocks);
    struct ptd_packets packets;
    struct ptd_run run = {.steps = steps,
                          .room = ROOM,
                          .timing = PTD_TIMING_MARKS,
                          .marks = marks,
                          .mark_room = MARKS};

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while (flow && time && ptd_flow_run(flow, &run) == PTD_OK) {
        ptd_time_marks(time, &packets, marks, run.mark_count, points);
        consume(context, flow, &run, points);
    }
    ptd_time_free(time);
    ptd_flow_free(flow);
}

struct timed_sum {
    uint64_t insns, ticks;
};

static void add_up_times(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                         const struct ptd_time_point *points)
{
    struct timed_sum *const timed = context;

    (void)add_up(&timed->insns, flow, run);
    for (size_t i = 0; i < run->mark_count; i++)
        timed->ticks += points[i].tsc;
}

uint64_t run_timed(const struct trace *trace)
{
    struct timed_sum timed = {.ticks = 0};

    run_with_time(trace, add_up_times, &timed);
    return timed.ticks > 0 ? timed.insns : 0;
}

/* ---- Items and packets ---- */

uint64_t run_general(const struct trace *trace)
{
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_item item;
    uint64_t insns = 0;

    while (flow && ptd_flow_next(flow, &item) == PTD_OK)
        if (item.type == PTD_ITEM_BLOCK)
            insns += item.insns;
    ptd_flow_free(flow);
    return insns;
}

uint64_t run_packets(const struct trace *trace)
{
    static struct ptd_packet list[256];
    struct ptd_packets packets;
    uint64_t count = 0;
    int status = PTD_OK;

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while (status == PTD_OK)
        count += ptd_packets_read(&packets, list, sizeof(list) / sizeof(list[0]), &status);
    return status == PTD_END ? count : 0;
}

uint64_t run_packets_next(const struct trace *trace)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t count = 0;
    int status;

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while ((status = ptd_packets_next(&packets, &packet)) == PTD_OK)
        count++;
    return status == PTD_END ? count : 0;
}
