/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Far transfers (33.2.1.3), what only CPL 0 may do, RTIT_CTL, XSAVES and XRSTORS, SMM and resets.
 */
#ifndef PTD_INVARIANTS_PLAY_FAR_H
#define PTD_INVARIANTS_PLAY_FAR_H

#include "roundtrip/invariants/state.h"

/* Also what wakes a processor that waits for SIPI, or that shut down. */
void play_far(struct run *run);
void play_privileged(struct run *run);
/* The trace is set up anew, or ended. */
void play_tracing(struct run *run);
void play_smi(struct run *run);
void play_rsm(struct run *run);
void play_reset(struct run *run);

#endif
