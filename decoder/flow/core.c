/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both halves of the flow decoder do: items, changes of state, and going on after errors at
 * the next PSB.
 */
#include <string.h>

#include "code/image.h"
#include "flow/core.h"
#include "pt_packets.h"

/* ---- Items ---- */

struct ptd_item *ptd_flow_push(struct ptd_flow *flow, enum ptd_item_type type, uint64_t offset)
{
    struct ptd_item *const item = &flow->items[flow->item_count++];

    memset(item, 0, sizeof(*item));
    item->type = (uint8_t)type;
    item->offset = offset;
    item->cr3 = flow->cr3;
    item->nr = flow->nr;
    item->mode = flow->mode;
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

void ptd_flow_set_space(struct ptd_flow *flow, uint64_t cr3)
{
    flow->cr3 = ptd_image_space(flow->blocks.image, flow->nr, flow->vmcs, cr3);
}

void ptd_flow_set_cr3(struct ptd_flow *flow, uint64_t offset, uint64_t cr3, bool nr)
{
    flow->nr = nr;
    ptd_flow_set_space(flow, cr3);
    ptd_flow_push(flow, PTD_ITEM_CR3, offset)->value = cr3;
}

void ptd_flow_set_vmcs(struct ptd_flow *flow, uint64_t offset, uint64_t vmcs)
{
    flow->vmcs = vmcs;
    if (flow->nr)
        ptd_flow_set_space(flow, ptd_space_cr3(flow->cr3));
    ptd_flow_push(flow, PTD_ITEM_VMCS, offset)->value = vmcs;
}

void ptd_flow_set_mode(struct ptd_flow *flow, uint64_t offset, uint8_t mode)
{
    flow->mode = mode;
    ptd_flow_push(flow, PTD_ITEM_MODE, offset)->value = mode;
}

void ptd_flow_set_tsx(struct ptd_flow *flow, uint64_t offset, uint8_t tsx)
{
    flow->tsx = tsx;
    ptd_flow_push(flow, PTD_ITEM_TSX, offset)->value = tsx;
}

void ptd_flow_clear_bind(struct ptd_flow *flow)
{
    memset(&flow->bind, 0, sizeof(flow->bind));
}

void ptd_flow_settle(struct ptd_flow *flow)
{
    const struct bind bind = flow->bind;

    ptd_flow_clear_bind(flow);
    flow->deferred = false;
    if (bind.has_vmcs)
        ptd_flow_set_vmcs(flow, bind.offset, bind.vmcs);
    if (bind.has_cr3)
        ptd_flow_set_cr3(flow, bind.offset, bind.cr3, bind.nr);
    if (bind.has_mode)
        ptd_flow_set_mode(flow, bind.offset, bind.mode);
    if (bind.has_tsx)
        ptd_flow_set_tsx(flow, bind.offset, bind.tsx);
}

void ptd_flow_go_on_at(struct ptd_flow *flow, uint64_t ip)
{
    flow->overflowed = false;
    flow->tracing = true;
    flow->ip = ip;
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

    return before > flow->behind_psb ? before : flow->behind_psb;
}

void ptd_flow_search(struct ptd_flow *flow)
{
    struct ptd_packets *const packets = &flow->packets;
    struct ptd_item *const lost = &flow->lost;

    if (flow->more && !ptd_packets_sync_part(packets)) {
        flow->starved = true;
        return;
    }
    flow->searching = false;

    const bool found = ptd_packets_sync(packets) == PTD_OK; /* else it stands at the end */

    if (ptd_packets_offset(packets) > lost->offset)
        lost->value = ptd_packets_offset(packets) - lost->offset;
    if (lost->error != PTD_E_NOSYNC || (!found && lost->value > 0))
        flow->items[flow->item_count++] = *lost;
}

void ptd_flow_begin_search(struct ptd_flow *flow, int error, uint64_t offset)
{
    flow->lost = *ptd_flow_push(flow, PTD_ITEM_ERROR, offset);
    flow->lost.error = error;
    flow->item_count--;
    flow->searching = true;
    ptd_flow_search(flow);
}

void ptd_flow_fail(struct ptd_flow *flow, int error, uint64_t offset)
{
    uint64_t from = where_to_look(flow, offset);

    ptd_flow_clear_bind(flow);
    flow->tracing = flow->deferred = flow->in_psb = flow->overflowed = false;
    flow->tnt_count = 0;
    call_stack_clear(&flow->calls);
    flow->fresh = true;
    flow->in_first_psb = false;
    if (from < flow->packets.base)
        from = flow->packets.base;
    (void)ptd_packets_seek(&flow->packets, from);
    ptd_flow_begin_search(flow, error, offset);
}
