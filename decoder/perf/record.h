/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: one record. */
#ifndef PTD_PERF_RECORD_H
#define PTD_PERF_RECORD_H

#include "perf/event.h"

/* Fills record from its body. PTD_OK, or PTD_E_FORMAT and a sentence in *why. */
int ptd_perf_record_parse(struct perf_events *events, struct ptd_perf_record *record,
                          const char **why);

#endif
