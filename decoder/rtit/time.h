/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of an RTIT trace, which stands beside its flow. */
#ifndef PTD_RTIT_TIME_H
#define PTD_RTIT_TIME_H

#include "rtit/state.h"

/* Reports the time that a packet tells, and counts its cycles. */
void ptd_rtit_read_time(struct ptd_rtit_flow *flow, const struct ptd_rtit_packet *packet);

#endif
