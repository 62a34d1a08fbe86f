/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the other ways to decode, ptd_flow_run(), ptd_flow_parallel() and ptd_stream_next(), find
 * exactly what ptd_flow_next() finds: the same items in the same order, errors and what they lose
 * included, with single steps and then with compound ones, whose verdict it is; and whether
 * ptd_time_marks() tells the times that ptd_time_packet() tells, and leaves the clock in its state.
 */
#ifndef PTD_TESTS_REFEREE_H
#define PTD_TESTS_REFEREE_H

#include "ptdec.h"

struct referee_trace {
    const void *bytes;
    size_t len_bytes;
    const struct ptd_image *image;
    const struct ptd_flow_config *config; /* may be NULL */
    enum ptd_timing timing;
    uint64_t most_items;                  /* look no further; 0: to the end */
    const struct ptd_time_config *clocks; /* of marks; NULL: any */
    size_t most_marks;                    /* told to time at once; 0: all of a run */
};

struct referee_verdict {
    bool same;
    uint64_t items;       /* that were compared */
    uint64_t in_steps;    /* blocks of them that came in steps */
    uint64_t compounds;   /* steps that were compound ones */
    char difference[200]; /* the first one, in words */
};

/* With room for so many steps a call. */
struct referee_verdict referee_run(const struct referee_trace *trace, size_t room);
/* The same, stopping each so many bytes, where ptd_flow_next_before() has to stop as well. */
struct referee_verdict referee_run_before(const struct referee_trace *trace, size_t room,
                                          uint64_t stride_bytes);
/* On so many threads, in segments of so many bytes or more. */
struct referee_verdict referee_parallel(const struct referee_trace *trace, unsigned threads,
                                        size_t segment_bytes);
/*
 * Fed in pieces of 1 to most_bytes bytes, by chance; timing is never left out. With time, the times
 * of all items are compared too, with those of the whole trace.
 */
struct referee_verdict referee_stream(const struct referee_trace *trace, uint64_t random,
                                      size_t most_bytes, const struct ptd_time_config *time);
/*
 * Whether ptd_perf_scan_pass() passes packets only, and leaves the trace's clock as all of them
 * would. The trace comes in pieces of so many bytes.
 */
bool referee_scan(const struct referee_trace *trace, size_t piece_bytes);

#endif
