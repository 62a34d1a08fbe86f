/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transactions (33.2.9.1, 33.2.9.2; Tables 33-10 and 33-55, cases 18 to 21).
 */
#include "enables.h"
#include "events.h"
#include "packets.h"
#include "pt_packets.h"

/* MODE.TSX goes out in any case; only with PacketEn is there an IP to bind it to (33.2.9.2). */
static void begin_or_commit(struct vpt_cpu *cpu, bool in_tx, uint64_t ip)
{
    if (!cpu->caps.tsx || cpu->in_tx == in_tx)
        return;
    cpu->in_tx = in_tx;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);
    vpt_emit_mode_tsx(cpu, false);
    if (cpu->packet_en)
        vpt_emit_ip(cpu, PT_FUP, ip);
    vpt_end_quietly(cpu);
}

void vpt_tx_begin(struct vpt_cpu *cpu, uint64_t ip)
{
    begin_or_commit(cpu, true, ip);
}

void vpt_tx_commit(struct vpt_cpu *cpu, uint64_t ip)
{
    begin_or_commit(cpu, false, ip);
}

void vpt_tx_abort(struct vpt_cpu *cpu, uint64_t ip, uint64_t target)
{
    if (!cpu->in_tx)
        return;
    cpu->in_tx = false;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;

    vpt_emit_mode_tsx(cpu, true);
    if (was)
        vpt_emit_ip(cpu, PT_FUP, ip);

    const bool stop = vpt_update_enables(cpu, target);

    vpt_settle(cpu, was, stop, target, VPT_END_TIP);
    vpt_end_event(cpu, target);
}
