/* SPDX-License-Identifier: BSD-3-Clause */
/* A gap in the flow: after an error of the walk, packets are read until one of them says an IP. */
#ifndef PTD_FLOW_LOST_H
#define PTD_FLOW_LOST_H

#include "flow/core.h"

/* In front of ptd_flow_read(): what the next packet means for the doubt about IPs. */
void ptd_lost_look(struct ptd_flow *flow);
/* In place of ptd_flow_walk(): what was read ends the gap, or is left out. */
void ptd_lost_take(struct ptd_flow *flow);
/* Behind each: in the gap nothing is told; at its end, its error comes first. */
void ptd_lost_tell(struct ptd_flow *flow);

#endif
