/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: the clocks of a session's traces. */
#ifndef PTD_PERF_CLOCK_H
#define PTD_PERF_CLOCK_H

#include "ptdec_perf.h"

/* NULL: no memory. */
struct ptd_time *ptd_perf_time_new(const struct ptd_perf_session *session);

#endif
