/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run: a random processor with random settings, and random events that a processor could have.
 *
 * Each event is drawn from a seed of its own, and from the state that the events before it led to.
 * So an event can be left out, and those behind it are still possible: that is how a run that fails
 * is made short.
 */
#ifndef PTD_INVARIANTS_STATE_H
#define PTD_INVARIANTS_STATE_H

#include "roundtrip/invariants/owner.h"
#include "roundtrip/invariants/rebuild.h"
#include "roundtrip/invariants/truth.h"

#define RUN_EVENTS 2000u
#define LAST       24u /* events that are remembered */
#define TRACE_MAX  (1u << 20)

struct dice {
    uint64_t state;
};

/* Where execution was before an event that somebody returns from. */
struct back {
    uint64_t ip;
    struct vpt_context ctx;
};

struct run {
    uint64_t seed;
    struct dice dice; /* of the event */
    struct owner owner;
    struct truth truth;
    struct rebuilt rebuilt;

    /* The program. */
    uint64_t ip;
    uint64_t stack[64]; /* return addresses */
    unsigned depth;
    struct back host, smm;
    uint32_t exit_controls;
    bool in_smm, in_stm, shutdown;
    bool smm_traceen, smm_vmx_on, smm_nonroot; /* what RSM goes back to */
    struct vpt_xsave_area area;
    bool area_saved;
    /* In this event: a reset; an exit before a trace could begin; a trace that ended in the VM
     * entry that began it, and the place of its output with it. */
    bool reset, exit_blocked, moved_output;
    uint64_t status_before, dropped_before;
    uint64_t out_before, to_stop; /* bytes that left the buffer, and may leave it to a STOP */

    /* The checker. */
    bool lost_is_fine; /* an overflow that nothing will tell of: a reset came, or a STOP */

    uint64_t traced; /* events while PacketEn was 1 */

    /* All packets, and for the report what made the last of them. */
    bool saying;
    unsigned event, said_count;
    struct {
        unsigned event;
        size_t from, gap_at; /* in the trace */
        char text[160];
    } said[LAST];
    size_t trace_len, gap_at; /* bytes are missing in front of gap_at */
    uint8_t trace[TRACE_MAX]; /* the last member: it is not cleared */
};

/* Of [0, below). */
uint32_t dice_draw(struct dice *dice, uint32_t below);
uint64_t dice_bits(struct dice *dice);
bool dice_one_in(struct dice *dice, uint32_t n);

/* What happens now, in words, for the report. */
void run_say(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
