/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of the flow decoder that reads packets: which belong together (SDM 33.4.1, Table 33-14),
 * what they bind to, PSB+ (33.3.7) and overflow (33.3.8).
 */
#include "flow/ahead.h"
#include "flow/read.h"

static void push_value(struct ptd_flow *flow, enum ptd_item_type type,
                       const struct ptd_packet *packet, uint64_t value)
{
    ptd_flow_push(flow, type, packet->offset)->value = value;
}

static uint8_t exec_mode(const struct ptd_packet *packet)
{
    if (packet->mode_exec.csl)
        return PTD_MODE_64;
    return packet->mode_exec.csd ? PTD_MODE_32 : PTD_MODE_16;
}

static uint8_t tsx_state(const struct ptd_packet *packet)
{
    return (uint8_t)(packet->mode_tsx.in_tx | packet->mode_tsx.abort << 1);
}

static void contradiction(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    ptd_flow_fail(flow, PTD_E_MISMATCH, packet->offset);
}

/* Puts a packet back: something has to be bound before it counts. */
static void unread(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    flow->packets.pos = flow->packets.begin + (packet->offset - flow->packets.base);
}

/* ---- PSB+ ---- */

void ptd_flow_enter_psb(struct ptd_flow *flow)
{
    struct ptd_packet packet;
    struct ptd_item *item;

    if (ptd_packets_offset(&flow->packets) >= flow->stop) {
        flow->ended = true;
        return;
    }
    flow->psb_has_ip = ptd_ahead_psb_ip(flow->packets, &flow->psb_ip) == AHEAD_FUP;
    if (flow->psb_has_ip && !flow->tracing && flow_has(flow, PTD_BDM70) &&
        ptd_ahead_enabling_behind_psb(flow->packets))
        flow->psb_has_ip = false;
    if (ptd_packets_next(&flow->packets, &packet) != PTD_OK)
        return;
    flow->behind_psb = packet.offset + 1;
    ptd_flow_clear_bind(flow);
    flow->in_psb = true;
    flow->last_ip = 0;
    call_stack_clear(&flow->calls); /* 33.4.2.2: a PSB empties the CALL stack */
    item = ptd_flow_push(flow, PTD_ITEM_PSB, packet.offset);
    item->has_to = flow->psb_has_ip;
    item->to = flow->psb_has_ip ? flow->psb_ip : 0;
}

static void read_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    unread(flow, packet);
    if (!flow->tracing) {
        ptd_flow_enter_psb(flow);
        return;
    }
    switch (ptd_ahead_psb_ip(flow->packets, &ip)) {
    case AHEAD_FUP:
        flow->bind.kind = BIND_PSB;
        flow->bind.ip = ip;
        flow->bind.ready = true;
        flow->bind.offset = packet->offset;
        break;
    case AHEAD_NOTHING: /* it says that PacketEn is 0 */
        contradiction(flow, packet);
        break;
    case AHEAD_LOST:
        flow->tracing = false;
        ptd_flow_enter_psb(flow);
        break;
    }
}

static void end_psb(struct ptd_flow *flow)
{
    if (flow->in_first_psb)
        flow->first_psb_end = ptd_packets_offset(&flow->packets);
    flow->in_first_psb = false;
    flow->in_psb = flow->fresh = false;
    flow->tracing = flow->psb_has_ip;
    if (flow->tracing) {
        flow->ip = flow->psb_ip;
        ptd_flow_reset_loop(flow);
    }
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet);

/* Which state a PSB+ tells. */
static uint8_t tells(const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PIP:
        return FLOW_TELLS_CR3;
    case PTD_MODE_EXEC:
        return FLOW_TELLS_MODE;
    case PTD_MODE_TSX:
        return FLOW_TELLS_TSX;
    case PTD_VMCS:
        return FLOW_TELLS_VMCS;
    default:
        return 0;
    }
}

/* Status only (33.3.7): nothing binds, and what is known already is no news. */
static void read_in_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    if (flow->in_first_psb)
        flow->told |= tells(packet);
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSBEND:
        end_psb(flow);
        break;
    case PTD_OVF:
        flow->in_psb = flow->in_first_psb = false;
        read_overflow(flow, packet);
        break;
    case PTD_FUP:
        (void)ptd_packet_ip(packet, &flow->last_ip, &ip); /* psb_ip already */
        break;
    case PTD_PIP:
        if (flow->fresh || ptd_space_cr3(flow->cr3) != packet->pip.cr3 ||
            flow->nr != packet->pip.nr)
            ptd_flow_set_cr3(flow, packet->offset, packet->pip.cr3, packet->pip.nr);
        break;
    case PTD_VMCS:
        if (flow->fresh || flow->vmcs != packet->vmcs)
            ptd_flow_set_vmcs(flow, packet->offset, packet->vmcs);
        break;
    case PTD_MODE_EXEC:
        if (flow->fresh || flow->mode != exec_mode(packet))
            ptd_flow_set_mode(flow, packet->offset, exec_mode(packet));
        break;
    case PTD_MODE_TSX:
        if (flow->fresh || flow->tsx != tsx_state(packet))
            ptd_flow_set_tsx(flow, packet->offset, tsx_state(packet));
        break;
    case PTD_TSC:
        push_value(flow, PTD_ITEM_TSC, packet, packet->tsc);
        break;
    case PTD_CBR:
        push_value(flow, PTD_ITEM_CBR, packet, packet->cbr);
        break;
    case PTD_PAD:
        break;
    case PTD_MTC:
    case PTD_TMA:
    case PTD_CYC:
    case PTD_MNT:
    case PTD_PWRE:
    case PTD_PWRX:
        ptd_flow_push_packet(flow, packet, NULL);
        break;
    default:
        contradiction(flow, packet);
        break;
    }
}

/* ---- In the stream ---- */

/* Notes where a bind begins. */
static struct bind *open_bind(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!bind_is_open(&flow->bind))
        flow->bind.offset = packet->offset;
    return &flow->bind;
}

static void make_ready(struct bind *bind, enum bind_kind kind)
{
    bind->kind = (uint8_t)kind;
    bind->ready = true;
}

/* The event has no destination: INIT without SIPI yet, or packets that were lost. */
static void end_event_nowhere(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    flow->bind.end = END_NOWHERE;
    flow->bind.ready = true;
    unread(flow, packet);
}

/* Behind an OVF that no FUP followed (SKD010): what ran is not known until an IP is. */
static bool is_without_fup(const struct ptd_flow *flow)
{
    return flow->overflowed && !flow->tracing && flow_has(flow, PTD_SKD010);
}

static void read_tnt(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (is_without_fup(flow))
        return;
    if (!flow->tracing || flow->tnt_count > 0 || bind_is_open(&flow->bind)) {
        contradiction(flow, packet);
        return;
    }
    flow->tnt_bits = packet->tnt.bits;
    flow->tnt_count = packet->tnt.count;
    flow->overflowed = false;
}

static void read_tip(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if ((!flow->tracing && !is_without_fup(flow)) || bind->has_packet ||
        ptd_packet_ip(packet, &flow->last_ip, &bind->to) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    if (!flow->tracing) {
        ptd_flow_go_on_at(flow, bind->to);
        return;
    }
    bind->has_to = true;
    bind->end = END_TIP;
    flow->overflowed = false;
    make_ready(bind, bind_is_open_event(&flow->bind) ? BIND_ASYNC : BIND_TIP);
}

static void read_pgd(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if (flow->overflowed && !flow->tracing && flow_has(flow, PTD_APL11 | PTD_SKD010)) {
        (void)ptd_packet_ip(packet, &flow->last_ip, &bind->to);
        flow->overflowed = false;
        return;
    }
    if (!flow->tracing || flow->tnt_count > 0 || bind->has_packet) {
        contradiction(flow, packet);
        return;
    }
    bind->has_to = ptd_packet_ip(packet, &flow->last_ip, &bind->to) == PTD_OK;
    bind->end = END_PGD;
    flow->overflowed = false;
    make_ready(bind, bind_is_open_event(&flow->bind) ? BIND_ASYNC : BIND_PGD);
}

static void read_pge(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (bind_is_open_event(&flow->bind)) {
        end_event_nowhere(flow, packet);
        return;
    }
    /*
     * Broadwell (erratum BDM70) can send the PSB+ of an enabling late, as if PacketEn were 1
     * already: then the TIP.PGE has the IP of its FUP.
     */
    if (bind_is_open(&flow->bind) || ptd_packet_ip(packet, &flow->last_ip, &ip) != PTD_OK ||
        (flow->tracing && flow->ip != ip)) {
        contradiction(flow, packet);
        return;
    }
    flow->ip = ip;
    flow->tracing = true;
    flow->overflowed = false;
    call_stack_clear(&flow->calls); /* 33.4.2.2: no compression across PacketEn = 0 */
    ptd_flow_reset_loop(flow);
    item = ptd_flow_push(flow, PTD_ITEM_ENABLED, packet->offset);
    item->has_to = true;
    item->to = flow->ip;
}

/* A FUP that a packet before it announced. */
static void read_announced_fup(struct ptd_flow *flow)
{
    struct bind *const bind = &flow->bind;

    if (!flow->tracing) {
        ptd_flow_push_packet(flow, &bind->packet, &bind->ip);
        ptd_flow_clear_bind(flow);
        return;
    }
    bind->has_ip = true;
    make_ready(bind, bind->packet.type == PTD_PTW ? BIND_PTW : BIND_MARK);
}

static void read_fup(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);
    uint64_t ip;

    if (bind_is_open_event(&flow->bind) || ptd_packet_ip(packet, &flow->last_ip, &ip) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    bind->ip = ip;
    if (bind->has_packet) {
        read_announced_fup(flow);
        return;
    }
    if (flow->overflowed && (!flow->tracing || flow->ip == ip) && !bind_is_open(&flow->bind)) {
        if (flow_has(flow, PTD_APL12) && ptd_ahead_enabling(flow->packets))
            flow->overflowed = false;
        else
            ptd_flow_go_on_at(flow, ip);
        return;
    }
    if (!flow->tracing) {
        contradiction(flow, packet);
        return;
    }
    /* MODE.Exec and MODE.TSX take it, unless a transaction aborts (33.4.2.8). */
    if (bind->has_mode || (bind->has_tsx && !(bind->tsx & 2)))
        make_ready(bind, BIND_MARK);
    else
        bind->kind = BIND_ASYNC;
}

static void read_pip(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        ptd_flow_set_cr3(flow, packet->offset, packet->pip.cr3, packet->pip.nr);
        return;
    }

    const bool part = bind_is_open(&flow->bind);
    struct bind *const bind = open_bind(flow, packet);

    bind->has_cr3 = true;
    bind->cr3 = packet->pip.cr3;
    bind->nr = packet->pip.nr;
    if (!part)
        make_ready(bind, BIND_PIP);
}

static void read_vmcs(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        ptd_flow_set_vmcs(flow, packet->offset, packet->vmcs);
        return;
    }

    const bool part = bind_is_open(&flow->bind);
    struct bind *const bind = open_bind(flow, packet);

    bind->has_vmcs = true;
    bind->vmcs = packet->vmcs;
    if (!part)
        make_ready(bind, BIND_VMCS);
}

static void read_mode_exec(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        ptd_flow_set_mode(flow, packet->offset, exec_mode(packet));
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_mode = true;
    bind->mode = exec_mode(packet);
}

static void read_mode_tsx(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->tracing) {
        ptd_flow_set_tsx(flow, packet->offset, tsx_state(packet));
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_tsx = true;
    bind->tsx = tsx_state(packet);
}

/* A packet of its own; with_ip: a FUP that says where follows. */
static void read_other(struct ptd_flow *flow, const struct ptd_packet *packet, bool with_ip)
{
    if (flow->bind.has_packet) {
        contradiction(flow, packet);
        return;
    }
    if (!with_ip) {
        ptd_flow_push_packet(flow, packet, NULL);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->has_packet = true;
    bind->packet = *packet;
}

static void read_ptw(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (packet->ptw.ip || !flow->tracing) {
        read_other(flow, packet, packet->ptw.ip);
        return;
    }
    if (bind_is_open(&flow->bind)) {
        contradiction(flow, packet);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->packet = *packet;
    make_ready(bind, BIND_PTW);
}

static void read_tracestop(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    ptd_flow_push(flow, PTD_ITEM_STOP, packet->offset);
    ptd_flow_clear_bind(flow);
    flow->tracing = false;
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (bind_is_open_event(&flow->bind)) {
        end_event_nowhere(flow, packet);
        return;
    }
    if (flow->bind.has_packet)
        ptd_flow_push_packet(flow, &flow->bind.packet, NULL);
    ptd_flow_clear_bind(flow);
    flow->tracing = false;
    flow->overflowed = true;
    call_stack_clear(&flow->calls);
    item = ptd_flow_push(flow, PTD_ITEM_OVERFLOW, packet->offset);
    item->has_to = ptd_ahead_overflow_ip(flow->packets, flow->last_ip, &ip);
    item->to = item->has_to ? ip : 0;
}

static void read_in_stream(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TNT:
        read_tnt(flow, packet);
        break;
    case PTD_TIP:
        read_tip(flow, packet);
        break;
    case PTD_TIP_PGE:
        read_pge(flow, packet);
        break;
    case PTD_TIP_PGD:
        read_pgd(flow, packet);
        break;
    case PTD_FUP:
        read_fup(flow, packet);
        break;
    case PTD_PIP:
        read_pip(flow, packet);
        break;
    case PTD_VMCS:
        read_vmcs(flow, packet);
        break;
    case PTD_MODE_EXEC:
        read_mode_exec(flow, packet);
        break;
    case PTD_MODE_TSX:
        read_mode_tsx(flow, packet);
        break;
    case PTD_TRACESTOP:
        read_tracestop(flow, packet);
        break;
    case PTD_OVF:
        read_overflow(flow, packet);
        break;
    case PTD_PTW:
        read_ptw(flow, packet);
        break;
    case PTD_EXSTOP:
        read_other(flow, packet, packet->exstop_ip);
        break;
    case PTD_BEP:
        read_other(flow, packet, packet->bep_ip);
        break;
    case PTD_CFE:
        read_other(flow, packet, packet->cfe.ip);
        break;
    case PTD_EVD:
    case PTD_MWAIT:
    case PTD_PWRE:
    case PTD_PWRX:
    case PTD_BBP:
    case PTD_BIP:
        read_other(flow, packet, false);
        break;
    default: /* PSB, PSBEND and timing are dealt with before */
        contradiction(flow, packet);
        break;
    }
}

/* Timing packets may stand anywhere. */
static bool read_timing(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PAD:
        return true;
    case PTD_TSC:
        push_value(flow, PTD_ITEM_TSC, packet, packet->tsc);
        return true;
    case PTD_CBR:
        push_value(flow, PTD_ITEM_CBR, packet, packet->cbr);
        return true;
    case PTD_MTC:
    case PTD_TMA:
    case PTD_CYC:
    case PTD_MNT:
        ptd_flow_push_packet(flow, packet, NULL);
        return true;
    default:
        return false;
    }
}

static void read_end(struct ptd_flow *flow)
{
    if (bind_is_open_event(&flow->bind)) {
        flow->bind.end = END_NOWHERE;
        flow->bind.ready = true;
        return;
    }
    if (flow->bind.has_packet)
        ptd_flow_push_packet(flow, &flow->bind.packet, NULL);
    ptd_flow_clear_bind(flow);
    flow->ended = true;
}

void ptd_flow_read(struct ptd_flow *flow)
{
    struct ptd_packet packet;
    const int status = ptd_packets_next(&flow->packets, &packet);

    if (status == PTD_END) {
        read_end(flow);
        return;
    }
    if (status != PTD_OK) {
        ptd_flow_fail(flow, status, ptd_packets_offset(&flow->packets));
        return;
    }
    if (flow->in_psb) {
        read_in_psb(flow, &packet);
        return;
    }
    if (read_timing(flow, &packet))
        return;
    if (flow->deferred && packet.type != PTD_TIP) {
        contradiction(flow, &packet);
        return;
    }
    if (packet.type != PTD_PSB) {
        read_in_stream(flow, &packet);
        return;
    }
    /* Every compound event is complete before a PSB (33.3.7). */
    if (bind_is_open(&flow->bind))
        contradiction(flow, &packet);
    else
        read_psb(flow, &packet);
}
