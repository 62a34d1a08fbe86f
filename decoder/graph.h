/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code that a trace ran through, as a graph: what the fast walk of run.c steps along. A node is
 * all code from an IP up to where the trace has to say how it goes on: a conditional branch, a RET
 * or an indirect transfer. Direct jumps and calls on the way are part of it, so one TNT bit is one
 * step.
 *
 * What a step reads is 16 bytes; all else stands in arrays beside them. Numbers of nodes stay the
 * same until the graph is emptied.
 */
#ifndef PTD_GRAPH_H
#define PTD_GRAPH_H

#include "blocks.h"

enum node_kind {
    NODE_COND,      /* ends in a conditional branch, with no CALL on the way */
    NODE_COND_CALL, /* the same with CALLs */
    NODE_RET,
    NODE_INDIRECT, /* takes a TIP */
    NODE_NONE,     /* node 0: a successor that was not looked for yet */
    NODE_STUB,     /* only its address is known yet */
    NODE_SLOW,     /* the general walk has to deal with it: no code, an endless loop, ... */
};

struct node {
    uint32_t next[2]; /* NODE_COND*: by TNT bit; 0: not linked yet */
    uint32_t ret;     /* calls 1: the node to return to; more: first of them in graph->returns */
    uint8_t kind;
    uint8_t calls; /* return addresses that it pushes */
};

/* One of the blocks that a node consists of. */
struct part {
    uint64_t ip, last_ip;
    uint64_t target; /* if it ends in a direct branch */
    uint32_t insns;
    uint8_t last_class, last_bytes;
};

struct node_info {
    uint64_t ip;
    uint32_t first_part, insns;
    uint16_t parts, space;
};

/* An address space and mode, the other half of a node's key. */
struct space {
    uint64_t cr3;
    uint8_t mode;
};

/* Where TIPs of late went to. */
#define TARGETS 4096u
struct target {
    uint64_t ip;
    uint32_t node, space;
};

struct graph {
    struct node *nodes;
    struct node_info *info; /* as many */
    uint32_t node_count, node_room;
    struct part *parts;
    uint32_t part_count, part_room;
    uint32_t *returns;
    uint32_t return_count, return_room;
    struct space *spaces;
    uint32_t space_count, space;
    uint32_t *table; /* of nodes, open addressing; room is a power of two */
    uint32_t table_room;
    uint32_t epoch; /* how often it was emptied */
    bool full;      /* nothing can be added until it is emptied */
    const struct ptd_image *image;
    struct target targets[TARGETS];
};

/* NULL: no memory. */
struct graph *ptd_graph_new(const struct ptd_image *image);
void ptd_graph_free(struct graph *graph);
/* The address space of the nodes to come. False: the graph is full, empty it first. */
bool ptd_graph_enter(struct graph *graph, uint64_t cr3, uint8_t mode);
void ptd_graph_empty(struct graph *graph);
/* Whether ptd_graph_enter() with these would change nothing. */
bool ptd_graph_is_in(const struct graph *graph, uint64_t cr3, uint8_t mode);
/* The node at ip; 0: no room or no memory. */
uint32_t ptd_graph_find(struct graph *graph, uint64_t ip);
/* Makes a NODE_STUB another kind. False: no room or no memory. */
bool ptd_graph_build(struct graph *graph, uint32_t id);
/* The address of a successor of a NODE_COND*. */
uint64_t ptd_graph_successor(const struct graph *graph, uint32_t id, unsigned bit);
/* Looks for the successor of a NODE_COND* and links it; 0: no room or no memory. */
uint32_t ptd_graph_link(struct graph *graph, uint32_t id, unsigned bit);

static inline struct target *ptd_graph_target(struct graph *graph, uint64_t ip)
{
    return &graph->targets[(ip ^ ip >> 12) & (TARGETS - 1)];
}

#endif
