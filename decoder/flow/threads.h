/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside ptd_flow_parallel(): the same with segments of another size, for tests. */
#ifndef PTD_THREADS_H
#define PTD_THREADS_H

#include "ptdec.h"

/* A segment ends at the first PSB that is so many bytes (>= 1) behind its begin, or more. */
int ptd_flow_parallel_by(size_t segment_bytes, const void *bytes, size_t len_bytes,
                         const struct ptd_image *image, const struct ptd_flow_config *config,
                         enum ptd_timing timing, unsigned threads, ptd_run_fn run, void *context);

#endif
