/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both halves of the RTIT flow decoder do: items, changes of state, and going on after errors.
 *
 * A PSB comes alone: it tells no address. Decoding from one begins with the first packet that has
 * an address of the flow, and TNT bits before that are lost.
 */
#include <string.h>

#include "rtit/state.h"

/* ---- Items ---- */

struct ptd_item *ptd_rtit_push(struct ptd_rtit_flow *flow, enum ptd_item_type type, uint64_t offset)
{
    struct ptd_item *const item = &flow->items[flow->item_count++];

    memset(item, 0, sizeof(*item));
    item->type = (uint8_t)type;
    item->offset = offset;
    item->cr3 = flow->cr3;
    item->cycles = flow->time.cycles;
    item->mode = (uint8_t)flow->config.mode;
    return item;
}

struct ptd_item *ptd_rtit_push_packet(struct ptd_rtit_flow *flow,
                                      const struct ptd_rtit_packet *packet)
{
    struct ptd_rtit_packet *const told = &flow->packets_told[flow->item_count];
    struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_PACKET, packet->offset);

    *told = *packet;
    item->rtit = told;
    return item;
}

void ptd_rtit_set_paging(struct ptd_rtit_flow *flow, uint64_t offset, uint64_t cr3, bool paging)
{
    flow->cr3 = cr3;
    flow->paging = paging;
    ptd_rtit_push(flow, PTD_ITEM_CR3, offset)->value = cr3;
}

/* ---- State ---- */

bool ptd_rtit_in_ranges(const struct ptd_rtit_range *ranges, unsigned count, uint64_t ip)
{
    for (unsigned i = 0; i < count; i++) {
        if (ip - ranges[i].base < ranges[i].limit - ranges[i].base)
            return true;
    }
    return false;
}

bool ptd_rtit_filter_allows(const struct ptd_rtit_flow *flow, uint64_t ip)
{
    return flow->config.filters == 0 ||
           ptd_rtit_in_ranges(flow->config.filter, flow->config.filters, ip);
}

void ptd_rtit_arrive(struct ptd_rtit_flow *flow, uint64_t ip)
{
    flow->state = RTIT_TRACING;
    flow->ip = ip;
    flow->jumped = true;
    loop_reset(&flow->loop, ip);
}

void ptd_rtit_forget(struct ptd_rtit_flow *flow)
{
    memset(&flow->bind, 0, sizeof(flow->bind));
    flow->tnt_count = 0;
    flow->outside = flow->overflowed = false;
}

/* ---- Errors ---- */

/* Where the shadow of the last PSB ends, or the next PSB begins. False: there is no shadow. */
static bool end_of_shadow(const struct ptd_rtit_flow *flow, uint64_t *offset)
{
    struct ptd_rtit_packets packets = flow->packets;
    struct ptd_rtit_packet packet;

    if (flow->since_psb > RTIT_PSB_SHADOW)
        return false;
    for (unsigned i = flow->since_psb; i < RTIT_PSB_SHADOW; i++) {
        if (ptd_rtit_packets_next(&packets, &packet) != PTD_OK)
            return false;
        if (packet.type == PTD_RTIT_PSB) {
            *offset = packet.offset;
            return true;
        }
    }
    *offset = ptd_rtit_packets_offset(&packets);
    return true;
}

/* The next PSB, or the end. */
static uint64_t next_psb(const struct ptd_rtit_flow *flow)
{
    struct ptd_rtit_packets packets = flow->packets;

    (void)ptd_rtit_packets_sync(&packets);
    return ptd_rtit_packets_offset(&packets);
}

/* PIP, MTC and STS still count: a PSB does not repeat what they say. */
void ptd_rtit_fail(struct ptd_rtit_flow *flow, int error, uint64_t offset)
{
    struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_ERROR, offset);

    ptd_rtit_forget(flow);
    flow->state = RTIT_LOST;
    flow->has_call = false;
    flow->last_lip.known = 0;
    if (!end_of_shadow(flow, &flow->trusted_from))
        flow->trusted_from = next_psb(flow);
    item->error = error;
    item->value = flow->trusted_from - offset;
}
