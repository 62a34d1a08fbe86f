/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What events have in common: what became of PacketEn, TraceStop, Event Trace.
 */
#ifndef VPT_EVENTS_H
#define VPT_EVENTS_H

#include "vpt.h"

/* A TraceStop range was entered: the packet, and STATUS.Stopped. */
void vpt_trace_stop(struct vpt_cpu *cpu);

/* How an operation that PacketEn survives ends, and what a TIP.PGD may then say. */
enum vpt_end {
    VPT_END_NONE,   /* no branch: MOV CR3 */
    VPT_END_DIRECT, /* the target is in the code: nothing, or TIP.PGD with the target */
    VPT_END_COND,   /* nothing here (a TNT bit is the caller's), or TIP.PGD without payload */
    VPT_END_TIP,    /* TIP, or TIP.PGD with the target */
};
/*
 * The packets that tell what became of PacketEn in an operation that goes on at ip (Table 33-56).
 * was: PacketEn before it; stop: what vpt_update_enables() said. A TIP is due when PacketEn was and
 * stays 1.
 */
void vpt_settle(struct vpt_cpu *cpu, bool was, bool stop, uint64_t ip, enum vpt_end end);
/*
 * MODE.Exec for Event Trace alone: without BranchEn no branch packet brings it, but it says all the
 * same whether interrupts are masked from here on (Table 33-26).
 */
void vpt_event_mode(struct vpt_cpu *cpu);
/*
 * CFE for an event that happens at ip, if Event Trace is on (33.4.2.29). context: ContextEn before
 * the event; fup_follows: BranchEn gives it a FUP. Without one, the CFE brings its own.
 */
void vpt_control_flow_event(struct vpt_cpu *cpu, uint8_t type, uint8_t vector, uint64_t ip,
                            bool context, bool fup_follows);

#endif
