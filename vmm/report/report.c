/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces on their way into the sums: item by item, or in bulk.
 */
#include "report/report.h"

bool report_begin(struct report *report)
{
    *report = (struct report){0};
    report->tally = tally_new(&sums_sink, &report->sums);
    return report->tally;
}

void report_shows(struct report *report, const struct report_options *options)
{
    report->sums.is_of_all = report_is_of_all(options);
    report->sums.filter = &options->filter;
}

void report_free(struct report *report)
{
    tally_free(report->tally);
    sums_free(&report->sums);
    events_free(&report->events);
}

uint64_t report_untraced(const struct report *report)
{
    return tally_untraced(report->tally) + report->untraced;
}

bool report_has_run(const struct report *report)
{
    return tally_insns(report->tally) > 0 || report->insns > 0;
}

/* The names that hold from a time on. */
static void take_names(struct report *report, uint64_t time)
{
    const struct out_thread *const thread = report->sums.thread;

    report->names_until = UINT64_MAX;
    if (thread->names_until && out_has_ns(thread))
        report->names_until = thread->names_until(thread->who_owner, out_ns(thread, time));
}

static bool begin(void *out, const struct out_thread *thread)
{
    struct report *const report = out;
    const uint64_t much = UINT64_C(1) << 32;

    tally_restart(report->tally);
    sums_begin(&report->sums, thread);
    events_begin(&report->events);
    take_names(report, thread->start);
    report->changes = thread->changes ? *thread->changes : 0;
    report->renames = thread->renames ? *thread->renames : 0;
    report->trace_count++;
    report->timed_count += thread->is_tsc;
    if (thread->is_tsc && !tally_time(report->tally, thread->start, 0))
        return false;
    if (out_has_ns(thread))
        report->ns_of_2_32_ticks =
            out_ns(thread, thread->start + much) - out_ns(thread, thread->start);
    return true;
}

/* It is later now. Names of the past are those of what ran up to here. */
static bool pass_time(struct report *report, uint64_t time, uint64_t cycles)
{
    const struct out_thread *const thread = report->sums.thread;

    if (!tally_time(report->tally, time, cycles))
        return false;
    if (report->names_until == UINT64_MAX || time == PTD_TIME_UNKNOWN ||
        out_ns(thread, time) < report->names_until)
        return true;
    if (!tally_flush(report->tally))
        return false;
    sums_rename(&report->sums, time);
    take_names(report, time);
    return true;
}

/* Another place, and perhaps others who run there, or other functions. */
static void pass_place(struct report *report, uint64_t time)
{
    const struct out_thread *const thread = report->sums.thread;

    if (thread->changes && *thread->changes != report->changes) {
        report->changes = *thread->changes;
        sums_rename(&report->sums, time);
    }
    if (!thread->renames || *thread->renames == report->renames)
        return;
    report->renames = *thread->renames;
    tally_forget(report->tally);
    sums_rename_functions(&report->sums);
}

static bool take_item(struct report *report, const struct ptd_item *item)
{
    return tally_item(report->tally, item) &&
           events_item(&report->events, &report->sums, report->tally, item);
}

static bool item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct report *const report = out;
    const struct out_thread *const thread = report->sums.thread;

    if (thread->is_tsc && !pass_time(report, time, thread->cycles ? *thread->cycles : 0))
        return false;
    pass_place(report, time);
    return take_item(report, item);
}

/* Whether names change at one of the marks of a run. */
static bool is_renamed(const struct report *report, const struct ptd_run *run,
                       const struct ptd_time_point *points)
{
    uint64_t latest = 0;

    if (report->names_until == UINT64_MAX)
        return false;
    for (size_t i = 0; i < run->mark_count; i++)
        if (points[i].tsc != PTD_TIME_UNKNOWN && points[i].tsc > latest)
            latest = points[i].tsc;
    return latest > 0 && out_ns(report->sums.thread, latest) >= report->names_until;
}

/* Where names change, time passes mark by mark. */
static bool take_slowly(struct report *report, const struct ptd_flow *flow,
                        const struct ptd_run *run, const struct ptd_time_point *points)
{
    struct ptd_run part = *run;
    size_t done = 0;

    part.mark_count = 0;
    for (size_t i = 0; i <= run->mark_count; i++) {
        const size_t next = i < run->mark_count ? run->marks[i].step : run->count;

        part.steps = run->steps + done;
        part.count = next - done;
        done = next;
        if (!tally_steps(report->tally, flow, &part, NULL))
            return false;
        if (i < run->mark_count && !pass_time(report, points[i].tsc, points[i].cycles))
            return false;
    }
    return true;
}

static bool run(void *out, const struct ptd_flow *flow, const struct ptd_run *run,
                const struct ptd_time_point *points)
{
    struct report *const report = out;
    bool is_good;

    pass_place(report, tally_now(report->tally));
    is_good = points && is_renamed(report, run, points)
                  ? take_slowly(report, flow, run, points)
                  : tally_steps(report->tally, flow, run, points);

    return is_good && (!run->has_item || take_item(report, &run->item));
}

/* What ran so far is counted while names are those that held then. */
static bool flush(void *out)
{
    return tally_flush(((struct report *)out)->tally);
}

/* It is nobody's to open or close but its owner's. */
static bool close_nothing(void *out)
{
    (void)out;
    return true;
}

const struct out_format report_format = {
    .name = "report",
    .is_by_processor = true,
    .takes_compounds = true,
    .begin = begin,
    .item = item,
    .run = run,
    .names_end = flush,
    .end = flush,
    .shards = &report_shards,
    .close = close_nothing,
};
