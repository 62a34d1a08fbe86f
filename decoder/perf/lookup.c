/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose what is among the lists of a session: they are in order of time, and as long as a file
 * makes them. Here they are in order of threads, processes and CPUs, made once, so that no question
 * goes over a list.
 */
#include <stdlib.h>

#include "perf/lookup.h"
#include "base/array.h"
#include "base/extents.h"
#include "perf/order.h"
#include "perf/sort.h"
#include "perf/turns.h"
#include "ptdec_perf.h"

static bool add(struct perf_order *order, uint64_t key, uint64_t time, size_t at)
{
    if (!array_grow((void **)&order->list, &order->room, order->count, sizeof(*order->list)))
        return false;
    order->list[order->count++] = (struct perf_entry){.key = key, .time = time, .at = at};
    return true;
}

static bool add_comms(struct ptd_perf_lookup *lookup, const struct ptd_perf_session *session)
{
    for (size_t i = 0; i < session->comm_count; i++) {
        const struct ptd_perf_comm *const comm = &session->comms[i];

        if (!add(&lookup->comms, comm->tid, comm->time, i))
            return false;
        if (comm->tid == comm->pid && !add(&lookup->processes, comm->pid, comm->time, i))
            return false;
    }
    return true;
}

static bool add_forks(struct ptd_perf_lookup *lookup, const struct ptd_perf_session *session)
{
    for (size_t i = 0; i < session->fork_count; i++) {
        const struct ptd_perf_task *const fork = &session->forks[i];

        if (!add(&lookup->births, fork->tid, fork->time, i))
            return false;
        if (fork->pid != fork->parent_pid && !add(&lookup->forks, fork->pid, fork->time, i))
            return false;
    }
    return true;
}

/* The process of a thread is what was told last by the kind of record that knows best. */
static bool add_pids(struct ptd_perf_lookup *lookup, const struct ptd_perf_session *session)
{
    struct perf_order *const pids = &lookup->pids;
    bool ok = true;

    for (size_t i = 0; ok && i < session->fork_count; i++)
        ok = add(pids, session->forks[i].tid, 0, session->forks[i].pid);
    for (size_t i = 0; ok && i < session->comm_count; i++)
        ok = add(pids, session->comms[i].tid, 0, session->comms[i].pid);
    for (size_t i = 0; ok && i < session->start_count; i++)
        ok = add(pids, session->starts[i].tid, 0, session->starts[i].pid);
    return ok;
}

static bool add_rest(struct ptd_perf_lookup *lookup, const struct ptd_perf_session *session)
{
    bool ok = true;

    for (size_t i = 0; ok && i < session->map_count; i++)
        ok = add(&lookup->maps, session->maps[i].pid, session->maps[i].time, i);
    for (size_t i = 0; ok && i < session->switch_count; i++)
        ok = add(&lookup->switches, session->switches[i].cpu, session->switches[i].time, i);
    for (size_t i = 0; ok && i < session->start_count; i++)
        ok = add(&lookup->starts, session->starts[i].cpu, session->starts[i].time, i);
    return ok;
}

/* A later name takes the place of an earlier one. */
static bool add_symbols(struct ptd_perf_lookup *lookup, const struct ptd_perf_session *session)
{
    for (size_t i = 0; i < session->symbol_count; i++) {
        const struct ptd_perf_symbol *const symbol = &session->symbols[i];
        const uint64_t room = UINT64_MAX - symbol->start;
        struct extent extent = {.first = symbol->start, .number = i};

        if (symbol->gone || symbol->len == 0)
            continue;
        extent.last = symbol->start + (symbol->len - 1 < room ? symbol->len - 1 : room);
        if (!ptd_extents_cut(&lookup->symbols, extent.first, extent.last) ||
            !ptd_extents_add(&lookup->symbols, extent))
            return false;
    }
    return true;
}

static uint64_t config_of(const struct ptd_perf_session *session)
{
    uint64_t config = 0;

    for (size_t i = 0; i < session->event_count; i++) {
        if (session->events[i].type == session->pt.pmu_type)
            config = session->events[i].config;
    }
    return config;
}

static bool sort(struct perf_order *order)
{
    return ptd_perf_sort(order->list, order->count, sizeof(*order->list));
}

struct ptd_perf_lookup *ptd_perf_lookup_new(const struct ptd_perf_session *session)
{
    struct ptd_perf_lookup *const lookup = calloc(1, sizeof(*lookup));

    if (lookup && add_comms(lookup, session) && add_forks(lookup, session) &&
        add_pids(lookup, session) && add_rest(lookup, session) && add_symbols(lookup, session) &&
        sort(&lookup->comms) && sort(&lookup->processes) && sort(&lookup->births) &&
        sort(&lookup->forks) && sort(&lookup->pids) && sort(&lookup->maps) &&
        sort(&lookup->switches) && sort(&lookup->starts) &&
        ptd_perf_turns_make(&lookup->turns, session, &lookup->switches, &lookup->maps,
                            &lookup->forks)) {
        lookup->config = config_of(session);
        return lookup;
    }
    ptd_perf_lookup_free(lookup);
    return NULL;
}

void ptd_perf_lookup_free(struct ptd_perf_lookup *lookup)
{
    if (!lookup)
        return;
    free(lookup->comms.list);
    free(lookup->processes.list);
    free(lookup->births.list);
    free(lookup->forks.list);
    free(lookup->pids.list);
    free(lookup->maps.list);
    free(lookup->switches.list);
    free(lookup->starts.list);
    ptd_extents_free(&lookup->symbols);
    ptd_perf_turns_free(&lookup->turns);
    free(lookup);
}
