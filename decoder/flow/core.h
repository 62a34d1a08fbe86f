/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core of the flow decoder: what a flow is, the items that it tells, what changes its state,
 * and errors. On it stand the two halves of the decoder, and a short cut:
 *
 *   read.c  reads packets until it knows what comes next: TNT bits, or something to bind
 *           (ahead.c: what must be known before it is read)
 *   walk.c  walks over code until it has used that up
 *   bulk.c  does both at once where there is nothing but TNTs and TIPs
 *   lost.c  takes the place of walk.c where code is missing, until packets say an IP
 *
 * They do not know each other: flow.c, above them, says whose turn it is.
 *
 * Only when no TNT bit is left does the next packet matter (33.4.2.1), except that deferred TIPs
 * stand behind TNT bits that are younger than they are (33.4.2.3).
 */
#ifndef PTD_FLOW_CORE_H
#define PTD_FLOW_CORE_H

#include "code/blocks.h"
#include "flow/call_stack.h"
#include "flow/state.h"

struct code_log;

#define ITEMS_A_STEP 16u
#define FILTERS      4u /* of struct ptd_flow_config */

/* Of the bytes of a trace, those that are there. */
enum flow_window {
    WINDOW_LAST,    /* they go to the end */
    WINDOW_MORE,    /* others follow */
    WINDOW_STARVED, /* and nothing can be told without them */
};

/* What the first PSB+ since ptd_flow_restart() told. */
struct first_psb {
    bool is_open;  /* nothing but that PSB+ was seen yet */
    uint64_t end;  /* the offset behind it; 0: it did not come to its end (yet) */
    uint32_t told; /* ptd_state_fact_bit() of each fact */
};

struct ptd_flow {
    struct flow_state state;
    struct call_stack calls;

    struct ptd_packets packets;
    uint8_t window; /* enum flow_window */
    uint64_t stop;  /* ends in front of the first PSB from this offset on */
    struct first_psb first_psb;

    struct blocks blocks;
    struct code_log *code_log;     /* of the image, or NULL */
    struct ptd_flow_config config; /* errata and filters of it count */

    /* Of ptd_flow_run(). .graph and .targets are NULL until it is called. */
    bool in_space; /* .space is the number that the graph has for .space_cr3 and .space_mode */
    uint8_t space_mode;
    uint32_t space;
    uint64_t space_cr3;
    uint32_t since_mark; /* MARK_*: what was read since the last one */
    struct graph *graph;
    struct target *targets;
    struct target left; /* where it was left last; .node 0: that is no node */

    struct ptd_item items[ITEMS_A_STEP];
    unsigned item_next, item_count;
};

static inline bool flow_has(const struct ptd_flow *flow, uint32_t erratum)
{
    return (flow->config.errata & erratum) != 0;
}

/* A new item, all fields zero but type, offset, cr3 and mode. */
struct ptd_item *ptd_flow_push(struct ptd_flow *flow, enum ptd_item_type type, uint64_t offset);
/* Reports an error of packets and goes to the next PSB at or behind offset. */
void ptd_flow_fail(struct ptd_flow *flow, int error, uint64_t offset);
/*
 * Reports an error of the walk at an instruction: its code is missing, or does not agree with the
 * packets. Goes on at the next IP (lost.c), or at the next PSB, as the configuration says.
 */
void ptd_flow_lose(struct ptd_flow *flow, int error, uint64_t ip);
/* Applies the pending state of flow->state.bind, reports it and clears the bind. */
void ptd_flow_settle(struct ptd_flow *flow);
/* PacketEn went to 0, as the TIP.PGD of flow->state.bind says (33.4.2.5). */
void ptd_flow_leave(struct ptd_flow *flow, bool has_to, uint64_t to);
/* Looks on for the PSB that an error or the begin of a trace made it look for. */
void ptd_flow_search(struct ptd_flow *flow);
/* Looks for a PSB; what is lost on the way is told with an error at offset. */
void ptd_flow_begin_search(struct ptd_flow *flow, int error, uint64_t offset);
/* Reports a packet that binds to ip, if any, but is no part of the flow. */
void ptd_flow_push_packet(struct ptd_flow *flow, const struct ptd_packet *packet,
                          const uint64_t *ip);
/* A fact holds from now on, and its item says so. */
void ptd_flow_change(struct ptd_flow *flow, uint64_t offset, const struct flow_fact *fact);
/* Tracing goes on at ip, as an IP behind an overflow or at the begin says. */
void ptd_flow_go_on_at(struct ptd_flow *flow, uint64_t ip);
void ptd_flow_clear_bind(struct ptd_flow *flow);
/* A packet was used up: the walk begins anew. */
static inline void ptd_flow_reset_loop(struct ptd_flow *flow)
{
    loop_reset(&flow->state.loop, flow->state.ip);
}

#endif
