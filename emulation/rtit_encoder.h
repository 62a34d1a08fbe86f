/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: the bytes of packets, and the way to memory.
 */
#ifndef VPT_RTIT_ENCODER_H
#define VPT_RTIT_ENCODER_H

#include "vpt_rtit.h"

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
