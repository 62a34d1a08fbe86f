/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that tell more than where the program went: Event Trace (33.4.2.29, 33.4.2.30), power
 * events (33.2.3), PEBS records (33.4.1.1) and triggers. Several of them are one event of the
 * model, which is told at the last one.
 */
#ifndef REPLAY_ASIDE_H
#define REPLAY_ASIDE_H

#include "rig.h"

#define ASIDE_BLOCKS 32u
#define ASIDE_ITEMS  1024u

struct aside {
    /* A CFE packet, and EVD packets in front of it, whose transfer is still to come. */
    struct {
        bool is_open, has_ip;
        uint8_t type, vector;
        uint64_t ip;
    } cfe;
    bool has_pfa;
    uint64_t pfa, qualification, reason;
    /* MWAIT and PWRE, up to the EXSTOP. */
    bool sleeps;
    struct vpt_power_entry entry;
    /* CBR in front of PWRX. */
    uint8_t wake_ratio;
    /* A PEBS record up to its BEP. */
    bool in_record, too_large;
    size_t blocks, items;
    struct vpt_block block[ASIDE_BLOCKS];
    struct vpt_block_item item[ASIDE_ITEMS];
};

/* All that waited is forgotten: a piece begins, or an overflow came. */
void aside_forget(struct aside *aside);
/*
 * A PTD_ITEM_PACKET, which does nothing if it is another packet than these; ip is where the program
 * is. packets is any reader of the trace.
 */
void aside_take(struct aside *aside, struct rig *rig, const struct ptd_packets *packets,
                const struct ptd_item *item, uint64_t ip);
/*
 * Fills in what Event Trace says of a transfer that is about to be told: type, vector and CR2. The
 * type is at first what the other packets show.
 */
void aside_name(struct aside *aside, struct vpt_transfer *transfer);
/* The same of a VM exit. */
void aside_name_exit(struct aside *aside, struct vpt_vm_exit *exit);
/* Whether a transfer waits though another one is next: it leads to where nothing is traced. */
bool aside_unseen(const struct aside *aside, const struct ptd_packet *next);

#endif
