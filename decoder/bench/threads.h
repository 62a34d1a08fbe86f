/* SPDX-License-Identifier: BSD-3-Clause */
/* What a second thread is worth, on a machine where others may be at work too. */
#ifndef PTD_BENCH_THREADS_H
#define PTD_BENCH_THREADS_H

#include "trace.h"

struct threads {
    double speedup;     /* where nothing disturbed, if that could be measured */
    double speedup_all; /* in all rounds */
    double loops;       /* what two processors did of a loop, in all */
    unsigned quiet_rounds;
    bool is_quiet; /* speedup is of those rounds */
};

/*
 * How much faster two threads are than one just before, and what two processors of this machine are
 * worth at the time: they may share a core with each other, or each of them with somebody else, as
 * processors of virtual machines do. Where they do not for a while, those rounds count. False: a
 * decoder did not find all, or there is no second thread.
 */
bool measure_threads(const struct trace *trace, struct threads *threads);
/*
 * Megabytes that decoding on two threads needs besides the trace and the image: in a process of its
 * own, which has no memory at hand that was in use before. NaN: there is no such process.
 */
double measure_memory(const struct trace *trace);

#endif
