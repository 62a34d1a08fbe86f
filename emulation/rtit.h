/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the RTIT model share among themselves.
 */
#ifndef VPT_RTIT_INTERNAL_H
#define VPT_RTIT_INTERNAL_H

#include "vpt_rtit.h"

/* ---- rtit.c ---- */

/* WRMSR of RTIT_CTL, its value already checked. */
void vpt_rtit_write_ctl(struct vpt_rtit *cpu, uint32_t ctl, uint64_t next_ip);

/* A WRMSR may have changed PacketEn, which was: FUP.PGE or FUP.PGD (4.2.7, 4.2.8). */
void vpt_rtit_packet_en_written(struct vpt_rtit *cpu, bool was, uint64_t next_ip);

/* ---- rtit_packets.c ---- */

/* RTIT_PKT_CNT has a new value: a PSB may be due. */
void vpt_rtit_packet_count_changed(struct vpt_rtit *cpu);
/* Reads the clocks: cycles, and an MTC or PCC that fell due at nlip. */
void vpt_rtit_look_at_clocks(struct vpt_rtit *cpu, uint64_t nlip);
/* TriggerEn became 1: where the clocks stand. */
void vpt_rtit_start_clocks(struct vpt_rtit *cpu);
void vpt_rtit_tnt_bit(struct vpt_rtit *cpu, bool taken);
/* A FUP or TIP: event is RTIT_EVENT_*. */
void vpt_rtit_ip(struct vpt_rtit *cpu, uint8_t event, uint64_t lip);
void vpt_rtit_psb(struct vpt_rtit *cpu);
void vpt_rtit_pip(struct vpt_rtit *cpu);
void vpt_rtit_sts(struct vpt_rtit *cpu);
/* False: there is no room for it, an overflow begins. */
bool vpt_rtit_stop(struct vpt_rtit *cpu);
/* The overflow is over: what comes before anything else, for execution at lip. */
void vpt_rtit_resolve_overflow(struct vpt_rtit *cpu, uint64_t lip);
/* Bytes that are worth a store leave. */
void vpt_rtit_settle(struct vpt_rtit *cpu);

#endif
