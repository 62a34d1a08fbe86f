/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt decode --summary: how much ran, and in which functions. Nothing of it depends on time, and on
 * the order of blocks only where names change, so the trace is decoded in bulk, on several threads:
 * a step is counted by its number, and looked at once.
 */
#include "view/decode.h"
#include "common/bytes.h"
#include "common/escape.h"
#include "common/json.h"
#include "common/list.h"
#include "common/progress.h"
#include "trace/hot.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 20u /* functions, in text */

/* A block of a step. */
struct part {
    uint32_t function; /* in hot */
    uint32_t insns;
    uint8_t last_class;
    bool taken; /* the conditional branch at its end */
};

/* A step that was seen in this epoch, or since names changed. */
struct seen {
    uint64_t count;
    uint32_t first_part, parts;
};

struct summary {
    const struct out_thread *thread;
    bool is_muted;     /* what comes is in no sum */
    struct seen *seen; /* by number of code, and whether the branch was taken */
    size_t seen_room;
    uint32_t *numbers; /* of those that were seen */
    size_t number_count, number_room;
    struct part *parts;
    size_t part_count, part_room;
    uint32_t epoch;
    uint64_t renames; /* of functions, so far */

    struct hot hot;
    uint64_t insns, blocks, branches, conditional, taken, async, errors, lost_bytes;
    struct ptd_item first_error; /* if there are any */
};

/* ---- Counting ---- */

static bool add_block(struct summary *summary, const struct part *part, uint64_t count)
{
    if (summary->is_muted)
        return true;
    if (!hot_add(&summary->hot, part->function, 0, count, part->insns))
        return false;
    summary->insns += count * part->insns;
    summary->blocks += count;
    if (part->last_class >= PTD_INSN_COND && part->last_class <= PTD_INSN_IRET)
        summary->branches += count;
    if (part->last_class == PTD_INSN_COND) {
        summary->conditional += count;
        summary->taken += part->taken ? count : 0;
    }
    return true;
}

/* False: no memory. */
static bool describe(struct summary *summary, const struct ptd_item *block, struct part *part)
{
    *part = (struct part){.function = hot_function(&summary->hot, summary->thread->image, block),
                          .insns = block->insns,
                          .last_class = block->last_class,
                          .taken = block->taken};
    return part->function != UINT32_MAX;
}

/* The steps of an epoch into the sums, and forgotten. */
static bool end_epoch(struct summary *summary)
{
    for (size_t i = 0; i < summary->number_count; i++) {
        const uint32_t number = summary->numbers[i];
        struct seen *const seen = &summary->seen[number];

        for (uint32_t j = 0; j < seen->parts; j++) {
            if (!add_block(summary, &summary->parts[seen->first_part + j], seen->count))
                return false;
        }
        *seen = (struct seen){0};
    }
    summary->number_count = summary->part_count = 0;
    return true;
}

static bool see_step(struct summary *summary, const struct ptd_flow *flow, uint32_t step,
                     struct seen *seen)
{
    uint32_t *const numbers =
        list_grow(summary->numbers, summary->number_count, &summary->number_room, sizeof(*numbers));
    struct ptd_item block;

    if (!numbers)
        return false;
    summary->numbers = numbers;
    summary->numbers[summary->number_count++] = (uint32_t)(seen - summary->seen);
    seen->first_part = (uint32_t)summary->part_count;
    for (size_t i = 0; ptd_step_block(flow, step, i, &block) == PTD_OK; i++) {
        struct part *const parts =
            list_grow(summary->parts, summary->part_count, &summary->part_room, sizeof(*parts));

        if (!parts)
            return false;
        summary->parts = parts;
        if (!describe(summary, &block, &parts[summary->part_count]))
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

    if (summary->is_muted)
        return true;
    switch (item->type) {
    case PTD_ITEM_BLOCK:
        return describe(summary, item, &part) && add_block(summary, &part, 1);
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

/* Steps that were seen keep the names that they had. */
static bool notice_names(struct summary *summary)
{
    const uint64_t *const renames = summary->thread->renames;

    if (!renames || *renames == summary->renames)
        return true;
    summary->renames = *renames;
    return end_epoch(summary);
}

/* ---- As a format of a stream ---- */

static bool begin(void *out, const struct out_thread *thread)
{
    struct summary *const summary = out;

    summary->thread = thread;
    summary->hot.shown = thread->shown;
    return true;
}

static bool item(void *out, const struct ptd_item *item, uint64_t time)
{
    (void)time;
    return see_item(out, item);
}

static bool run(void *out, const struct ptd_flow *flow, const struct ptd_run *run,
                const struct ptd_time_point *points)
{
    struct summary *const summary = out;

    (void)points;
    return notice_names(summary) && see_steps(summary, flow, run) &&
           (!run->has_item || see_item(summary, &run->item));
}

static bool end(void *out)
{
    return end_epoch(out);
}

/* ---- Of shards ---- */

/* Steps have numbers of their flow, which goes on. */
static bool restart(void *out)
{
    return end_epoch(out);
}

static bool mute(void *out, bool is_muted)
{
    struct summary *const summary = out;
    const bool is_good = end_epoch(summary);

    summary->is_muted = is_muted;
    return is_good;
}

/* Sums depend on nothing but the flow. */
static uint64_t fingerprint(const void *out)
{
    (void)out;
    return 0;
}

static const char *const keys[] = {"instructions", "blocks", "branches",   "conditional", "taken",
                                   "interrupts",   "errors", "lost_bytes", NULL};

static uint64_t *count_of(struct summary *summary, size_t index)
{
    uint64_t *const counts[] = {&summary->insns,       &summary->blocks,    &summary->branches,
                                &summary->conditional, &summary->taken,     &summary->async,
                                &summary->errors,      &summary->lost_bytes};

    return counts[index];
}

/* In the order in which they were seen: that of their names. */
static json_object *functions_to_json(const struct summary *summary)
{
    json_object *const list = json_object_new_array();

    for (uint32_t i = 0; i < summary->hot.names.count; i++) {
        const struct sum *const sum = table_find(&summary->hot.sums, i, 0, 0);
        json_object *const row = sum ? json_object_new_array() : NULL;

        if (!sum)
            continue;
        json_object_array_add(row, json_object_new_string(summary->hot.names.list[i]));
        json_object_array_add(row, json_object_new_uint64(sum->count));
        json_object_array_add(row, json_object_new_uint64(sum->cost));
        json_object_array_add(list, row);
    }
    return list;
}

static json_object *save(const void *out)
{
    struct summary summary = *(const struct summary *)out;
    const struct ptd_item *const first = &summary.first_error;
    json_object *const root = json_object_new_object();

    for (size_t i = 0; keys[i]; i++)
        json_add_number(root, keys[i], *count_of(&summary, i));
    json_add_number(root, "error", (uint64_t)-first->error);
    json_add_number(root, "error_offset", first->offset);
    json_add_number(root, "error_has_address", first->has_from);
    json_add_number(root, "error_address", first->from);
    json_object_object_add(root, "functions", functions_to_json(&summary));
    return root;
}

/* False: there is no such number. */
static bool get(json_object *from, uint64_t *number)
{
    if (!json_object_is_type(from, json_type_int) || json_object_get_int64(from) < 0)
        return false;
    *number = json_object_get_uint64(from);
    return true;
}

static int load_function(struct summary *summary, json_object *row)
{
    json_object *name;
    uint64_t count, cost;
    uint32_t number;
    struct sum *sum;

    if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != 3)
        return -EINVAL;
    name = json_object_array_get_idx(row, 0);
    if (!json_object_is_type(name, json_type_string) ||
        !get(json_object_array_get_idx(row, 1), &count) ||
        !get(json_object_array_get_idx(row, 2), &cost))
        return -EINVAL;
    number = names_add(&summary->hot.names, json_object_get_string(name));
    sum = number == UINT32_MAX ? NULL : table_at(&summary->hot.sums, number, 0, 0);
    if (!sum)
        return -ENOMEM;
    sum->count += count;
    sum->cost += cost;
    return 0;
}

static int load_error(struct summary *summary, json_object *root)
{
    uint64_t error, offset, has_address, address;

    if (!get(json_object_object_get(root, "error"), &error) || error > INT32_MAX ||
        !get(json_object_object_get(root, "error_offset"), &offset) ||
        !get(json_object_object_get(root, "error_has_address"), &has_address) ||
        !get(json_object_object_get(root, "error_address"), &address))
        return -EINVAL;
    if (summary->errors == 0)
        summary->first_error = (struct ptd_item){
            .error = -(int)error, .offset = offset, .has_from = has_address != 0, .from = address};
    return 0;
}

static int load(void *out, json_object *root)
{
    struct summary *const summary = out;
    json_object *const functions = json_object_object_get(root, "functions");
    int error = load_error(summary, root);
    uint64_t number;

    for (size_t i = 0; !error && keys[i]; i++) {
        error = get(json_object_object_get(root, keys[i]), &number) ? 0 : -EINVAL;
        *count_of(summary, i) += error ? 0 : number;
    }
    if (!error && !json_object_is_type(functions, json_type_array))
        error = -EINVAL;
    for (size_t i = 0; !error && i < json_object_array_length(functions); i++)
        error = load_function(summary, json_object_array_get_idx(functions, i));
    return error;
}

static const struct out_shards summary_shards = {
    .restart = restart, .mute = mute, .fingerprint = fingerprint, .save = save, .load = load};

static const struct out_format summary_format = {.name = "summary",
                                                 .is_timeless = true,
                                                 .begin = begin,
                                                 .item = item,
                                                 .run = run,
                                                 .takes_compounds = true,
                                                 .end = end,
                                                 .shards = &summary_shards};

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

static void print(struct summary *summary, const struct decode_options *options)
{
    progress_end();
    hot_sort(&summary->hot);
    if (options->json)
        print_json(summary);
    else
        print_text(summary);
}

int decode_summary(struct decode_options *options, struct stream *stream)
{
    struct summary summary = {0};
    struct input *const input = stream->input;
    int error = 0;

    if (!input->is_file) { /* in bulk, a trace has to be all there */
        error = input_take_all(input, &stream->packets);
        if (error)
            return reason_of_file(stream->why, error, input->name);
        stream->input = NULL;
    }
    options->format = &summary_format;
    stream->out = &summary;
    error = stream_decode(options, stream);
    stream->out = NULL;
    options->format = NULL;
    if (!error && !(options->shards && options->shards->word))
        print(&summary, options);
    if (!input->is_file)
        bytes_free(&stream->packets);
    free(summary.seen);
    free(summary.numbers);
    free(summary.parts);
    hot_free(&summary.hot);
    return error;
}
