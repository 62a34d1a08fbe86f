/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CALL stack, by which compressed RETs find where they go (SDM 33.4.2.2). An entry is an
 * address, or a node of the graph whose address it is: the fast walk steps from node to node and
 * needs no address.
 */
#ifndef PTD_CALL_STACK_H
#define PTD_CALL_STACK_H

#include <string.h>

#include "flow/node.h"

#define CALL_ENTRIES 64u
#define CALL_PLACES  (2 * CALL_ENTRIES) /* a place above the top is never an entry */

/* The youngest count entries are those below place, modulo CALL_PLACES. */
struct call_top {
    unsigned place, count;
};

struct call_stack {
    uint64_t ip[CALL_PLACES];
    uint32_t node[CALL_PLACES]; /* if not 0: the address is that of this node of the graph */
    struct call_top top;
};

/* A CALL: the place for its entry. The oldest entry is lost if there are too many. */
static inline unsigned call_top_push(struct call_top *top)
{
    const unsigned place = top->place;

    top->place = (place + 1) % CALL_PLACES;
    top->count += top->count < CALL_ENTRIES;
    return place;
}

/* A RET, and there is an entry: its place. */
static inline unsigned call_top_pop(struct call_top *top)
{
    top->place = (top->place - 1) % CALL_PLACES;
    top->count--;
    return top->place;
}

static inline void call_stack_clear(struct call_stack *calls)
{
    calls->top.count = 0;
}

static inline void call_stack_push_ip(struct call_stack *calls, uint64_t ip)
{
    const unsigned place = call_top_push(&calls->top);

    calls->ip[place] = ip;
    calls->node[place] = 0;
}

static inline void call_stack_push_node(struct call_stack *calls, uint32_t node)
{
    calls->node[call_top_push(&calls->top)] = node;
}

/* The address of an entry. */
static inline uint64_t call_stack_ip(const struct call_stack *calls, const struct graph *graph,
                                     unsigned place)
{
    const uint32_t node = calls->node[place];

    return node ? ptd_node_info(graph, node)->ip : calls->ip[place];
}

/* False: the stack is empty. */
static inline bool call_stack_pop_ip(struct call_stack *calls, const struct graph *graph,
                                     uint64_t *ip)
{
    if (calls->top.count == 0)
        return false;
    *ip = call_stack_ip(calls, graph, call_top_pop(&calls->top));
    return true;
}

/* The node of the youngest entry, which is popped; NODE_NONE if the entry has only its address. */
static inline uint32_t call_stack_pop_node(struct call_stack *calls)
{
    if (calls->top.count > 0)
        (void)call_top_pop(&calls->top);
    return calls->node[calls->top.place];
}

/* The address of the entry that was popped last, which has no node. */
static inline uint64_t call_stack_popped_ip(const struct call_stack *calls)
{
    return calls->ip[calls->top.place];
}

/* Numbers of nodes mean nothing in another address space, and nothing once the graph is emptied. */
static inline void call_stack_forget_nodes(struct call_stack *calls, const struct graph *graph)
{
    struct call_top top = calls->top;

    while (top.count > 0) {
        const unsigned place = call_top_pop(&top);

        calls->ip[place] = call_stack_ip(calls, graph, place);
    }
    memset(calls->node, 0, sizeof(calls->node));
}

#endif
