/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened besides code that ran: interrupts and exceptions, VM exits and what they cost, and
 * what of the trace was lost.
 */
#ifndef VMM_REPORT_EVENTS_H
#define VMM_REPORT_EVENTS_H

#include "report/sums.h"

#define EVENTS_MAX (1u << 18) /* of different ones; more are not told apart */

enum event_kind {
    EVENT_INTERRUPT, /* also an exception; .what is the name of the function that it came to */
    EVENT_EXIT,      /* .what is the basic exit reason, or NO_REASON */
    EVENT_ERROR,     /* .what is an enum ptd_error, negated; .bytes were lost */
    EVENT_OVERFLOW,  /* the processor's internal buffer was full */
};

#define NO_REASON 0xffffu
#define NO_VECTOR 0xffffu

struct event {
    enum event_kind kind;
    uint32_t what;
    uint32_t who;    /* in sums.who: whom it came to; the guest of an exit */
    uint16_t vector; /* NO_VECTOR: not told */
    uint64_t count;
    uint64_t ticks, insns; /* of exits: until the VM was entered again */
    uint64_t bytes;
    bool has_address; /* of an error: the first address that it names */
    uint64_t address;
};

/* Begins as zeros. */
struct events {
    struct event *list;
    size_t count, room;
    struct table ids; /* kind, vector and what, who -> number in list */

    /* Of the trace that is read. */
    bool in_guest, is_out; /* is_out: since an exit, which is list[exit] */
    uint64_t last_space;
    uint32_t reason;
    uint16_t vector;
    size_t exit;
    uint64_t exit_ticks, exit_insns;
};

void events_begin(struct events *events);
/* The next item of the trace that sums and tally count. False: no memory. */
bool events_item(struct events *events, struct sums *sums, const struct tally *tally,
                 const struct ptd_item *item);
/* The one that is like this, made if need be. NULL: no memory. */
struct event *events_at(struct events *events, const struct event *like);
/* What events depend on that come next, as a number. */
uint64_t events_fingerprint(const struct events *events, const struct sums *sums,
                            const struct tally *tally);
void events_free(struct events *events);
/* "EPT violation"; NULL: a reason that is not known. */
const char *exit_reason_name(uint32_t reason);

#endif
