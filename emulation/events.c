/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From what the processor did to packets: near branches, far transfers, MOV CR3 and the rest
 * (33.2.1, 33.7; Tables 33-14, 33-23, 33-55, 33-56 and 33-59).
 */
#include "events.h"
#include "enables.h"
#include "little_endian.h"
#include "packets.h"
#include "processor.h"
#include "pt_packets.h"

#define PAGE_FAULT_VECTOR 14

/* TraceStop (33.2.5.3, 33.4.2.9). */
void vpt_trace_stop(struct vpt_cpu *cpu)
{
    vpt_stop_overflow(cpu);
    vpt_emit_tracestop(cpu);
    cpu->status |= VPT_STATUS_STOPPED;
    vpt_clear_trigger(cpu);
}

void vpt_event_mode(struct vpt_cpu *cpu)
{
    if ((cpu->ctl & (VPT_CTL_EVENTEN | VPT_CTL_BRANCHEN)) == VPT_CTL_EVENTEN && cpu->context_en &&
        cpu->filter_en)
        vpt_emit_mode_exec(cpu);
}

void vpt_settle(struct vpt_cpu *cpu, bool was, bool stop, uint64_t ip, enum vpt_end end)
{
    if (cpu->psb_again && cpu->context_en)
        vpt_emit_psb(cpu, ip, true);
    if (was && cpu->packet_en) {
        vpt_emit_mode_exec(cpu);
        if (end == VPT_END_TIP)
            vpt_emit_ip(cpu, PT_TIP, ip);
    } else if (was) {
        if (cpu->context_en && (end == VPT_END_TIP || end == VPT_END_DIRECT))
            vpt_emit_ip(cpu, PT_TIP_PGD, ip);
        else
            vpt_emit_pgd_suppressed(cpu);
    } else if (cpu->packet_en) {
        vpt_emit_mode_exec(cpu);
        vpt_emit_ip(cpu, PT_TIP_PGE, ip);
    } else {
        vpt_event_mode(cpu);
    }
    if (stop)
        vpt_trace_stop(cpu);
}

/* Looks at IP ranges for a branch to ip; context does not change. Says whether PacketEn stayed 1.
 */
static bool branch(struct vpt_cpu *cpu, uint64_t ip, enum vpt_end end)
{
    const bool was = cpu->packet_en;

    if (!cpu->ranges || !cpu->context_en) {
        if (was && end == VPT_END_TIP)
            vpt_emit_tip_deferrable(cpu, ip);
        return was;
    }

    const bool stop = vpt_update_enables(cpu, ip);
    const bool stays = was && cpu->packet_en;

    vpt_settle(cpu, was, stop, ip, end);
    return stays;
}

/* ---- Near branches ---- */

void vpt_slow_cond_branch(struct vpt_cpu *cpu, uint64_t next_ip, bool taken)
{
    vpt_begin_event(cpu);
    /* Only a taken branch can change FilterEn or enter a TraceStop range. */
    if (taken ? branch(cpu, next_ip, VPT_END_COND) : cpu->packet_en)
        vpt_tnt_bit(cpu, taken);
    vpt_end_event(cpu, next_ip);
}

void vpt_slow_jmp_direct(struct vpt_cpu *cpu, uint64_t target)
{
    vpt_begin_event(cpu);
    branch(cpu, target, VPT_END_DIRECT);
    vpt_end_event(cpu, target);
}

void vpt_slow_call_direct(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    vpt_begin_event(cpu);
    if (branch(cpu, target, VPT_END_DIRECT) && target != next_ip)
        vpt_ret_push(cpu, next_ip);
    vpt_end_event(cpu, target);
}

void vpt_slow_jmp_indirect(struct vpt_cpu *cpu, uint64_t target)
{
    vpt_begin_event(cpu);
    branch(cpu, target, VPT_END_TIP);
    vpt_end_event(cpu, target);
}

void vpt_slow_call_indirect(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    vpt_begin_event(cpu);
    if (branch(cpu, target, VPT_END_TIP))
        vpt_ret_push(cpu, next_ip);
    vpt_end_event(cpu, target);
}

void vpt_slow_ret(struct vpt_cpu *cpu, uint64_t target)
{
    const bool compress = cpu->packet_en && vpt_ret_compresses(cpu, target);

    if (compress)
        vpt_ret_pop(cpu);
    else
        vpt_ret_clear(cpu);
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool stop = cpu->ranges && vpt_update_enables(cpu, target);

    /* An uncompressed RET is not deferred with other TIPs (33.4.2.2). */
    if (was && cpu->packet_en && compress)
        vpt_tnt_bit(cpu, true);
    else
        vpt_settle(cpu, was, stop, target, VPT_END_TIP);
    vpt_end_event(cpu, target);
}

/* ---- Far transfers ---- */

/* Whether BranchEn gives the transfer a FUP (Table 33-23). */
static bool has_fup(enum vpt_transfer_type type)
{
    switch (type) {
    case VPT_FAR_BRANCH:
    case VPT_IRET:
    case VPT_UIRET:
    case VPT_SIPI:
    case VPT_FRED_SYSCALL:
        return false;
    case VPT_SOFT_INTERRUPT:
    case VPT_FAULT:
    case VPT_TRAP:
    case VPT_INTERRUPT:
    case VPT_ENCLAVE:
    case VPT_UINTR:
    case VPT_INIT:
    case VPT_INIT_WAIT:
    case VPT_FRED_SOFT_INTERRUPT:
        break;
    }
    return true;
}

/* The CFE type of a transfer (Table 33-50); 0: it is no event. */
static uint8_t cfe_type(const struct vpt_cpu *cpu, enum vpt_transfer_type type)
{
    switch (type) {
    case VPT_FRED_SOFT_INTERRUPT:
        return cpu->caps.fred ? PT_CFE_SWINT : PT_CFE_INTR;
    case VPT_FRED_SYSCALL:
        return cpu->caps.fred ? PT_CFE_SYSCALL : 0;
    case VPT_SOFT_INTERRUPT:
    case VPT_FAULT:
    case VPT_TRAP:
    case VPT_INTERRUPT:
        return PT_CFE_INTR;
    case VPT_IRET:
        return PT_CFE_IRET;
    case VPT_UINTR:
        return PT_CFE_UINTR;
    case VPT_UIRET:
        return PT_CFE_UIRET;
    case VPT_INIT:
    case VPT_INIT_WAIT:
        return PT_CFE_INIT;
    case VPT_SIPI:
        return PT_CFE_SIPI;
    case VPT_FAR_BRANCH:
    case VPT_ENCLAVE:
        break;
    }
    return 0;
}

static bool cfe_has_vector(uint8_t type)
{
    return type == PT_CFE_INTR || type == PT_CFE_UINTR || type == PT_CFE_SIPI ||
           type == PT_CFE_SWINT;
}

void vpt_control_flow_event(struct vpt_cpu *cpu, uint8_t type, uint8_t vector, uint64_t ip,
                            bool context, bool fup_follows)
{
    const bool own_fup = context && !fup_follows;

    if (!(cpu->ctl & VPT_CTL_EVENTEN))
        return;
    vpt_emit_cfe(cpu, type, vector, own_fup);
    if (own_fup)
        vpt_emit_ip(cpu, PT_FUP, ip);
}

/*
 * Event Trace of a transfer (Tables 33-50, 33-59): the packets before its own. The FUP that
 * BranchEn sends is shared.
 */
static void transfer_event(struct vpt_cpu *cpu, const struct vpt_transfer *transfer)
{
    const uint8_t type = cfe_type(cpu, transfer->type);
    const uint8_t vector = cfe_has_vector(type) ? transfer->vector : 0;
    const bool page_fault = transfer->type == VPT_FAULT && vector == PAGE_FAULT_VECTOR;
    /* SIPI finds nothing running that could have an IP (Table 33-59 case 21). */
    const bool has_ip = cpu->context_en && transfer->type != VPT_SIPI;

    if (!type || !(cpu->ctl & VPT_CTL_EVENTEN))
        return;
    if (!cpu->context_en && (page_fault || !vpt_context_allows(cpu, &transfer->after)))
        return; /* Table 33-59 case 7 */
    if (page_fault)
        vpt_emit_evd(cpu, PT_EVD_PFA, transfer->cr2);
    vpt_control_flow_event(cpu, type, vector, transfer->ip, has_ip,
                           cpu->packet_en && has_fup(transfer->type));
}

/*
 * Nothing runs until SIPI: PacketEn is 0, and a TIP.PGD without payload says so (Table 33-21).
 * Table 33-55 case 23 has none, but its premise is that PacketEn is 1 afterwards.
 */
static void wait_for_sipi(struct vpt_cpu *cpu, bool was, bool cr3_changes)
{
    cpu->wait_for_sipi = true;
    cpu->context_en = vpt_context_allows(cpu, &cpu->ctx);
    cpu->packet_en = false;
    vpt_ret_clear(cpu);
    vpt_choose_path(cpu);
    if (cr3_changes)
        vpt_emit_pip(cpu);
    if (was)
        vpt_emit_pgd_suppressed(cpu);
    vpt_end_quietly(cpu);
}

void vpt_transfer(struct vpt_cpu *cpu, const struct vpt_transfer *transfer)
{
    if (!cpu->trigger_en) {
        cpu->ctx = transfer->after;
        cpu->wait_for_sipi = transfer->type == VPT_INIT_WAIT;
        return;
    }
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool cr3_changes = cpu->ctx.cr3 != transfer->after.cr3;

    transfer_event(cpu, transfer);
    if (was && has_fup(transfer->type))
        vpt_emit_ip(cpu, PT_FUP, transfer->ip);

    cpu->ctx = transfer->after;
    if (transfer->type == VPT_INIT_WAIT) {
        wait_for_sipi(cpu, was, cr3_changes);
        return;
    }
    cpu->wait_for_sipi = false;

    const bool stop = vpt_update_enables(cpu, transfer->target);

    if (cr3_changes)
        vpt_emit_pip(cpu);
    vpt_settle(cpu, was, stop, transfer->target, VPT_END_TIP);
    vpt_end_event(cpu, transfer->target);
}

/* ---- Others ---- */

void vpt_mov_cr3(struct vpt_cpu *cpu, uint64_t cr3, uint64_t next_ip)
{
    cpu->ctx.cr3 = cr3;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool stop = vpt_update_enables(cpu, next_ip);

    vpt_emit_pip(cpu);
    vpt_settle(cpu, was, stop, next_ip, VPT_END_NONE);
    vpt_end_event(cpu, next_ip);
}

void vpt_interrupt_flag(struct vpt_cpu *cpu, bool interrupts, uint64_t ip)
{
    if (cpu->ctx.interrupts == interrupts)
        return;
    cpu->ctx.interrupts = interrupts;
    if (!(cpu->ctl & VPT_CTL_EVENTEN) || !cpu->trigger_en || !cpu->context_en || !cpu->filter_en)
        return;
    vpt_begin_event(cpu);
    cpu->mode_sent = VPT_MODE_UNSENT; /* the FUP is this packet's: neither goes without the other */
    vpt_emit_mode_exec(cpu);
    vpt_emit_ip(cpu, PT_FUP, ip);
    vpt_end_quietly(cpu);
}

void vpt_ptwrite(struct vpt_cpu *cpu, uint64_t value, uint8_t size_bytes, uint64_t ip)
{
    const bool fup = (cpu->ctl & VPT_CTL_FUPONPTW) != 0;

    if (!(cpu->ctl & VPT_CTL_PTWEN) || !cpu->trigger_en || !cpu->context_en || !cpu->filter_en)
        return;
    vpt_begin_event(cpu);
    vpt_emit_ptw(cpu, value, size_bytes == 8 ? 8 : 4, fup);
    if (fup)
        vpt_emit_ip(cpu, PT_FUP, ip);
    vpt_end_quietly(cpu);
}

void vpt_trigger(struct vpt_cpu *cpu, const struct vpt_trigger *trigger)
{
    uint8_t flags = trigger->more ? PT_TRIG_MULT : 0;
    bool counted;

    if (!cpu->caps.triggers || !cpu->trigger_en || !cpu->context_en || !cpu->filter_en)
        return;
    vpt_begin_event(cpu);
    counted = cpu->branch_told && cpu->packet_en && trigger->insns <= UINT16_MAX;
    if (trigger->attributed)
        flags |= counted ? PT_TRIG_ICNTV : PT_TRIG_ICNTV | PT_TRIG_IP;
    vpt_emit_trig(cpu, flags, trigger->fired, counted ? (uint16_t)trigger->insns : 0);
    if (flags & PT_TRIG_IP)
        vpt_emit_ip(cpu, PT_FUP, trigger->ip);
    cpu->branch_told = trigger->attributed && cpu->packet_en; /* the next one counts from here */
    vpt_end_quietly(cpu);
}

void vpt_set_core_ratio(struct vpt_cpu *cpu, uint8_t ratio)
{
    cpu->core_ratio = ratio;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);
    vpt_emit_tsc(cpu);
    vpt_emit_cbr(cpu);
    vpt_end_quietly(cpu);
}

void vpt_shutdown(struct vpt_cpu *cpu, uint64_t ip)
{
    if (!cpu->trigger_en || !cpu->context_en)
        return;
    vpt_begin_event(cpu);
    vpt_control_flow_event(cpu, PT_CFE_SHUTDOWN, 0, ip, true, false);
    vpt_end_quietly(cpu);
}

void vpt_maintenance(struct vpt_cpu *cpu, uint64_t payload)
{
    uint8_t bytes[PT_MNT_LEN] = {PT_OPC_EXT, PT_EXT_MNT, PT_EXT3_MNT};

    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);
    vpt_put_le(bytes + 3, payload, 8);
    vpt_emit_bytes(cpu, bytes, sizeof(bytes), false);
    vpt_end_quietly(cpu);
}

void vpt_time(struct vpt_cpu *cpu)
{
    if (!cpu->trigger_en || !cpu->timing)
        return;
    vpt_begin_event(cpu);
    vpt_end_quietly(cpu);
}
