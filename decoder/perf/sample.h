/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: the fields of a sample. */
#ifndef PTD_PERF_SAMPLE_H
#define PTD_PERF_SAMPLE_H

#include "perf/span.h"
#include "ptdec_perf.h"

/* The packets of a sample, behind its fields up to SAMPLE_CPU. */
void ptd_perf_sample_take_rest(struct span *span, const struct ptd_perf_event *event,
                               struct ptd_perf_record *record);

#endif
