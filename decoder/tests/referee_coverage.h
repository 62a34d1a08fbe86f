/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether ptdec_coverage.h counts exactly what ptd_flow_next() tells, item by item: map, lists and
 * sums, of a trace that is new to it, of the same trace again, and on threads.
 */
#ifndef PTD_TESTS_REFEREE_COVERAGE_H
#define PTD_TESTS_REFEREE_COVERAGE_H

#include "referee.h"

/* kind chooses among ways to count and ranges. .items is the number of edges that were taken. */
struct referee_verdict referee_coverage(const struct referee_trace *trace, unsigned kind);

#endif
