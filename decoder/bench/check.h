/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether what libptdec finds in a trace is what ran; if not, stderr says so. */
#ifndef PTD_BENCH_CHECK_H
#define PTD_BENCH_CHECK_H

#include "trace.h"

/*
 * Branch by branch, in single steps and in compound ones: sequential, and on two threads. Gives the
 * number of single steps back; 0: something is wrong.
 */
uint64_t check_branches(const struct trace *trace);
/*
 * Instruction by instruction, whether it ran within the interval that is told. Gives the average
 * width of an interval back, in TSC ticks; NaN if one is wrong.
 */
double check_times(const struct trace *trace);

#endif
