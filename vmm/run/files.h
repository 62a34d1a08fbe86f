/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a run leaves: trace files with their sidecars (docs/trace-files.md).
 */
#ifndef VMM_RUN_FILES_H
#define VMM_RUN_FILES_H

#include "run/run.h"

/* The name of a file of processor `index`: NAME itself for the first, then NAME.1, NAME.2, ... */
void cpu_file(const char *name, unsigned index, char *path, size_t path_bytes);
/*
 * Of each processor TRACE and TRACE.json, and TRACE.path (or options->path_out) if there is a path,
 * named as cpu_file() does. 0 or -errno.
 */
int trace_files_write(const char *trace, const struct run_options *options,
                      const struct vpt_caps *caps, const struct run_result *result);

#endif
