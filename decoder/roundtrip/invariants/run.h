/* SPDX-License-Identifier: BSD-3-Clause */
/* A run from its beginning, event by event, with what has to hold behind each. */
#ifndef PTD_INVARIANTS_RUN_H
#define PTD_INVARIANTS_RUN_H

#include "roundtrip/invariants/state.h"

/* Draws a processor, its memory and its settings. */
void run_open(struct run *run, uint64_t seed);
/* Event number n; false: an invariant does not hold, and rebuilt.why says which. */
bool run_event(struct run *run, unsigned n);
/* Behind the last event; as run_event(). */
bool run_close(struct run *run);

#endif
