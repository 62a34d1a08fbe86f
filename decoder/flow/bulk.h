/* SPDX-License-Identifier: BSD-3-Clause */
/* The flow in bulk, and the graph of code that it steps along. */
#ifndef PTD_BULK_H
#define PTD_BULK_H

#include "flow/core.h"

#define BULK_MOST_BITS 64u /* no more steps than this between two looks at the room for them */

/* Whether the flow can go on in bulk: nothing is pending but TNT bits. */
bool ptd_bulk_can(const struct ptd_flow *flow);
/* The graph is there, and has the address space. PTD_OK; PTD_E_NOMEM; PTD_E_ARG: it has to be
 * emptied first. */
int ptd_bulk_enter(struct ptd_flow *flow);
/*
 * Goes on in bulk, once entered, with room for BULK_MOST_BITS steps, and reads no packet at an
 * offset or behind it. True: the room is used up. False: the general machinery has to take the next
 * step.
 */
bool ptd_bulk_run(struct ptd_flow *flow, uint64_t before, struct ptd_run *run);
/* Everything that has numbers of nodes in it, and the graph, as far as it is the flow's own. */
void ptd_bulk_forget_code(struct ptd_flow *flow);
/* Empties the graph because it is full. */
void ptd_bulk_empty_graph(struct ptd_flow *flow);
/* Takes another graph, which is its own from now on. */
void ptd_bulk_set_graph(struct ptd_flow *flow, struct graph *graph);

#endif
