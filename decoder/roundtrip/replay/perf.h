/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces, the processor and the code of a perf.data. */
#ifndef REPLAY_PERF_H
#define REPLAY_PERF_H

#include "options.h"

/* Called for each trace of the file, with a name for it and options that have its code. */
typedef void (*perf_trace_fn)(const char *name, const struct options *options, const uint8_t *bytes,
                              size_t len_bytes, uint64_t base);

/* NULL, or a sentence that says what is wrong with the file. */
const char *perf_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                            const struct options *options, perf_trace_fn run);

#endif
