/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: which threads took turns on the CPU of a trace, and who ran in front of all switches.
 */
#include "perf/threads.h"
#include "perf/lookup.h"
#include "perf/order.h"

/* Before the first switch: whoever it is that goes away then. Of a thread's trace: the thread. */
static struct ptd_perf_thread find_first(const struct ptd_perf_session *session,
                                         const struct ptd_perf_trace *trace)
{
    const struct ptd_perf_lookup *const lookup = session->lookup;
    const uint32_t cpu = (uint32_t)trace->cpu;
    const size_t at = ptd_perf_order_begin(&lookup->switches, cpu, 0);
    const struct ptd_perf_switch *first = NULL;
    const struct perf_entry *start;

    if (trace->cpu >= 0 && session->pt.has_time && at < lookup->switches.count &&
        lookup->switches.list[at].key == cpu)
        first = &session->switches[lookup->switches.list[at].at];
    if (first && first->out)
        return (struct ptd_perf_thread){first->tid, first->pid};
    if (first && first->has_other)
        return (struct ptd_perf_thread){first->other_tid, first->other_pid};
    start = trace->cpu >= 0 ? ptd_perf_order_last(&lookup->starts, cpu, UINT64_MAX) : NULL;
    if (start)
        return (struct ptd_perf_thread){session->starts[start->at].tid,
                                        session->starts[start->at].pid};
    /* Of a program that perf started, all of its CPUs' buffers name the first thread. */
    if (trace->tid >= 0)
        return (struct ptd_perf_thread){.tid = (uint32_t)trace->tid,
                                        .pid = ptd_perf_pid_of(session, (uint32_t)trace->tid)};
    return (struct ptd_perf_thread){UINT32_MAX, UINT32_MAX};
}

struct perf_cpu_turns ptd_perf_threads_of(const struct ptd_perf_session *session,
                                          const struct ptd_perf_trace *trace)
{
    struct perf_cpu_turns turns = {.turns = &session->lookup->turns};

    if (trace->cpu >= 0)
        turns = ptd_perf_turns_of(&session->lookup->turns, (uint32_t)trace->cpu);
    turns.first = find_first(session, trace);
    turns.first_has_space = ptd_perf_turns_has_code(session, &session->lookup->maps,
                                                    &session->lookup->forks, turns.first.pid);
    return turns;
}
