/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces, the processor and the code of a perf.data. */
#ifndef REPLAY_PERF_H
#define REPLAY_PERF_H

#include "options.h"

/* NULL, or a sentence that says what is wrong with the file. */
const char *perf_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                            const struct options *options, trace_fn run);

#endif
