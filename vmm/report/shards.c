/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of a part of a trace, written as JSON and put together again. Rows are arrays of
 * numbers; names and those who ran are numbers in lists that stand beside them. Who reads them
 * trusts none of it.
 */
#include "report/report.h"
#include "common/hash.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

/* ---- The state ---- */

static bool restart(void *out)
{
    struct report *const report = out;

    if (!tally_flush(report->tally)) /* of what is muted */
        return false;
    tally_restart(report->tally);
    sums_begin(&report->sums, report->sums.thread);
    events_begin(&report->events);
    return true;
}

static bool mute(void *out, bool is_muted)
{
    struct report *const report = out;
    const bool is_good = tally_mute(report->tally, is_muted);

    report->sums.is_muted = is_muted;
    return is_good;
}

static uint64_t fingerprint(const void *out)
{
    const struct report *const report = out;

    return hash_more(tally_fingerprint(report->tally),
                     events_fingerprint(&report->events, &report->sums, report->tally));
}

/* ---- Writing ---- */

static void put(json_object *row, uint64_t number)
{
    json_object_array_add(row, json_object_new_uint64(number));
}

static void put_row(json_object *list, const struct sums_row *from)
{
    json_object *row;

    if (from->insns == 0 && from->ticks == 0 && from->fraction == 0)
        return;
    row = json_object_new_array();
    put(row, from->function);
    put(row, from->file);
    put(row, from->who);
    put(row, from->in_kernel);
    put(row, from->insns);
    put(row, from->blocks);
    put(row, from->calls);
    put(row, from->ticks);
    put(row, from->fraction);
    json_object_array_add(list, row);
}

static json_object *rows_to_json(const struct sums_row *rows, size_t count)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; i < count; i++)
        put_row(list, &rows[i]);
    return list;
}

static json_object *who_to_json(const struct sums *sums)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; i < sums->who_count; i++) {
        const struct sums_who *const one = &sums->who[i];
        json_object *const row = json_object_new_array();

        put(row, one->vm);
        put(row, one->name);
        put(row, one->pid);
        put(row, one->tid);
        put(row, one->has_cr3);
        put(row, one->cr3);
        put(row, (uint32_t)(one->cpu + 1));
        json_object_array_add(list, row);
    }
    return list;
}

static json_object *names_to_json(const struct names *names)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; i < names->count; i++)
        json_object_array_add(list, json_object_new_string(names->list[i]));
    return list;
}

static json_object *events_to_json(const struct events *events)
{
    json_object *const list = json_object_new_array();

    for (size_t i = 0; i < events->count; i++) {
        const struct event *const event = &events->list[i];
        json_object *row;

        if (event->count == 0 && event->ticks == 0 && event->insns == 0)
            continue;
        row = json_object_new_array();
        put(row, event->kind);
        put(row, event->what);
        put(row, event->who);
        put(row, event->vector);
        put(row, event->count);
        put(row, event->ticks);
        put(row, event->insns);
        put(row, event->bytes);
        put(row, event->has_address);
        put(row, event->address);
        json_object_array_add(list, row);
    }
    return list;
}

static json_object *save(const void *out)
{
    const struct report *const report = out;
    const struct sums *const sums = &report->sums;
    json_object *const root = json_object_new_object();

    json_object_object_add(root, "names", names_to_json(&sums->names));
    json_object_object_add(root, "who", who_to_json(sums));
    json_object_object_add(root, "rows", rows_to_json(sums->rows, sums->row_count));
    json_object_object_add(root, "rows_of_who",
                           rows_to_json(sums->who_rows, sums->is_of_all ? sums->who_count : 0));
    json_object_object_add(root, "events", events_to_json(&report->events));
    json_object_object_add(root, "untraced", json_object_new_uint64(tally_untraced(report->tally)));
    json_object_object_add(root, "instructions",
                           json_object_new_uint64(tally_insns(report->tally)));
    json_object_object_add(root, "cut_off", json_object_new_boolean(sums->is_cut_off));
    return root;
}

/* ---- Reading ---- */

/* What numbers of the file are here. */
struct loading {
    struct report *report;
    uint32_t *names, *who;
    size_t name_count, who_count;
};

static json_object *member(json_object *root, const char *key, enum json_type type)
{
    json_object *value;

    return json_object_object_get_ex(root, key, &value) && json_object_is_type(value, type) ? value
                                                                                            : NULL;
}

/* Row number index, if it has so many numbers. False: it is none. */
static bool get_row(json_object *list, size_t index, uint64_t *numbers, size_t count)
{
    json_object *const row = json_object_array_get_idx(list, index);

    if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        json_object *const number = json_object_array_get_idx(row, i);

        if (!json_object_is_type(number, json_type_int) || json_object_get_int64(number) < 0)
            return false;
        numbers[i] = json_object_get_uint64(number);
    }
    return true;
}

/* A number of the file, as one of here. False: it is none. */
static bool translate(const uint32_t *list, size_t count, uint64_t number, bool may_be_none,
                      uint32_t *here)
{
    *here = UINT32_MAX;
    if (may_be_none && number == UINT32_MAX)
        return true;
    if (number >= count)
        return false;
    *here = list[number];
    return true;
}

/* NULL with *count 0: there is none, or no memory. */
static uint32_t *new_list(json_object *from, size_t *count)
{
    *count = from ? json_object_array_length(from) : 0;
    return from ? calloc(*count + 1, sizeof(uint32_t)) : NULL;
}

static int load_names(struct loading *loading, json_object *from)
{
    loading->names = new_list(from, &loading->name_count);
    if (!loading->names)
        return from ? -ENOMEM : -EINVAL;
    for (size_t i = 0; i < loading->name_count; i++) {
        json_object *const name = json_object_array_get_idx(from, i);

        if (!json_object_is_type(name, json_type_string))
            return -EINVAL;
        loading->names[i] = names_add(&loading->report->sums.names, json_object_get_string(name));
        if (loading->names[i] == UINT32_MAX)
            return -ENOMEM;
    }
    return 0;
}

static int load_one(struct loading *loading, const uint64_t *numbers, uint32_t *here)
{
    struct sums_who one = {.pid = (uint32_t)numbers[2],
                           .tid = (uint32_t)numbers[3],
                           .has_cr3 = numbers[4] != 0,
                           .cr3 = numbers[5],
                           .cpu = (int)((uint32_t)numbers[6] - 1)};

    if (!translate(loading->names, loading->name_count, numbers[0], true, &one.vm) ||
        !translate(loading->names, loading->name_count, numbers[1], false, &one.name))
        return -EINVAL;
    *here = sums_number_of(&loading->report->sums, &one);
    return *here == UINT32_MAX ? -ENOMEM : 0;
}

static int load_who(struct loading *loading, json_object *from)
{
    uint64_t numbers[7];
    int error = 0;

    loading->who = new_list(from, &loading->who_count);
    if (!loading->who)
        return from ? -ENOMEM : -EINVAL;
    for (size_t i = 0; !error && i < loading->who_count; i++)
        error =
            get_row(from, i, numbers, 7) ? load_one(loading, numbers, &loading->who[i]) : -EINVAL;
    return error;
}

/* The row that numbers tell goes into the one of its key. */
static int load_row(struct loading *loading, const uint64_t *numbers, bool is_of_who)
{
    struct sums *const sums = &loading->report->sums;
    struct sums_row row = {.in_kernel = numbers[3] != 0,
                           .insns = numbers[4],
                           .blocks = numbers[5],
                           .calls = numbers[6],
                           .ticks = numbers[7],
                           .fraction = (uint32_t)numbers[8] & ((1u << TALLY_FRACTION) - 1)};
    uint32_t number;

    if (!translate(loading->who, loading->who_count, numbers[2], false, &row.who))
        return -EINVAL;
    if (is_of_who) {
        sums_add_row(&sums->who_rows[row.who], &row);
        return 0;
    }
    if (!translate(loading->names, loading->name_count, numbers[0], false, &row.function) ||
        !translate(loading->names, loading->name_count, numbers[1], true, &row.file))
        return -EINVAL;
    if (sums->is_of_all)
        row.who = 0;
    number = sums_row_at(sums, &row);
    if (number == UINT32_MAX)
        return -ENOMEM;
    sums_add_row(&sums->rows[number], &row);
    return 0;
}

static int load_rows(struct loading *loading, json_object *from, bool is_of_who)
{
    const size_t count = from ? json_object_array_length(from) : 0;
    uint64_t numbers[9];
    int error = from ? 0 : -EINVAL;

    for (size_t i = 0; !error && i < count; i++)
        error = get_row(from, i, numbers, 9) ? load_row(loading, numbers, is_of_who) : -EINVAL;
    return error;
}

static int load_event(struct loading *loading, const uint64_t *numbers)
{
    struct event like = {.kind = (enum event_kind)numbers[0],
                         .what = (uint32_t)numbers[1],
                         .vector = (uint16_t)numbers[3],
                         .has_address = numbers[8] != 0,
                         .address = numbers[9]};
    struct event *event;

    if (numbers[0] > EVENT_OVERFLOW ||
        !translate(loading->who, loading->who_count, numbers[2], false, &like.who) ||
        (like.kind == EVENT_INTERRUPT &&
         !translate(loading->names, loading->name_count, numbers[1], false, &like.what)))
        return -EINVAL;
    event = events_at(&loading->report->events, &like);
    if (!event)
        return -ENOMEM;
    event->count += numbers[4];
    event->ticks += numbers[5];
    event->insns += numbers[6];
    event->bytes += numbers[7];
    return 0;
}

static int load_events(struct loading *loading, json_object *from)
{
    const size_t count = from ? json_object_array_length(from) : 0;
    uint64_t numbers[10];
    int error = from ? 0 : -EINVAL;

    for (size_t i = 0; !error && i < count; i++)
        error = get_row(from, i, numbers, 10) ? load_event(loading, numbers) : -EINVAL;
    return error;
}

static int load(void *out, json_object *root)
{
    struct loading loading = {.report = out};
    struct report *const report = out;
    json_object *const untraced = member(root, "untraced", json_type_int);
    json_object *const insns = member(root, "instructions", json_type_int);
    json_object *const cut_off = member(root, "cut_off", json_type_boolean);
    int error = untraced && insns && cut_off ? 0 : -EINVAL;

    if (!error)
        error = load_names(&loading, member(root, "names", json_type_array));
    if (!error)
        error = load_who(&loading, member(root, "who", json_type_array));
    if (!error)
        error = load_rows(&loading, member(root, "rows", json_type_array), false);
    if (!error)
        error = load_rows(&loading, member(root, "rows_of_who", json_type_array), true);
    if (!error)
        error = load_events(&loading, member(root, "events", json_type_array));
    if (!error) {
        report->untraced += json_object_get_uint64(untraced);
        report->insns += json_object_get_uint64(insns);
        report->sums.is_cut_off = report->sums.is_cut_off || json_object_get_boolean(cut_off);
    }
    free(loading.names);
    free(loading.who);
    return error;
}

const struct out_shards report_shards = {
    .restart = restart, .mute = mute, .fingerprint = fingerprint, .save = save, .load = load};
