/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A gap in the flow. Where code is missing, nobody knows which instructions TNT bits belong to. But
 * packets are read on as ever (read.c), and some say where the processor is: a TIP, the FUP of an
 * event or of a new mode, a PSB+ (SDM 33.4.1, 33.4.2.2, 33.4.2.6). There the walk goes on, with
 * CR3, VMCS, modes and LastIP as they are by then. The CALL stack is empty: a compressed RET to a
 * CALL in front of the gap begins the next one.
 *
 * It must not be done where TIPs are deferred: TNT bits behind the code that the TIP leads to would
 * stand in front of it (33.4.2.3).
 */
#include <string.h>

#include "flow/lost.h"
#include "pt_packets.h"

void ptd_lost_look(struct ptd_flow *flow)
{
    struct ptd_packets packets = flow->packets;
    struct flow_gap *const gap = &flow->state.gap;
    struct ptd_packet packet;

    if (!gap->in_doubt || ptd_packets_next(&packets, &packet) != PTD_OK)
        return;
    switch ((enum ptd_packet_type)packet.type) {
    case PTD_TIP:
    case PTD_TIP_PGE:
    case PTD_TIP_PGD:
    case PTD_FUP:
        if (packet.ip.ip_bytes == PT_IPB_SEXT48 || packet.ip.ip_bytes == PT_IPB_FULL)
            gap->in_doubt = false; /* LastIP is right again */
        break;
    default:
        return;
    }
    if (packet.type == PTD_FUP)
        gap->fup_in_doubt = gap->in_doubt;
}

/* A fact holds; it is told when the gap ends. */
static void note(struct ptd_flow *flow, const struct flow_fact *fact)
{
    ptd_state_set(&flow->state, flow->blocks.image, fact);
    flow->state.gap.told |= ptd_state_fact_bit(fact->type);
}

/* What was read does not end the gap, but for the facts that it holds. */
static void leave_out(struct ptd_flow *flow)
{
    const struct bind bind = flow->state.bind;

    ptd_flow_clear_bind(flow);
    if (bind.has_vmcs)
        note(flow, &(struct flow_fact){PTD_ITEM_VMCS, false, bind.vmcs});
    if (bind.has_cr3)
        note(flow, &(struct flow_fact){PTD_ITEM_CR3, bind.nr, bind.cr3});
    if (bind.has_mode)
        note(flow, &(struct flow_fact){PTD_ITEM_MODE, false, bind.mode});
    if (bind.has_tsx)
        note(flow, &(struct flow_fact){PTD_ITEM_TSX, false, bind.tsx});
}

static void tell_fact(struct ptd_flow *flow, uint64_t offset, enum ptd_item_type type,
                      uint64_t value)
{
    struct ptd_item *item;

    if (!(flow->state.gap.told & ptd_state_fact_bit((uint8_t)type)))
        return;
    item = ptd_flow_push(flow, type, offset);
    item->value = value;
    item->in_psb = false; /* even if a PSB+ ended the gap */
}

/* What changed in the gap, which ends at an offset. */
static void tell_facts(struct ptd_flow *flow, uint64_t offset)
{
    tell_fact(flow, offset, PTD_ITEM_VMCS, flow->state.vmcs);
    tell_fact(flow, offset, PTD_ITEM_CR3, ptd_space_cr3(flow->state.cr3));
    tell_fact(flow, offset, PTD_ITEM_MODE, flow->state.mode);
    tell_fact(flow, offset, PTD_ITEM_TSX, flow->state.tsx);
    flow->state.gap.told = 0;
}

/* The gap ends in front of the packets of the bind. */
static void end_gap(struct ptd_flow *flow)
{
    flow->state.gap.end = flow->state.bind.offset;
    tell_facts(flow, flow->state.gap.end);
}

/* The same, and the next instruction is at ip. */
static void go_on(struct ptd_flow *flow, uint64_t ip)
{
    end_gap(flow);
    flow->state.lost.has_to = true;
    flow->state.lost.to = ip;
    ptd_flow_go_on_at(flow, ip);
}

/* Whether a transfer led to an IP for certain. BDM64: what aborts a transaction may contradict it.
 */
static bool leads_to_ip(const struct ptd_flow *flow)
{
    const bool in_transaction = flow->state.tsx & 1;

    return !flow->state.gap.in_doubt && !(flow_has(flow, PTD_BDM64) && in_transaction);
}

static void take_tip(struct ptd_flow *flow)
{
    if (!leads_to_ip(flow)) {
        leave_out(flow);
        return;
    }
    go_on(flow, flow->state.bind.to);
    ptd_flow_settle(flow);
}

static void take_pgd(struct ptd_flow *flow)
{
    if (flow->state.gap.in_doubt) {
        leave_out(flow);
        return;
    }
    end_gap(flow);
    ptd_flow_leave(flow, flow->state.bind.has_to, flow->state.bind.to);
}

/* The walk stands in front of what the FUP names, and takes the event. */
static void take_event(struct ptd_flow *flow)
{
    if (!flow->state.gap.fup_in_doubt)
        go_on(flow, flow->state.bind.ip);
    else if (flow->state.bind.end == END_TIP)
        take_tip(flow);
    else
        leave_out(flow);
}

/* A new mode, in front of an instruction. Other packets may name one that has executed. */
static void take_mark(struct ptd_flow *flow)
{
    if (flow->state.bind.has_packet || flow->state.gap.fup_in_doubt) {
        leave_out(flow);
        return;
    }
    go_on(flow, flow->state.bind.ip);
    ptd_flow_settle(flow);
}

/* The walk stands where the PSB+ does. */
static void take_psb(struct ptd_flow *flow)
{
    end_gap(flow);
    ptd_flow_go_on_at(flow, flow->state.bind.ip);
}

void ptd_lost_take(struct ptd_flow *flow)
{
    switch ((enum bind_kind)flow->state.bind.kind) {
    case BIND_TIP:
        take_tip(flow);
        break;
    case BIND_PGD:
        take_pgd(flow);
        break;
    case BIND_ASYNC:
        take_event(flow);
        break;
    case BIND_MARK:
        take_mark(flow);
        break;
    case BIND_PSB:
        take_psb(flow);
        break;
    case BIND_NONE:
    case BIND_PIP:
    case BIND_VMCS:
    case BIND_PTW:
    case BIND_TRIG:
        leave_out(flow);
        break;
    }
}

/* Where the gap ends: something else than ptd_lost_take() may have ended it. */
static uint64_t end_of_gap(const struct ptd_flow *flow)
{
    if (flow->state.gap.end)
        return flow->state.gap.end;
    return flow->item_count > 0 ? flow->items[0].offset : ptd_packets_offset(&flow->packets);
}

/* The items from first on come in front of the others. */
static void put_in_front(struct ptd_flow *flow, unsigned first)
{
    const unsigned others = flow->item_count - 1;

    for (unsigned i = first; i < flow->item_count; i++) {
        const struct ptd_item last = flow->items[others];

        memmove(&flow->items[1], &flow->items[0], others * sizeof(flow->items[0]));
        flow->items[0] = last;
    }
}

/* In front of the items of the step that ended the gap: its error, and what it changed. */
static void tell_gap(struct ptd_flow *flow, uint64_t end)
{
    struct ptd_item *const lost = &flow->state.lost;
    const unsigned count = flow->item_count;

    if (end > lost->offset)
        lost->value = end - lost->offset;
    flow->items[flow->item_count++] = *lost;
    tell_facts(flow, end); /* unless the gap ended at an IP, in front of which they were told */
    put_in_front(flow, count);
}

void ptd_lost_tell(struct ptd_flow *flow)
{
    if (flow->state.phase == FLOW_LOST) {
        flow->state.tnt_count = 0;
        flow->item_count = 0;
        return;
    }
    if (!flow->state.gap.is_open)
        return; /* the search for a PSB goes on, or has told it */
    flow->state.gap.is_open = false;
    tell_gap(flow, end_of_gap(flow));
}
