/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes, shares and fills the graph of code that node.h describes. */
#ifndef PTD_GRAPH_H
#define PTD_GRAPH_H

#include <pthread.h>

#include "flow/node.h"

/* Held for much less time than it takes to fall asleep: who waits does so awake for a moment. */
void ptd_lock_init(pthread_mutex_t *lock);
/* For a trace of so many bytes, with compound steps or without. NULL: no memory. */
struct graph *ptd_graph_new(const struct ptd_image *image, bool shared, size_t trace_bytes,
                            bool compounds);
/* The same graph for another thread. NULL: no memory. */
struct graph *ptd_graph_share(const struct graph *graph);
/* Its memory goes with the last of those who share it. */
void ptd_graph_free(struct graph *graph);
void ptd_graph_empty(struct graph *graph);
/* The number of an address space; -1: the graph is full. */
int ptd_graph_space(struct graph *graph, uint64_t cr3, uint8_t mode);
/* The node at ip; 0: no room or no memory. */
uint32_t ptd_graph_find(struct graph *graph, uint32_t space, uint64_t ip);
/*
 * Adds a compound step: a path that begins at a node with these bits, and its steps. Its number; 0:
 * no room or no memory.
 */
uint32_t ptd_graph_add_compound(struct graph *graph, uint32_t node, uint64_t bits,
                                const uint32_t *steps, unsigned count);
/* All numbers of nodes are less than this many. */
uint32_t ptd_graph_node_count(const struct graph *graph);
/* Nothing can be added until it is emptied. */
bool ptd_graph_is_full(const struct graph *graph);

/* Makes a NODE_STUB or NODE_CLAIMED another kind. False: no room or no memory. */
bool ptd_graph_build(struct graph *graph, uint32_t id);
/* The address of a successor of a conditional branch. */
uint64_t ptd_graph_successor(const struct graph *graph, uint32_t id, unsigned bit);
/* Looks for that successor and links it; 0: no room or no memory. */
uint32_t ptd_graph_link(struct graph *graph, uint32_t id, unsigned bit);

#endif
