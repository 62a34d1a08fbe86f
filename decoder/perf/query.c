/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a session of a perf.data can tell: whose a thread is, the code of a process with what it
 * inherited, the clocks of a trace (RTIT_CTL: 33.2.8.2), perf's time and the
 * TSC.
 */
#include <stdio.h>

#include "perf/internal.h"

#define FORKS_MAX     64             /* generations of processes that a map is inherited through */
#define CYC_THRESHOLD (0xfull << 19) /* of RTIT_CTL */

uint32_t ptd_perf_pid_of(const struct ptd_perf_session *session, uint32_t tid)
{
    for (size_t i = session->start_count; i-- > 0;) {
        if (session->starts[i].tid == tid)
            return session->starts[i].pid;
    }
    for (size_t i = session->comm_count; i-- > 0;) {
        if (session->comms[i].tid == tid)
            return session->comms[i].pid;
    }
    for (size_t i = session->fork_count; i-- > 0;) {
        if (session->forks[i].tid == tid)
            return session->forks[i].pid;
    }
    return tid;
}

const char *ptd_perf_comm_of(const struct ptd_perf_session *session, uint32_t pid, uint32_t tid,
                             uint64_t time)
{
    const char *of_process = NULL;

    for (size_t i = session->comm_count; i-- > 0;) {
        const struct ptd_perf_comm *const comm = &session->comms[i];

        if (comm->time > time)
            continue;
        if (comm->tid == tid)
            return comm->name;
        if (comm->pid == pid && comm->tid == pid && !of_process)
            of_process = comm->name;
    }
    return of_process;
}

/* The fork that made a process, at or before a time; NULL: it was there from the beginning. */
static const struct ptd_perf_task *fork_of(const struct ptd_perf_session *session, uint32_t pid,
                                           uint64_t time)
{
    for (size_t i = session->fork_count; i-- > 0;) {
        const struct ptd_perf_task *const task = &session->forks[i];

        if (task->pid == pid && task->parent_pid != pid && task->time <= time)
            return task;
    }
    return NULL;
}

int ptd_perf_each_map(const struct ptd_perf_session *session, uint32_t pid,
                      int (*map)(void *owner, const struct ptd_perf_map *map), void *owner)
{
    struct {
        uint32_t pid;
        uint64_t from, to;
    } lives[FORKS_MAX]; /* the process, its parent, ... */
    unsigned count = 0;
    uint64_t to = UINT64_MAX;

    while (count < FORKS_MAX) {
        const struct ptd_perf_task *const task = fork_of(session, pid, to);

        lives[count].pid = pid;
        lives[count].from = task ? task->time : 0;
        lives[count].to = to;
        count++;
        if (!task)
            break;
        pid = task->parent_pid;
        to = task->time;
    }
    while (count-- > 0) {
        for (size_t i = 0; i < session->map_count; i++) {
            const struct ptd_perf_map *const each = &session->maps[i];
            int stop;

            if (each->pid != lives[count].pid || each->time < lives[count].from ||
                each->time > lives[count].to)
                continue;
            stop = map(owner, each);
            if (stop)
                return stop;
        }
    }
    return 0;
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

/* The field of RTIT_CTL that a mask names. */
static uint8_t field_of(uint64_t config, uint64_t mask)
{
    while (mask && !(mask & 1)) {
        mask >>= 1;
        config >>= 1;
    }
    return (uint8_t)(config & mask);
}

/* RTIT_CTL, as the attr of the Intel PT event has it. */
static uint64_t config_of(const struct ptd_perf_session *session)
{
    uint64_t config = 0;

    for (size_t i = 0; i < session->event_count; i++) {
        if (session->events[i].type == session->pt.pmu_type)
            config = session->events[i].config;
    }
    return config;
}

void ptd_perf_out_of(const struct ptd_perf_session *session, struct ptd_perf_out *out)
{
    *out = (struct ptd_perf_out){
        .pt = session->pt,
        .config = config_of(session),
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

void ptd_perf_clocks(const struct ptd_perf_session *session, struct ptd_time_config *config)
{
    const struct ptd_perf_pt *const pt = &session->pt;
    const uint64_t rtit_ctl = config_of(session);

    *config = (struct ptd_time_config){
        .mtc_freq = field_of(rtit_ctl, pt->mtc_freq_bits) & 15,
        .cyc_threshold = field_of(rtit_ctl, CYC_THRESHOLD),
        .max_nonturbo_ratio = (uint8_t)pt->max_nonturbo_ratio,
        .vms = session->vms,
        .vm_count = session->vm_count,
        .tsc_high = session->trace_count ? (uint8_t)(session->traces[0].reference >> 56) : 0,
    };
    if (pt->tsc_ctc_num <= UINT32_MAX && pt->tsc_ctc_den <= pt->tsc_ctc_num) {
        config->tsc_num = (uint32_t)pt->tsc_ctc_num;
        config->tsc_den = (uint32_t)pt->tsc_ctc_den;
    }
}

uint64_t ptd_perf_time_of_tsc(const struct ptd_perf_pt *pt, uint64_t tsc)
{
    if (!pt->has_time)
        return 0;

    const uint64_t high = tsc >> pt->time_shift;
    const uint64_t low = tsc & ((1ull << pt->time_shift) - 1);

    return pt->time_zero + high * pt->time_mult + ((low * pt->time_mult) >> pt->time_shift);
}

uint64_t ptd_perf_tsc_of_time(const struct ptd_perf_pt *pt, uint64_t time)
{
    if (!pt->has_time)
        return 0;

    const uint64_t since = time - pt->time_zero;

    return ((since / pt->time_mult) << pt->time_shift) +
           ((since % pt->time_mult) << pt->time_shift) / pt->time_mult;
}
