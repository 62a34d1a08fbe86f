/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the flow decoder offers to the rest of the library, besides ptdec.h: a trace that comes in
 * pieces, and one that is decoded in segments.
 */
#ifndef PTD_FLOW_H
#define PTD_FLOW_H

#include "flow/core.h"

/* ---- A part of a trace, a window that is slid along ---- */

/* A flow of no bytes yet, the first of which will have this offset. */
void ptd_flow_begin_stream(struct ptd_flow *flow, uint64_t offset);
/* The window; more: bytes follow behind it. It must hold all from ptd_flow_needs() on. */
void ptd_flow_slide(struct ptd_flow *flow, const void *bytes, size_t len_bytes, uint64_t base,
                    bool more);
/* The offset of the first byte that is still needed, and of the first that was not read. */
uint64_t ptd_flow_needs(const struct ptd_flow *flow);
uint64_t ptd_flow_reads_at(const struct ptd_flow *flow);
/* While it looks for a PSB or an IP: the error that will say what was lost on the way. Else NULL.
 */
const struct ptd_item *ptd_flow_lost(const struct ptd_flow *flow);

/* ---- One trace after the other ---- */

/*
 * The flow of another trace, as ptd_flow_new() makes it for the same image. What was found out
 * about code stays, except what a code log told.
 */
void ptd_flow_begin_trace(struct ptd_flow *flow, const void *bytes, size_t len_bytes,
                          const struct ptd_flow_config *config);

/* ---- Segments ---- */

/*
 * ptd_flow_run(). Unless it may empty the graph, PTD_OK with neither a step nor an item says that
 * it has to.
 */
int ptd_flow_run_on(struct ptd_flow *flow, struct ptd_run *run, bool may_empty);
/* The state of a flow that has ended: in front of a PSB, or at the end of the trace. */
struct flow_state ptd_flow_state(const struct ptd_flow *flow);
/* Begins again at a PSB, and ends in front of the first PSB at or behind stop. */
void ptd_flow_restart(struct ptd_flow *flow, const struct flow_state *state, uint64_t stop);

#endif
