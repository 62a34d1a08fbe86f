/* SPDX-License-Identifier: BSD-3-Clause */
/* Something that may happen on a processor in the state that it is in. */
#ifndef PTD_INVARIANTS_PLAY_H
#define PTD_INVARIANTS_PLAY_H

#include "roundtrip/invariants/state.h"

/* It is drawn, and told to the model and to the truth. */
void play_event(struct run *run);

#endif
