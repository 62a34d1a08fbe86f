/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of libvpt share among themselves. One section for each file.
 */
#ifndef VPT_INTERNAL_H
#define VPT_INTERNAL_H

#include "vpt.h"

/*
 * No event, with all that it can force out (deferred TIPs, MTC, CFE and EVD, a PSB+ after it, a
 * CYC before each), and with the OVF and TraceStop that may have to end the trace behind it, adds
 * more bytes than this to the internal buffer.
 */
#define VPT_EVENT_MAX_BYTES 512u
/* Buffered bytes that are worth a store. */
#define VPT_DRAIN_BYTES 256u
/*
 * So many bytes of output have their address translated ahead of need: a store empties the buffer,
 * and then the packets of two events still have a place where the next page has none. Below a page.
 */
#define VPT_AHEAD_BYTES (VPT_BUFFER_BYTES + 2 * VPT_EVENT_MAX_BYTES)

static inline bool vpt_cap(const struct vpt_cpu *cpu, uint32_t ebx_bit)
{
    return (cpu->caps.leaf14_0_ebx & ebx_bit) != 0;
}
static inline unsigned vpt_range_count(const struct vpt_caps *caps)
{
    return caps->leaf14_0_ebx & VPT_CAP_IPFILTER ? caps->leaf14_1_eax & 7 : 0;
}
static inline unsigned vpt_addr_cfg(uint64_t ctl, unsigned n)
{
    return (unsigned)(ctl >> (VPT_CTL_ADDR_CFG_SHR + 4 * n)) & 0xf;
}

/*
 * An address as packets and ranges have it: a RIP or a LIP, as the processor enumerates (33.3.1.1).
 * Outside 64-bit mode both have 32 bits: the sum of base and offset wraps.
 */
static inline uint64_t vpt_ip_payload(const struct vpt_cpu *cpu, uint64_t ip)
{
    const uint64_t payload = cpu->caps.leaf14_0_ecx & VPT_CAP_LIP ? ip : ip - cpu->ctx.cs_base;

    return cpu->ctx.exec_mode == VPT_EXEC_64 ? payload : (uint32_t)payload;
}

/* ---- enables.c: TriggerEn, ContextEn, FilterEn, PacketEn (33.2.6) ---- */

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

/* ---- packets.c: the bytes of packets, in the internal buffer ---- */

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

/* ---- RET compression (33.4.2.2), see vpt.h ---- */

/* Whether a RET to target may be compressed; the stack is as after that RET. */
static inline void vpt_ret_clear(struct vpt_cpu *cpu)
{
    cpu->ret_count = 0;
}

/* ---- output.c, topa.c: where packet bytes go (33.2.7) ---- */

/* TraceEn was set: checks the configuration. False: STATUS.Error is set. */
bool vpt_output_start(struct vpt_cpu *cpu);
/* The output MSRs change while TraceEn is 0: nothing of the old configuration counts any more. */
void vpt_output_forget(struct vpt_cpu *cpu);
/*
 * Before a VM exit: a trace of which nothing was stored, because its first page met an EPT
 * violation, is taken back. It begins anew at the next VM entry, PacketByteCnt being what it was.
 */
void vpt_output_take_back(struct vpt_cpu *cpu);
/* Writes the internal buffer out. May set Error or Stopped, may leave bytes if output blocks. */
void vpt_output_drain(struct vpt_cpu *cpu);
/* Reads the ToPA entry at the current table offset. True: a region is loaded. */
bool vpt_topa_load(struct vpt_cpu *cpu);
/* Where the region behind the current one begins. False: there is none, or it cannot be read. */
bool vpt_topa_next_region(struct vpt_cpu *cpu, uint64_t *gpa);
/* The current region was filled: PMI, STOP, next entry (33.2.7.2). */
void vpt_topa_filled(struct vpt_cpu *cpu);
void vpt_topa_pmi(struct vpt_cpu *cpu);

static inline uint32_t vpt_output_offset(const struct vpt_cpu *cpu)
{
    return (uint32_t)(cpu->output_mask_ptrs >> 32);
}
static inline void vpt_set_output_offset(struct vpt_cpu *cpu, uint32_t offset)
{
    cpu->output_mask_ptrs = (uint64_t)offset << 32 | (uint32_t)cpu->output_mask_ptrs;
}

/* ---- events.c ---- */

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

/* ---- msr.c: enabling and disabling (33.2.8.3) ---- */

/*
 * Sets TraceEn by way of a new RTIT_CTL value, already checked; next_ip is where tracing begins.
 * cfe: a CFE type that Event Trace sends for what enabled it, or 0.
 */
void vpt_trace_enable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t next_ip, uint8_t cfe);
/* Clears TraceEn by way of a new RTIT_CTL value, already checked; ip is the current instruction. */
void vpt_trace_disable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t ip);
/* The end of that, when the last packet was sent (which forced out TNT bits). */
void vpt_trace_off(struct vpt_cpu *cpu, uint64_t ctl);
/* TriggerEn for packets that a VMM appends to a trace that is off: vpt_trace_off() ends it. */
void vpt_trace_append_begin(struct vpt_cpu *cpu);
/* Computes what follows from RTIT_CTL alone. */
void vpt_ctl_loaded(struct vpt_cpu *cpu);
/* Whether WRMSR would take this value for RTIT_CTL if TraceEn were 0, and as TraceEn is. */
bool vpt_ctl_ok(const struct vpt_cpu *cpu, uint64_t ctl);
bool vpt_ctl_write_ok(const struct vpt_cpu *cpu, uint64_t value);

#endif
