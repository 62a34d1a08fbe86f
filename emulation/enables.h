/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TriggerEn, ContextEn, FilterEn and PacketEn (33.2.6).
 */
#ifndef VPT_ENABLES_H
#define VPT_ENABLES_H

#include "vpt.h"

/* Recomputes cpu->path after any change of an enable or of RTIT_CTL. */
void vpt_choose_path(struct vpt_cpu *cpu);
/*
 * Re-evaluates ContextEn, FilterEn and PacketEn for execution at ip while TriggerEn is 1. True: ip
 * is in a TraceStop range; then FilterEn and PacketEn are 0 and vpt_trace_stop() is due.
 */
bool vpt_update_enables(struct vpt_cpu *cpu, uint64_t ip);
/* TraceEn was set: FilterEn as it is before the first look at an IP. */
void vpt_filter_start(struct vpt_cpu *cpu);
/*
 * TriggerEn is 1 again behind a pause that no packet tells of. No branch was taken in it, so
 * FilterEn is what it was: were it looked at anew, PacketEn could change unseen.
 */
void vpt_resume_enables(struct vpt_cpu *cpu);
/* ContextEn as it would be in ctx. */
bool vpt_context_allows(const struct vpt_cpu *cpu, const struct vpt_context *ctx);
/* TriggerEn becomes 0, and PacketEn with it; a PSB+ that was due is noted (Table 33-7, PendPSB). */
void vpt_clear_trigger(struct vpt_cpu *cpu);

#endif
