/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A recorder of the whole host lends its events of Intel PT, one of each processor, to programs
 * that run guests: over a socket that keeps messages apart (SOCK_SEQPACKET), as descriptors.
 */
#ifndef VMM_HOSTPT_LEND_H
#define VMM_HOSTPT_LEND_H

#include "common/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEND_EVENTS_MAX 4096u /* processors */

struct lent_event {
    uint32_t cpu;
    int fd;
};

/* Its side. config: of the events, as perf_event_attr has it. 0 or -errno; it does not wait. */
int lend_send(int socket, uint64_t config, const struct lent_event *events, size_t count);

struct lent {
    uint64_t config;
    struct lent_event *events; /* open, in no order */
    size_t count;
};

/* Ours. 0, or -errno and why. */
int lend_receive(int socket, struct lent *lent, struct reason *why);
void lend_close(struct lent *lent);
/* Whether the other side still lends; signals may come meanwhile. */
bool lend_goes_on(int socket);

#endif
