/* SPDX-License-Identifier: BSD-3-Clause */
/* Random processors, and random settings of the trace on them (33.2.8). */
#ifndef PTD_INVARIANTS_SETUP_H
#define PTD_INVARIANTS_SETUP_H

#include "roundtrip/invariants/state.h"

void setup_processor(struct run *run, struct vpt_caps *caps);
/* What is written to MSRs while TraceEn is 0: where packets go, ranges and CR3_MATCH. */
void setup_output(struct run *run);
void setup_filters(struct run *run);
/* Values of the output MSRs, on a processor that has them. */
void setup_output_msrs(struct run *run, uint64_t *base, uint64_t *mask_ptrs);
/* A value that the processor takes for RTIT_CTL, with TraceEn; output_base: what goes with it. */
uint64_t setup_ctl(struct run *run, uint64_t output_base);
/* Whether TriggerEn follows TraceEn now. */
bool setup_may_trace(struct run *run);

#endif
