/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a flow: all that packets said and the walk came to, as one structure that can be
 * copied. What is not in it is no state of the trace: the window of bytes, the configuration, the
 * blocks and the graph of code, items that wait, and the CALL stack, whose entries are nodes of
 * that graph. States are handed on at PSBs, where it is empty (SDM 33.4.2.2).
 */
#ifndef PTD_FLOW_STATE_H
#define PTD_FLOW_STATE_H

#include "flow/bind.h"
#include "flow/loop.h"

enum flow_phase {
    FLOW_DISABLED,   /* PacketEn is 0, or nothing says that it is 1 */
    FLOW_OVERFLOWED, /* the same behind an OVF: a FUP may say where tracing goes on (33.3.8) */
    FLOW_SEARCHING,  /* for a PSB; .lost tells what was lost on the way */
    FLOW_IN_PSB,     /* from PSB to PSBEND; behind it comes .other */
    FLOW_ENDED,      /* in front of the PSB to stop at, or at the end; it was .other */
    /* From here on PacketEn is 1, and .ip is that of the next instruction, except in FLOW_LOST. */
    FLOW_TRACING,
    FLOW_RESUMED,  /* as a PSB+ behind an OVF says, whose FUP may still come */
    FLOW_DEFERRED, /* at an indirect branch whose TIP stands behind the TNT bits (33.4.2.3) */
    FLOW_LOST,     /* but .ip is not known: packets are read until one says it; see .lost */
};

/* What FLOW_LOST has to know. */
struct flow_gap {
    uint32_t told;     /* ptd_state_fact_bit() of what changed since, and was not reported */
    uint64_t end;      /* its offset, once the end was found; else 0 */
    bool is_open;      /* .lost was not told yet */
    bool in_doubt;     /* LastIP may be wrong: an IP counts if all of it is in its packet */
    bool fup_in_doubt; /* the same of .bind.ip */
};

struct flow_state {
    uint8_t phase, other; /* enum flow_phase */
    uint8_t mode, tsx;
    bool nr;
    bool fresh;       /* nothing is known of CR3, VMCS, modes: PSB+ tells it for the first time */
    bool at_mov_cr3;  /* nothing was walked since a PIP was bound to a MOV CR3 */
    bool behind_mode; /* PacketEn is 0, and a MODE.Exec came last: the next FUP may be its */
    uint32_t told;    /* ptd_state_fact_bit() of CR3 and VMCS, once a packet told them */
    uint64_t ip;      /* of the next instruction, while tracing */
    uint64_t walked;  /* instructions since a packet told the IP, see flow_know_ip() */
    uint64_t last_ip;
    uint64_t cr3, vmcs;
    uint64_t tnt_bits;
    unsigned tnt_count;
    struct bind bind;
    uint64_t psb_ip;     /* where PSB+ says that tracing goes on */
    uint64_t behind_psb; /* the offset behind the first byte of the last PSB that was entered */
    struct loop loop;
    struct ptd_item lost;
    struct flow_gap gap;
    uint64_t offset; /* where the state holds, once it is handed on */
};

static inline bool flow_is_tracing(const struct flow_state *state)
{
    return state->phase >= FLOW_TRACING;
}

static inline bool flow_is_overflowed(const struct flow_state *state)
{
    return state->phase == FLOW_OVERFLOWED || state->phase == FLOW_RESUMED;
}

/*
 * An IP packet or a TNT bit was used up, which led to .ip: TRIG packets count from there. In a
 * start state nobody knows how long ago that was.
 */
#define FLOW_LONG_AGO (UINT64_C(1) << 32) /* more than a TRIG packet can count */

static inline void flow_know_ip(struct flow_state *state)
{
    state->walked = 0;
}

/* PacketEn is 0 now. A FUP that an overflow announced may still come. */
static inline void flow_disable(struct flow_state *state)
{
    state->phase = flow_is_overflowed(state) ? FLOW_OVERFLOWED : FLOW_DISABLED;
}

/* The FUP that an overflow announced was read, or will not come. */
static inline void flow_end_overflow(struct flow_state *state)
{
    if (flow_is_overflowed(state))
        state->phase = state->phase == FLOW_RESUMED ? FLOW_TRACING : FLOW_DISABLED;
}

/* A PSB was read. Whether PSB+ has a FUP is known: where tracing goes on. */
static inline void flow_enter_psb(struct flow_state *state, bool has_ip)
{
    const bool overflowed = flow_is_overflowed(state);

    if (has_ip)
        state->other = overflowed ? FLOW_RESUMED : FLOW_TRACING;
    else
        state->other = overflowed ? FLOW_OVERFLOWED : FLOW_DISABLED;
    state->phase = FLOW_IN_PSB;
}

static inline void flow_end(struct flow_state *state)
{
    if (state->phase != FLOW_IN_PSB)
        state->other = state->phase;
    state->phase = FLOW_ENDED;
}

/*
 * One thing that a PIP, VMCS, MODE.Exec or MODE.TSX packet tells, as in an item: .type is that of
 * the item, .value its value.
 */
struct flow_fact {
    uint8_t type;
    bool nr; /* of PTD_ITEM_CR3 */
    uint64_t value;
};

/* False: the packet tells nothing of this kind. */
bool ptd_state_fact(const struct ptd_packet *packet, struct flow_fact *fact);
/* The bit for facts of this type in a set of such; 0: there are none. */
uint32_t ptd_state_fact_bit(uint8_t item_type);
/* The fact holds from now on. Whose address space a CR3 is, NR, the VMCS and the image say. */
void ptd_state_set(struct flow_state *state, const struct ptd_image *image,
                   const struct flow_fact *fact);
/*
 * What a PSB+ means (33.3.7): a fact that was known already is no news, and false is returned. Else
 * it is set. This is the one place for it: a thread that decoded a PSB+ ahead of its turn asks here
 * again, once it is known what came before.
 */
bool ptd_state_learn(struct flow_state *state, const struct ptd_image *image,
                     const struct flow_fact *fact);
/* Whether two states in front of a PSB are the same in all but the facts that its PSB+ tells. */
bool ptd_state_agrees(const struct flow_state *state, const struct flow_state *other,
                      uint32_t told);
/* What ptd_state_agrees() asks of a state in front of a PSB, if none of it is told there. */
uint64_t ptd_state_fingerprint(const struct flow_state *state);
/*
 * Packets were lost, up to the next PSB. What they may have changed is not known, unless the PSB+
 * tells it: CR3 and NR (PTD_ANY_CR3), the VMCS pointer (PTD_ANY_VMCS). What no packet has told so
 * far is not told by those of this trace, and stays.
 */
void ptd_state_forget(struct flow_state *state, const struct ptd_image *image);
/* In front of a PSB, or at the end: what is handed on to whoever begins there. */
struct flow_state ptd_state_at_psb(const struct flow_state *state, uint64_t offset);

#endif
