/* SPDX-License-Identifier: BSD-3-Clause */
/* libptdec: one instruction flow, decoded in three ways. */
#include "roundtrip/same/peers.h"

#include "flow/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ROOM      4096u
#define SEGMENT_BYTES 4096u
#define THREADS       3u
#define GUEST         1 /* the number of the first VM */
#define NEVER         UINT64_MAX

/* ---- What is found -------------------------------------------------------------------------- */

void found_clear(struct found *found)
{
    found->insns.count = 0;
    found->blocks.count = found->block_insns.count = found->block_ends.count = 0;
    found->arrows.from.count = found->arrows.to.count = 0;
    found->branches = found->errors = 0;
    found->error[0] = '\0';
}

void found_free(struct found *found)
{
    free(found->insns.ip);
    free(found->blocks.ip);
    free(found->block_insns.ip);
    free(found->block_ends.ip);
    free(found->arrows.from.ip);
    free(found->arrows.to.ip);
}

void found_error(struct found *found, uint64_t where, const char *what)
{
    if (found->errors++ > 0)
        return;
    found->first_error = where;
    snprintf(found->error, sizeof(found->error), "%s", what);
}

/* ---- Image ---------------------------------------------------------------------------------- */

/* What came there by a time, and after another. */
static void add_places(struct ptd_image *image, const struct scene *scene, uint64_t after,
                       uint64_t tsc)
{
    for (size_t i = 0; i < scene->place_count; i++) {
        const struct place *const place = &scene->places[i];

        if ((place->tsc > after || after == NEVER) && place->tsc <= tsc &&
            ptd_image_add_bytes(image, NULL, place->base, place->bytes, place->len_bytes,
                                ptd_space(place->in_guest ? GUEST : 0, place->cr3)) != PTD_OK)
            abort();
    }
}

static struct ptd_image *new_image(const struct scene *scene)
{
    struct ptd_image *const image = ptd_image_new();

    if (!image || ptd_image_add_vm(image) != GUEST ||
        ptd_image_bind_vmcs(image, GUEST, GUEST_VMCS) != PTD_OK)
        abort();
    add_places(image, scene, NEVER, 0);
    return image;
}

/* ---- Items ---------------------------------------------------------------------------------- */

struct reader {
    const struct scene *scene;
    struct found *found;
    struct ptd_image *image;
    uint64_t tsc;
    uint64_t from; /* of a branch that has no target yet */
    bool pending;
};

/* Whether a block ends in a branch, and whether that was taken. */
static bool is_branch(const struct ptd_item *block, bool *taken)
{
    const bool branch = block->last_class >= PTD_INSN_COND && block->last_class <= PTD_INSN_VMENTRY;

    *taken = branch && (block->last_class != PTD_INSN_COND || block->taken);
    return branch;
}

static void arrow(struct reader *reader, uint64_t from, uint64_t to)
{
    arrow_add(&reader->found->arrows, from, to);
    reader->pending = false;
}

static void take_block(struct reader *reader, const struct ptd_item *block)
{
    struct found *const found = reader->found;
    uint64_t ip = block->ip;
    struct ptd_insn insn;
    bool branch;

    if (reader->pending)
        arrow(reader, reader->from, block->ip);
    while (ptd_block_insn(reader->image, block, &ip, &insn) == PTD_OK)
        list_add(&found->insns, insn.ip);
    list_add(&found->blocks, block->ip);
    list_add(&found->block_insns, block->insns);
    branch = is_branch(block, &reader->pending);
    list_add(&found->block_ends, branch);
    found->branches += branch;
    reader->from = block->last_ip;
}

static void take_disabled(struct reader *reader, const struct ptd_item *item)
{
    const uint64_t to = item->has_to ? item->to : 0;

    if (reader->pending && item->has_from) /* it ended where the branch led to */
        arrow(reader, reader->from, item->from);
    if (reader->pending || item->has_from)
        arrow(reader, item->has_from ? item->from : reader->from, to);
}

static void take(struct reader *reader, const struct ptd_item *item)
{
    switch (item->type) {
    case PTD_ITEM_BLOCK:
        take_block(reader, item);
        break;
    case PTD_ITEM_ENABLED:
        arrow(reader, 0, item->to);
        break;
    case PTD_ITEM_DISABLED:
        take_disabled(reader, item);
        break;
    case PTD_ITEM_ASYNC:
        if (reader->pending)
            arrow(reader, reader->from, item->from);
        arrow(reader, item->from, item->to);
        break;
    case PTD_ITEM_OVERFLOW:
        if (reader->pending)
            arrow(reader, reader->from, UNTOLD);
        if (item->has_to)
            arrow(reader, 0, item->to);
        break;
    case PTD_ITEM_TSC:
        add_places(reader->image, reader->scene, reader->tsc, item->value);
        reader->tsc = item->value;
        break;
    case PTD_ITEM_ERROR:
        reader->pending = false;
        found_error(reader->found, item->offset, ptd_strerror(item->error));
        break;
    default:
        break;
    }
}

/* ---- Three ways ----------------------------------------------------------------------------- */

void by_next(const struct scene *scene, const struct trace *trace, struct found *found)
{
    struct reader reader = {.scene = scene, .found = found, .image = new_image(scene)};
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, reader.image, &trace->config);
    struct ptd_item item;

    if (!flow)
        abort();
    while (ptd_flow_next(flow, &item) == PTD_OK)
        take(&reader, &item);
    ptd_flow_free(flow);
    ptd_image_free(reader.image);
}

static void take_run(struct reader *reader, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct ptd_item block;

    for (size_t i = 0; i < run->count; i++)
        for (size_t n = 0; ptd_step_block(flow, run->steps[i], n, &block) == PTD_OK; n++)
            take(reader, &block);
    if (run->has_item)
        take(reader, &run->item);
}

void by_run(const struct scene *scene, const struct trace *trace, struct found *found)
{
    struct reader reader = {.scene = scene, .found = found, .image = new_image(scene)};
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, reader.image, &trace->config);
    static uint32_t steps[RUN_ROOM];
    struct ptd_run run = {.steps = steps, .room = RUN_ROOM};
    int status;

    if (!flow)
        abort();
    while ((status = ptd_flow_run(flow, &run)) == PTD_OK)
        take_run(&reader, flow, &run);
    if (status != PTD_END)
        found_error(found, 0, ptd_strerror(status));
    ptd_flow_free(flow);
    ptd_image_free(reader.image);
}

static int take_part(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    take_run(context, flow, run);
    return 0;
}

void by_parallel(const struct scene *scene, const struct trace *trace, struct found *found)
{
    struct reader reader = {.scene = scene, .found = found, .image = new_image(scene)};
    const int status =
        ptd_flow_parallel_by(SEGMENT_BYTES, trace->bytes, trace->len_bytes, reader.image,
                             &trace->config, PTD_TIMING_NONE, THREADS, take_part, &reader);

    if (status != PTD_OK)
        found_error(found, 0, ptd_strerror(status));
    ptd_image_free(reader.image);
}
