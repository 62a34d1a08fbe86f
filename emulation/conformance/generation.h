/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules share that say what packets are sent for. */
#ifndef VPT_CONFORMANCE_GENERATION_H
#define VPT_CONFORMANCE_GENERATION_H

#include "conformance.h"

#define EVENTS (OS | USER | VPT_CTL_EVENTEN)

/* Everything that chapter 33 describes, at 401000H. */
struct fake *all_packets(uint64_t ctl);

#endif
