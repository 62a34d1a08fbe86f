/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a run leaves: trace files with their sidecars (docs/trace-files.md).
 */
#ifndef VMM_RUN_FILES_H
#define VMM_RUN_FILES_H

#include "common/output.h"
#include "common/reason.h"
#include "run/run.h"
#include "vpt_caps.h"

/* Of a processor; those that are not wanted are not open. */
struct cpu_outputs {
    struct output trace, sidecar, path;
};

/* Begins as zeros. */
struct run_files {
    struct cpu_outputs cpus[MAX_CPUS];
    struct output saved; /* the guest; whoever runs it writes it, by its name */
};

/* The name of a file of processor `index`: NAME itself for the first, then NAME.1, NAME.2, ... */
void cpu_file(const char *name, unsigned index, char *path, size_t path_bytes);
/*
 * Opens what the options name, before the run: of each processor TRACE, TRACE.json, and TRACE.path
 * (or options->path_out) if there is a path. A trace into a pipe or a device has nothing beside it.
 * 0 or -errno and why: then nothing is open.
 */
int run_files_open(struct run_files *files, const struct run_options *options, struct reason *why);
/* Writes and closes them. 0 or -errno and why. */
int run_files_write(struct run_files *files, const struct run_options *options,
                    const struct vpt_caps *caps, const struct run_result *result,
                    struct reason *why);
/* Those that are still open are not wanted: what was not there before goes away. */
void run_files_drop(struct run_files *files);

#endif
