/* SPDX-License-Identifier: BSD-3-Clause */
/* What was read, and is to be bound to an instruction that the walk comes to (SDM 33.4.1). */
#ifndef PTD_BIND_H
#define PTD_BIND_H

#include "ptdec.h"

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
    BIND_TRIG,  /* the instruction that so many come in front of: .packet.trig.icnt */
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

/* An event whose FUP was read and whose destination was not. */
static inline bool bind_is_open_event(const struct bind *bind)
{
    return bind->kind == BIND_ASYNC && !bind->ready;
}

/*
 * What was read last says that a FUP is next, but for timing: by its IP bit, or because it is a
 * MODE.TSX (33.4.2.8).
 */
static inline bool bind_wants_fup(const struct bind *bind)
{
    return bind->has_packet || (bind->has_tsx && bind->kind == BIND_NONE);
}

/* As bind_is_open(), but for a VMCS packet: SVM's VMRUN has it in front of those of the VM entry.
 */
static inline bool bind_is_open_besides_vmcs(const struct bind *bind)
{
    return bind_is_open_event(bind) || bind->has_cr3 || bind->has_mode || bind->has_tsx ||
           bind->has_packet;
}

/* A packet of several that belong together was read, so a TNT cannot be next. */
static inline bool bind_is_open(const struct bind *bind)
{
    return bind_is_open_besides_vmcs(bind) || bind->has_vmcs;
}

#endif
