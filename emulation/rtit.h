/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: what a WRMSR brings about.
 */
#ifndef VPT_RTIT_INTERNAL_H
#define VPT_RTIT_INTERNAL_H

#include "vpt_rtit.h"

/* WRMSR of RTIT_CTL, its value already checked. */
void vpt_rtit_write_ctl(struct vpt_rtit *cpu, uint32_t ctl, uint64_t next_ip);

/* A WRMSR may have changed PacketEn, which was: FUP.PGE or FUP.PGD (4.2.7, 4.2.8). */
void vpt_rtit_packet_en_written(struct vpt_rtit *cpu, bool was, uint64_t next_ip);

#endif
