/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an item of the flow took place: by the timing packets of the trace, or by the instructions
 * before it.
 */
#include "trace/clock.h"
#include "ptdec.h"

#define PACKETS_AT_ONCE 256u

static bool says_time(const struct ptd_packet *packet, const struct ptd_time_config *config,
                      uint64_t *first)
{
    if (packet->type == PTD_TSC && *first == 0) {
        *first = packet->tsc;
        return false;
    }
    return (packet->type == PTD_TSC && packet->tsc > *first) ||
           (*first && packet->type == PTD_MTC && config->tsc_den) ||
           (*first && packet->type == PTD_CYC && config->max_nonturbo_ratio);
}

/*
 * Whether time passes in the trace, as far as the packets tell that stand near its begin. A trace
 * without time is read up to there, so it is read in bulk. Bytes that are none are skipped.
 */
static bool has_time(struct ptd_packets packets, const struct ptd_time_config *config,
                     uint64_t *first)
{
    struct ptd_packet list[PACKETS_AT_ONCE];
    uint64_t from = ptd_packets_offset(&packets); /* what counts of the first of a list */
    int status = PTD_OK;

    *first = 0;
    while (status != PTD_END) {
        const size_t count = ptd_packets_read(&packets, list, PACKETS_AT_ONCE, &status);

        for (size_t i = 0; i < count; i++) {
            if ((i > 0 ? list[i].offset : from) >= PTD_LOOK_AHEAD_MAX)
                return false;
            if (list[i].type != PTD_TNT && list[i].type != PTD_TIP &&
                says_time(&list[i], config, first))
                return true;
        }
        from = ptd_packets_offset(&packets);
        if (status != PTD_OK && status != PTD_END && ptd_packets_resync(&packets) != PTD_OK)
            return false;
    }
    return false;
}

/*
 * The first time that packets tell, as the host has it: a TSC packet may have that of a guest, and
 * stands in front of the packets that say so. 0: they tell none.
 */
static uint64_t first_of_host(struct ptd_packets packets, const struct ptd_time_config *config)
{
    struct ptd_time *const time = ptd_time_new(config);
    struct ptd_time_point point = {.tsc = PTD_TIME_UNKNOWN};
    struct ptd_packet packet;

    while (time && point.tsc == PTD_TIME_UNKNOWN && ptd_time_next(time, &packets, &packet)) {
        ptd_time_packet(time, &packet);
        if (packet.type == PTD_TSC || packet.type == PTD_PSBEND)
            ptd_time_point(time, &point);
    }
    ptd_time_free(time);
    return point.tsc == PTD_TIME_UNKNOWN ? 0 : point.tsc;
}

bool clock_open(struct clock *clock, const uint8_t *bytes, size_t len,
                const struct ptd_time_config *config, bool is_timeless)
{
    static const struct ptd_time_config nothing_known;
    uint64_t first;

    *clock = (struct clock){0};
    if (!config)
        return true;
    ptd_packets_init(&clock->packets, bytes, len);
    ptd_packets_set_errata(&clock->packets, config->errata);
    if (ptd_packets_sync(&clock->packets) != PTD_OK)
        return true;
    clock->time = ptd_time_new(config);
    if (!clock->time) { /* out of range, or no memory: then this fails too */
        config = &nothing_known;
        clock->time = ptd_time_new(config);
    }
    if (!clock->time)
        return false;
    clock->is_tsc = !is_timeless && has_time(clock->packets, config, &first);
    if (clock->is_tsc && config->vm_count > 0)
        clock->tsc = first_of_host(clock->packets, config);
    return true;
}

bool clock_begin(struct clock *clock, const uint8_t *bytes, size_t len,
                 const struct ptd_time_config *config)
{
    struct ptd_packets packets;

    *clock = (struct clock){0};
    ptd_packets_init(&packets, bytes, len);
    ptd_packets_set_errata(&packets, config->errata);
    (void)ptd_packets_sync(&packets); /* or to the end */
    clock->is_tsc = has_time(packets, config, &clock->tsc);
    if (clock->is_tsc && config->vm_count > 0)
        clock->tsc = first_of_host(packets, config);
    return clock->is_tsc || len >= PTD_LOOK_AHEAD_MAX;
}

uint64_t clock_at_point(struct clock *clock, const struct ptd_item *item,
                        const struct ptd_time_point *point)
{
    if (item->type == PTD_ITEM_BLOCK)
        clock->insns += item->insns;
    if (!clock->is_tsc)
        return clock->insns;
    clock->cycles = point->cycles;
    if (point->tsc != PTD_TIME_UNKNOWN && point->tsc > clock->tsc)
        clock->tsc = point->tsc;
    return clock->tsc;
}

void clock_close(struct clock *clock)
{
    ptd_time_free(clock->time);
    *clock = (struct clock){0};
}

/* Time by the packets in front of an offset, and at least one TSC packet. */
static void go_to(struct clock *clock, uint64_t offset)
{
    struct ptd_time_point point = {.tsc = PTD_TIME_UNKNOWN};
    struct ptd_packet packet;
    bool moved = false;

    while ((ptd_packets_offset(&clock->packets) < offset || clock->tsc == 0) &&
           ptd_time_next(clock->time, &clock->packets, &packet)) {
        ptd_time_packet(clock->time, &packet);
        moved = true;
        if (clock->tsc == 0 && packet.type == PTD_TSC)
            clock->tsc = packet.tsc;
    }
    if (!moved)
        return;
    ptd_time_point_ahead(clock->time, &clock->packets, &point);
    clock->cycles = point.cycles;
    if (point.tsc != PTD_TIME_UNKNOWN && point.tsc > clock->tsc)
        clock->tsc = point.tsc;
}

uint64_t clock_start(struct clock *clock)
{
    if (clock->is_tsc)
        go_to(clock, 0);
    return clock->is_tsc ? clock->tsc : 0;
}

uint64_t clock_at(struct clock *clock, const struct ptd_item *item)
{
    if (item->type == PTD_ITEM_BLOCK)
        clock->insns += item->insns;
    if (!clock->is_tsc)
        return clock->insns;
    go_to(clock, item->offset);
    return clock->tsc;
}
