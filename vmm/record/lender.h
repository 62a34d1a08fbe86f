/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lends perf's events of Intel PT to programs that run guests (hostpt/lend.h), at a socket. Linux
 * gives the hardware to one recorder, and that is perf; what it traces is everybody's to look at
 * who has a descriptor.
 */
#ifndef VMM_RECORD_LENDER_H
#define VMM_RECORD_LENDER_H

#include "common/reason.h"
#include "hostpt/event.h"
#include "hostpt/lend.h"

#include <sys/types.h>

#define LENDER_GUESTS_MAX 64u

struct lender {
    int socket; /* -1: it lends nothing */
    const char *path;
    struct pt_event_setting setting; /* what perf has to record for guests */
    struct lent lent;
    int guests[LENDER_GUESTS_MAX]; /* connections; -1: free */
    unsigned served, refused;      /* that came; refused: there were as many, or an error */
};

/* What perf has to record is known. It lends nothing yet. 0, or -errno and why. */
int lender_prepare(struct lender *lender, struct reason *why);
/*
 * Lends, at a socket, the events of a perf that records all processors, has opened them, and has
 * written to a perf.data what they are. 0, or -errno and why.
 */
int lender_open(struct lender *lender, const char *path, pid_t perf, const char *data,
                struct reason *why);
/* Serves whoever has come. It does not wait. */
void lender_serve(struct lender *lender);
/* Everybody is to give back what is lent. */
void lender_close(struct lender *lender);

#endif
