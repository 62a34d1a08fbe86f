/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When code changed, in the packets of a trace. perf.data tells changes by time; a packet's time is
 * an estimate within an interval. That of a kernel's code is at the first packet that is as late.
 * That of a process is made in a system call, so it is put into the gap between two stretches of
 * user code that is nearest, unless the intervals say that it was inside a stretch: another thread
 * made it.
 *
 * A gap ends where user code begins to run: at a TIP.PGE, or a TIP that leaves the kernel.
 */
#include <stdlib.h>

#include "perf/clock.h"
#include "perf/scan.h"
#include "perf/sort.h"
#include "ptdec_perf.h"

#define KERNEL_HALF (1ull << 63)

/* Between two stretches of user code, in TSC values. */
struct gap {
    uint64_t offset;              /* of the packet that ends it */
    uint64_t from, from_earliest; /* estimate, and what it may be at least */
    uint64_t to, to_latest;
};

struct placer {
    const struct ptd_perf_session *session;
    struct ptd_perf_change *changes;
    size_t count;
    size_t passed;   /* so many of them are not later than the packets so far */
    size_t decided;  /* so many of them have their gap, or none */
    uint64_t *gaps;  /* offsets of these gaps; UINT64_MAX: none */
    struct gap last; /* that has ended */
    bool has_last;
    /* Of the packets so far. */
    bool in_user;
    uint64_t last_ip;
    struct gap next; /* its beginning */
};

static uint64_t known(uint64_t tsc)
{
    return tsc == PTD_TIME_UNKNOWN ? 0 : tsc;
}

/* User code ends at this packet. */
static void leave_user(struct placer *placer, const struct ptd_time_point *point)
{
    if (!placer->in_user)
        return;
    placer->in_user = false;
    placer->next.from = known(point->tsc);
    placer->next.from_earliest = known(point->earliest);
}

static uint64_t tsc_of(const struct placer *placer, size_t i)
{
    return ptd_perf_tsc_of_time(&placer->session->pt, placer->changes[i].time);
}

/*
 * The gap for what happened at a TSC, which is not later than `next` ends; that is NULL, if no more
 * gaps come. NULL: it was in no gap.
 */
static const struct gap *find_gap(const struct placer *placer, const struct gap *next, uint64_t tsc)
{
    const struct gap *const last = placer->has_last ? &placer->last : NULL;

    if (next && tsc >= next->from)
        return next;

    const bool may_be_next = next && tsc >= next->from_earliest;
    const bool may_be_last = last && tsc <= last->to_latest;

    if (may_be_next && may_be_last)
        return tsc - last->to <= next->from - tsc ? last : next;
    if (may_be_next)
        return next;
    return may_be_last ? last : NULL;
}

/* Of the first change that has no gap yet, whether it is in this one or the last one. */
static void decide(struct placer *placer, const struct gap *next)
{
    const struct gap *const gap = find_gap(placer, next, tsc_of(placer, placer->decided));

    placer->gaps[placer->decided++] = gap ? gap->offset : UINT64_MAX;
}

/* User code begins at this packet. */
static void enter_user(struct placer *placer, uint64_t offset, const struct ptd_time_point *point)
{
    if (placer->in_user)
        return;
    placer->in_user = true;
    placer->next.offset = offset;
    placer->next.to = known(point->tsc);
    placer->next.to_latest = point->latest;
    while (placer->decided < placer->count && tsc_of(placer, placer->decided) <= placer->next.to)
        decide(placer, &placer->next);
    placer->last = placer->next;
    placer->has_last = true;
}

static void follow_ip(struct placer *placer, const struct ptd_packet *packet,
                      const struct ptd_time_point *point)
{
    uint64_t ip;

    if (ptd_packet_ip(packet, &placer->last_ip, &ip) != PTD_OK)
        return;
    if (ip < KERNEL_HALF)
        enter_user(placer, packet->offset, point);
    else
        leave_user(placer, point);
}

static void follow(struct placer *placer, const struct ptd_packet *packet,
                   const struct ptd_time_point *point)
{
    switch (packet->type) {
    case PTD_PSB:
        placer->last_ip = 0;
        return;
    case PTD_TIP_PGD:
    case PTD_OVF:
        leave_user(placer, point);
        break;
    default:
        break;
    }
    if (packet->type == PTD_TIP || packet->type == PTD_TIP_PGE || packet->type == PTD_FUP)
        follow_ip(placer, packet, point);
    else if (packet->type == PTD_TIP_PGD)
        (void)ptd_packet_ip(packet, &placer->last_ip, &(uint64_t){0});
}

/* Gives each change the first packet that is as late, and finds the gaps. */
static void read_trace(struct placer *placer, struct ptd_time *time, const uint8_t *bytes,
                       size_t len)
{
    struct ptd_packets packets;
    struct ptd_packet packet;

    ptd_packets_init(&packets, bytes, len);
    while (ptd_time_next(time, &packets, &packet)) {
        struct ptd_time_point point;

        ptd_time_packet(time, &packet);
        ptd_time_point_ahead(time, &packets, &point);
        while (placer->passed < placer->count && point.tsc != PTD_TIME_UNKNOWN &&
               tsc_of(placer, placer->passed) <= point.tsc)
            placer->changes[placer->passed++].offset = packet.offset;
        follow(placer, &packet, &point);
        ptd_perf_pass(placer->session->store, packet.offset, packet.offset + packet.size_bytes);
    }
    while (placer->decided < placer->count)
        decide(placer, NULL);
}

static void use_gaps(struct placer *placer)
{
    uint64_t least = 0; /* changes of a process keep their order */

    for (size_t i = 0; i < placer->count; i++) {
        if (placer->changes[i].of_kernel)
            continue;
        if (placer->gaps[i] != UINT64_MAX)
            placer->changes[i].offset = placer->gaps[i];
        if (placer->changes[i].offset < least)
            placer->changes[i].offset = least;
        least = placer->changes[i].offset;
    }
}

/* By offset; those at one offset stay in order of time. */
static bool sort(struct ptd_perf_change *changes, size_t count)
{
    struct keyed {
        uint64_t offset;
        struct ptd_perf_change change;
    } *const list = calloc(count ? count : 1, sizeof(*list));
    bool ok;

    if (!list)
        return false;
    for (size_t i = 0; i < count; i++)
        list[i] = (struct keyed){changes[i].offset, changes[i]};
    ok = ptd_perf_sort(list, count, sizeof(*list));
    for (size_t i = 0; ok && i < count; i++)
        changes[i] = list[i].change;
    free(list);
    return ok;
}

int ptd_perf_place(const struct ptd_perf_session *session, const uint8_t *bytes, size_t len_bytes,
                   struct ptd_perf_change *changes, size_t count)
{
    struct placer placer = {.session = session, .changes = changes, .count = count};
    struct ptd_time *const time = ptd_perf_time_new(session);
    bool ok;

    placer.gaps = calloc(count + 1, sizeof(*placer.gaps));
    ok = time && placer.gaps;

    for (size_t i = 0; i < count; i++)
        changes[i].offset = session->pt.has_time ? UINT64_MAX : 0;
    if (ok && count && session->pt.has_time) {
        read_trace(&placer, time, bytes, len_bytes);
        use_gaps(&placer);
        ok = sort(changes, count);
    }
    ptd_time_free(time);
    free(placer.gaps);
    return ok ? PTD_OK : PTD_E_NOMEM;
}
