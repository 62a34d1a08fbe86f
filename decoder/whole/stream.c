/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace that comes in pieces: what was fed and not told yet stands in a window, which flow and
 * time are slid along with. Both say PTD_MORE instead of an answer that later bytes could change.
 */
#include <stdlib.h>
#include <string.h>

#include "flow/flow.h"
#include "packets/part.h"
#include "time/time.h"

#define ROOM_AT_FIRST (64u << 10)
#define WAIT_FROM     4096u /* bytes looked at in vain: less is looked at again at once */

/* Time, told the packets in front of what was asked for last. */
struct clock {
    struct ptd_time *time; /* NULL: not wanted */
    struct ptd_packets packets;
    struct ptd_time_point point;
    bool searching; /* for a PSB */
    bool has_tsc;
    uint64_t give_up; /* no TSC packet up to here: there is none */
    bool moved;       /* since .point was found */
};

struct ptd_stream {
    struct ptd_flow *flow;
    struct clock clock;
    uint8_t *bytes;
    size_t len, room;
    uint64_t base;     /* offset of the first of them */
    bool ended;        /* no more will be fed */
    uint64_t wait_for; /* nothing new can be told before the bytes up to here are there */
    struct ptd_item item;
    bool is_held;    /* .item, or the caller's run, waits for its time */
    uint64_t behind; /* behind the beginning of the packet of the last item that was told */
    bool lost_timed; /* the next item is that of an error, and clock.point its time */
};

/* ---- The window ---- */

static uint64_t end_of(const struct ptd_stream *stream)
{
    return stream->base + stream->len;
}

/* What has been told and is not looked back to. */
static size_t used(const struct ptd_stream *stream)
{
    const uint64_t clock_at = ptd_packets_offset(&stream->clock.packets);
    uint64_t needs = ptd_flow_needs(stream->flow);

    if (stream->clock.time && clock_at < needs)
        needs = clock_at;
    return needs > stream->base ? (size_t)(needs - stream->base) : 0;
}

static bool make_room(struct ptd_stream *stream, size_t more)
{
    const size_t drop = used(stream);
    size_t room = stream->room;
    uint8_t *bytes;

    if (more <= room - stream->len)
        return true;
    if (drop >= room / 2) { /* else it would be moved too often */
        memmove(stream->bytes, stream->bytes + drop, stream->len - drop);
        stream->len -= drop;
        stream->base += drop;
    }
    while (room - stream->len < more) {
        if (room > SIZE_MAX / 2)
            return false;
        room *= 2;
    }
    bytes = room == stream->room ? stream->bytes : realloc(stream->bytes, room);
    if (!bytes)
        return false;
    stream->bytes = bytes;
    stream->room = room;
    return true;
}

static void slide(struct ptd_stream *stream)
{
    ptd_packets_slide(&stream->clock.packets, stream->bytes, stream->len, stream->base);
    ptd_flow_slide(stream->flow, stream->bytes, stream->len, stream->base, !stream->ended);
}

/* ---- Time ---- */

/* The next packet to time. PTD_OK, PTD_MORE, PTD_END. */
static int clock_step(struct clock *clock, bool more)
{
    struct ptd_packets *const packets = &clock->packets;
    struct ptd_packet packet;
    int status;

    if (clock->searching &&
        (more ? !ptd_packets_sync_part(packets) : ptd_packets_sync(packets) != PTD_OK))
        return more ? PTD_MORE : PTD_END;
    if (more && !ptd_packets_has_one(packets))
        return PTD_MORE;
    clock->searching = false; /* not before the PSB is read, else it could be left out */
    status = ptd_packets_next(packets, &packet);
    if (status == PTD_END)
        return PTD_END;
    if (status != PTD_OK) { /* as ptd_time_next() */
        ptd_time_lost(clock->time);
        ptd_packets_skip_byte(packets);
        clock->searching = true;
        return PTD_OK;
    }
    ptd_time_packet(clock->time, &packet);
    clock->moved = true;
    clock->has_tsc = clock->has_tsc || packet.type == PTD_TSC;
    return PTD_OK;
}

/* All packets in front of an offset, and the PSB behind bytes that were lost. False: not all there.
 */
static bool clock_go_to(struct clock *clock, uint64_t offset, bool more)
{
    uint64_t at;
    int status = PTD_OK;

    while (status == PTD_OK) {
        at = ptd_packets_offset(&clock->packets);
        if (at >= offset && !clock->searching && (clock->has_tsc || at >= clock->give_up))
            return true;
        status = clock_step(clock, more);
        if (status == PTD_OK && !clock->searching && !clock->packets.bip_bytes)
            ptd_time_branches(clock->time, &clock->packets, offset);
    }
    return status == PTD_END;
}

/* clock->point, of an offset. False: it cannot be told yet. */
static bool clock_find(struct clock *clock, uint64_t offset, bool more)
{
    if (!clock_go_to(clock, offset, more))
        return false;
    if (!clock->moved)
        return true;
    if (more && !ptd_time_sees_enough(clock->time, &clock->packets))
        return false;
    ptd_time_point_ahead(clock->time, &clock->packets, &clock->point);
    clock->moved = false;
    return true;
}

/*
 * The flow looks for a PSB. It may be far, and until it comes there is no item; so that the window
 * does not have to hold all that was lost, the time of the error is found now.
 */
static void follow_search(struct ptd_stream *stream, const struct ptd_item *lost)
{
    if (!stream->lost_timed && lost->error != PTD_E_NOSYNC) {
        if (!clock_find(&stream->clock, lost->offset, true))
            return;
        stream->lost_timed = true;
    }
    (void)clock_go_to(&stream->clock, ptd_flow_reads_at(stream->flow), true);
}

/* ---- The interface ---- */

struct ptd_stream *ptd_stream_new(const struct ptd_image *image, const struct ptd_flow_config *flow,
                                  const struct ptd_time_config *time)
{
    struct ptd_stream *const stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->room = ROOM_AT_FIRST;
    stream->bytes = calloc(1, stream->room);
    stream->flow = stream->bytes ? ptd_flow_new(stream->bytes, 0, image, flow) : NULL;
    stream->clock.time = time ? ptd_time_new(time) : NULL;
    if (!stream->flow || (time && !stream->clock.time)) {
        ptd_stream_free(stream);
        return NULL;
    }
    ptd_flow_begin_stream(stream->flow, 0);
    ptd_packets_init(&stream->clock.packets, stream->bytes, 0);
    ptd_packets_set_errata(&stream->clock.packets, flow ? flow->errata : 0);
    stream->clock.searching = true;
    stream->clock.give_up = PTD_LOOK_AHEAD_MAX;
    stream->clock.point =
        (struct ptd_time_point){.tsc = PTD_TIME_UNKNOWN, .latest = PTD_TIME_UNKNOWN};
    return stream;
}

void ptd_stream_free(struct ptd_stream *stream)
{
    if (!stream)
        return;
    ptd_flow_free(stream->flow);
    ptd_time_free(stream->clock.time);
    free(stream->bytes);
    free(stream);
}

void ptd_stream_begin_at(struct ptd_stream *stream, uint64_t offset)
{
    stream->base = offset;
    stream->clock.packets.base = offset;
    stream->clock.give_up = offset + PTD_LOOK_AHEAD_MAX;
    ptd_flow_begin_stream(stream->flow, offset);
}

int ptd_stream_feed(struct ptd_stream *stream, const void *bytes, size_t len_bytes)
{
    if (stream->ended)
        return PTD_E_ARG;
    if (len_bytes == 0)
        return PTD_OK;
    if (!make_room(stream, len_bytes))
        return PTD_E_NOMEM;
    memcpy(stream->bytes + stream->len, bytes, len_bytes);
    stream->len += len_bytes;
    slide(stream);
    return PTD_OK;
}

void ptd_stream_end(struct ptd_stream *stream)
{
    stream->ended = true;
    slide(stream);
}

/* The next item, or run if it is not NULL, without its time; PTD_MORE, PTD_END. */
static int take(struct ptd_stream *stream, struct ptd_run *run)
{
    const struct ptd_item *lost;
    int status;

    if (stream->is_held)
        return PTD_OK;
    status = run ? ptd_flow_run(stream->flow, run) : ptd_flow_next(stream->flow, &stream->item);
    stream->is_held = status == PTD_OK;
    lost = ptd_flow_lost(stream->flow);
    if (status == PTD_MORE && lost && stream->clock.time)
        follow_search(stream, lost);
    return status;
}

/*
 * What was looked at in vain is looked at again when twice as much is there: else small pieces
 * would make long ways slow. No way is longer than PTD_LOOK_AHEAD_MAX.
 */
static void wait_for_more(struct ptd_stream *stream)
{
    const uint64_t end = end_of(stream), clock_at = ptd_packets_offset(&stream->clock.packets);
    uint64_t from = ptd_flow_reads_at(stream->flow), more;

    if (stream->clock.time && clock_at < from)
        from = clock_at;
    more = end - from;
    if (more < WAIT_FROM)
        more = 0;
    else if (more + more > PTD_LOOK_AHEAD_MAX)
        more = more < PTD_LOOK_AHEAD_MAX ? PTD_LOOK_AHEAD_MAX - more : WAIT_FROM;
    stream->wait_for = end + more;
}

/* Tells what was taken, if its time can be told. PTD_OK or PTD_MORE. */
static int tell(struct ptd_stream *stream, uint64_t offset, struct ptd_time_point *point)
{
    struct clock *const clock = &stream->clock;

    if (clock->time && !stream->lost_timed && !clock_find(clock, offset, !stream->ended))
        return PTD_MORE;
    stream->is_held = stream->lost_timed = false;
    if (point)
        *point = clock->point;
    return PTD_OK;
}

int ptd_stream_next(struct ptd_stream *stream, struct ptd_item *item, struct ptd_time_point *point)
{
    int status;

    if (!stream->ended && end_of(stream) < stream->wait_for)
        return PTD_MORE;
    status = take(stream, NULL);
    if (status == PTD_OK)
        status = tell(stream, stream->item.offset, point);
    if (status == PTD_MORE)
        wait_for_more(stream);
    if (status != PTD_OK)
        return status;
    *item = stream->item;
    stream->behind = item->offset + 1;
    return PTD_OK;
}

/* Where the time of a run is that of all its steps, and of its item. */
static uint64_t place_of(const struct ptd_stream *stream, const struct ptd_run *run)
{
    const uint64_t needs = ptd_flow_needs(stream->flow);

    if (run->has_item)
        return run->item.offset;
    return needs > stream->behind ? needs : stream->behind;
}

int ptd_stream_run(struct ptd_stream *stream, struct ptd_run *run, struct ptd_time_point *point)
{
    int status;

    if (stream->clock.time && run->timing != PTD_TIMING_ITEMS)
        return PTD_E_ARG;
    if (!stream->ended && end_of(stream) < stream->wait_for)
        return PTD_MORE;
    status = take(stream, run);
    if (status == PTD_OK)
        status = tell(stream, place_of(stream, run), point);
    if (status == PTD_MORE)
        wait_for_more(stream);
    if (status == PTD_OK && run->has_item)
        stream->behind = run->item.offset + 1;
    return status;
}

const struct ptd_flow *ptd_stream_flow(const struct ptd_stream *stream)
{
    return stream->flow;
}
