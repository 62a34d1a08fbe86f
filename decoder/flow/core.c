/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both halves of the flow decoder do: items, changes of state, and errors, after which the
 * next PSB is looked for here, or the next IP by lost.c.
 */
#include <string.h>

#include "flow/core.h"
#include "pt_packets.h"

/* ---- Items ---- */

struct ptd_item *ptd_flow_push(struct ptd_flow *flow, enum ptd_item_type type, uint64_t offset)
{
    struct ptd_item *const item = &flow->items[flow->item_count++];

    memset(item, 0, sizeof(*item));
    item->type = (uint8_t)type;
    item->offset = offset;
    item->cr3 = flow->state.cr3;
    item->nr = flow->state.nr;
    item->mode = flow->state.mode;
    item->in_psb = flow->state.phase == FLOW_IN_PSB;
    return item;
}

void ptd_flow_push_packet(struct ptd_flow *flow, const struct ptd_packet *packet,
                          const uint64_t *ip)
{
    const bool ptw = packet->type == PTD_PTW;
    struct ptd_item *const item =
        ptd_flow_push(flow, ptw ? PTD_ITEM_PTWRITE : PTD_ITEM_PACKET, packet->offset);

    item->packet = *packet;
    if (ptw)
        item->value = packet->ptw.payload;
    if (ip) {
        item->has_from = true;
        item->from = *ip;
    }
}

/* ---- State ---- */

void ptd_flow_change(struct ptd_flow *flow, uint64_t offset, const struct flow_fact *fact)
{
    ptd_state_set(&flow->state, flow->blocks.image, fact);
    ptd_flow_push(flow, (enum ptd_item_type)fact->type, offset)->value = fact->value;
}

static void change_to(struct ptd_flow *flow, uint64_t offset, enum ptd_item_type type,
                      uint64_t value)
{
    ptd_flow_change(flow, offset, &(struct flow_fact){.type = (uint8_t)type, .value = value});
}

void ptd_flow_clear_bind(struct ptd_flow *flow)
{
    memset(&flow->state.bind, 0, sizeof(flow->state.bind));
}

void ptd_flow_settle(struct ptd_flow *flow)
{
    const struct bind bind = flow->state.bind;

    ptd_flow_clear_bind(flow);
    if (flow->state.phase == FLOW_DEFERRED)
        flow->state.phase = FLOW_TRACING;
    if (bind.has_vmcs)
        change_to(flow, bind.offset, PTD_ITEM_VMCS, bind.vmcs);
    if (bind.has_cr3)
        ptd_flow_change(flow, bind.offset, &(struct flow_fact){PTD_ITEM_CR3, bind.nr, bind.cr3});
    if (bind.has_mode)
        change_to(flow, bind.offset, PTD_ITEM_MODE, bind.mode);
    if (bind.has_tsx)
        change_to(flow, bind.offset, PTD_ITEM_TSX, bind.tsx);
}

void ptd_flow_leave(struct ptd_flow *flow, bool has_to, uint64_t to)
{
    struct ptd_item *const item = ptd_flow_push(flow, PTD_ITEM_DISABLED, flow->state.bind.offset);

    item->has_to = has_to;
    item->to = has_to ? to : 0;
    if (flow->state.bind.kind == BIND_ASYNC) {
        item->has_from = true;
        item->from = flow->state.bind.ip;
    }
    flow_disable(&flow->state);
    ptd_flow_settle(flow);
}

void ptd_flow_go_on_at(struct ptd_flow *flow, uint64_t ip)
{
    flow->state.phase = FLOW_TRACING;
    flow->state.ip = ip;
    flow_know_ip(&flow->state);
    ptd_flow_reset_loop(flow);
}

/* ---- Errors ---- */

/*
 * Damage may have made a packet out of bytes of which some begin the next PSB: it is looked for
 * from a little before the error on, but not so far that a PSB comes twice.
 */
static uint64_t where_to_look(const struct ptd_flow *flow, uint64_t offset)
{
    const uint64_t before = offset < PT_PSB_LEN ? 0 : offset - (PT_PSB_LEN - 1);

    return before > flow->state.behind_psb ? before : flow->state.behind_psb;
}

void ptd_flow_search(struct ptd_flow *flow)
{
    struct ptd_packets *const packets = &flow->packets;
    struct ptd_item *const lost = &flow->state.lost;

    if (flow->window != WINDOW_LAST && !ptd_packets_sync_part(packets)) {
        flow->window = WINDOW_STARVED;
        return;
    }
    flow->state.phase = FLOW_DISABLED;

    const bool found = ptd_packets_sync(packets) == PTD_OK; /* else it stands at the end */

    if (ptd_packets_offset(packets) > lost->offset)
        lost->value = ptd_packets_offset(packets) - lost->offset;
    if (lost->error != PTD_E_NOSYNC || (!found && lost->value > 0))
        flow->items[flow->item_count++] = *lost;
}

/* What is lost from here on is told once it is known how much that is. */
static void begin_loss(struct ptd_flow *flow, int error, uint64_t offset)
{
    flow->state.lost = *ptd_flow_push(flow, PTD_ITEM_ERROR, offset);
    flow->state.lost.error = error;
    flow->state.lost.in_psb = false;
    flow->item_count--;
}

/* It is told already since when, and why. */
static void search(struct ptd_flow *flow)
{
    flow->state.gap.is_open = false;
    flow->state.phase = FLOW_SEARCHING;
    ptd_flow_search(flow);
}

void ptd_flow_begin_search(struct ptd_flow *flow, int error, uint64_t offset)
{
    begin_loss(flow, error, offset);
    search(flow);
}

/* Nothing of the flow is known any more, up to the next PSB at or behind offset. */
static void forget(struct ptd_flow *flow, uint64_t offset)
{
    uint64_t from = where_to_look(flow, offset);

    ptd_flow_clear_bind(flow);
    flow->state.tnt_count = 0;
    call_stack_clear(&flow->calls);
    ptd_state_forget(&flow->state, flow->blocks.image);
    flow->first_psb.is_open = false;
    if (from < flow->packets.base)
        from = flow->packets.base;
    (void)ptd_packets_seek(&flow->packets, from);
}

void ptd_flow_fail(struct ptd_flow *flow, int error, uint64_t offset)
{
    const struct bind *const bind = &flow->state.bind;

    if (flow->state.phase != FLOW_LOST) {
        if (bind->has_packet) /* its FUP does not come */
            ptd_flow_push_packet(flow, &bind->packet, NULL);
        begin_loss(flow, error, offset);
    }
    forget(flow, offset);
    search(flow);
}

/* Whether the packets may be wrong, and not the code: damage can lead the walk astray. */
static bool is_in_doubt(int error)
{
    return error != PTD_E_NOMAP && error != PTD_E_RETSTACK;
}

void ptd_flow_lose(struct ptd_flow *flow, int error, uint64_t ip)
{
    struct flow_state *const state = &flow->state;
    const uint64_t offset =
        state->bind.ready ? state->bind.offset : ptd_packets_offset(&flow->packets);

    begin_loss(flow, error, offset);
    state->lost.has_from = true;
    state->lost.from = ip;
    if (flow->config.resync != PTD_RESYNC_IP || state->phase != FLOW_TRACING ||
        error == PTD_E_NOMEM) {
        forget(flow, offset);
        search(flow);
        return;
    }
    state->phase = FLOW_LOST;
    state->gap = (struct flow_gap){
        .is_open = true, .in_doubt = is_in_doubt(error), .fup_in_doubt = is_in_doubt(error)};
    state->tnt_count = 0; /* they belong to the code that is missing */
    state->at_mov_cr3 = false;
    call_stack_clear(&flow->calls); /* who knows what is called and returned from until then */
}
