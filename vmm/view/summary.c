/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode --summary: how much ran, and in which functions. Nothing of it depends on the order of
 * blocks or on time, so the trace is decoded in bulk, on several threads: a step is counted by its
 * number, and looked at once.
 */
#include "view/decode.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/progress.h"
#include "trace/hot.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SHOWN 20u /* functions, in text */

/* A block of a step. */
struct part {
    uint32_t function; /* in hot */
    uint32_t insns;
    uint8_t last_class;
};

/* A step that was seen in this epoch. */
struct seen {
    uint64_t count;
    uint32_t first_part, parts;
};

struct summary {
    const struct ptd_image *image;
    struct seen *seen; /* by number of code, and whether the branch was taken */
    size_t seen_room;
    struct part *parts;
    size_t part_count, part_room;
    uint32_t epoch;

    struct hot hot;
    uint64_t insns, blocks, branches, conditional, taken, async, errors, lost_bytes;
    struct ptd_item first_error; /* if there are any */
};

/* ---- Counting ---- */

static bool add_block(struct summary *summary, const struct part *part, bool taken, uint64_t count)
{
    if (!hot_add(&summary->hot, part->function, 0, count, part->insns))
        return false;
    summary->insns += count * part->insns;
    summary->blocks += count;
    if (part->last_class >= PTD_INSN_COND && part->last_class <= PTD_INSN_IRET)
        summary->branches += count;
    if (part->last_class == PTD_INSN_COND) {
        summary->conditional += count;
        summary->taken += taken ? count : 0;
    }
    return true;
}

/* False: no memory. */
static bool describe(struct summary *summary, const struct ptd_item *block, struct part *part)
{
    *part = (struct part){.function = hot_function(&summary->hot, summary->image, block),
                          .insns = block->insns,
                          .last_class = block->last_class};
    return part->function != UINT32_MAX;
}

/* The steps of an epoch into the sums, and forgotten. */
static bool end_epoch(struct summary *summary)
{
    for (size_t i = 0; i < summary->seen_room; i++) {
        const struct seen *const seen = &summary->seen[i];

        for (uint32_t j = 0; j < seen->parts; j++) {
            if (!add_block(summary, &summary->parts[seen->first_part + j], i & 1, seen->count))
                return false;
        }
    }
    if (summary->seen)
        memset(summary->seen, 0, summary->seen_room * sizeof(*summary->seen));
    summary->part_count = 0;
    return true;
}

static bool grow_parts(struct summary *summary)
{
    const size_t room = summary->part_room ? 2 * summary->part_room : 1024;
    struct part *grown;

    if (summary->part_count < summary->part_room)
        return true;
    grown = reallocarray(summary->parts, room, sizeof(*grown));
    if (!grown)
        return false;
    summary->parts = grown;
    summary->part_room = room;
    return true;
}

static bool see_step(struct summary *summary, const struct ptd_flow *flow, uint32_t step,
                     struct seen *seen)
{
    struct ptd_item block;

    seen->first_part = (uint32_t)summary->part_count;
    for (size_t i = 0; ptd_step_block(flow, step, i, &block) == PTD_OK; i++) {
        if (!grow_parts(summary) ||
            !describe(summary, &block, &summary->parts[summary->part_count]))
            return false;
        summary->part_count++;
        seen->parts++;
    }
    return true;
}

/* Room for all steps that there can be by now. */
static bool grow_seen(struct summary *summary, const struct ptd_flow *flow)
{
    size_t codes, room = summary->seen_room;
    struct seen *grown;

    (void)ptd_flow_insns(flow, &codes);
    if (2 * codes <= room)
        return true;
    while (room < 2 * codes)
        room = room ? 2 * room : 1024;
    grown = reallocarray(summary->seen, room, sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + summary->seen_room, 0, (room - summary->seen_room) * sizeof(*grown));
    summary->seen = grown;
    summary->seen_room = room;
    return true;
}

static bool see_steps(struct summary *summary, const struct ptd_flow *flow,
                      const struct ptd_run *run)
{
    if (run->count == 0)
        return true;
    if (run->epoch != summary->epoch && !end_epoch(summary))
        return false;
    summary->epoch = run->epoch;
    if (!grow_seen(summary, flow))
        return false;
    for (size_t i = 0; i < run->count; i++) {
        const uint32_t step = run->steps[i];
        struct seen *const seen = &summary->seen[(step >> 2) * 2 + (step & 1)];

        if (seen->count++ == 0 && !see_step(summary, flow, step, seen))
            return false;
    }
    return true;
}

static bool see_item(struct summary *summary, const struct ptd_item *item)
{
    struct part part;

    switch (item->type) {
    case PTD_ITEM_BLOCK:
        return describe(summary, item, &part) && add_block(summary, &part, item->taken, 1);
    case PTD_ITEM_ASYNC:
        summary->async++;
        break;
    case PTD_ITEM_ERROR:
        if (summary->errors++ == 0)
            summary->first_error = *item;
        summary->lost_bytes += item->value;
        break;
    default:
        break;
    }
    return true;
}

static int see_run(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct summary *const summary = context;

    if (run->has_item)
        progress_to(run->item.offset);
    if (!see_steps(summary, flow, run) || (run->has_item && !see_item(summary, &run->item)))
        return PTD_E_NOMEM;
    return 0;
}

/* ---- Output ---- */

static void print_text(const struct summary *summary)
{
    printf("instructions %" PRIu64 "\nblocks       %" PRIu64 "\nbranches     %" PRIu64 " (%" PRIu64
           " conditional, %" PRIu64 " taken)\ninterrupts   %" PRIu64 "\nerrors       %" PRIu64
           " (%" PRIu64 " bytes lost)\n",
           summary->insns, summary->blocks, summary->branches, summary->conditional, summary->taken,
           summary->async, summary->errors, summary->lost_bytes);
    if (summary->errors > 0)
        printf("the first    %s", ptd_strerror(summary->first_error.error));
    if (summary->first_error.has_from)
        printf(": %#" PRIx64, summary->first_error.from);
    printf(summary->errors > 0 ? "\n\n" : "\n");
    for (size_t i = 0; i < summary->hot.sums.count && i < SHOWN; i++) {
        const struct sum *const sum = &summary->hot.sums.sums[i];
        struct escaped room;

        printf("%6.2f %%  %12" PRIu64 "  %s\n", 100.0 * (double)sum->cost / (double)summary->insns,
               sum->cost, escaped(hot_name(&summary->hot, sum), &room));
    }
    if (summary->hot.sums.count > SHOWN)
        printf("and %zu more functions\n", summary->hot.sums.count - SHOWN);
}

static json_object *error_to_json(const struct ptd_item *error)
{
    json_object *const object = json_object_new_object();

    json_add_number(object, "offset", error->offset);
    json_object_object_add(object, "text", json_object_new_string(ptd_strerror(error->error)));
    if (error->has_from)
        json_add_number(object, "address", error->from);
    return object;
}

static void print_json(const struct summary *summary)
{
    json_object *const root = json_object_new_object(), *const list = json_object_new_array();

    json_add_number(root, "instructions", summary->insns);
    json_add_number(root, "blocks", summary->blocks);
    json_add_number(root, "branches", summary->branches);
    json_add_number(root, "conditional", summary->conditional);
    json_add_number(root, "taken", summary->taken);
    json_add_number(root, "interrupts", summary->async);
    json_add_number(root, "errors", summary->errors);
    json_add_number(root, "lost_bytes", summary->lost_bytes);
    if (summary->errors > 0)
        json_object_object_add(root, "first_error", error_to_json(&summary->first_error));
    for (size_t i = 0; i < summary->hot.sums.count; i++) {
        const struct sum *const sum = &summary->hot.sums.sums[i];
        json_object *const entry = json_object_new_object();
        const char *const name = hot_name(&summary->hot, sum);

        json_object_object_add(entry, "name", json_object_new_string(name));
        json_add_number(entry, "instructions", sum->cost);
        json_add_number(entry, "blocks", sum->count);
        json_object_array_add(list, entry);
    }
    json_object_object_add(root, "functions", list);
    json_print(root, JSON_C_TO_STRING_PRETTY);
}

/* ---- The trace ---- */

static int summarise(struct decode_options *options, const void *bytes, size_t len,
                     struct reason *why)
{
    struct summary summary = {.image = options->image, .hot.shown = options->names};
    const int status = ptd_flow_parallel(bytes, len, options->image, &options->config,
                                         PTD_TIMING_NONE, options->threads, see_run, &summary);
    int error = 0;

    progress_end();
    if (status != PTD_OK || !end_epoch(&summary)) {
        error = reason_no_memory(why);
    } else {
        hot_sort(&summary.hot);
        if (options->json)
            print_json(&summary);
        else
            print_text(&summary);
        options->errors = summary.errors;
    }
    free(summary.seen);
    free(summary.parts);
    hot_free(&summary.hot);
    return error;
}

static int summarise_file(struct decode_options *options, const struct input *input,
                          struct reason *why)
{
    struct stat status;
    void *bytes;
    int error;

    if (fstat(input->fd, &status) != 0)
        return reason_of_file(why, -errno, input->name);
    if (status.st_size == 0)
        return summarise(options, "", 0, why);
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, input->fd, 0);
    if (bytes == MAP_FAILED)
        return reason_of_file(why, -errno, input->name);
    error = summarise(options, bytes, (size_t)status.st_size, why);
    (void)munmap(bytes, (size_t)status.st_size);
    return error;
}

int decode_summary(struct decode_options *options, struct input *input, struct reason *why)
{
    struct bytes bytes = {0};
    int error;

    if (input->is_file)
        return summarise_file(options, input, why);
    error = input_take_all(input, &bytes);
    error = error ? reason_of_file(why, error, input->name)
                  : summarise(options, bytes.data, bytes.len, why);
    bytes_free(&bytes);
    return error;
}
