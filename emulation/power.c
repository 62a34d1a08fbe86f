/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power events (33.2.3, 33.4.2.22 to 33.4.2.25; the examples are those of the table that is headed
 * 33-57, whose title 33-58 bears).
 */
#include "packets.h"
#include "pt_packets.h"

static bool power_events(const struct vpt_cpu *cpu)
{
    return cpu->trigger_en && (cpu->ctl & VPT_CTL_PWREVTEN);
}

static void emit_exstop(struct vpt_cpu *cpu, uint64_t ip)
{
    const uint8_t opcode = cpu->context_en ? PT_EXT_EXSTOP_IP : PT_EXT_EXSTOP;

    vpt_emit_bytes(cpu, (const uint8_t[]){PT_OPC_EXT, opcode}, PT_EXT_LEN, true);
    if (cpu->context_en)
        vpt_emit_ip(cpu, PT_FUP, ip);
}

void vpt_power_entry(struct vpt_cpu *cpu, const struct vpt_power_entry *entry)
{
    const bool deeper = cpu->asleep; /* no software ran since the last PWRE: it stopped then */
    const uint8_t mwait[PT_MWAIT_LEN] = {PT_OPC_EXT, PT_EXT_MWAIT,  entry->hints, 0, 0,
                                         0,          entry->ext & 3};
    const uint8_t pwre[PT_PWRE_LEN] = {PT_OPC_EXT, PT_EXT_PWRE, entry->hw ? PT_PWRE_HW : 0,
                                       entry->state};

    cpu->asleep = true;
    if (!power_events(cpu))
        return;
    vpt_begin_event(cpu);
    if (entry->mwait && cpu->context_en && !deeper)
        vpt_emit_bytes(cpu, mwait, sizeof(mwait), true);
    vpt_emit_bytes(cpu, pwre, sizeof(pwre), false);
    if (!deeper)
        emit_exstop(cpu, entry->ip);
    vpt_end_quietly(cpu);
}

void vpt_power_exit(struct vpt_cpu *cpu, const struct vpt_power_exit *wake)
{
    const uint8_t pwrx[PT_PWRX_LEN] = {
        PT_OPC_EXT, PT_EXT_PWRX,
        (uint8_t)(wake->last_core_state << 4 | (wake->deepest_core_state & 0xf)),
        wake->reason & 0xf};

    cpu->asleep = false;
    if (wake->core_ratio)
        cpu->core_ratio = wake->core_ratio;
    if (!cpu->trigger_en)
        return;
    vpt_resume_clocks(cpu);
    vpt_begin_event(cpu);
    vpt_emit_tsc(cpu); /* Table 33-55 case 25 */
    vpt_emit_cbr(cpu);
    if (power_events(cpu))
        vpt_emit_bytes(cpu, pwrx, sizeof(pwrx), false);
    vpt_end_quietly(cpu);
}

void vpt_exec_stop(struct vpt_cpu *cpu, uint64_t ip)
{
    if (!power_events(cpu))
        return;
    vpt_begin_event(cpu);
    emit_exstop(cpu, ip);
    vpt_end_quietly(cpu);
}
