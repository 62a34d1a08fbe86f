/* SPDX-License-Identifier: BSD-3-Clause */
/* Which profile sends packets as a processor does, by its family and model. */
#ifndef REPLAY_MODELS_H
#define REPLAY_MODELS_H

#include <stdbool.h>

struct model_profile {
    const char *name;
    bool is_near; /* no trace of this processor was ever compared: the profile is the nearest one */
};

/* name is NULL if no processor of the family and model is known. */
struct model_profile model_profile(unsigned family, unsigned model);
/* Whether it is known for sure where its PADs stand, as long as there are no CYC packets. */
bool model_knows_pads(const char *profile);

#endif
