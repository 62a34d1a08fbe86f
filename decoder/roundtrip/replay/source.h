/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path that a trace of hardware decodes to, told to the model as events: what the processor did
 * is taken from the trace, what is sent for it the model decides.
 */
#ifndef REPLAY_SOURCE_H
#define REPLAY_SOURCE_H

#include "rig.h"
#include "tally.h"

/* A trace, and what has to be known to decode and to repeat it. */
struct replay {
    const uint8_t *bytes;
    size_t len_bytes;
    uint64_t base; /* where the hardware's output stood at the first byte, as far as lines go */
    const struct ptd_image *image;
    struct ptd_flow_config flow;
    struct rig_config rig;
    bool user_only, kernel_only; /* OS or User is 0 */
    bool nonroot;                /* VMX non-root operation, whatever PIPs say */
};

struct replay_result {
    struct tally tally;
    uint64_t pieces; /* from a PSB to a gap, or to the end */
    uint64_t gaps, lost_bytes;
    uint64_t insns;
    char first_gap[EXAMPLE_BYTES];
};

/* PTD_OK, PTD_E_NOMEM; PTD_E_ARG: the model does not take the configuration. */
int replay_run(const struct replay *replay, struct replay_result *result);

#endif
