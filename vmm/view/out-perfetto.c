/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Perfetto's own format: slices for the calls, on tracks for VMs, processors, processes, threads.
 *
 * Tracks are told apart by uuid and parent_uuid alone. The format's own processes and threads go by
 * pid, which would make one of the pid 1 of all guests. A trace without TSC counts an instruction
 * as a nanosecond.
 */
#include "view/out.h"

#ifdef VPT_PERFETTO

#include "common/escape.h"
#include "view/calls.h"
#include "view/filter.h"
#include "view/tracks.h"
#include "ptdec.h"

#include <inttypes.h>
#include <perfetto.pb-c.h>
#include <stdlib.h>

#define SEQUENCE_BEGINS  1u /* sequence_flags: nothing is interned yet; */
#define SEQUENCE_GOES_ON 2u /* what was interned is needed */

enum counter { COUNTER_RATIO, COUNTER_LOST, COUNTER_RATE };

/* So many core cycles make a value of how many instructions ran in them. */
#define RATE_CYCLES 10000u
#define RATE_UNIT   1000u

struct perfetto {
    FILE *to;
    struct calls calls;
    struct out_thread thread;
    struct tracks tracks; /* whose numbers are uuids; .sequence: one for each trace */
    bool sequence_begun;
    size_t interned; /* so many of calls.names; iid: the number + 1 */
    uint64_t cpu_uuid, running_uuid;
    bool is_running; /* that thread, whose slice on the processor's track is open */
    uint64_t lost_bytes;
    uint64_t rate_insns, rate_cycles; /* instructions since these cycles */
    uint8_t *packed;
    size_t packed_room;
    bool no_memory;
};

/* ---- Packets ---- */

static bool make_room(struct perfetto *perfetto, size_t len)
{
    uint8_t *const more = len > perfetto->packed_room ? realloc(perfetto->packed, len) : NULL;

    if (len <= perfetto->packed_room)
        return true;
    if (!more)
        return false;
    perfetto->packed = more;
    perfetto->packed_room = len;
    return true;
}

/* Files of traces may be put one behind the other: a packet is written as a trace of one packet. */
static void write_packet(struct perfetto *perfetto, Perfetto__TracePacket *packet)
{
    Perfetto__Trace trace = PERFETTO__TRACE__INIT;
    size_t len;

    packet->has_trusted_packet_sequence_id = true;
    packet->trusted_packet_sequence_id = perfetto->tracks.sequence;
    packet->has_sequence_flags = true;
    packet->sequence_flags = SEQUENCE_GOES_ON | (perfetto->sequence_begun ? 0u : SEQUENCE_BEGINS);
    perfetto->sequence_begun = true;
    trace.n_packet = 1;
    trace.packet = &packet;
    len = perfetto__trace__get_packed_size(&trace);
    if (!make_room(perfetto, len)) {
        perfetto->no_memory = true;
        return;
    }
    fwrite(perfetto->packed, 1, perfetto__trace__pack(&trace, perfetto->packed), perfetto->to);
}

static void write_event(struct perfetto *perfetto, Perfetto__TrackEvent *event, uint64_t uuid,
                        uint64_t time)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

    event->has_type = true;
    event->has_track_uuid = true;
    event->track_uuid = uuid;
    packet.has_timestamp = true;
    packet.timestamp = out_ns(&perfetto->thread, time);
    packet.track_event = event;
    write_packet(perfetto, &packet);
}

/* ---- Tracks ---- */

/* A new track; text is its name. */
static void describe(struct perfetto *perfetto, uint64_t uuid, uint64_t parent, const char *text,
                     const char *unit)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
    Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;
    struct escaped room;

    track.has_uuid = true;
    track.uuid = uuid;
    track.has_parent_uuid = parent != 0;
    track.parent_uuid = parent;
    track.name = (char *)escaped(text, &room);
    if (unit) {
        counter.unit_name = (char *)unit;
        track.counter = &counter;
    }
    packet.track_descriptor = &track;
    write_packet(perfetto, &packet);
}

static void describe_track(void *owner, uint64_t uuid, uint64_t parent, enum track_kind kind,
                           const char *name)
{
    if (kind != TRACK_COUNTER)
        describe(owner, uuid, parent, name, NULL);
}

/* ---- Counters, of the processor or the thread ---- */

static void count(struct perfetto *perfetto, enum counter which, const char *name, const char *unit,
                  uint64_t value, uint64_t time)
{
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
    const struct out_who who = out_who(&perfetto->thread, 0, time);
    const uint64_t parent =
        perfetto->cpu_uuid ? perfetto->cpu_uuid : track_of_thread(&perfetto->tracks, &who);
    const size_t described = perfetto->tracks.ids.count;
    uint64_t uuid;

    if (!out_takes_processor(&perfetto->thread))
        return;
    uuid = track_at(&perfetto->tracks, parent, TRACK_COUNTER, which, name);
    if (perfetto->tracks.ids.count != described)
        describe(perfetto, uuid, parent, name, unit);
    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_COUNTER;
    event.has_counter_value = true;
    event.counter_value = value > INT64_MAX ? INT64_MAX : (int64_t)value;
    write_event(perfetto, &event, uuid, time);
}

static uint64_t cycles_now(const struct perfetto *perfetto)
{
    return perfetto->thread.cycles ? *perfetto->thread.cycles : 0;
}

static void begin_rate(struct perfetto *perfetto)
{
    perfetto->rate_insns = 0;
    perfetto->rate_cycles = cycles_now(perfetto);
}

/* How fast code ran, where CYC packets tell it: a block ran behind what was counted. */
static void count_rate(struct perfetto *perfetto, const struct ptd_item *block, uint64_t time)
{
    const uint64_t cycles = cycles_now(perfetto) - perfetto->rate_cycles;

    if (cycles >= RATE_CYCLES) {
        count(perfetto, COUNTER_RATE, "instructions per 1000 cycles", "",
              perfetto->rate_insns * RATE_UNIT / cycles, time);
        begin_rate(perfetto);
    }
    perfetto->rate_insns += block->insns;
}

/* ---- Slices ---- */

/* Nobody, or nobody who is wanted. */
static void stop_running(struct perfetto *perfetto, uint64_t time)
{
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END;
    if (perfetto->is_running)
        write_event(perfetto, &event, perfetto->cpu_uuid, time);
    perfetto->is_running = false;
}

/* Who runs, on the track of the processor. */
static void run(struct perfetto *perfetto, const struct out_who *who, uint64_t time)
{
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
    struct escaped room;
    const uint64_t uuid = track_of_thread(&perfetto->tracks, who);

    if (!perfetto->cpu_uuid || (perfetto->is_running && uuid == perfetto->running_uuid))
        return;
    stop_running(perfetto, time);
    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
    event.name = (char *)escaped(who->comm, &room);
    write_event(perfetto, &event, perfetto->cpu_uuid, time);
    perfetto->is_running = true;
    perfetto->running_uuid = uuid;
}

/* The names up to this one that were not told yet. False: no memory. */
static bool intern(struct perfetto *perfetto, uint32_t function)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__InternedData interned = PERFETTO__INTERNED_DATA__INIT;
    Perfetto__EventName name = PERFETTO__EVENT_NAME__INIT, *names = &name;
    struct escaped room;

    packet.interned_data = &interned;
    interned.event_names = &names;
    interned.n_event_names = 1;
    name.has_iid = true;
    for (; perfetto->interned <= function; perfetto->interned++) {
        name.iid = perfetto->interned + 1;
        name.name = (char *)escaped(perfetto->calls.names.list[perfetto->interned], &room);
        write_packet(perfetto, &packet);
    }
    return !perfetto->no_memory && !perfetto->tracks.no_memory;
}

static void enter(void *owner, struct call_stack *stack, uint64_t time)
{
    struct perfetto *const perfetto = owner;
    struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const struct out_who who = calls_who(&perfetto->calls, stack, time);
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

    if (!out_takes_who(&perfetto->thread, stack->cr3, time)) {
        stop_running(perfetto, time);
        return;
    }
    run(perfetto, &who, time);
    if (!frame->is_wanted)
        return;
    frame->user = track_of_stack(&perfetto->tracks, &perfetto->thread, stack, &who);
    if (!frame->user || !intern(perfetto, frame->function))
        return;
    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
    event.has_name_iid = true;
    event.name_iid = (uint64_t)frame->function + 1;
    write_event(perfetto, &event, frame->user, time);
}

static void leave(void *owner, struct call_stack *stack, uint64_t time)
{
    struct perfetto *const perfetto = owner;
    const uint64_t uuid = stack->frames[stack->depth - 1].user;
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;

    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END;
    if (uuid)
        write_event(perfetto, &event, uuid, time);
}

static const struct calls_sink sink = {.enter = enter, .leave = leave};

/* What was lost, where it was. */
static void mark(struct perfetto *perfetto, const struct ptd_item *item, uint64_t time)
{
    Perfetto__TrackEvent event = PERFETTO__TRACK_EVENT__INIT;
    const struct out_who who = out_who(&perfetto->thread, item->cr3, time);
    const bool is_error = item->type == PTD_ITEM_ERROR;

    if (!out_takes_event(&perfetto->thread, item, time))
        return;
    event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT;
    event.name = (char *)(is_error ? ptd_strerror(item->error) : "overflow");
    write_event(perfetto, &event, track_of_thread(&perfetto->tracks, &who), time);
    if (is_error && item->value) {
        perfetto->lost_bytes += item->value;
        count(perfetto, COUNTER_LOST, "lost", "bytes", perfetto->lost_bytes, time);
    }
}

/* ---- The format ---- */

static void *perfetto_open(FILE *to)
{
    struct perfetto *const perfetto = calloc(1, sizeof(*perfetto));

    if (!perfetto)
        return NULL;
    perfetto->to = to;
    perfetto->tracks.describe = describe_track;
    perfetto->tracks.owner = perfetto;
    calls_init(&perfetto->calls, &sink, perfetto);
    return perfetto;
}

static bool perfetto_begin(void *out, const struct out_thread *thread)
{
    struct perfetto *const perfetto = out;

    perfetto->thread = *thread;
    perfetto->tracks.sequence++;
    perfetto->sequence_begun = false;
    perfetto->interned = 0;
    perfetto->is_running = false;
    perfetto->lost_bytes = 0;
    begin_rate(perfetto);
    calls_begin(&perfetto->calls, thread);
    perfetto->cpu_uuid = thread->cpu >= 0 ? track_of_cpu(&perfetto->tracks, thread) : 0;
    return !perfetto->no_memory && !perfetto->tracks.no_memory;
}

static bool perfetto_item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct perfetto *const perfetto = out;

    calls_item(&perfetto->calls, item, time);
    if (item->type == PTD_ITEM_ERROR || item->type == PTD_ITEM_OVERFLOW) {
        mark(perfetto, item, time);
        begin_rate(perfetto);
    } else if (item->type == PTD_ITEM_BLOCK) {
        count_rate(perfetto, item, time);
    } else if (item->type == PTD_ITEM_CBR) {
        count(perfetto, COUNTER_RATIO, "core:bus ratio", "", item->value, time);
    }
    return !perfetto->no_memory && !perfetto->tracks.no_memory && !perfetto->calls.no_memory;
}

static bool perfetto_end(void *out)
{
    struct perfetto *const perfetto = out;

    calls_end(&perfetto->calls);
    stop_running(perfetto, perfetto->calls.now);
    return !perfetto->no_memory && !perfetto->tracks.no_memory;
}

static bool perfetto_close(void *out)
{
    struct perfetto *const perfetto = out;
    const bool done = !perfetto->no_memory && !perfetto->tracks.no_memory;

    tracks_free(&perfetto->tracks);
    calls_free(&perfetto->calls);
    free(perfetto->packed);
    free(perfetto);
    return done;
}

const struct out_format out_perfetto = {
    .name = "perfetto",
    .is_binary = true,
    .open = perfetto_open,
    .begin = perfetto_begin,
    .item = perfetto_item,
    .end = perfetto_end,
    .close = perfetto_close,
};

#else

const struct out_format out_perfetto = {.name = "perfetto", .lacks = "protobuf-c"};

#endif
