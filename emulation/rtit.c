/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: enables, filters, and which packets an instruction gives (RTIT v1.05, chapters 2 and 4;
 * Tables 1, 3, 7 and 19).
 */
#include "rtit.h"
#include "rtit_encoder.h"
#include "rtit_packets.h"

#define NLIP_VALID (1ull << 48)
#define LIP_MASK   0xffffffffffffull

/* Event IDs, Table 7. */
enum {
    ID_RANGE0,
    ID_RANGE1,
    ID_RANGE0_OR_1,
    ID_ALWAYS_ON = 7,
};

/* ---- Enables ---- */

static bool context_allows(const struct vpt_rtit *cpu)
{
    const struct vpt_rtit_context *ctx = &cpu->ctx;
    const uint32_t cpl_enable = ctx->cpl == 0 ? VPT_RTIT_CTL_OS : VPT_RTIT_CTL_USER;

    if (!(cpu->ctl & cpl_enable) || ctx->smm || ctx->vmx_root)
        return false;
    return !(cpu->ctl & VPT_RTIT_CTL_CR3EN) || ((ctx->cr3 ^ cpu->cr3_match) & 0xfffffffe0ull) == 0;
}

static uint64_t linear(uint64_t lip)
{
    return lip & LIP_MASK;
}

/* What arriving at lip says of a range: 1 into it, 0 out of it, -1 nothing. */
static int range_says(const struct vpt_rtit *cpu, unsigned n, uint64_t lip, bool jumped)
{
    const uint64_t base = linear(cpu->lip[n]), limit = linear(cpu->lip[n + 2]);

    if (jumped)
        return linear(lip) >= base && linear(lip) < limit;
    if (linear(lip) == base)
        return 1;
    return linear(lip) == limit ? 0 : -1;
}

/* The same of an event ID. */
static int event_says(const struct vpt_rtit *cpu, unsigned id, uint64_t lip, bool jumped)
{
    int first, second;

    switch (id) {
    case ID_RANGE0:
    case ID_RANGE1:
        return range_says(cpu, id, lip, jumped);
    case ID_RANGE0_OR_1:
        first = range_says(cpu, 0, lip, jumped);
        second = range_says(cpu, 1, lip, jumped);
        return first == 1 || second == 1 ? 1 : first == 0 || second == 0 ? 0 : -1;
    case ID_ALWAYS_ON:
        return 1;
    default: /* always off, and what is reserved */
        return 0;
    }
}

/* The enables for execution at lip. True: TraceStop. */
static bool update_enables(struct vpt_rtit *cpu, uint64_t lip, bool jumped)
{
    int filter, stop;

    cpu->context_en = context_allows(cpu);
    if (!(cpu->ctl & VPT_RTIT_CTL_TRACE_EN) || !cpu->context_en)
        return false; /* FilterEn is frozen (2.1.3) */
    filter = event_says(cpu, cpu->events & 7, lip, jumped);
    if (filter >= 0)
        cpu->filter_en = filter == 1;
    stop = event_says(cpu, cpu->events >> 3 & 7, lip, jumped);
    return stop == 1 && vpt_rtit_trigger_en(cpu);
}

/* ---- TraceStop (4.2.11) ---- */

static void trace_stop(struct vpt_rtit *cpu)
{
    if (cpu->overflow || !vpt_rtit_stop(cpu)) {
        cpu->stop_pending = !(cpu->errata & VPT_RTIT_E4);
        return;
    }
    cpu->stop_pending = false;
    cpu->ctl &= ~VPT_RTIT_CTL_TRACE_ACTIVE;
    cpu->filter_en = false;
    vpt_rtit_drain(cpu);
}

/* ---- What an instruction gives ---- */

/* CALL that starts with PacketEn (4.2.3.2). */
static void remember_call(struct vpt_rtit *cpu, uint64_t nlip)
{
    if ((cpu->ctl & VPT_RTIT_CTL_CMPRS_RET) && !cpu->overflow)
        cpu->last_call_nlip = NLIP_VALID | linear(nlip);
}

static void ret(struct vpt_rtit *cpu, uint64_t target)
{
    if ((cpu->ctl & VPT_RTIT_CTL_CMPRS_RET) && cpu->last_call_nlip == (NLIP_VALID | linear(target)))
        vpt_rtit_tnt_bit(cpu, true);
    else
        vpt_rtit_ip(cpu, RTIT_EVENT_TIP, target);
}

/* The packets that PacketEn at the start gives, before it may change. */
static void from_inside(struct vpt_rtit *cpu, const struct vpt_rtit_event *event)
{
    switch (event->kind) {
    case VPT_RTIT_COND:
        vpt_rtit_tnt_bit(cpu, event->taken);
        break;
    case VPT_RTIT_CALL_DIRECT:
        remember_call(cpu, event->nlip);
        break;
    case VPT_RTIT_CALL_INDIRECT:
        remember_call(cpu, event->nlip);
        vpt_rtit_ip(cpu, RTIT_EVENT_TIP, event->target);
        break;
    case VPT_RTIT_JMP_INDIRECT:
        vpt_rtit_ip(cpu, RTIT_EVENT_TIP, event->target);
        break;
    case VPT_RTIT_RET:
        ret(cpu, event->target);
        break;
    default:
        break;
    }
}

static void paging(struct vpt_rtit *cpu, const struct vpt_rtit_event *event)
{
    const bool cr3 = event->kind == VPT_RTIT_MOV_CR3;

    if (!cr3 && event->kind != VPT_RTIT_PAGING)
        return;
    if (cpu->context_en && !(cpu->ctl & VPT_RTIT_CTL_CR3EN))
        vpt_rtit_pip(cpu);
    if (cr3 && (cpu->ctl & VPT_RTIT_CTL_STS_ON_CR3))
        vpt_rtit_sts(cpu);
}

static bool is_transfer(enum vpt_rtit_kind kind)
{
    return kind == VPT_RTIT_FAR || kind == VPT_RTIT_LEAVE || kind == VPT_RTIT_ENTER;
}

/* FUP.FAR or FUP.PGD, and the TIP (2.2.6, Table 19 rows 27 to 37). */
static void far_transfer(struct vpt_rtit *cpu, const struct vpt_rtit_event *event, bool stays)
{
    uint64_t from = event->from;

    if (event->prefixes > 3 && (cpu->errata & VPT_RTIT_E1))
        from--;
    vpt_rtit_ip(cpu, stays ? RTIT_EVENT_FAR : RTIT_EVENT_PGD, from);
    if (stays || cpu->context_en)
        vpt_rtit_ip(cpu, RTIT_EVENT_TIP, event->target);
}

static bool jumps(const struct vpt_rtit_event *event)
{
    switch (event->kind) {
    case VPT_RTIT_OTHER:
    case VPT_RTIT_MOV_CR3:
    case VPT_RTIT_PAGING:
        return false;
    case VPT_RTIT_COND:
        return event->taken;
    default:
        return true;
    }
}

/* PacketEn after the event, and the packet that tells (Table 19). */
static void from_either(struct vpt_rtit *cpu, const struct vpt_rtit_event *event, bool was,
                        bool filter_was, bool context_was)
{
    const bool stop = update_enables(cpu, event->target, jumps(event));
    const bool is = vpt_rtit_packet_en(cpu);

    const bool extra = (cpu->errata & VPT_RTIT_E2) && !was && !is && !context_was &&
                       cpu->context_en && ((filter_was && !cpu->filter_en) || stop);

    paging(cpu, event);
    if (was && is_transfer(event->kind))
        far_transfer(cpu, event, is && !stop);
    else if ((was && !is) || extra)
        vpt_rtit_ip(cpu, RTIT_EVENT_PGD, event->nlip);
    else if (!was && is)
        vpt_rtit_ip(cpu, RTIT_EVENT_PGE, event->target);
    if (stop)
        trace_stop(cpu);
}

void vpt_rtit_event(struct vpt_rtit *cpu, const struct vpt_rtit_event *event)
{
    const bool was = vpt_rtit_packet_en(cpu), filter_was = cpu->filter_en;
    const bool context_was = cpu->context_en;

    if (!vpt_rtit_trigger_en(cpu)) {
        cpu->ctx = event->after;
        update_enables(cpu, event->target, jumps(event));
        return;
    }
    vpt_rtit_look_at_clocks(cpu, event->nlip);
    if (was)
        from_inside(cpu, event);
    cpu->ctx = event->after;
    from_either(cpu, event, was, filter_was, context_was);
    vpt_rtit_resolve_overflow(cpu, event->target);
    if (cpu->stop_pending && !cpu->overflow)
        trace_stop(cpu);
    vpt_rtit_settle(cpu);
}

void vpt_rtit_sync(struct vpt_rtit *cpu, uint8_t actual_ratio, uint8_t effective_ratio)
{
    cpu->actual_ratio = actual_ratio;
    cpu->effective_ratio = effective_ratio;
    vpt_rtit_sts(cpu);
    vpt_rtit_settle(cpu);
}

/* ---- RTIT_CTL (3.3.2) ---- */

void vpt_rtit_packet_en_written(struct vpt_rtit *cpu, bool was, uint64_t next_ip)
{
    if (was && vpt_rtit_trigger_en(cpu) && !vpt_rtit_packet_en(cpu))
        vpt_rtit_ip(cpu, RTIT_EVENT_PGD, next_ip);
    else if (!was && vpt_rtit_packet_en(cpu))
        vpt_rtit_ip(cpu, RTIT_EVENT_PGE, next_ip);
    vpt_rtit_settle(cpu);
}

void vpt_rtit_write_ctl(struct vpt_rtit *cpu, uint32_t ctl, uint64_t next_ip)
{
    const bool triggered = vpt_rtit_trigger_en(cpu), was = vpt_rtit_packet_en(cpu);

    vpt_rtit_drain(cpu);
    cpu->ctl = ctl;
    update_enables(cpu, next_ip, false);
    if (!triggered && vpt_rtit_trigger_en(cpu)) {
        vpt_rtit_start_clocks(cpu);
        vpt_rtit_psb(cpu);
    }
    vpt_rtit_packet_en_written(cpu, was, next_ip);
    vpt_rtit_drain(cpu);
}
