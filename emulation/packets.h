/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of packets, in the internal buffer.
 */
#ifndef VPT_PACKETS_H
#define VPT_PACKETS_H

#include "vpt.h"

/* Before the packets of an event: reads the clocks, makes room, sends MTCs that fell due. */
void vpt_begin_event(struct vpt_cpu *cpu);
/*
 * The same where TriggerEn becomes 0 in the event, which happens at ip: memory is waited for, and
 * an overflow ends, because what was lost must not be lost in silence.
 */
void vpt_begin_last_event(struct vpt_cpu *cpu, uint64_t ip);
/* After them, with the address of the next instruction: overflow, PSB+, output. */
void vpt_end_event(struct vpt_cpu *cpu, uint64_t next_ip);
/* The same where the next instruction is not known: a PSB+ that has to name it waits. */
void vpt_end_quietly(struct vpt_cpu *cpu);

void vpt_tnt_bit(struct vpt_cpu *cpu, bool taken);
/* Sends the buffered TNT bits and the TIPs deferred behind them. */
void vpt_emit_tnt(struct vpt_cpu *cpu);
/* A TIP that may be deferred. */
void vpt_emit_tip_deferrable(struct vpt_cpu *cpu, uint64_t ip);
/* An IP packet: opcode is PT_TIP, PT_TIP_PGE, PT_TIP_PGD or PT_FUP. */
void vpt_emit_ip(struct vpt_cpu *cpu, uint8_t opcode, uint64_t ip);
void vpt_emit_pgd_suppressed(struct vpt_cpu *cpu);
/* PIP with the current CR3, if TriggerEn, ContextEn and OS (33.4.2.7). */
void vpt_emit_pip(struct vpt_cpu *cpu);
/* The same with this NR bit, for VM entries and exits. */
void vpt_emit_pip_nr(struct vpt_cpu *cpu, bool nr);
/* VMCS packet, if ContextEn and in VMX operation (33.4.2.15). */
void vpt_emit_vmcs(struct vpt_cpu *cpu);
/*
 * A trace begins: what a decoder knows of the mode. That is nothing, but without BranchEn only
 * changes of RFLAGS.IF from here on give packets (Table 33-26).
 */
void vpt_start_mode(struct vpt_cpu *cpu);
/* MODE.Exec, if it differs from what the decoder knows. */
void vpt_emit_mode_exec(struct vpt_cpu *cpu);
void vpt_emit_tracestop(struct vpt_cpu *cpu);
void vpt_emit_cbr(struct vpt_cpu *cpu);
void vpt_emit_ptw(struct vpt_cpu *cpu, uint64_t value, uint8_t size_bytes, bool fup);
void vpt_emit_cfe(struct vpt_cpu *cpu, uint8_t type, uint8_t vector, bool fup);
/* TRIG with these flags (PT_TRIG_*); count if they say so. */
void vpt_emit_trig(struct vpt_cpu *cpu, uint8_t flags, uint8_t fired, uint16_t count);
void vpt_emit_evd(struct vpt_cpu *cpu, uint8_t type, uint64_t payload);
/* MODE.TSX with the state of the transaction; aborted: it ended so. */
void vpt_emit_mode_tsx(struct vpt_cpu *cpu, bool aborted);
/* Other packets of fixed bytes. Their dependencies are the caller's. */
void vpt_emit_bytes(struct vpt_cpu *cpu, const uint8_t *bytes, uint32_t len, bool cyc_eligible);
/* The clocks ran on while nothing was sent: what the next TSC and TMA say makes no MTC necessary.
 */
void vpt_resume_clocks(struct vpt_cpu *cpu);
/* OVF and what follows it, if there is an overflow and memory takes bytes again (33.3.8). */
void vpt_resolve_overflow(struct vpt_cpu *cpu, uint64_t next_ip);
/* TraceStop in an overflow: OVF, for which there is always room. Nothing but TraceStop follows. */
void vpt_stop_overflow(struct vpt_cpu *cpu);
/* Room for so many bytes in the internal buffer, if need be by a store; else it overflows. */
bool vpt_make_room(struct vpt_cpu *cpu, uint32_t bytes);
/* TSC and, with MTCEn, TMA (33.4.2.11, 33.4.2.13); nothing without TSCEn. */
void vpt_emit_tsc(struct vpt_cpu *cpu);
/* PSB+ (33.3.7). With at_enable the TIP.PGE is still to come, so it says nothing of PacketEn. */
void vpt_emit_psb(struct vpt_cpu *cpu, uint64_t ip, bool at_enable);

#endif
