/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace bundle of LLDB (`trace save`): a JSON file that names the processor, the traces of
 * threads or CPUs, and the code with its addresses. The schema is what `trace schema intel-pt` of
 * LLDB prints.
 */
#ifndef REPLAY_BUNDLE_H
#define REPLAY_BUNDLE_H

#include "options.h"

bool bundle_detect(const uint8_t *bytes, size_t len_bytes);
/* NULL, or a sentence that says what is wrong with the file. */
const char *bundle_each_trace(const char *path, const uint8_t *bytes, size_t len_bytes,
                              const struct options *options, trace_fn run);

#endif
