/* SPDX-License-Identifier: BSD-3-Clause */
/* The half of the flow decoder that reads packets. */
#ifndef PTD_FLOW_READ_H
#define PTD_FLOW_READ_H

#include "flow/core.h"

/* Whether the next packet has to be known before another instruction is. */
static inline bool ptd_flow_needs_packet(const struct ptd_flow *flow)
{
    const struct flow_state *const state = &flow->state;

    if (state->phase == FLOW_TRACING && state->tnt_count > 0)
        return false; /* as nearly always */
    return !flow_is_tracing(state) ||
           (!state->bind.ready && (state->tnt_count == 0 || state->phase == FLOW_DEFERRED));
}

/* Reads one packet. */
void ptd_flow_read(struct ptd_flow *flow);
/* Reports and enters the PSB+ that stands next in the trace. */
void ptd_flow_enter_psb(struct ptd_flow *flow);

#endif
