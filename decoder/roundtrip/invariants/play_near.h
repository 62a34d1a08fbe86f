/* SPDX-License-Identifier: BSD-3-Clause */
/* Where code may stand, and near branches (33.2.1.1, 33.2.1.2). */
#ifndef PTD_INVARIANTS_PLAY_NEAR_H
#define PTD_INVARIANTS_PLAY_NEAR_H

#include "roundtrip/invariants/state.h"

/* An address that code of such a state may have. */
uint64_t play_target(struct run *run, const struct vpt_context *ctx);
/* Another piece of software at this CPL, in the same address space. */
struct vpt_context play_context(struct run *run, uint8_t cpl);
void play_near(struct run *run);

#endif
