/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: what a session is asked for, in an order to find it by. */
#ifndef PTD_PERF_LOOKUP_H
#define PTD_PERF_LOOKUP_H

#include "base/extents.h"
#include "perf/order.h"
#include "perf/turns.h"

struct ptd_perf_lookup {
    struct perf_order comms;     /* by thread */
    struct perf_order processes; /* those of comms that are of a process's first thread, by it */
    struct perf_order births;    /* forks by the new thread */
    struct perf_order forks;     /* those that make a process, by it */
    struct perf_order pids;      /* processes of threads; the last one counts */
    struct perf_order maps;      /* by process */
    struct perf_order switches, starts; /* by CPU */
    struct extents symbols;             /* by address: the last name of each */
    struct perf_turns turns;
    uint64_t config; /* RTIT_CTL, as the attr of the Intel PT event has it */
};

/* NULL: no memory. */
struct ptd_perf_lookup *ptd_perf_lookup_new(const struct ptd_perf_session *session);
void ptd_perf_lookup_free(struct ptd_perf_lookup *lookup);

#endif
