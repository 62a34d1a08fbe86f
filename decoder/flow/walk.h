/* SPDX-License-Identifier: BSD-3-Clause */
/* The half of the flow decoder that walks over code. */
#ifndef PTD_FLOW_WALK_H
#define PTD_FLOW_WALK_H

#include "flow/core.h"

/* Whether the walk has come to the IP at which the next PSB+ stands in the trace (33.3.7). */
static inline bool ptd_flow_is_at_psb(const struct ptd_flow *flow)
{
    const struct bind *const bind = &flow->state.bind;

    return bind->kind == BIND_PSB && bind->ready && flow->state.tnt_count == 0 &&
           flow->state.ip == bind->ip;
}

/* Walks one block, or binds what flow->state.bind holds, unless it is that PSB+. Tracing, and
 * either TNT bits or the bind are there. */
void ptd_flow_walk(struct ptd_flow *flow);

#endif
