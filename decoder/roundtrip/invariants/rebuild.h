/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What packets say, put together again from the packets alone: which FUP belongs to what, whether
 * PacketEn is 1, mode, RFLAGS.IF, CR3, NR, VMCS and transactions. What is found is compared with
 * the truth as soon as it is found.
 */
#ifndef PTD_INVARIANTS_REBUILD_H
#define PTD_INVARIANTS_REBUILD_H

#include "tests/reader.h"
#include "roundtrip/invariants/truth.h"

#define CFES_MAX 4u

struct rebuilt {
    struct truth *truth;
    uint64_t last_ip; /* and the rest of the reader's state, from one event to the next */
    unsigned item_bytes;

    bool synced; /* false: bytes are missing, and the next PSB is waited for */
    bool packet; /* PacketEn */
    bool mode_known, interrupts_known, tsx_known, pip_known, vmcs_known;
    struct view view;

    /* What a later packet of the same event has to complete. */
    enum bound next_fup; /* the next FUP must come, and belongs to this */
    bool mode_open, fup_open, abort_open, evd_open, block_open, psb_open, ovf_open;
    bool psb_fup, psb_first; /* it has a FUP; it is the one that bytes can be relied on from */
    bool pge_unread;         /* in this event, a TIP.PGE stood in front of that one */
    unsigned cfes;
    uint64_t cfe_ip[CFES_MAX]; /* of CFEs that bind to the next FUP */
    enum packet_kind last;

    /* Found in this event, and altogether. */
    bool whole; /* nothing of it was lost */
    unsigned pips, vmcss;
    uint64_t ovfs, psbs, packets;

    bool wrong;
    const char *rule; /* which; each violation has a format of its own */
    char why[256];
};

void rebuild_start(struct rebuilt *rebuilt, struct truth *truth);
/* The bytes that an event appended: whole packets. */
void rebuild_event(struct rebuilt *rebuilt, const uint8_t *bytes, size_t len_bytes);
/* Bytes got lost where that is allowed: nothing counts up to the next PSB. */
void rebuild_gap(struct rebuilt *rebuilt);
/* An overflow began: what was open stays so. */
void rebuild_interrupted(struct rebuilt *rebuilt);
/* Behind an event that no overflow took packets from. */
void rebuild_check(struct rebuilt *rebuilt);

void rebuild_violation(struct rebuilt *rebuilt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
