/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which libptdec decodes a trace. */
#ifndef PTD_BENCH_WAYS_H
#define PTD_BENCH_WAYS_H

#include "trace.h"

#define ROOM (16u << 10) /* for steps, a run */

extern const struct ptd_flow_config single_steps, compound_steps;

/*
 * Each decodes a trace once and gives the number of instructions back. Every step is looked at by a
 * consumer, which adds them up.
 */
uint64_t run_ours(const struct trace *trace); /* single steps */
uint64_t run_compounds(const struct trace *trace);
uint64_t run_one_thread(const struct trace *trace);
uint64_t run_two_threads(const struct trace *trace);
uint64_t run_general(const struct trace *trace); /* the general walk, item by item */
uint64_t run_untimed(const struct trace *trace); /* without what times would need */
uint64_t run_timed(const struct trace *trace);   /* with times */

/* The number of packets: in bulk, and one by one. 0 after an error. */
uint64_t run_packets(const struct trace *trace);
uint64_t run_packets_next(const struct trace *trace);

/* Is given all that comes between two calls of ptd_flow_run(), and a point for each mark. */
typedef void (*timed_fn)(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                         const struct ptd_time_point *points);
/* Decodes a trace with its times. */
void run_with_time(const struct trace *trace, timed_fn consume, void *context);

#endif
