/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the flow decoder, which has two halves, and a short cut.
 *
 *   flow.c  reads packets until it knows what comes next: TNT bits, or something to bind
 *           (ahead.c: what must be known before it is read)
 *   walk.c  walks over code until it has used that up
 *   bulk.c  does both at once where there is nothing but TNTs and TIPs
 *
 * Only when no TNT bit is left does the next packet matter (33.4.2.1), except that deferred TIPs
 * stand behind TNT bits that are younger than they are (33.4.2.3).
 */
#ifndef PTD_FLOW_H
#define PTD_FLOW_H

#include "code/blocks.h"
#include "code/code_log.h"
#include "flow/graph.h"
#include "flow/loop.h"

#define RET_STACK    64u             /* 33.4.2.2 */
#define RET_PLACES   (2 * RET_STACK) /* a place above the top is never an entry */
#define ITEMS_A_STEP 16u
#define FILTERS      4u /* of struct ptd_flow_config */

/* What the next packets bind to (33.4.1). */
enum bind_kind {
    BIND_NONE,
    BIND_TIP,   /* the next transfer that takes a TIP goes to .to */
    BIND_PGD,   /* the next instruction that can has PacketEn cleared; .to if has_to */
    BIND_ASYNC, /* event in front of the instruction at .ip; then .end */
    BIND_MARK,  /* stand-alone FUP: nothing but the place .ip of what is pending */
    BIND_PSB,   /* PSB+ in front of the instruction at .ip; not read yet */
    BIND_PIP,   /* the next MOV CR3 or far transfer (33.4.2.7) */
    BIND_VMCS,  /* the next VMPTRLD or VM entry (33.4.2.15) */
    BIND_PTW,   /* the next PTWRITE; at .ip if has_ip */
};

enum bind_end { END_NOWHERE, END_TIP, END_PGD };

struct bind {
    uint8_t kind, end;
    bool ready; /* every packet of it was read */
    bool has_ip, has_to;
    uint64_t offset; /* of its first packet */
    uint64_t ip, to;
    /* State that changes at the end of it. */
    bool has_cr3, has_vmcs, has_mode, has_tsx;
    bool nr;
    uint8_t mode, tsx;
    uint64_t cr3, vmcs;
    /* A packet that waits for its FUP, or was given it. */
    bool has_packet;
    struct ptd_packet packet;
};

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

/*
 * struct ptd_mark.what: what stands between the mark before it and this one, and the cycles of a
 * CYC packet or, with MARK_PACKET, the bytes of another one.
 */
enum {
    MARK_TNT = 1,
    MARK_TIP = 2,
    MARK_OTHER = 4, /* anything: it has to be read, and this packet */
    MARK_PACKET = 8,
    MARK_VALUE_SHR = 4,
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

    /* The youngest ret_count entries below ret_top, modulo RET_PLACES. */
    uint64_t ret_stack[RET_PLACES];
    uint32_t ret_node[RET_PLACES]; /* if not 0: the address is that of this node of the graph */
    unsigned ret_top, ret_count;

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
/* Reports and enters the PSB+ that stands next in the trace. */
void ptd_flow_enter_psb(struct ptd_flow *flow);
/* Reports a packet that binds to ip, if any, but is no part of the flow. */
void ptd_flow_push_packet(struct ptd_flow *flow, const struct ptd_packet *packet,
                          const uint64_t *ip);
void ptd_flow_reset_loop(struct ptd_flow *flow);
/* Walks one block, or binds what flow->bind holds. Tracing, and either TNT bits or the bind are
 * there. */
void ptd_flow_walk(struct ptd_flow *flow);

/* Code was added to the image: what was made of the old code is forgotten. */
void ptd_flow_notice_image(struct ptd_flow *flow);
/* In bulk.c: the graph, as far as it is the flow's own. */
void ptd_flow_forget_code(struct ptd_flow *flow);
/* Where the code log has something that is to be known before the next packet counts. */
static inline bool flow_log_is_due(const struct ptd_flow *flow)
{
    return flow->code_log &&
           ptd_code_log_next(flow->code_log) <= ptd_packets_offset(&flow->packets);
}
/* Reads one packet or walks one block. Not ended, and no item is waiting. */
void ptd_flow_advance(struct ptd_flow *flow);
/*
 * ptd_flow_run(). Unless it may empty the graph, PTD_OK with neither a step nor an item says that
 * it has to.
 */
int ptd_flow_run_on(struct ptd_flow *flow, struct ptd_run *run, bool may_empty);
/* Takes another graph, which is its own from now on. */
void ptd_flow_set_graph(struct ptd_flow *flow, struct graph *graph);
/* The state of a flow that has ended: in front of a PSB, or at the end of the trace. */
struct flow_state ptd_flow_state(const struct ptd_flow *flow);
/* Begins again at a PSB, and ends in front of the first PSB at or behind stop. */
void ptd_flow_restart(struct ptd_flow *flow, const struct flow_state *state, uint64_t stop);

/* ---- ahead.c ---- */

enum ahead { AHEAD_FUP, AHEAD_NOTHING, AHEAD_LOST };

/* The FUP of the PSB+ that begins at the iterator. AHEAD_LOST: PSB+ does not come to its end. */
enum ahead ptd_ahead_psb_ip(struct ptd_packets packets, uint64_t *ip);
/*
 * Whether TIP.PGE is the next packet of the flow, so that PacketEn is 0 whatever was said before:
 * the errata BDM70 and APL12. Behind PSBEND, or behind a FUP.
 */
bool ptd_ahead_enabling(struct ptd_packets packets);
/* The same behind the PSB+ that begins at the iterator, if that comes to its end. */
bool ptd_ahead_enabling_behind_psb(struct ptd_packets packets);
/*
 * Where tracing goes on after the OVF in front of the iterator. The FUP may have other packets in
 * front of it, in the older wording of 33.3.8, and by Table 33-14 even a PSB+, but not two.
 */
bool ptd_ahead_overflow_ip(struct ptd_packets packets, uint64_t last_ip, uint64_t *ip);
/* Whether the flow's next packet, and what may have to be known with it, is there. */
bool ptd_ahead_is_there(const struct ptd_flow *flow);

#endif
