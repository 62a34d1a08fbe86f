/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code that a trace ran through, as a graph: what the fast walk of bulk.c steps along. A node
 * is all code from an IP up to where the trace has to say how it goes on: a conditional branch, a
 * RET or an indirect transfer. Direct jumps and calls on the way are part of it, so one TNT bit is
 * one step.
 *
 * What a step reads is 16 bytes; all else stands in arrays beside them. Numbers of nodes stay the
 * same until the graph is emptied.
 *
 * Threads can share a graph, and add to it, without a lock: each has a struct graph of its own, and
 * what is reached by a node's kind, or by a number of a node, was written before it.
 */
#ifndef PTD_NODE_H
#define PTD_NODE_H

#include <endian.h>

#include "base/array.h"
#include "base/hash.h"
#include "ptdec.h"

enum node_kind {
    /* What the hot loop of bulk.c takes: at most one CALL on the way. */
    NODE_COND, /* ends in a conditional branch */
    NODE_RET,
    /* Others. */
    NODE_COND_CALLS, /* a conditional branch behind several CALLs */
    NODE_RET_CALLS,
    NODE_INDIRECT, /* takes a TIP */
    NODE_NONE,     /* node 0: a successor that was not looked for yet */
    NODE_STUB,     /* only its address is known yet */
    NODE_CLAIMED,  /* a stub that a thread makes another kind just now */
    NODE_SLOW,     /* the general walk has to deal with it: no code, an endless loop, ... */
    NODE_COMPOUND, /* no node: its number is that of a compound step, or not used yet */
};

/*
 * Nodes are numbered by the byte that they begin at: steps wait for one node after the other, and
 * an address that needs no scaled index is known a cycle sooner.
 */
#define NODE_BYTES 16u
/* Numbers of steps that belong to a node: its index times four, TNT bit and COMPOUND_FLAG. */
#define NODE_STEPS 4u

/*
 * Of a NODE_COMPOUND, next is the node where its path begins and the TNT bits of it, from the top;
 * parts says how many; pops is that of the last.
 */
struct node {
    uint32_t next[2]; /* of a conditional branch, by TNT bit; 0: not linked yet. Else 0 */
    uint32_t ret;     /* calls 1: the node to return to; more: first of them in graph->returns */
    union {
        struct {
            uint8_t kind;  /* enum node_kind */
            uint8_t calls; /* return addresses that it pushes */
        };
        uint16_t kind_calls; /* both at once, see ptd_node_kind_calls() */
    };
    int8_t pops; /* -1 if it ends in a RET, else 0 */
    uint8_t parts;
};

/* The rest of it, which steps do not look at. */
struct node_info {
    uint64_t ip;
    uint32_t next : 22, space : 10; /* the index of the next node in its list; its address space */
    uint32_t first_part;
};

/* One of the blocks that a node consists of. */
struct part {
    uint64_t ip;
    uint64_t target; /* if it ends in a direct branch */
    uint16_t last_offset, insns;
    uint8_t last_class, last_bytes;
    bool optional; /* it ends in an INTO */
};

/* An address space and mode, the other half of a node's key. */
struct space {
    uint64_t cr3;
    uint8_t mode;
};

/* Where TIPs of late went to; each flow has its own. */
#define TARGETS_LOG2 ROOM_LOG2(12)
#define TARGETS      (1u << TARGETS_LOG2)
struct target {
    uint64_t ip;
    uint32_t node, space;
};

/* The next element of an array that is free, and where the free ones end. */
struct places {
    uint32_t next, end;
};

struct graph {
    struct node *nodes;
    struct node_info *info; /* as many */
    uint32_t *insns;        /* as many: instructions of a node; 0 as long as it is a stub */
    struct part *parts;
    uint32_t *returns;
    struct space *spaces;
    uint32_t *lists; /* by address: a node of each, which goes on with node_info.next */
    uint32_t list_count;
    struct hash_key key; /* of the lists */
    uint32_t epoch;      /* how often it was emptied */
    struct places node_places, part_places, return_places;
    struct places compound_places; /* of nodes */
    struct compounds *compounds;   /* its own view of them; NULL: nobody takes compound steps */
    struct shapes *shapes;         /* its own; NULL: there was no memory, and all is slower */
    /* Where code of stretch_space was found of late, by page; its own. */
    struct stretch *stretches;
    uint32_t stretch_space;
    struct recent_part *recent; /* blocks that were decoded of late, by address; its own */
    const struct ptd_image *image;
    bool fixed;  /* nothing of it moves */
    bool shared; /* then it is fixed, and never emptied, but replaced */
    struct graph_common *common;
};

static inline struct node *ptd_node(const struct graph *graph, uint32_t id)
{
    return (struct node *)((uint8_t *)graph->nodes + id);
}

static inline struct node_info *ptd_node_info(const struct graph *graph, uint32_t id)
{
    return &graph->info[id / NODE_BYTES];
}

/* The step over a node that ends with this TNT bit. */
static inline uint32_t ptd_node_step(uint32_t id, unsigned bit)
{
    return id / (NODE_BYTES / NODE_STEPS) | bit;
}

/* The node of a step. */
static inline uint32_t ptd_step_node(uint32_t step)
{
    return step / NODE_STEPS * NODE_BYTES;
}

static inline enum node_kind ptd_node_kind(const struct node *node)
{
    return (enum node_kind)__atomic_load_n(&node->kind, __ATOMIC_ACQUIRE);
}

/* Kind and calls as one number, so that a step has one thing less to be guessed. */
#define KIND_CALLS(kind, calls) ((uint16_t)((kind) | (calls) << 8))

static inline uint16_t ptd_node_kind_calls(const struct node *node)
{
    return le16toh(__atomic_load_n(&node->kind_calls, __ATOMIC_ACQUIRE));
}

static inline uint32_t ptd_node_next(const struct node *node, unsigned bit)
{
    return __atomic_load_n(&node->next[bit], __ATOMIC_ACQUIRE);
}

static inline uint64_t ptd_part_last_ip(const struct part *part)
{
    return part->ip + part->last_offset;
}

static inline uint64_t ptd_part_next_ip(const struct part *part)
{
    return ptd_part_last_ip(part) + part->last_bytes;
}

static inline struct target *ptd_target(struct target *targets, uint64_t ip)
{
    return &targets[hash_slot(ip, TARGETS_LOG2)];
}

#endif
