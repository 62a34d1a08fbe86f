/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces on their way into a page. The report of it is fed with the same items.
 */
#include "report/page.h"
#include "common/list.h"
#include "report/show.h"
#include "view/filter.h"

#include <stdlib.h>

/* ---- Tracks ---- */

/* They are numbered in the order in which they are described. */
static void describe(void *owner, uint64_t track, uint64_t parent, enum track_kind kind,
                     const char *name)
{
    struct page *const page = owner;
    const uint32_t number = names_add(&page->calls.names, name);
    struct page_track *const grown =
        list_grow(page->list, page->track_count, &page->track_room, sizeof(*grown));

    if (grown)
        page->list = grown;
    if (number == UINT32_MAX || track != page->track_count || !grown) {
        page->no_memory = true;
        return;
    }
    page->list[page->track_count++] =
        (struct page_track){.kind = kind, .parent = (uint32_t)parent, .name = number};
}

static bool has_room_for_tracks(struct page *page)
{
    /* A stack comes with its thread, its process and its VM. */
    if (page->track_count + 4 <= PAGE_TRACKS_MAX)
        return true;
    page->is_cut_off = true;
    return false;
}

/* ---- Spans ---- */

static void add_span(struct page *page, uint64_t track, size_t depth, uint64_t start, uint64_t end,
                     uint32_t name)
{
    const struct span span = {.start = out_ns(&page->thread, start),
                              .end = out_ns(&page->thread, end < start ? start : end),
                              .name = name,
                              .count = 1,
                              .track = (uint32_t)track,
                              .depth = depth < SPANS_DEPTH ? (uint16_t)depth : SPANS_DEPTH};
    struct span timed = span;

    timed.longest = span.end - span.start;
    if (page->no_memory)
        return;
    if (span.depth < SPANS_DEPTH && span.depth >= page->list[track].depth)
        page->list[track].depth = (uint16_t)(span.depth + 1);
    if (!spans_add(&page->spans, &timed))
        page->no_memory = true;
}

/* Nobody runs any more, or nobody who is wanted. */
static void stop_running(struct page *page, uint64_t time)
{
    if (page->running)
        add_span(page, page->cpu_track, 0, page->running_since, time, page->running_name);
    page->running = 0;
}

/* Who runs, on the track of the processor. */
static void run(struct page *page, const struct out_who *who, uint64_t time)
{
    uint64_t track;

    if (!page->cpu_track || !has_room_for_tracks(page))
        return;
    track = track_of_thread(&page->tracks, who);
    if (track == page->running || page->no_memory)
        return;
    stop_running(page, time);
    if (!track)
        return;
    page->running = track;
    page->running_name = page->list[track].name;
    page->running_since = time;
}

/* ---- Calls: what a frame keeps is its track, and its node in the tree ---- */

static uint64_t track_of_frame(const struct call_frame *frame)
{
    return frame->user >> 32;
}

static uint64_t node_of_frame(const struct call_frame *frame)
{
    return (uint32_t)frame->user;
}

static uint64_t new_node(struct page *page, struct call_stack *stack, uint64_t time)
{
    const uint64_t above = stack->depth > 1 ? node_of_frame(&stack->frames[stack->depth - 2]) : 0;
    const uint32_t function = stack->frames[stack->depth - 1].function;
    const uint64_t parent = above ? above : call_tree_root(&page->tree, stack, time);

    if (page->tree.nodes.count < PAGE_NODES_MAX)
        return call_tree_node(&page->tree, parent, function);
    page->is_cut_off = true;
    return parent;
}

static bool make_room_for_insns(struct page *page)
{
    const size_t room = page->insns_room ? 2 * page->insns_room : 4096;
    uint64_t *grown;

    while (page->insns_room < page->tree.nodes.count) {
        grown = reallocarray(page->insns, room, sizeof(*grown));
        if (!grown)
            return false;
        for (size_t i = page->insns_room; i < room; i++)
            grown[i] = 0;
        page->insns = grown;
        page->insns_room = room;
    }
    return true;
}

static void enter(void *owner, struct call_stack *stack, uint64_t time)
{
    struct page *const page = owner;
    struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const struct out_who who = calls_who(&page->calls, stack, time);
    uint64_t node, track = 0;

    frame->user = 0;
    if (!out_takes_who(&page->thread, stack->cr3, time)) {
        stop_running(page, time);
        return;
    }
    run(page, &who, time);
    node = new_node(page, stack, time);
    if (!make_room_for_insns(page) || !node) {
        page->no_memory = true;
        return;
    }
    page->tree.nodes.sums[node - 1].count += frame->is_wanted;
    if (frame->is_wanted && has_room_for_tracks(page))
        track = track_of_stack(&page->tracks, &page->thread, stack, &who);
    frame->user = track << 32 | node;
}

static void leave(void *owner, struct call_stack *stack, uint64_t time)
{
    struct page *const page = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const uint64_t track = track_of_frame(frame);

    if (track)
        add_span(page, track, stack->depth - 1, frame->began, time, frame->function);
}

static void ran(void *owner, struct call_stack *stack, const struct ptd_item *block, uint64_t from,
                uint64_t to)
{
    struct page *const page = owner;
    const struct call_frame *const frame = &stack->frames[stack->depth - 1];
    const uint64_t node = node_of_frame(frame);

    if (!node || !frame->is_wanted)
        return;
    page->tree.nodes.sums[node - 1].cost += to - from;
    page->insns[node - 1] += block->insns;
}

static const struct calls_sink sink = {.enter = enter, .leave = leave, .ran = ran};

/* ---- VM exits ---- */

/* NULL: no room, or no memory. */
static struct page_latency *latency_of(struct page *page, const struct event *event)
{
    struct page_latency *latency;

    for (size_t i = 0; i < page->latency_count; i++) {
        latency = page->latencies[i];
        if (latency->reason == event->what && latency->vector == event->vector)
            return latency;
    }
    if (page->latency_count == PAGE_LATENCIES_MAX) {
        page->is_cut_off = true;
        return NULL;
    }
    latency = calloc(1, sizeof(*latency));
    if (!latency) {
        page->no_memory = true;
        return NULL;
    }
    latency->reason = event->what;
    latency->vector = event->vector;
    page->latencies[page->latency_count++] = latency;
    return latency;
}

static uint64_t exit_track(struct page *page)
{
    if (!page->exit_track && has_room_for_tracks(page))
        page->exit_track = track_at(&page->tracks, page->cpu_track, TRACK_EXITS,
                                    page->tracks.sequence, "VM exits");
    return page->exit_track;
}

/* The VM of an exit is entered again. */
static void add_exit(struct page *page, const struct event *event, uint64_t since, uint64_t now)
{
    char text[EVENT_NAME_ROOM];
    uint64_t track;
    uint32_t name;
    struct page_latency *latency;

    if (!out_takes_processor(&page->thread) || since == PTD_TIME_UNKNOWN || now < since)
        return;
    latency = latency_of(page, event);
    if (latency)
        spread_add(&latency->ticks, now - since);
    name =
        names_add(&page->calls.names, event_name(&page->counts.report, event, text, sizeof(text)));
    track = exit_track(page);
    if (name == UINT32_MAX)
        page->no_memory = true;
    else if (track)
        add_span(page, track, 0, since, now, name);
}

/* ---- The format ---- */

static bool is_good(const struct page *page)
{
    return !page->no_memory && !page->tracks.no_memory && !page->tree.no_memory &&
           !page->calls.no_memory;
}

static bool begin(void *out, const struct out_thread *thread)
{
    struct page *const page = out;
    const uint64_t start = out_ns(thread, thread->start);

    page->thread = *thread;
    page->tracks.sequence++;
    page->exit_track = page->running = 0;
    if (start < page->first)
        page->first = start;
    calls_begin(&page->calls, thread);
    page->cpu_track =
        thread->cpu >= 0 && has_room_for_tracks(page) ? track_of_cpu(&page->tracks, thread) : 0;
    return report_format.begin(&page->counts.report, thread) && is_good(page);
}

static bool item(void *out, const struct ptd_item *item, uint64_t time)
{
    struct page *const page = out;
    const struct events *const events = &page->counts.report.events;
    const bool was_out = events->is_out;
    const uint64_t since = events->exit_ticks;
    const size_t which = events->exit;

    calls_item(&page->calls, item, time);
    if (!report_format.item(&page->counts.report, item, time))
        return false;
    if (was_out && !events->is_out && item->type != PTD_ITEM_ERROR && page->thread.is_tsc)
        add_exit(page, &events->list[which], since, tally_now(page->counts.report.tally));
    return is_good(page);
}

static bool names_end(void *out)
{
    return report_format.names_end(&((struct page *)out)->counts.report);
}

static bool end(void *out)
{
    struct page *const page = out;
    uint64_t last;

    calls_end(&page->calls);
    stop_running(page, page->calls.now);
    last = out_ns(&page->thread, page->calls.now);
    if (last > page->last)
        page->last = last;
    return report_format.end(&page->counts.report) && is_good(page);
}

/* It is nobody's to open or close but its owner's. */
static bool close_nothing(void *out)
{
    (void)out;
    return true;
}

const struct out_format page_format = {
    .name = "page",
    .is_by_processor = true,
    .begin = begin,
    .item = item,
    .names_end = names_end,
    .end = end,
    .close = close_nothing,
};

static bool begin_counts(struct page *page, const struct report_options *options)
{
    struct annotate *const lines = &page->counts.lines;

    if (!page->sources->frames_of) {
        if (!report_begin(&page->counts.report))
            return false;
        report_shows(&page->counts.report, options);
        return true;
    }
    if (!annotator_begin_report(&page->counts, options))
        return false;
    lines->frames_of = page->sources->frames_of;
    lines->frames_owner = page->sources->owner;
    return true;
}

struct page *page_new(const struct report_options *options, const struct page_sources *sources)
{
    struct page *const page = calloc(1, sizeof(*page));

    if (!page)
        return NULL;
    page->sources = sources;
    page->first = UINT64_MAX;
    page->tracks.describe = describe;
    page->tracks.owner = page;
    page->tree.calls = &page->calls;
    page->track_count = 1;
    calls_init(&page->calls, &sink, page);
    if (!begin_counts(page, options) || !(page->list = calloc(64, sizeof(*page->list)))) {
        page_free(page);
        return NULL;
    }
    page->track_room = 64;
    return page;
}

void page_free(struct page *page)
{
    for (size_t i = 0; i < page->latency_count; i++)
        free(page->latencies[i]);
    annotator_free(&page->counts);
    call_tree_free(&page->tree);
    tracks_free(&page->tracks);
    calls_free(&page->calls);
    spans_free(&page->spans);
    free(page->insns);
    free(page->list);
    free(page);
}
