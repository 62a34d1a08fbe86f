/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an item of the flow took place: the TSC packet before it, or the instructions before it.
 */
#include "out.h"

/* The next packet; whatever is none is skipped up to the next PSB. False: the end. */
static bool next(struct clock *clock, struct ptd_packet *packet)
{
    int error;

    while ((error = ptd_packets_next(&clock->packets, packet)) != PTD_OK) {
        if (error == PTD_END ||
            ptd_packets_seek(&clock->packets, ptd_packets_offset(&clock->packets) + 1) != PTD_OK ||
            ptd_packets_sync(&clock->packets) != PTD_OK)
            return false;
    }
    return true;
}

void clock_init(struct clock *clock, const uint8_t *bytes, size_t len, bool insns_only)
{
    struct ptd_packets start;
    struct ptd_packet packet;
    bool any = false;

    *clock = (struct clock){0};
    ptd_packets_init(&clock->packets, bytes, len);
    if (insns_only || ptd_packets_sync(&clock->packets) != PTD_OK)
        return;
    start = clock->packets;
    while (!clock->is_tsc && next(clock, &packet)) {
        if (packet.type != PTD_TSC)
            continue;
        if (any)
            clock->is_tsc = packet.tsc > clock->tsc;
        else
            clock->tsc = packet.tsc;
        any = true;
    }
    clock->packets = start;
}

uint64_t clock_start(const struct clock *clock)
{
    return clock->is_tsc ? clock->tsc : 0;
}

uint64_t clock_at(struct clock *clock, const struct ptd_item *item)
{
    struct ptd_packet packet;

    if (item->type == PTD_ITEM_BLOCK)
        clock->insns += item->insns;
    if (!clock->is_tsc)
        return clock->insns;
    while (ptd_packets_offset(&clock->packets) < item->offset && next(clock, &packet)) {
        if (packet.type == PTD_TSC && packet.tsc > clock->tsc)
            clock->tsc = packet.tsc;
    }
    return clock->tsc;
}
