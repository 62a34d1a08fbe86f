/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flow decoder's interface, and whose turn it is: to read packets (read.c), to walk over code
 * (walk.c), to do both at once (bulk.c), to look for an IP (lost.c) or a PSB, or to replay a code
 * log.
 */
#include <stdlib.h>
#include <string.h>

#include "code/code_log.h"
#include "code/image.h"
#include "flow/ahead.h"
#include "flow/bulk.h"
#include "flow/flow.h"
#include "flow/graph.h"
#include "flow/lost.h"
#include "flow/read.h"
#include "flow/walk.h"
#include "packets/mark.h"
#include "pt_packets.h"

/* So much in front of what is read is kept of a trace that comes in pieces, at most. */
#define BACK_MAX (64u << 10)

/* ---- Making and placing ---- */

/* Before the first packet. */
static void begin_state(struct flow_state *state, const struct ptd_image *image,
                        const struct ptd_flow_config *config)
{
    const struct flow_fact space = {PTD_ITEM_CR3, true, config->cr3};

    state->phase = FLOW_DISABLED;
    state->fresh = true;
    state->mode = (uint8_t)config->mode;
    state->vmcs = config->vmcs;
    state->cr3 = config->cr3;
    if (config->nr)
        ptd_state_set(state, image, &space);
    state->told = 0;
}

/* Everything but what was found out about code; the state and what follows it are zero. */
static void begin(struct ptd_flow *flow, const void *bytes, size_t len_bytes,
                  const struct ptd_flow_config *config)
{
    const struct ptd_image *const image = flow->blocks.image;

    ptd_packets_init(&flow->packets, bytes, len_bytes);
    flow->code_log = ptd_image_code_log(image);
    if (flow->code_log)
        ptd_code_log_rewind(flow->code_log);
    flow->config = config ? *config : (struct ptd_flow_config){.mode = PTD_MODE_64};
    if (flow->config.filters > FILTERS)
        flow->config.filters = FILTERS;
    ptd_packets_set_errata(&flow->packets, flow->config.errata);
    begin_state(&flow->state, image, &flow->config);
    flow->since_mark = MARK_OTHER;
    flow->stop = UINT64_MAX;
    if (!flow->config.at_start)
        ptd_flow_begin_search(flow, PTD_E_NOSYNC, 0);
    flow->state.last_ip = flow->config.last_ip;
    if (flow->config.at_start && flow->config.has_ip) {
        ptd_flow_go_on_at(flow, flow->config.ip);
        flow->state.walked = FLOW_LONG_AGO;
    }
}

struct ptd_flow *ptd_flow_new(const void *bytes, size_t len_bytes, const struct ptd_image *image,
                              const struct ptd_flow_config *config)
{
    struct ptd_flow *const flow = calloc(1, sizeof(*flow));

    if (!flow)
        return NULL;
    ptd_blocks_init(&flow->blocks, image);
    begin(flow, bytes, len_bytes, config);
    return flow;
}

void ptd_flow_begin_stream(struct ptd_flow *flow, uint64_t offset)
{
    flow->packets.base = flow->state.lost.offset = offset;
    flow->window = WINDOW_STARVED;
    if (!flow->config.at_start)
        flow->state.phase = FLOW_SEARCHING; /* for the first PSB, still */
}

void ptd_flow_slide(struct ptd_flow *flow, const void *bytes, size_t len_bytes, uint64_t base,
                    bool more)
{
    ptd_packets_slide(&flow->packets, bytes, len_bytes, base);
    flow->window = more ? WINDOW_MORE : WINDOW_LAST;
}

uint64_t ptd_flow_needs(const struct ptd_flow *flow)
{
    const struct bind *const bind = &flow->state.bind;
    const uint64_t reads_at = ptd_packets_offset(&flow->packets);
    uint64_t needs = reads_at;

    /* An error may lead back to where a compound began, see ptd_flow_fail(). */
    if ((bind->kind != BIND_NONE || bind_is_open(bind)) && bind->offset < needs)
        needs = bind->offset;
    if (needs + BACK_MAX < reads_at)
        needs = reads_at - BACK_MAX;
    return needs < PT_PSB_LEN ? 0 : needs - PT_PSB_LEN;
}

uint64_t ptd_flow_reads_at(const struct ptd_flow *flow)
{
    return ptd_packets_offset(&flow->packets);
}

const struct ptd_item *ptd_flow_lost(const struct ptd_flow *flow)
{
    return flow->state.phase == FLOW_SEARCHING || flow->state.phase == FLOW_LOST ? &flow->state.lost
                                                                                 : NULL;
}

struct flow_state ptd_flow_state(const struct ptd_flow *flow)
{
    return ptd_state_at_psb(&flow->state, ptd_packets_offset(&flow->packets));
}

void ptd_flow_restart(struct ptd_flow *flow, const struct flow_state *state, uint64_t stop)
{
    (void)ptd_packets_seek(&flow->packets, state->offset);
    flow->state = *state;
    flow->state.behind_psb = state->offset;
    call_stack_clear(&flow->calls);
    flow->item_next = flow->item_count = 0;
    flow->since_mark = MARK_OTHER;
    flow->stop = stop;
    flow->first_psb = (struct first_psb){.is_open = true};
}

void ptd_flow_begin_at(struct ptd_flow *flow, uint64_t offset, uint64_t stop)
{
    struct flow_state state = {.offset = offset};

    begin_state(&state, flow->blocks.image, &flow->config);
    ptd_flow_restart(flow, &state, stop);
}

void ptd_flow_stop_at(struct ptd_flow *flow, uint64_t stop)
{
    const struct flow_state state = ptd_flow_state(flow);

    if (flow->state.phase == FLOW_ENDED)
        ptd_flow_restart(flow, &state, stop);
    else
        flow->stop = stop;
}

uint64_t ptd_flow_ends_at(const struct ptd_flow *flow)
{
    return ptd_packets_offset(&flow->packets);
}

uint64_t ptd_flow_fingerprint(const struct ptd_flow *flow)
{
    const struct flow_state state = ptd_flow_state(flow);

    return ptd_state_fingerprint(&state);
}

void ptd_flow_free(struct ptd_flow *flow)
{
    if (!flow)
        return;
    ptd_blocks_free(&flow->blocks);
    ptd_graph_free(flow->graph);
    free(flow->targets);
    free(flow);
}

/* ---- One step ---- */

/* Code was added to the image: what was made of the old code is forgotten. */
static void notice_image(struct ptd_flow *flow)
{
    ptd_blocks_notice(&flow->blocks);
    ptd_bulk_forget_code(flow);
    ptd_flow_reset_loop(flow);
}

/* Where the code log has something that is to be known before the next packet counts. */
static bool log_is_due(const struct ptd_flow *flow)
{
    return flow->code_log &&
           ptd_code_log_next(flow->code_log) <= ptd_packets_offset(&flow->packets);
}

void ptd_flow_begin_trace(struct ptd_flow *flow, const void *bytes, size_t len_bytes,
                          const struct ptd_flow_config *config)
{
    flow->state = (struct flow_state){0};
    flow->window = WINDOW_LAST;
    flow->first_psb = (struct first_psb){0};
    flow->item_next = flow->item_count = 0;
    call_stack_clear(&flow->calls);
    begin(flow, bytes, len_bytes, config);
    if (flow->code_log)
        notice_image(flow);
}

/* Code is known before the packets of whoever runs it. False: no memory. */
static bool follow_log(struct ptd_flow *flow)
{
    bool changed;
    const int status =
        ptd_code_log_advance(flow->code_log, ptd_packets_offset(&flow->packets), &changed);

    if (changed)
        notice_image(flow);
    return status == PTD_OK;
}

static void read_on(struct ptd_flow *flow)
{
    if (flow->window != WINDOW_LAST && !ptd_ahead_is_there(flow->packets))
        flow->window = WINDOW_STARVED;
    else if (log_is_due(flow) && !follow_log(flow))
        ptd_flow_fail(flow, PTD_E_NOMEM, ptd_packets_offset(&flow->packets));
    else
        ptd_flow_read(flow);
}

/* Nobody knows where the code goes on: looks for a PSB, or in a gap for an IP. */
static void advance_lost(struct ptd_flow *flow, bool needs_packet)
{
    if (flow->state.phase == FLOW_SEARCHING) {
        ptd_flow_search(flow);
        return;
    }
    if (needs_packet) {
        ptd_lost_look(flow);
        read_on(flow);
    } else {
        ptd_lost_take(flow);
    }
    ptd_lost_tell(flow);
}

/* Reads one packet if it is needed, or walks one block. Not ended, and no item is waiting. */
static inline void advance(struct ptd_flow *flow, bool needs_packet)
{
    flow->item_next = flow->item_count = 0;
    flow->since_mark = MARK_OTHER;
    if (flow->state.phase == FLOW_SEARCHING || flow->state.phase == FLOW_LOST)
        advance_lost(flow, needs_packet);
    else if (needs_packet)
        read_on(flow);
    else if (ptd_flow_is_at_psb(flow))
        ptd_flow_enter_psb(flow);
    else
        ptd_flow_walk(flow);
}

int ptd_flow_next_before(struct ptd_flow *flow, uint64_t offset, struct ptd_item *item)
{
    if (ptd_blocks_are_old(&flow->blocks))
        notice_image(flow);
    while (flow->item_next == flow->item_count) {
        if (flow->state.phase == FLOW_ENDED)
            return PTD_END;
        if (flow->window == WINDOW_STARVED)
            return PTD_MORE;

        const bool needs_packet = ptd_flow_needs_packet(flow);

        if (needs_packet && ptd_packets_offset(&flow->packets) >= offset)
            return 1;
        advance(flow, needs_packet);
    }
    *item = flow->items[flow->item_next++];
    return PTD_OK;
}

int ptd_flow_next(struct ptd_flow *flow, struct ptd_item *item)
{
    return ptd_flow_next_before(flow, UINT64_MAX, item);
}

/* ---- Runs of steps ---- */

/* The bytes of an item's packet if it is a timing packet; else 0. */
static size_t timing_bytes(const struct ptd_item *item)
{
    switch (item->type) {
    case PTD_ITEM_TSC:
        return PT_TSC_LEN;
    case PTD_ITEM_CBR:
        return PT_CBR_LEN;
    case PTD_ITEM_PACKET:
        break;
    default:
        return 0;
    }
    switch (item->packet.type) {
    case PTD_TMA:
    case PTD_MTC:
    case PTD_CYC:
    case PTD_MNT:
        return item->packet.size_bytes;
    default:
        return 0;
    }
}

static bool is_mnt(const struct ptd_item *item)
{
    return item->type == PTD_ITEM_PACKET && item->packet.type == PTD_MNT;
}

/* Hands over the oldest item that is waiting and wanted. */
static bool take_item(struct ptd_flow *flow, struct ptd_run *run)
{
    while (flow->item_next < flow->item_count) {
        const struct ptd_item *const item = &flow->items[flow->item_next++];

        if (run->timing != PTD_TIMING_ITEMS) {
            const size_t len_bytes = timing_bytes(item);

            if (len_bytes > 0 && run->timing == PTD_TIMING_MARKS && !is_mnt(item))
                run->marks[run->mark_count++] =
                    (struct ptd_mark){item->offset + len_bytes, (uint32_t)run->count, MARK_OTHER};
            if (len_bytes > 0)
                continue;
        }
        run->item = *item;
        run->has_item = true;
        return true;
    }
    return false;
}

/* For the marks of one advance(). */
static bool has_mark_room(const struct ptd_run *run)
{
    return run->timing != PTD_TIMING_MARKS || run->mark_room - run->mark_count >= ITEMS_A_STEP;
}

static int run_on(struct ptd_flow *flow, uint64_t before, struct ptd_run *run, bool may_empty)
{
    bool emptied = false, needs_packet;

    run->count = run->mark_count = 0;
    run->has_item = false;
    if (run->room < PTD_RUN_ROOM ||
        (run->timing == PTD_TIMING_MARKS && run->mark_room < PTD_RUN_ROOM))
        return PTD_E_ARG;
    while (!take_item(flow, run)) {
        if (flow->state.phase == FLOW_ENDED)
            return run->count + run->mark_count > 0 ? PTD_OK : PTD_END;
        if (flow->window == WINDOW_STARVED)
            return run->count + run->mark_count > 0 ? PTD_OK : PTD_MORE;
        if (!has_mark_room(run))
            break;
        if (ptd_bulk_can(flow)) {
            if (run->room - run->count < BULK_MOST_BITS)
                break;

            int status = ptd_bulk_enter(flow);

            if (status == PTD_E_ARG && (run->count + run->mark_count > 0 || !may_empty))
                break; /* numbers that were handed out are still in use */
            if (status == PTD_E_ARG) {
                ptd_bulk_empty_graph(flow);
                emptied = true;
                status = ptd_bulk_enter(flow);
            }
            if (status != PTD_OK)
                return status;
            run->epoch = flow->graph->epoch;
            run->nr = flow->state.nr;
            if (ptd_bulk_run(flow, before, run))
                break;
            if (ptd_graph_is_full(flow->graph) && !emptied)
                continue;
        }
        if (run->count > 0 && log_is_due(flow))
            break; /* steps are numbers of the code as it was */
        needs_packet = ptd_flow_needs_packet(flow);
        if (needs_packet && ptd_packets_offset(&flow->packets) >= before)
            return run->count + run->mark_count > 0 ? PTD_OK : 1;
        advance(flow, needs_packet);
    }
    return PTD_OK;
}

int ptd_flow_run_on(struct ptd_flow *flow, struct ptd_run *run, bool may_empty)
{
    return run_on(flow, UINT64_MAX, run, may_empty);
}

int ptd_flow_run_before(struct ptd_flow *flow, uint64_t offset, struct ptd_run *run)
{
    if (ptd_blocks_are_old(&flow->blocks))
        notice_image(flow);
    return run_on(flow, offset, run, true);
}

int ptd_flow_run(struct ptd_flow *flow, struct ptd_run *run)
{
    return ptd_flow_run_before(flow, UINT64_MAX, run);
}
