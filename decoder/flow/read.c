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
    bool has_ip;

    if (ptd_packets_offset(&flow->packets) >= flow->stop) {
        flow_end(&flow->state);
        return;
    }
    has_ip = ptd_ahead_psb_ip(flow->packets, &flow->state.psb_ip) == AHEAD_FUP;
    /* The TIP.PGE says that PacketEn is 0, whatever was thought: a TIP.PGD may have been lost. */
    if (has_ip && flow_has(flow, PTD_BDM70) && ptd_ahead_enabling_behind_psb(flow->packets))
        has_ip = false;
    if (ptd_packets_next(&flow->packets, &packet) != PTD_OK)
        return;
    flow->state.behind_psb = packet.offset + 1;
    ptd_flow_clear_bind(flow);
    flow_enter_psb(&flow->state, has_ip);
    flow->state.last_ip = 0;
    call_stack_clear(&flow->calls); /* 33.4.2.2: a PSB empties the CALL stack */
    item = ptd_flow_push(flow, PTD_ITEM_PSB, packet.offset);
    item->has_to = has_ip;
    item->to = has_ip ? flow->state.psb_ip : 0;
}

static void read_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    unread(flow, packet);
    if (!flow_is_tracing(&flow->state)) {
        ptd_flow_enter_psb(flow);
        return;
    }
    switch (ptd_ahead_psb_ip(flow->packets, &ip)) {
    case AHEAD_FUP:
        flow->state.bind.kind = BIND_PSB;
        flow->state.bind.ip = ip;
        flow->state.bind.ready = true;
        flow->state.bind.offset = packet->offset;
        break;
    case AHEAD_NOTHING: /* it says that PacketEn is 0 */
        contradiction(flow, packet);
        break;
    case AHEAD_LOST:
        flow_disable(&flow->state);
        ptd_flow_enter_psb(flow);
        break;
    }
}

static void end_psb(struct ptd_flow *flow)
{
    struct flow_state *const state = &flow->state;

    if (flow->first_psb.is_open)
        flow->first_psb.end = ptd_packets_offset(&flow->packets);
    flow->first_psb.is_open = false;
    state->fresh = false;
    state->phase = state->other;
    if (flow_is_tracing(state)) {
        state->ip = state->psb_ip;
        flow_know_ip(state);
        ptd_flow_reset_loop(flow);
    }
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet);

/* A fact of PSB+. Only news are told, but the first PSB+ notes all. */
static void read_psb_fact(struct ptd_flow *flow, uint64_t offset, const struct flow_fact *fact)
{
    if (flow->first_psb.is_open)
        flow->first_psb.told |= ptd_state_fact_bit(fact->type);
    if (ptd_state_learn(&flow->state, flow->blocks.image, fact))
        ptd_flow_push(flow, (enum ptd_item_type)fact->type, offset)->value = fact->value;
}

/* Status only (33.3.7): nothing binds. */
static void read_in_psb(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct flow_fact fact;
    uint64_t ip;

    if (ptd_state_fact(packet, &fact)) {
        read_psb_fact(flow, packet->offset, &fact);
        return;
    }
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_PSBEND:
        end_psb(flow);
        break;
    case PTD_OVF:
        flow->first_psb.is_open = false;
        read_overflow(flow, packet);
        break;
    case PTD_FUP:
        (void)ptd_packet_ip(packet, &flow->state.last_ip, &ip); /* psb_ip already */
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
    if (!bind_is_open(&flow->state.bind))
        flow->state.bind.offset = packet->offset;
    return &flow->state.bind;
}

static void make_ready(struct bind *bind, enum bind_kind kind)
{
    bind->kind = (uint8_t)kind;
    bind->ready = true;
}

/* The event has no destination: INIT without SIPI yet, or packets that were lost. */
static void end_event_nowhere(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    flow->state.bind.end = END_NOWHERE;
    flow->state.bind.ready = true;
    unread(flow, packet);
}

/* Behind an OVF that no FUP followed (SKD010): what ran is not known until an IP is. */
static bool is_without_fup(const struct ptd_flow *flow)
{
    return flow->state.phase == FLOW_OVERFLOWED && flow_has(flow, PTD_SKD010);
}

static void read_tnt(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (is_without_fup(flow))
        return;
    if (!flow_is_tracing(&flow->state) || flow->state.tnt_count > 0 ||
        bind_is_open(&flow->state.bind)) {
        contradiction(flow, packet);
        return;
    }
    flow->state.tnt_bits = packet->tnt.bits;
    flow->state.tnt_count = packet->tnt.count;
    flow_end_overflow(&flow->state);
}

static void read_tip(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if ((!flow_is_tracing(&flow->state) && !is_without_fup(flow)) || bind_wants_fup(bind) ||
        ptd_packet_ip(packet, &flow->state.last_ip, &bind->to) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    if (!flow_is_tracing(&flow->state)) {
        ptd_flow_go_on_at(flow, bind->to);
        return;
    }
    bind->has_to = true;
    bind->end = END_TIP;
    flow_end_overflow(&flow->state);
    make_ready(bind, bind_is_open_event(&flow->state.bind) ? BIND_ASYNC : BIND_TIP);
}

static void read_pgd(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);

    if (flow->state.phase == FLOW_OVERFLOWED && flow_has(flow, PTD_APL11 | PTD_SKD010)) {
        (void)ptd_packet_ip(packet, &flow->state.last_ip, &bind->to);
        flow_end_overflow(&flow->state);
        return;
    }
    if (!flow_is_tracing(&flow->state) || flow->state.tnt_count > 0 || bind_wants_fup(bind)) {
        contradiction(flow, packet);
        return;
    }
    bind->has_to = ptd_packet_ip(packet, &flow->state.last_ip, &bind->to) == PTD_OK;
    bind->end = END_PGD;
    flow_end_overflow(&flow->state);
    make_ready(bind, bind_is_open_event(&flow->state.bind) ? BIND_ASYNC : BIND_PGD);
}

static void read_pge(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (bind_is_open_event(&flow->state.bind)) {
        end_event_nowhere(flow, packet);
        return;
    }
    /*
     * Broadwell (erratum BDM70) can send the PSB+ of an enabling late, as if PacketEn were 1
     * already: then the TIP.PGE has the IP of its FUP.
     */
    if (bind_is_open(&flow->state.bind) ||
        ptd_packet_ip(packet, &flow->state.last_ip, &ip) != PTD_OK ||
        (flow_is_tracing(&flow->state) && flow->state.ip != ip)) {
        contradiction(flow, packet);
        return;
    }
    flow->state.ip = ip;
    flow->state.phase = FLOW_TRACING;
    flow_know_ip(&flow->state);
    call_stack_clear(&flow->calls); /* 33.4.2.2: no compression across PacketEn = 0 */
    ptd_flow_reset_loop(flow);
    item = ptd_flow_push(flow, PTD_ITEM_ENABLED, packet->offset);
    item->has_to = true;
    item->to = flow->state.ip;
}

/* A FUP that a packet before it announced. */
static void read_announced_fup(struct ptd_flow *flow)
{
    struct bind *const bind = &flow->state.bind;
    const bool counts = bind->packet.type == PTD_TRIG && bind->packet.trig.icnt > 0;

    if (!flow_is_tracing(&flow->state)) {
        ptd_flow_push_packet(flow, &bind->packet, counts ? NULL : &bind->ip);
        ptd_flow_clear_bind(flow);
        return;
    }
    bind->has_ip = true;
    make_ready(bind, bind->packet.type == PTD_PTW ? BIND_PTW : BIND_MARK);
}

/*
 * While PacketEn is 0, a MODE.Exec holds at once. Event Trace sends one for a CLI, STI or POPF, and
 * the FUP behind it names that instruction (Table 33-59 case 22). Behind one that a transfer sends
 * there may be no FUP: then BranchEn is 0, or a TIP.PGE follows.
 */
static bool read_fup_of_mode(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    uint64_t ip;

    if (!flow->state.behind_mode)
        return false;
    flow->state.behind_mode = false;
    if (packet->type != PTD_FUP || ptd_packet_ip(packet, &flow->state.last_ip, &ip) != PTD_OK)
        return false;
    ptd_flow_push_packet(flow, packet, &ip);
    return true;
}

static void read_fup(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct bind *const bind = open_bind(flow, packet);
    uint64_t ip;

    if (bind_is_open_event(&flow->state.bind) ||
        ptd_packet_ip(packet, &flow->state.last_ip, &ip) != PTD_OK) {
        contradiction(flow, packet);
        return;
    }
    bind->ip = ip;
    if (bind->has_packet) {
        read_announced_fup(flow);
        return;
    }
    if (flow_is_overflowed(&flow->state) &&
        (!flow_is_tracing(&flow->state) || flow->state.ip == ip) && !bind_is_open(bind)) {
        if (flow_has(flow, PTD_APL12) && ptd_ahead_enabling(flow->packets))
            flow_end_overflow(&flow->state);
        else
            ptd_flow_go_on_at(flow, ip);
        return;
    }
    if (!flow_is_tracing(&flow->state) || bind->has_cr3 || bind->has_vmcs) {
        /* A transfer that changes these has its FUP in front of them. */
        contradiction(flow, packet);
        return;
    }
    /* MODE.Exec and MODE.TSX take it, unless a transaction aborts (33.4.2.8). */
    if (bind->has_mode || (bind->has_tsx && !(bind->tsx & 2)))
        make_ready(bind, BIND_MARK);
    else
        bind->kind = BIND_ASYNC;
}

/* While tracing, a fact holds from the instruction on that it binds to. */
static void bind_fact(struct ptd_flow *flow, const struct ptd_packet *packet,
                      const struct flow_fact *fact)
{
    const bool part = bind_is_open(&flow->state.bind);
    struct bind *const bind = open_bind(flow, packet);

    switch (fact->type) {
    case PTD_ITEM_CR3:
        bind->has_cr3 = true;
        bind->cr3 = fact->value;
        bind->nr = fact->nr;
        if (!part)
            make_ready(bind, BIND_PIP);
        break;
    case PTD_ITEM_VMCS:
        bind->has_vmcs = true;
        bind->vmcs = fact->value;
        if (!part)
            make_ready(bind, BIND_VMCS);
        break;
    case PTD_ITEM_MODE:
        bind->has_mode = true;
        bind->mode = (uint8_t)fact->value;
        break;
    default:
        bind->has_tsx = true;
        bind->tsx = (uint8_t)fact->value;
        break;
    }
}

static void read_fact(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct flow_fact fact;

    if (!ptd_state_fact(packet, &fact))
        return;
    if (bind_wants_fup(&flow->state.bind)) {
        contradiction(flow, packet);
        return;
    }
    if (flow_is_tracing(&flow->state)) {
        bind_fact(flow, packet, &fact);
        return;
    }
    ptd_flow_change(flow, packet->offset, &fact);
    flow->state.behind_mode = packet->type == PTD_MODE_EXEC;
}

/* A packet of its own; with_ip: a FUP that says where follows. */
static void read_other(struct ptd_flow *flow, const struct ptd_packet *packet, bool with_ip)
{
    if (bind_wants_fup(&flow->state.bind) ||
        (with_ip && bind_is_open_besides_vmcs(&flow->state.bind))) {
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
    if (packet->ptw.ip || !flow_is_tracing(&flow->state)) {
        read_other(flow, packet, packet->ptw.ip);
        return;
    }
    if (bind_is_open(&flow->state.bind)) {
        contradiction(flow, packet);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->packet = *packet;
    make_ready(bind, BIND_PTW);
}

/* Where what it counts from is not known, or the walk has passed it, nothing says where it is. */
static void read_trig(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (packet->trig.ip || !packet->trig.has_icnt || !flow_is_tracing(&flow->state) ||
        packet->trig.icnt < flow->state.walked) {
        read_other(flow, packet, packet->trig.ip);
        return;
    }
    if (bind_is_open(&flow->state.bind)) {
        contradiction(flow, packet);
        return;
    }

    struct bind *const bind = open_bind(flow, packet);

    bind->packet = *packet;
    flow_end_overflow(&flow->state);
    make_ready(bind, BIND_TRIG);
}

static void read_tracestop(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (bind_is_open_event(&flow->state.bind)) {
        end_event_nowhere(flow, packet); /* its TIP.PGD was lost */
        return;
    }
    if (bind_is_open(&flow->state.bind)) {
        contradiction(flow, packet);
        return;
    }
    ptd_flow_push(flow, PTD_ITEM_STOP, packet->offset);
    ptd_flow_clear_bind(flow);
    flow_disable(&flow->state);
}

static void read_overflow(struct ptd_flow *flow, const struct ptd_packet *packet)
{
    struct ptd_item *item;
    uint64_t ip;

    if (bind_is_open_event(&flow->state.bind)) {
        end_event_nowhere(flow, packet);
        return;
    }
    if (flow->state.bind.has_packet)
        ptd_flow_push_packet(flow, &flow->state.bind.packet, NULL);
    ptd_flow_clear_bind(flow);
    flow->state.phase = FLOW_OVERFLOWED;
    call_stack_clear(&flow->calls);
    item = ptd_flow_push(flow, PTD_ITEM_OVERFLOW, packet->offset);
    item->has_to = ptd_ahead_overflow_ip(flow->packets, flow->state.last_ip, &ip);
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
    case PTD_VMCS:
    case PTD_MODE_EXEC:
    case PTD_MODE_TSX:
        read_fact(flow, packet);
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
    case PTD_TRIG:
        read_trig(flow, packet);
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

/* Inside of a packet block, where it must not be (Table 33-15). What ends a block is not. */
static bool breaks_block(const struct ptd_flow *flow, const struct ptd_packet *packet)
{
    if (!flow->packets.bip_bytes)
        return false;
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TNT:
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_MODE_EXEC:
    case PTD_MODE_TSX:
    case PTD_PIP:
    case PTD_VMCS:
    case PTD_TRACESTOP:
    case PTD_PTW:
    case PTD_MWAIT:
        return true;
    default:
        return false;
    }
}

static void read_end(struct ptd_flow *flow)
{
    if (bind_is_open_event(&flow->state.bind)) {
        flow->state.bind.end = END_NOWHERE;
        flow->state.bind.ready = true;
        return;
    }
    if (flow->state.bind.has_packet)
        ptd_flow_push_packet(flow, &flow->state.bind.packet, NULL);
    ptd_flow_clear_bind(flow);
    flow_end(&flow->state);
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
    if (flow->state.phase == FLOW_IN_PSB) {
        read_in_psb(flow, &packet);
        return;
    }
    if (read_timing(flow, &packet) || read_fup_of_mode(flow, &packet))
        return;
    if ((flow->state.phase == FLOW_DEFERRED && packet.type != PTD_TIP) ||
        breaks_block(flow, &packet)) {
        contradiction(flow, &packet);
        return;
    }
    if (packet.type != PTD_PSB) {
        read_in_stream(flow, &packet);
        return;
    }
    /* Every compound event is complete before a PSB (33.3.7). */
    if (bind_is_open(&flow->state.bind))
        contradiction(flow, &packet);
    else
        read_psb(flow, &packet);
}
