/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: what the reader of files tells the reader of sessions. */
#ifndef PTD_PERF_FILE_H
#define PTD_PERF_FILE_H

#include "perf/build_id.h"

/* Those that a reader has seen so far. */
struct perf_build_ids *ptd_perf_file_build_ids(struct ptd_perf *perf);

#endif
