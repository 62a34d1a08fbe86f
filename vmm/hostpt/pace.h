/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a guest may run before what it did is followed. Its PMIs come when a piece has been
 * followed, so a piece should not fill many of its regions: then what the guest does not take out
 * in time is written anew.
 */
#ifndef VMM_HOSTPT_PACE_H
#define VMM_HOSTPT_PACE_H

#include "vpt.h"

#include <stdint.h>

#define PACE_MOST_NS  1000000u
#define PACE_LEAST_NS 50000u /* to begin and to end a piece takes some of that */

/* Zeros at first. */
struct pace {
    uint64_t bytes_per_ms; /* of the guest's trace, of late at most; 0: not known */
    uint64_t bytes;        /* so many there were when that was told */
};

/* The guest ran for so long, and has been followed. */
void pace_ran(struct pace *pace, const struct vpt_cpu *cpu, uint64_t ran_ns);
/* How long the next one may be: half of the region where the guest's output goes, as far as that
 * can be told. */
uint64_t pace_next_ns(const struct pace *pace, const struct vpt_cpu *cpu);

#endif
