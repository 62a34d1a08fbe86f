/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The enables that decide whether packets appear (33.2.5, 33.2.6).
 */
#include "enables.h"
#include "processor.h"

static bool cr3_matches(const struct vpt_cpu *cpu, const struct vpt_context *ctx)
{
    const uint64_t ignored = ctx->pae ? 0x1f : 0xfff; /* 33.2.5.2 */

    return ((ctx->cr3 ^ cpu->cr3_match) & ~ignored) == 0;
}

bool vpt_context_allows(const struct vpt_cpu *cpu, const struct vpt_context *ctx)
{
    const uint64_t cpl_enable = ctx->cpl == 0 ? VPT_CTL_OS : VPT_CTL_USER;

    if (!(cpu->ctl & cpl_enable) || ctx->enclave)
        return false;
    return !(cpu->ctl & VPT_CTL_CR3FILTER) || cr3_matches(cpu, ctx);
}

/* Whether ip is in a range that is configured as cfg. */
static bool in_range(const struct vpt_cpu *cpu, unsigned cfg, uint64_t ip)
{
    bool found = false;

    ip = vpt_ip_payload(cpu, ip); /* ranges are of the same type as IP payloads, 33.3.1.1 */
    for (unsigned n = 0; n < vpt_range_count(&cpu->caps); n++)
        found |= vpt_addr_cfg(cpu->ctl, n) == cfg && ip >= cpu->addr[n][0] && ip <= cpu->addr[n][1];
    return found;
}

/* Whether there is a filter range: if not, FilterEn is 1 (33.2.6.5). ADDRn_CFG is 0, 1 or 2. */
static bool filters(const struct vpt_cpu *cpu)
{
    return (cpu->ctl >> VPT_CTL_ADDR_CFG_SHR & 0x1111) != 0;
}

/* PacketEn, from what it is made of (33.2.6.1). */
static void update_packet_en(struct vpt_cpu *cpu)
{
    const bool packet_en = cpu->context_en && cpu->filter_en && !cpu->wait_for_sipi &&
                           (cpu->ctl & VPT_CTL_BRANCHEN) != 0;

    if (packet_en != cpu->packet_en) {
        cpu->packet_en = packet_en;
        vpt_ret_clear(cpu); /* no RET is compressed across PacketEn = 0 */
        vpt_choose_path(cpu);
    } else if (cpu->ranges) {
        vpt_choose_path(cpu); /* ContextEn decides whether ranges are looked at */
    }
}

bool vpt_update_enables(struct vpt_cpu *cpu, uint64_t ip)
{
    bool stop = false;

    if (!cpu->trigger_en)
        return false; /* 33.2.6.3 */
    cpu->context_en = vpt_context_allows(cpu, &cpu->ctx);
    if (cpu->context_en) {
        cpu->filter_en = !filters(cpu) || in_range(cpu, VPT_ADDR_CFG_FILTER, ip);
        stop = in_range(cpu, VPT_ADDR_CFG_TRACESTOP, ip);
        if (stop)
            cpu->filter_en = false; /* 33.4.2.9 */
    }
    update_packet_en(cpu);
    return stop;
}

void vpt_filter_start(struct vpt_cpu *cpu)
{
    cpu->filter_en = !filters(cpu);
}

void vpt_resume_enables(struct vpt_cpu *cpu)
{
    cpu->context_en = vpt_context_allows(cpu, &cpu->ctx);
    cpu->filter_en = cpu->filter_en || !filters(cpu);
    update_packet_en(cpu);
}

void vpt_clear_trigger(struct vpt_cpu *cpu)
{
    if (cpu->trigger_en && (cpu->ctl & VPT_CTL_INJECT_PSB_PMI) &&
        cpu->bytes_since_psb >= cpu->psb_period_bytes)
        cpu->status |= VPT_STATUS_PENDPSB;
    if (cpu->buf_len == 0)
        cpu->output_blocked = false; /* where output would have gone does not matter any more */
    cpu->trigger_en = false;
    cpu->packet_en = false; /* and as soon as it is 1 again, CALLs from before are forgotten */
    vpt_choose_path(cpu);
}

void vpt_choose_path(struct vpt_cpu *cpu)
{
    const bool special = cpu->timing || cpu->overflow || cpu->boundary_due ||
                         (cpu->ctl & VPT_CTL_DISTNT) || !cpu->ret_kept;

    if (!cpu->trigger_en)
        cpu->path = VPT_PATH_OFF;
    else if (special || (cpu->ranges && cpu->context_en))
        cpu->path = VPT_PATH_SLOW;
    else
        cpu->path = cpu->packet_en ? VPT_PATH_FAST : VPT_PATH_OFF;
    cpu->tip_plain = !cpu->caps.deferred_tips && cpu->caps.linear_bits != 32 &&
                     !cpu->caps.choices.ip_full_64 && cpu->caps.choices.layout == VPT_LAYOUT_DENSE;
    cpu->waiting_limit = cpu->path == VPT_PATH_FAST && cpu->tip_plain && cpu->caps.choices.tips_wait
                             ? sizeof(cpu->waiting_ip)
                             : 0;
}
