/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether branches and times of a trace are found as they were. */
#include <math.h>

#include "check.h"
#include "ways.h"

/* Blocks to branches; the last one's target is not known yet. */
struct finder {
    struct truth truth;
    bool open;
    uint64_t branch_ip;
    uint64_t steps, errors;
};

static void arrive(struct finder *finder, uint64_t ip)
{
    if (finder->open)
        truth_add(&finder->truth, finder->branch_ip, ip);
    finder->open = false;
}

static void find_in_block(struct finder *finder, const struct ptd_item *block)
{
    arrive(finder, block->ip);
    finder->truth.insns += block->insns;
    finder->open = block->last_class != PTD_INSN_OTHER;
    finder->branch_ip = block->last_ip;
}

static int find(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct finder *const finder = context;
    struct ptd_item block;

    for (size_t i = 0; i < run->count; i++)
        for (size_t part = 0; ptd_step_block(flow, run->steps[i], part, &block) == PTD_OK; part++)
            find_in_block(finder, &block);
    finder->steps += run->count;
    if (!run->has_item)
        return 0;
    if (run->item.type == PTD_ITEM_BLOCK)
        find_in_block(finder, &run->item);
    else if (run->item.type == PTD_ITEM_ERROR)
        finder->errors++;
    else if (run->item.type == PTD_ITEM_DISABLED && run->item.has_from)
        arrive(finder, run->item.from);
    return 0;
}

static bool found_all(const struct trace *trace, const char *how, const struct finder *finder)
{
    if (finder->errors == 0 && truth_equal(&trace->truth, &finder->truth))
        return true;
    (void)fprintf(stderr, "decode: %s, %s: %" PRIu64 " errors; ran, and found:\n", trace->name, how,
                  finder->errors);
    truth_write(&trace->truth, stderr);
    truth_write(&finder->truth, stderr);
    return false;
}

/* Sequential, and on two threads. Gives the number of steps back; 0: something is wrong. */
static uint64_t check_steps(const struct trace *trace, const struct ptd_flow_config *config)
{
    static uint32_t steps[ROOM];
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, config);
    struct ptd_run run = {.steps = steps, .room = ROOM};
    struct finder one = {.steps = 0}, two = {.steps = 0};

    truth_start(&one.truth);
    truth_start(&two.truth);
    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        (void)find(&one, flow, &run);
    ptd_flow_free(flow);
    if (ptd_flow_parallel(trace->bytes, trace->len_bytes, trace->image, config, PTD_TIMING_ITEMS, 2,
                          find, &two) != PTD_OK ||
        !found_all(trace, "ptd_flow_run()", &one) || !found_all(trace, "two threads", &two))
        return 0;
    return one.steps;
}

uint64_t check_branches(const struct trace *trace)
{
    const uint64_t steps = check_steps(trace, &single_steps);

    return steps > 0 && check_steps(trace, &compound_steps) > 0 ? steps : 0;
}

/* Where the execution is, and what time was told. */
struct timekeeper {
    uint64_t insns, earliest;
    uint64_t marks, wrong;
    double width; /* of all intervals */
};

/* A branch at a TSC of so many instructions, between two marks. */
static void keep_time(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                      const struct ptd_time_point *points)
{
    const uint32_t *const step_insns = ptd_flow_insns(flow, NULL);
    struct timekeeper *const keeper = context;
    size_t mark = 0;

    for (size_t i = 0; i <= run->count; i++) {
        for (; mark < run->mark_count && run->marks[mark].step == i; mark++) {
            const struct ptd_time_point *const point = &points[mark];

            keeper->wrong += keeper->insns > point->latest;
            keeper->earliest = point->earliest;
            keeper->width += (double)(point->latest - point->earliest);
        }
        if (i == run->count)
            break;
        keeper->insns += step_insns[run->steps[i] >> 2];
        keeper->wrong += keeper->insns < keeper->earliest;
    }
    keeper->marks += run->mark_count;
    if (run->has_item && run->item.type == PTD_ITEM_BLOCK)
        keeper->insns += run->item.insns;
}

double check_times(const struct trace *trace)
{
    struct timekeeper keeper = {0};

    run_with_time(trace, keep_time, &keeper);
    if (keeper.insns == trace->truth.insns && keeper.wrong == 0 && keeper.marks > 0)
        return keeper.width / (double)keeper.marks;
    (void)fprintf(stderr, "decode: %s.%s: %" PRIu64 " times of %" PRIu64 " are wrong\n",
                  trace->name, trace->suffix, keeper.wrong, keeper.marks);
    return NAN;
}
