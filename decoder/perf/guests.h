/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: a copy of a trace that says whose guest runs, as it is read. */
#ifndef PTD_PERF_GUESTS_H
#define PTD_PERF_GUESTS_H

#include "perf/copy.h"

struct perf_guest_copy;

/* trace is one of session, which has .guests. NULL: no memory. */
struct perf_guest_copy *ptd_perf_guest_copy_new(const struct ptd_perf_session *session,
                                                const struct ptd_perf_trace *trace);
void ptd_perf_guest_copy_free(struct perf_guest_copy *guest);
struct perf_copy *ptd_perf_guest_copy_of(struct perf_guest_copy *guest);

#endif
