/* SPDX-License-Identifier: BSD-3-Clause */
/* The half of the RTIT flow decoder that reads packets. */
#ifndef PTD_RTIT_READ_H
#define PTD_RTIT_READ_H

#include "rtit/state.h"

/* Reads one packet, and those that belong to it. */
void ptd_rtit_read(struct ptd_rtit_flow *flow);

#endif
