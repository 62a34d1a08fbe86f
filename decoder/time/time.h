/* SPDX-License-Identifier: BSD-3-Clause */
/* What time.c offers to the rest of the decoder, besides ptdec.h. */
#ifndef PTD_TIME_H
#define PTD_TIME_H

#include "pt_packets.h"
#include "time/timing.h"

/* Whether ptd_time_point_ahead() sees enough of a trace behind which more bytes follow. */
bool ptd_time_sees_enough(struct ptd_time *time, const struct ptd_packets *packets);
/* The rate to guess with: the middle, or what the CBR packet says if little is known. */
uint64_t ptd_time_likely_rate(const struct ptd_time *time);
/*
 * Tells short TNTs and TIPs in front of an offset, up to the first packet that is neither or to the
 * end of what is there, as if one by one. No group of BIPs is open.
 */
void ptd_time_branches(struct ptd_time *time, struct ptd_packets *packets, uint64_t offset);

/*
 * Passes over short TNTs, TIPs that have an IP, MTC packets and short CYC packets, as long as one
 * begins in front of end, behind which TIME_PASS_BYTES are there. time, unless it is NULL, is told
 * them. The next packet is anything.
 */
#define TIME_PASS_BYTES 9u
void ptd_time_pass(struct ptd_time *time, struct ptd_packets *packets, const uint8_t *end);

#endif
