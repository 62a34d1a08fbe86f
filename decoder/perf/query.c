/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a session of a perf.data can tell: whose a thread is, the code of a process with what it
 * inherited.
 */
#include <stdio.h>

#include "base/extents.h"
#include "perf/lookup.h"
#include "perf/order.h"
#include "ptdec_perf.h"

#define FORKS_MAX 64 /* generations that a map or a name is inherited through */

uint32_t ptd_perf_pid_of(const struct ptd_perf_session *session, uint32_t tid)
{
    const struct perf_entry *const pid =
        ptd_perf_order_last(&session->lookup->pids, tid, UINT64_MAX);

    return pid ? (uint32_t)pid->at : tid;
}

/* The name that was given to a thread, or to its process, up to a time. */
static const char *told_name(const struct ptd_perf_session *session, uint32_t pid, uint32_t tid,
                             uint64_t time)
{
    const struct perf_entry *told = ptd_perf_order_last(&session->lookup->comms, tid, time);

    if (!told)
        told = ptd_perf_order_last(&session->lookup->processes, pid, time);
    return told ? session->comms[told->at].name : NULL;
}

const char *ptd_perf_comm_of(const struct ptd_perf_session *session, uint32_t pid, uint32_t tid,
                             uint64_t time)
{
    for (unsigned i = 0; i < FORKS_MAX; i++) {
        const char *const name = told_name(session, pid, tid, time);
        const struct perf_entry *const birth =
            name ? NULL : ptd_perf_order_last(&session->lookup->births, tid, time);

        if (!birth)
            return name;
        pid = session->forks[birth->at].parent_pid;
        tid = session->forks[birth->at].parent_tid;
        time = birth->time;
    }
    return NULL;
}

const char *ptd_perf_symbol_of(const struct ptd_perf_session *session, uint64_t address)
{
    const struct extent *const found = ptd_extents_below(&session->lookup->symbols, address, NULL);

    return found && found->last >= address ? session->symbols[found->number].name : NULL;
}

/* Part of the life of a process whose maps count. */
struct life {
    uint32_t pid;
    uint64_t from, to;
};

static int each_map_of(const struct ptd_perf_session *session, const struct life *life,
                       int (*map)(void *owner, const struct ptd_perf_map *map), void *owner)
{
    const struct perf_order *const maps = &session->lookup->maps;

    for (size_t i = ptd_perf_order_begin(maps, life->pid, life->from);
         i < maps->count && maps->list[i].key == life->pid && maps->list[i].time <= life->to; i++) {
        const int stop = map(owner, &session->maps[maps->list[i].at]);

        if (stop)
            return stop;
    }
    return 0;
}

int ptd_perf_each_map(const struct ptd_perf_session *session, uint32_t pid,
                      int (*map)(void *owner, const struct ptd_perf_map *map), void *owner)
{
    struct life lives[FORKS_MAX]; /* the process, its parent, ... */
    unsigned count = 0;
    uint64_t to = UINT64_MAX;
    int stop = 0;

    while (count < FORKS_MAX) {
        const struct perf_entry *const fork = ptd_perf_order_last(&session->lookup->forks, pid, to);

        lives[count++] = (struct life){pid, fork ? fork->time : 0, to};
        if (!fork)
            break;
        pid = session->forks[fork->at].parent_pid;
        to = fork->time;
    }
    while (!stop && count-- > 0)
        stop = each_map_of(session, &lives[count], map, owner);
    return stop;
}

int ptd_perf_event_names(const struct ptd_perf_session *session, char *text, size_t text_bytes)
{
    size_t len = 0;

    if (text_bytes)
        text[0] = 0;
    for (size_t i = 0; i < session->event_count; i++) {
        const int n =
            snprintf(len < text_bytes ? text + len : NULL, len < text_bytes ? text_bytes - len : 0,
                     "%s%s", i ? ", " : "", session->events[i].name);

        len += n > 0 ? (size_t)n : 0;
    }
    return (int)len;
}

void ptd_perf_out_of(const struct ptd_perf_session *session, struct ptd_perf_out *out)
{
    *out = (struct ptd_perf_out){
        .pt = session->pt,
        .config = session->lookup->config,
        .cpuid = session->cpuid,
        .traces = session->traces,
        .trace_count = session->trace_count,
        .maps = session->maps,
        .map_count = session->map_count,
        .comms = session->comms,
        .comm_count = session->comm_count,
        .forks = session->forks,
        .fork_count = session->fork_count,
        .switches = session->switches,
        .switch_count = session->switch_count,
        .symbols = session->symbols,
        .symbol_count = session->symbol_count,
        .pokes = session->pokes,
        .poke_count = session->poke_count,
    };
}
