/* SPDX-License-Identifier: BSD-3-Clause */
/* What the flow decoder has to know of packets that it does not read yet. */
#ifndef PTD_AHEAD_H
#define PTD_AHEAD_H

#include "ptdec.h"

enum ahead { AHEAD_FUP, AHEAD_NOTHING, AHEAD_LOST };

/* The FUP of the PSB+ that begins at the iterator. AHEAD_LOST: PSB+ does not come to its end. */
enum ahead ptd_ahead_psb_ip(struct ptd_packets packets, uint64_t *ip);
/*
 * Whether TIP.PGE is the next packet of the flow, so that PacketEn is 0 whatever was said before:
 * the errata BDM70 and APL12. Behind PSBEND, or behind a FUP.
 */
bool ptd_ahead_enabling(struct ptd_packets packets);
/* The same behind the PSB+ that begins at the iterator, if that comes to its end. */
bool ptd_ahead_enabling_behind_psb(struct ptd_packets packets);
/*
 * Where tracing goes on after the OVF in front of the iterator. The FUP may have other packets in
 * front of it, in the older wording of 33.3.8, and by Table 33-14 even a PSB+, but not two.
 */
bool ptd_ahead_overflow_ip(struct ptd_packets packets, uint64_t last_ip, uint64_t *ip);
/*
 * Of a trace behind which more bytes follow: whether the next packet is there, and all that may
 * have to be known with it.
 */
bool ptd_ahead_is_there(struct ptd_packets packets);

#endif
