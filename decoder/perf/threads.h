/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: which threads took turns on the CPU of a trace. */
#ifndef PTD_PERF_THREADS_H
#define PTD_PERF_THREADS_H

#include "perf/turns.h"

/* Of a thread's own trace: that thread. */
struct perf_cpu_turns ptd_perf_threads_of(const struct ptd_perf_session *session,
                                          const struct ptd_perf_trace *trace);

#endif
