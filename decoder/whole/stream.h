/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside ptd_stream_*: what packets, flow and time can do with a part of a trace, a window that is
 * slid along. Each stops where its answer could be another if it saw more, and goes on from there.
 */
#ifndef PTD_STREAM_H
#define PTD_STREAM_H

#include "ptdec.h"

/* Whether the next packet is all there. */
static inline bool ptd_packets_has_one(const struct ptd_packets *packets)
{
    return packets->end - packets->pos >= PTD_PACKET_MARGIN;
}

struct ptd_flow;

/* A flow of no bytes yet, the first of which will have this offset. */
void ptd_flow_begin_stream(struct ptd_flow *flow, uint64_t offset);
/* The window; more: bytes follow behind it. It must hold all from ptd_flow_needs() on. */
void ptd_flow_slide(struct ptd_flow *flow, const void *bytes, size_t len_bytes, uint64_t base,
                    bool more);
/* The offset of the first byte that is still needed, and of the first that was not read. */
uint64_t ptd_flow_needs(const struct ptd_flow *flow);
uint64_t ptd_flow_reads_at(const struct ptd_flow *flow);

/* Whether ptd_time_point_ahead() sees enough. */
bool ptd_time_sees_enough(struct ptd_time *time, const struct ptd_packets *packets);

#endif
