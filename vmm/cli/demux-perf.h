/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt demux of a perf.data: the traces of a host's processors, side by side in the order of their
 * times, to the files of virtual processors.
 */
#ifndef VMM_DEMUX_PERF_H
#define VMM_DEMUX_PERF_H

#include "demux/files.h"
#include "view/perf-job.h"

/*
 * options->map says which threads are virtual processors, or which VMCS pointers. Times are wanted
 * where has_time says so. The files are not written yet. 0, or -errno and files->why.
 */
int demux_perf(struct perf_job *job, struct decode_options *options, bool has_time,
               struct demux_files *files, struct demux_sums *sums);

#endif
