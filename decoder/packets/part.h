/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of a trace, behind which more bytes follow that are not there yet: who reads it must stop
 * where an answer could be another if more were there.
 */
#ifndef PTD_PART_H
#define PTD_PART_H

#include "ptdec.h"

/* Whether the next packet is all there. */
static inline bool ptd_packets_has_one(const struct ptd_packets *packets)
{
    return packets->end - packets->pos >= PTD_PACKET_MARGIN;
}

#endif
