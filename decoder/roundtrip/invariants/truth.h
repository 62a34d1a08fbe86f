/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What really happened, and what of it the packets must tell.
 *
 * The truth is told each event beside the model. It keeps the state of the processor, works out the
 * enables by 33.2.5 and 33.2.6 on its own, and puts what the tables of 33.4.2 and 33.7 promise of
 * the event into a queue of wants. rebuild.c takes from the queue what it finds in packets.
 */
#ifndef PTD_INVARIANTS_TRUTH_H
#define PTD_INVARIANTS_TRUTH_H

#include "vpt.h"

#define WANTS 4096u

enum want_kind {
    WANT_BIT, /* value: taken */
    WANT_RET, /* a TIP with value, or, if flag, a taken bit */
    WANT_TIP,
    WANT_PGE,
    WANT_PGD, /* flag: with an IP, which is value */
    WANT_FUP, /* value: IP, extra: enum bound */
    WANT_CFE, /* value: type, extra: vector, flag: a FUP follows, ip: what its FUP must say */
    WANT_EVD, /* value: payload, extra: type */
    WANT_TSX,
    WANT_PTW, /* value, extra: bytes, flag: a FUP follows */
    WANT_STOP,
    WANT_EXSTOP,
    WANT_MWAIT,
    WANT_PWRE,
    WANT_PWRX,
    WANT_BBP,
    WANT_BIP,
    WANT_BEP,
};

/* What a FUP belongs to (33.4.2.6): it never stands alone. */
enum bound {
    BOUND_TO_NOTHING,
    BOUND_TO_TIP, /* the source of a transfer, whose target the TIP or TIP.PGD is */
    BOUND_TO_CFE,
    BOUND_TO_MODE,
    BOUND_TO_TSX,
    BOUND_TO_PTW,
    BOUND_TO_EXSTOP,
    BOUND_TO_BLOCK,
    BOUND_TO_OVF,
};

struct want {
    enum want_kind kind;
    bool optional;
    bool either; /* with flag and without it are both good */
    bool flag;
    uint64_t value, extra, ip;
};

struct enables {
    bool trigger, context, filter, packet;
};

/* What state packets say of the processor. */
struct view {
    uint8_t mode; /* payload of MODE.Exec */
    bool nr, in_tx;
    uint64_t cr3, vmcs;
};

struct truth {
    /* The processor. */
    struct vpt_caps caps;
    struct vpt_context ctx;
    bool vmx_on, nonroot, in_tx, asleep, wait_for_sipi;
    uint32_t secondary;
    uint64_t vmcs;

    /* The trace MSRs, and the enables that follow. */
    uint64_t ctl, cr3_match, addr[VPT_MAX_RANGES][2];
    struct enables on;

    /* As it was before the event. */
    struct enables before;
    struct view view_before;
    uint64_t ctl_before, ctl_enabled; /* RTIT_CTL; all that was set with TraceEn in this event */

    /* CALLs that a RET may be compressed against (33.4.2.2). */
    uint64_t calls[64];
    unsigned call_top, call_count;

    /* Of the event that is told just now. */
    bool pip_due, vmcs_due;
    bool ends, enables_trace; /* TraceEn becomes 0, or 1 */
    bool pip_nr;              /* NR of its PIP */
    uint64_t resume_ip;       /* what a PSB+ or an OVF of this event names, */
    uint64_t end_ip;          /* and what it names if the event first ends tracing */

    /* What packets must still tell: a ring. */
    struct want wants[WANTS];
    unsigned first, count;
    unsigned of_event; /* how many of them, the youngest, come from this event */
    bool too_many;
};

void truth_begin(struct truth *truth);

struct want *truth_want(struct truth *truth, enum want_kind kind, uint64_t value, uint64_t extra,
                        bool flag);
struct want *truth_at(struct truth *truth, unsigned index);
void truth_drop(struct truth *truth, unsigned index);
/* Everything of earlier events is lost, and what this one wants may be. */
void truth_lost(struct truth *truth);
void truth_forget_calls(struct truth *truth);

/* IP as a payload shows it in the present state (33.3.1.1). */
uint64_t truth_payload(const struct truth *truth, uint64_t ip);
/* NR as PIPs show it (Table 33-52). */
bool truth_shows_nonroot(const struct truth *truth);
struct view truth_view(const struct truth *truth);
bool truth_context_of(const struct truth *truth, const struct vpt_context *ctx);

/* Events; see those of vpt.h. */
void truth_cond(struct truth *truth, uint64_t next_ip, bool taken);
void truth_jmp(struct truth *truth, uint64_t target, bool indirect);
void truth_call(struct truth *truth, uint64_t target, uint64_t next_ip, bool indirect);
void truth_ret(struct truth *truth, uint64_t target);
void truth_transfer(struct truth *truth, const struct vpt_transfer *transfer);
void truth_mov_cr3(struct truth *truth, uint64_t cr3, uint64_t next_ip);
void truth_interrupt_flag(struct truth *truth, bool interrupts, uint64_t ip);
void truth_ptwrite(struct truth *truth, uint64_t value, uint8_t size_bytes, uint64_t ip);
void truth_tx(struct truth *truth, bool in_tx, uint64_t ip);
void truth_tx_abort(struct truth *truth, uint64_t ip, uint64_t target);
void truth_power_entry(struct truth *truth, const struct vpt_power_entry *entry);
void truth_power_exit(struct truth *truth, const struct vpt_power_exit *wake);
void truth_exec_stop(struct truth *truth, uint64_t ip);
void truth_pebs(struct truth *truth, const struct vpt_block *blocks, size_t count, uint64_t ip);
/* may: nothing in RTIT_STATUS keeps TriggerEn at 0. cfe: the event that sets TraceEn, or 0. */
void truth_enable(struct truth *truth, uint64_t ctl, uint64_t next_ip, uint8_t cfe, bool may);
void truth_disable(struct truth *truth, uint64_t ctl, uint64_t ip);
/* Tracing pauses in silence, and goes on (33.2.9.6). */
void truth_pause(struct truth *truth);
void truth_smi(struct truth *truth, uint64_t ip);
void truth_shutdown(struct truth *truth, uint64_t ip);
void truth_vmptrld(struct truth *truth, uint64_t vmcs);
/* The trace ended without a packet: STOP of a ToPA, an error, a reset. */
void truth_cut(struct truth *truth);

/* ---- For truth_vmx.c ------------------------------------------------------------------------ */

/* How an operation ends, and what its TIP.PGD may say. */
enum end {
    END_NONE, /* no branch */
    END_COND,
    END_DIRECT,
    END_TIP,
};

/* Execution goes on at ip by a branch or an event. True: that is where tracing stops. */
bool truth_land(struct truth *truth, uint64_t ip);
/* What became of PacketEn in an operation that went on at ip (Table 33-56). */
void truth_settle(struct truth *truth, bool stop, uint64_t ip, enum end end);
/* TraceEn becomes 0 at the end of an operation that has its FUP already, if PacketEn was 1. */
void truth_end(struct truth *truth, bool was);
/* CFE for an event at ip, with a FUP of its own or another's. */
void truth_event(struct truth *truth, uint8_t type, uint8_t vector, uint64_t ip, bool own_fup);

#endif
