/* SPDX-License-Identifier: BSD-3-Clause */
/* The half of the RTIT flow decoder that walks over code. */
#ifndef PTD_RTIT_WALK_H
#define PTD_RTIT_WALK_H

#include "rtit/state.h"

/* Walks one block, or binds what flow->bind holds. Tracing, and TNT bits or the bind are there. */
void ptd_rtit_walk(struct ptd_rtit_flow *flow);

#endif
