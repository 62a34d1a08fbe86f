/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of a trace: its PSBs, and what their PSB+ say (SDM 33.3.7). PSBs are found as memmem()
 * finds them, faster than any disk is read, so an index is made anew instead of kept.
 */
#include <stdlib.h>

#include "base/array.h"
#include "ptdec.h"

struct index {
    struct ptd_sync_point *points;
    size_t count, room;
};

static void note(struct ptd_sync_point *point, const struct ptd_packet *packet)
{
    uint64_t last_ip = 0;

    switch ((enum ptd_packet_type)packet->type) {
    case PTD_TSC:
        point->has_tsc = true;
        point->tsc = packet->tsc;
        break;
    case PTD_PIP:
        point->has_cr3 = true;
        point->cr3 = packet->pip.cr3;
        point->nr = packet->pip.nr;
        break;
    case PTD_VMCS:
        point->has_vmcs = true;
        point->vmcs = packet->vmcs;
        break;
    case PTD_MODE_EXEC:
        point->has_mode = true;
        point->mode = packet->mode_exec.csl   ? PTD_MODE_64
                      : packet->mode_exec.csd ? PTD_MODE_32
                                              : PTD_MODE_16;
        break;
    case PTD_FUP:
        point->has_ip = ptd_packet_ip(packet, &last_ip, &point->ip) == PTD_OK;
        break;
    default:
        break;
    }
}

/* The PSB+ at the iterator. */
static void read_point(struct ptd_packets *packets, struct ptd_sync_point *point)
{
    struct ptd_packet packet;

    *point = (struct ptd_sync_point){.offset = ptd_packets_offset(packets)};
    if (ptd_packets_next(packets, &packet) != PTD_OK)
        return;
    for (;;) {
        const uint64_t offset = ptd_packets_offset(packets);

        if (ptd_packets_next(packets, &packet) != PTD_OK)
            return;
        if (packet.type == PTD_PSBEND)
            point->is_complete = true;
        if (packet.type == PTD_PSB) /* it is the next one */
            (void)ptd_packets_seek(packets, offset);
        if (packet.type == PTD_PSBEND || packet.type == PTD_PSB || packet.type == PTD_OVF)
            return;
        note(point, &packet);
    }
}

int ptd_index(const void *bytes, size_t len_bytes, struct ptd_sync_point **points, size_t *count)
{
    struct index index = {0};
    struct ptd_packets packets;

    ptd_packets_init(&packets, bytes, len_bytes);
    while (ptd_packets_sync(&packets) == PTD_OK) {
        if (!array_grow((void **)&index.points, &index.room, index.count, sizeof(*index.points))) {
            free(index.points);
            return PTD_E_NOMEM;
        }
        read_point(&packets, &index.points[index.count++]);
    }
    *points = index.points;
    *count = index.count;
    return PTD_OK;
}

size_t ptd_index_at(const struct ptd_sync_point *points, size_t count, uint64_t offset)
{
    size_t low = 0, high = count; /* the answer is from low to high */

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (points[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : count;
}

size_t ptd_index_before(const struct ptd_sync_point *points, size_t count, uint64_t tsc)
{
    size_t before = count;

    for (size_t i = 0; i < count; i++) {
        if (points[i].has_tsc && points[i].tsc >= tsc)
            break;
        if (points[i].has_tsc)
            before = i;
    }
    return before;
}
