/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A perf.data whose traces are decoded: whose each of them is, and the code of processes.
 */
#ifndef VMM_PERF_JOB_H
#define VMM_PERF_JOB_H

#include "view/decode.h"

struct perf_job;

/* What a stream reads: a trace in one place, or what was made of it. Begins as zeros. */
struct perf_packets {
    struct ptd_perf_whole whole;
    struct ptd_perf_cpu_trace copy;
};

/* Whose guests ran is found here. bytes, options and why outlive the job. 0 or -errno and why. */
int perf_job_open(struct decode_options *options, const char *file, const struct bytes *bytes,
                  struct perf_job **job, struct reason *why);
const struct ptd_perf_session *perf_job_session(const struct perf_job *job);
/*
 * One of the session's traces, with its code, for stream_open(). Code of other traces is there
 * then, too; a flow must not have looked at it before. packets outlive the stream, and are to be
 * freed in any case. 0 or -errno.
 */
int perf_job_prepare(struct perf_job *job, const struct ptd_perf_trace *trace,
                     struct stream *stream, struct perf_packets *packets);
void perf_packets_free(struct perf_packets *packets);
/* error, or if that is 0, -EBADMSG without a reason: the records end early, which was remarked. */
int perf_job_close(struct perf_job *job, int error);

#endif
