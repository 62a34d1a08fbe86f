/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of long traces stand in a file without a name, in the folder that TMPDIR names: its pages
 * are memory that the system can have back at any time. Short ones stand in memory.
 */
#ifndef VMM_SCRATCH_H
#define VMM_SCRATCH_H

#include "common/bytes.h"
#include "common/reason.h"
#include "ptdec_perf.h"
#include "trace/input.h"

struct scratch;

/* Before rights are given up, since it opens a file. NULL: no memory. */
struct scratch *scratch_new(void);
/* Everything that the store keeps must be freed before. */
void scratch_free(struct scratch *scratch);
/*
 * input_see_all(): pages of a file are looked at from the first to the last, and must outlive
 * scratch. NULL: they stay in memory. 0 or -errno.
 */
int scratch_see(struct scratch *scratch, struct input *input, struct bytes *bytes);
/* For struct ptd_perf_session; tell is told if there is no room in the folder. */
const struct ptd_perf_store *scratch_store(struct scratch *scratch, remark_fn tell);
/* Offsets of a trace ascend: what has been looked at need not stay in memory. NULL: nothing. */
void scratch_pass(struct scratch *scratch, uint64_t from, uint64_t to);

#endif
