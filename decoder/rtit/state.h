/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the flow of an RTIT trace is, the items that it tells, what changes its state, and errors.
 * On it stand the two halves of its decoder, as in that of PT (flow/core.h):
 *
 *   read.c  reads packets until it knows what comes next: TNT bits, or something to bind
 *   walk.c  walks over code until it has used that up
 *   time.c  keeps the time, beside the flow
 *
 * The halves do not know each other: flow.c, above them, says whose turn it is.
 *
 * It is simpler, because every packet with an address sends the TNT bits before it (4.2.2), so that
 * packets stand in the order of execution. Where several packets belong together, they follow each
 * other, but for what comes at any time: PSB, MTC, STS.
 */
#ifndef PTD_RTIT_STATE_H
#define PTD_RTIT_STATE_H

#include "code/blocks.h"
#include "flow/loop.h"
#include "ptdec_rtit.h"

#define RTIT_ITEMS_A_STEP 8u
/* Erratum E8: so many packets behind a PSB may be out of order, or missing. */
#define RTIT_PSB_SHADOW 21u

/* What is known of PacketEn. */
enum rtit_state {
    RTIT_LOST,     /* nothing: behind a PSB to begin at */
    RTIT_DISABLED, /* it is 0 */
    RTIT_TRACING,  /* it is 1, and .ip is next */
};

/* What the next packets bind to. */
enum rtit_bind_kind {
    RTIT_BIND_NONE,
    RTIT_BIND_TIP,  /* the next indirect branch or RET goes to .to */
    RTIT_BIND_FAR,  /* a far transfer in front of .lip, or an event there, goes to .to */
    RTIT_BIND_PGD,  /* PacketEn is 0 behind the instruction in front of .lip, or from .lip on */
    RTIT_BIND_PIP,  /* the next MOV CR3, or MOV CR0 that changes CR0.PG */
    RTIT_BIND_STOP, /* tracing stops where the walk comes to a stop range */
};

struct rtit_bind {
    uint8_t kind;
    bool has_to;
    uint64_t offset; /* of its first packet */
    uint64_t lip, to;
    uint64_t cr3;
    bool paging;
};

struct rtit_time {
    uint64_t tsc, cycles;
    uint8_t ratio;
    bool has_tsc;
    bool doubtful; /* the next MTC may be the first since tracing was enabled: erratum E7 */
};

struct ptd_rtit_flow {
    struct ptd_rtit_packets packets;
    struct ptd_rtit_config config;
    struct blocks blocks;

    uint8_t state; /* enum rtit_state */
    uint64_t ip;   /* of the next instruction, while tracing */
    bool jumped;   /* a branch or an event led to ip, not the instruction before it */
    bool outside;  /* ip is out of the filter's ranges: FUP.PGD of leave_lip has to follow */
    uint64_t leave_lip;
    uint64_t last_call; /* 4.2.3.2 */
    bool has_call;
    uint64_t cr3;
    bool paging;

    uint8_t tnt_bits, tnt_count;
    struct rtit_bind bind;
    struct ptd_rtit_last_lip last_lip;
    bool overflowed; /* nothing with an address since FUP.BuffOvf */
    bool ended;
    unsigned since_psb;    /* packets, up to one more than the erratum E8 is about */
    uint64_t trusted_from; /* offset: nothing before it tells the flow */
    struct rtit_time time;

    struct loop loop;
    struct ptd_item items[RTIT_ITEMS_A_STEP];
    struct ptd_rtit_packet packets_told[RTIT_ITEMS_A_STEP]; /* of the items of type PACKET */
    unsigned item_next, item_count;
};

/* A new item, all fields zero but type, offset, cr3, cycles and mode. */
struct ptd_item *ptd_rtit_push(struct ptd_rtit_flow *flow, enum ptd_item_type type,
                               uint64_t offset);
/* The same for an item of type PACKET, which points to a copy of the packet. */
struct ptd_item *ptd_rtit_push_packet(struct ptd_rtit_flow *flow,
                                      const struct ptd_rtit_packet *packet);
/* Reports an error, and goes on where decoding can be trusted again, at or behind offset. */
void ptd_rtit_fail(struct ptd_rtit_flow *flow, int error, uint64_t offset);
/* A change of CR3 or CR0.PG. */
void ptd_rtit_set_paging(struct ptd_rtit_flow *flow, uint64_t offset, uint64_t cr3, bool paging);
/* Tracing goes on, or begins, at ip, to which a branch or an event led. */
void ptd_rtit_arrive(struct ptd_rtit_flow *flow, uint64_t ip);
/* Whether ip is in one of the ranges. */
bool ptd_rtit_in_ranges(const struct ptd_rtit_range *ranges, unsigned count, uint64_t ip);
/* Whether a branch to ip stays in, or comes into, what the IP filter lets through. */
bool ptd_rtit_filter_allows(const struct ptd_rtit_flow *flow, uint64_t ip);
/* Nothing is bound or pending. */
void ptd_rtit_forget(struct ptd_rtit_flow *flow);

#endif
