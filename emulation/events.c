/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From what the processor did to packets: near branches, far transfers, MOV CR3 and the rest
 * (33.2.1, 33.7; Tables 33-14, 33-23, 33-55, 33-56 and 33-59).
 */
#include "internal.h"
#include "pt_packets.h"

#define PAGE_FAULT_VECTOR 14

/* How an operation that PacketEn survives ends, and what a TIP.PGD may then say. */
enum end {
    END_NONE,   /* no branch: MOV CR3 */
    END_DIRECT, /* the target is in the code: nothing, or TIP.PGD with the target */
    END_COND,   /* nothing here (a TNT bit is the caller's), or TIP.PGD without payload */
    END_TIP,    /* TIP, or TIP.PGD with the target */
};

/* TraceStop (33.2.5.3, 33.4.2.9). */
void vpt_trace_stop(struct vpt_cpu *cpu)
{
    vpt_emit_tracestop(cpu);
    cpu->status |= VPT_STATUS_STOPPED;
    vpt_clear_trigger(cpu);
}

/*
 * The enables after an operation that goes on at ip, and the packet that tells (Table 33-56).
 * was: PacketEn before it. The TIP is due when PacketEn was and stays 1.
 */
static void settle(struct vpt_cpu *cpu, bool was, bool stop, uint64_t ip, enum end end)
{
    if (was && cpu->packet_en) {
        vpt_emit_mode_exec(cpu);
        if (end == END_TIP)
            vpt_emit_ip(cpu, PT_TIP, ip);
    } else if (was) {
        if (cpu->context_en && (end == END_TIP || end == END_DIRECT))
            vpt_emit_ip(cpu, PT_TIP_PGD, ip);
        else
            vpt_emit_pgd_suppressed(cpu);
    } else if (cpu->packet_en) {
        vpt_emit_mode_exec(cpu);
        vpt_emit_ip(cpu, PT_TIP_PGE, ip);
    }
    if (stop)
        vpt_trace_stop(cpu);
}

/* Looks at IP ranges for a branch to ip; context does not change. Says whether PacketEn stayed 1.
 */
static bool branch(struct vpt_cpu *cpu, uint64_t ip, enum end end)
{
    const bool was = cpu->packet_en;

    if (!cpu->ranges || !cpu->context_en) {
        if (was && end == END_TIP)
            vpt_emit_tip_deferrable(cpu, ip);
        return was;
    }

    const bool stop = vpt_update_enables(cpu, ip);
    const bool stays = was && cpu->packet_en;

    settle(cpu, was, stop, ip, end);
    return stays;
}

/* ---- Near branches ---- */

void vpt_slow_tnt_full(struct vpt_cpu *cpu, uint64_t next_ip)
{
    vpt_begin_event(cpu);
    vpt_emit_tnt(cpu);
    vpt_end_event(cpu, next_ip);
}

void vpt_slow_cond_branch(struct vpt_cpu *cpu, uint64_t next_ip, bool taken)
{
    vpt_begin_event(cpu);
    /* Only a taken branch can change FilterEn or enter a TraceStop range. */
    if (taken ? branch(cpu, next_ip, END_COND) : cpu->packet_en)
        vpt_tnt_bit(cpu, taken);
    vpt_end_event(cpu, next_ip);
}

void vpt_slow_jmp_direct(struct vpt_cpu *cpu, uint64_t target)
{
    vpt_begin_event(cpu);
    branch(cpu, target, END_DIRECT);
    vpt_end_event(cpu, target);
}

void vpt_slow_call_direct(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    if (cpu->path == VPT_PATH_FAST) {
        if (target != next_ip) /* 33.4.2.2: zero-length calls do not count */
            vpt_ret_push(cpu, next_ip);
        return;
    }
    vpt_begin_event(cpu);
    if (branch(cpu, target, END_DIRECT) && target != next_ip)
        vpt_ret_push(cpu, next_ip);
    vpt_end_event(cpu, target);
}

void vpt_slow_jmp_indirect(struct vpt_cpu *cpu, uint64_t target)
{
    vpt_begin_event(cpu);
    branch(cpu, target, END_TIP);
    vpt_end_event(cpu, target);
}

void vpt_slow_call_indirect(struct vpt_cpu *cpu, uint64_t target, uint64_t next_ip)
{
    vpt_begin_event(cpu);
    if (branch(cpu, target, END_TIP))
        vpt_ret_push(cpu, next_ip);
    vpt_end_event(cpu, target);
}

void vpt_slow_ret(struct vpt_cpu *cpu, uint64_t target)
{
    const bool matches = cpu->packet_en && vpt_ret_matches(cpu, target);
    const bool compress = matches && !(cpu->ctl & VPT_CTL_DISRETC);

    if (compress && cpu->path == VPT_PATH_FAST) {
        vpt_cond_branch(cpu, target, true);
        return;
    }
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool stop = cpu->ranges && vpt_update_enables(cpu, target);

    /* An uncompressed RET is not deferred with other TIPs (33.4.2.2). */
    if (was && cpu->packet_en && compress)
        vpt_tnt_bit(cpu, true);
    else
        settle(cpu, was, stop, target, END_TIP);
    vpt_end_event(cpu, target);
}

/* ---- Far transfers ---- */

static bool has_fup(enum vpt_transfer_type type)
{
    return type != VPT_FAR_BRANCH && type != VPT_IRET;
}

/*
 * Event Trace (Tables 33-50, 33-59): the packets before an event's own. The FUP that BranchEn sends
 * is shared; without it CFE brings one of its own.
 */
static void control_flow_event(struct vpt_cpu *cpu, const struct vpt_transfer *transfer,
                               bool context_before)
{
    const uint8_t type = transfer->type == VPT_IRET ? PT_CFE_IRET : PT_CFE_INTR;
    const uint8_t vector = type == PT_CFE_INTR ? transfer->vector : 0;
    const bool page_fault = transfer->type == VPT_FAULT && vector == PAGE_FAULT_VECTOR;
    const bool own_fup = context_before && !(cpu->packet_en && has_fup(transfer->type));

    if (page_fault && !context_before)
        return; /* Table 33-59 case 7 */
    if (page_fault)
        vpt_emit_evd(cpu, PT_EVD_PFA, transfer->cr2);
    vpt_emit_cfe(cpu, type, vector, own_fup);
    if (own_fup)
        vpt_emit_ip(cpu, PT_FUP, transfer->ip);
}

void vpt_transfer(struct vpt_cpu *cpu, const struct vpt_transfer *transfer)
{
    if (!cpu->trigger_en) {
        cpu->ctx = transfer->after;
        return;
    }
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool cr3_changes = cpu->ctx.cr3 != transfer->after.cr3;

    if ((cpu->ctl & VPT_CTL_EVENTEN) && transfer->type != VPT_FAR_BRANCH &&
        (cpu->context_en || vpt_context_allows(cpu, &transfer->after)))
        control_flow_event(cpu, transfer, cpu->context_en);
    if (was && has_fup(transfer->type))
        vpt_emit_ip(cpu, PT_FUP, transfer->ip);

    cpu->ctx = transfer->after;
    const bool stop = vpt_update_enables(cpu, transfer->target);

    if (cr3_changes)
        vpt_emit_pip(cpu);
    settle(cpu, was, stop, transfer->target, END_TIP);
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
    settle(cpu, was, stop, next_ip, END_NONE);
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

void vpt_time(struct vpt_cpu *cpu)
{
    if (!cpu->trigger_en || !cpu->timing)
        return;
    vpt_begin_event(cpu);
    vpt_end_quietly(cpu);
}
