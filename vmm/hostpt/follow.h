/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Follows a guest through its trace, and tells the model of its processor what it did. A piece of
 * the trace is what one entry of KVM left, so the guest stands still while it is followed, and its
 * memory is as it was when the piece ended.
 */
#ifndef VMM_HOSTPT_FOLLOW_H
#define VMM_HOSTPT_FOLLOW_H

#include "hostpt/piece.h"
#include "ptdec.h"
#include "vpt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOLLOW_BUDGET_NS 10000000u /* that a piece may take if the guest is not to wait */

struct follow_config {
    struct vpt_cpu *cpu;
    const struct ptd_memory *memory; /* guest-physical; it stays as long as the follower */
    struct ptd_time_config clocks;   /* of the host; VMs are not looked at */
    uint64_t
        budget_ns; /* so long a piece may take; the rest of it overflows. 0: as long as it takes */
    /* The guest's TSC from here on. */
    void (*time)(void *owner, uint64_t tsc);
    void *owner;
};

struct follow_sums {
    uint64_t insns, exits;
    uint64_t overflows; /* that the guest's trace has for want of ours */
    uint64_t rebuilt;   /* times that code had changed */
};

/* What the processor is when the guest is entered, as far as KVM knows it. */
struct follow_state {
    uint64_t tsc_offset;
    uint8_t cpl;
    bool is_long; /* 64-bit mode or compatibility mode; others are not followed */
    bool is_la57;
};

struct follow;

/* NULL: no memory, or the clocks are out of range. config is copied. */
struct follow *follow_new(const struct follow_config *config);
void follow_free(struct follow *follow);
/* The next piece, and the state in which it began. 0 or -ENOMEM. */
int follow_piece(struct follow *follow, const struct follow_state *state,
                 const struct pt_piece *piece);
/*
 * A piece in which the guest did not trace itself: its VMCS may be told there, by which pieces of a
 * processor's trace are cut. False: no memory.
 */
bool follow_learn(struct follow *follow, const struct pt_piece *piece);
/* Whether it was. */
bool follow_knows_vmcs(const struct follow *follow);
/*
 * The guest's memory is elsewhere from here on, or other ranges of it are there. What was known of
 * code is not any more.
 */
void follow_use_memory(struct follow *follow, const struct ptd_memory *memory);
/*
 * The guest stands where nothing that was followed has led: it did not trace for a while, or it was
 * reset.
 */
void follow_elsewhere(struct follow *follow);
/* Where the last exit came. False: it is not known. */
bool follow_exit_ip(const struct follow *follow, uint64_t *ip);
const struct follow_sums *follow_sums(const struct follow *follow);

#endif
