/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core of the flow decoder: what a flow is, the items that it tells, what changes its state,
 * and errors. On it stand the two halves of the decoder, and a short cut:
 *
 *   read.c  reads packets until it knows what comes next: TNT bits, or something to bind
 *           (ahead.c: what must be known before it is read)
 *   walk.c  walks over code until it has used that up
 *   bulk.c  does both at once where there is nothing but TNTs and TIPs
 *
 * They do not know each other: flow.c, above them, says whose turn it is.
 *
 * Only when no TNT bit is left does the next packet matter (33.4.2.1), except that deferred TIPs
 * stand behind TNT bits that are younger than they are (33.4.2.3).
 */
#ifndef PTD_FLOW_CORE_H
#define PTD_FLOW_CORE_H

#include "code/blocks.h"
#include "code/code_log.h"
#include "flow/bind.h"
#include "flow/call_stack.h"
#include "flow/loop.h"

#define ITEMS_A_STEP 16u
#define FILTERS      4u /* of struct ptd_flow_config */

/* What a PSB does not reset; the rest of struct ptd_flow says what it means. */
struct flow_state {
    uint64_t offset; /* of that PSB */
    uint64_t cr3, vmcs;
    bool nr, fresh;
    uint8_t mode, tsx;
    bool overflowed, at_mov_cr3;
};

enum {
    FLOW_TELLS_CR3 = 1,
    FLOW_TELLS_MODE = 2,
    FLOW_TELLS_TSX = 4,
    FLOW_TELLS_VMCS = 8,
};

struct ptd_flow {
    struct ptd_packets packets;
    struct blocks blocks;
    struct code_log *code_log;     /* of the image, or NULL */
    struct ptd_flow_config config; /* errata and filters of it count */

    uint64_t ip; /* of the next instruction, while tracing */
    uint64_t last_ip;
    uint64_t cr3, vmcs;
    bool nr;
    uint8_t mode, tsx;
    bool tracing;

    uint64_t tnt_bits;
    unsigned tnt_count;
    struct bind bind;
    bool deferred;   /* at an indirect branch whose TIP stands behind the TNT bits */
    bool at_mov_cr3; /* nothing was walked since a PIP was bound to a MOV CR3 */
    bool overflowed; /* a FUP may follow that says where tracing goes on */
    bool in_psb;
    bool fresh; /* state is unknown: PSB+ tells it for the first time */
    bool psb_has_ip;
    bool ended;
    /* Of a part of a trace, see stream.h. */
    bool more;      /* bytes follow that are not there yet */
    bool starved;   /* and nothing can be told without them */
    bool searching; /* for a PSB; what was lost then is told by: */
    struct ptd_item lost;
    uint64_t psb_ip;
    uint64_t behind_psb; /* the offset behind the first byte of the last PSB that was entered */

    /* For decoding a part of a trace, see ptd_flow_restart(). */
    uint64_t stop; /* ends in front of the first PSB from this offset on */
    uint64_t
        first_psb_end; /* the offset behind the first PSB+; 0: it did not come to its end (yet) */
    bool in_first_psb; /* nothing but that PSB+ was seen yet */
    uint8_t told;      /* FLOW_TELLS_*: by it */

    /* Of ptd_flow_run(). .graph and .targets are NULL until it is called. */
    bool in_space; /* .space is the number that the graph has for .space_cr3 and .space_mode */
    uint8_t space_mode;
    uint32_t space;
    uint64_t space_cr3;
    uint32_t since_mark; /* MARK_*: what was read since the last one */
    struct graph *graph;
    struct target *targets;

    struct call_stack calls;
    struct loop loop;

    struct ptd_item items[ITEMS_A_STEP];
    unsigned item_next, item_count;
};

static inline bool flow_has(const struct ptd_flow *flow, uint32_t erratum)
{
    return (flow->config.errata & erratum) != 0;
}

/* A new item, all fields zero but type, offset, cr3 and mode. */
struct ptd_item *ptd_flow_push(struct ptd_flow *flow, enum ptd_item_type type, uint64_t offset);
/* Reports an error and goes to the next PSB at or behind offset. */
void ptd_flow_fail(struct ptd_flow *flow, int error, uint64_t offset);
/* Applies the pending state of flow->bind, reports it and clears the bind. */
void ptd_flow_settle(struct ptd_flow *flow);
/* Looks on for the PSB that an error or the begin of a trace made it look for. */
void ptd_flow_search(struct ptd_flow *flow);
/* Looks for a PSB; what is lost on the way is told with an error at offset. */
void ptd_flow_begin_search(struct ptd_flow *flow, int error, uint64_t offset);
/* Reports a packet that binds to ip, if any, but is no part of the flow. */
void ptd_flow_push_packet(struct ptd_flow *flow, const struct ptd_packet *packet,
                          const uint64_t *ip);
/* Changes of state, and their items. */
void ptd_flow_set_cr3(struct ptd_flow *flow, uint64_t offset, uint64_t cr3, bool nr);
void ptd_flow_set_vmcs(struct ptd_flow *flow, uint64_t offset, uint64_t vmcs);
void ptd_flow_set_mode(struct ptd_flow *flow, uint64_t offset, uint8_t mode);
void ptd_flow_set_tsx(struct ptd_flow *flow, uint64_t offset, uint8_t tsx);
/* CR3 in the address spaces of the image: whose it is, NR and the VMCS say. */
void ptd_flow_set_space(struct ptd_flow *flow, uint64_t cr3);
/* Tracing goes on at ip, as an IP behind an overflow or at the begin says. */
void ptd_flow_go_on_at(struct ptd_flow *flow, uint64_t ip);
void ptd_flow_clear_bind(struct ptd_flow *flow);
/* A packet was used up: the walk begins anew. */
static inline void ptd_flow_reset_loop(struct ptd_flow *flow)
{
    loop_reset(&flow->loop, flow->ip);
}

#endif
