/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of rows. What a group is known by is a way through a tree: each number of the key leads
 * from a node to the next, and the last one is the group.
 */
#include "report/group.h"
#include "common/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOST "host"

static const char *const words[] = {
    [BY_VM] = "vm",   [BY_PROCESS] = "process", [BY_NAME] = "name",         [BY_THREAD] = "thread",
    [BY_CPU] = "cpu", [BY_MODE] = "mode",       [BY_FUNCTION] = "function", [BY_FILE] = "file",
};

const char *report_by_word(size_t by)
{
    return by < BY_COUNT ? words[by] : NULL;
}

/* ---- Which ---- */

bool is_wanted_who(const struct report *report, const struct report_options *options, uint32_t who)
{
    return sums_takes(&report->sums, &options->filter, who);
}

/* ---- Groups ---- */

struct grouping {
    const struct report *report;
    struct table tree; /* node, which, number -> node (.count) */
    struct groups *groups;
    struct table leaves; /* node -> group */
};

/* The node behind a node; UINT64_MAX: no memory. */
static uint64_t step(struct grouping *grouping, uint64_t node, enum report_by by, uint64_t number)
{
    const struct sum *const sum =
        node == UINT64_MAX ? NULL : table_at(&grouping->tree, node, by, number);

    return sum ? (uint64_t)(sum - grouping->tree.sums) + 1 : UINT64_MAX;
}

static uint64_t step_by(struct grouping *grouping, uint64_t node, const struct sums_row *row,
                        enum report_by by)
{
    const struct sums_who *const who = &grouping->report->sums.who[row->who];

    switch (by) {
    case BY_VM:
        return step(grouping, node, by, who->vm);
    case BY_THREAD:
    case BY_PROCESS:
        if (by == BY_THREAD)
            node = step(grouping, node, by, who->tid);
        node = step(grouping, node, by, who->pid);
        node = step(grouping, node, by, who->cr3);
        return step(grouping, node, by, who->name);
    case BY_NAME:
        return step(grouping, node, by, who->name);
    case BY_CPU:
        return step(grouping, node, by, (uint64_t)who->cpu);
    case BY_MODE:
        return step(grouping, node, by, row->in_kernel);
    case BY_FILE:
        return step(grouping, node, by, row->file);
    default:
        return step(grouping, node, by, row->function);
    }
}

static struct group *group_at(struct grouping *grouping, uint64_t node, const struct sums_row *row)
{
    struct groups *const groups = grouping->groups;
    struct sum *const sum = table_at(&grouping->leaves, node, 0, 0);

    if (!sum || node == UINT64_MAX)
        return NULL;
    if (sum->count == 0) {
        struct group *const grown =
            list_grow(groups->list, groups->count, &groups->room, sizeof(*grown));

        if (!grown)
            return NULL;
        groups->list = grown;
        groups->list[groups->count++] = (struct group){.row = row};
        sum->count = groups->count;
    }
    return &groups->list[sum->count - 1];
}

static void add_to(struct group *group, const struct sums_row *row)
{
    group->insns += row->insns;
    group->blocks += row->blocks;
    group->calls += row->calls;
    group->fraction += row->fraction;
    group->ticks += row->ticks + (group->fraction >> TALLY_FRACTION);
    group->fraction &= (1u << TALLY_FRACTION) - 1;
}

static bool put_row(struct grouping *grouping, const struct sums_row *row, const enum report_by *by,
                    size_t by_count)
{
    uint64_t node = 0;
    struct group *group;

    for (size_t i = 0; i < by_count; i++)
        node = step_by(grouping, node, row, by[i]);
    group = group_at(grouping, node, row);
    if (group)
        add_to(group, row);
    return group;
}

/* What groups are in order by: the most of this, and of equals those whose names come first. */
struct order {
    const struct report *report;
    const enum report_by *by;
    size_t by_count;
    bool by_insns;
};

static int compare(uint64_t a, uint64_t b)
{
    return a == b ? 0 : a < b ? 1 : -1;
}

static int compare_field(const struct field *a, const struct field *b)
{
    if (a->kind != b->kind || a->kind == FIELD_NONE)
        return (int)a->kind - (int)b->kind;
    return a->kind == FIELD_TEXT ? strcmp(a->text, b->text) : -compare(a->number, b->number);
}

static int compare_names(const struct order *order, const struct group *a, const struct group *b)
{
    struct field of_a[FIELDS_MAX], of_b[FIELDS_MAX];
    const size_t count = fields_of_row(order->report, a->row, order->by, order->by_count, of_a);
    int result = 0;

    (void)fields_of_row(order->report, b->row, order->by, order->by_count, of_b);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = compare_field(&of_a[i], &of_b[i]);
    return result;
}

static int in_order(const void *left, const void *right, void *context)
{
    const struct order *const order = context;
    const struct group *const a = left, *const b = right;
    int result = order->by_insns ? 0 : compare(a->ticks, b->ticks);

    if (result == 0)
        result = compare(a->insns, b->insns);
    return result ? result : compare_names(order, a, b);
}

/* Of sums of all who ran, those who are not wanted are no part. */
static bool is_wanted_row(const struct report *report, const struct report_options *options,
                          const struct sums_row *row)
{
    const struct sums *const sums = &report->sums;

    return sums->is_of_all ||
           (is_wanted_who(report, options, row->who) &&
            filter_takes_symbol(&options->filter, sums->names.list[row->function]));
}

/* What a row of a function says, and a row of somebody does not. */
static bool is_of_code(const enum report_by *by, size_t by_count)
{
    for (size_t i = 0; i < by_count; i++) {
        if (by[i] == BY_MODE || by[i] == BY_FUNCTION || by[i] == BY_FILE)
            return true;
    }
    return false;
}

static bool is_of_who(const enum report_by *by, size_t by_count)
{
    for (size_t i = 0; i < by_count; i++) {
        if (by[i] != BY_MODE && by[i] != BY_FUNCTION && by[i] != BY_FILE)
            return true;
    }
    return false;
}

/* Sections have no table of both; CSV without --by is one. Functions that are left out are
 * somebody's. */
bool report_is_of_all(const struct report_options *options)
{
    if (options->filter.symbol)
        return false;
    return options->by_count > 0 ? !is_of_code(options->by, options->by_count) ||
                                       !is_of_who(options->by, options->by_count)
                                 : options->form != FORM_CSV;
}

int groups_make(const struct report *report, const struct report_options *options,
                const enum report_by *by, size_t by_count, struct groups *groups)
{
    struct grouping grouping = {.report = report, .groups = groups};
    struct order order = {.report = report,
                          .by = by,
                          .by_count = by_count,
                          .by_insns = options->by_insns || report->timed_count == 0};
    const struct sums *const sums = &report->sums;
    const bool is_of_them = sums->is_of_all && !is_of_code(by, by_count);
    const size_t count = is_of_them ? sums->who_count : sums->row_count;
    int error = 0;

    *groups = (struct groups){0};
    for (size_t i = 0; !error && i < count; i++) {
        const struct sums_row *const row = is_of_them ? &sums->who_rows[i] : &sums->rows[i];

        if ((is_of_them && row->insns == 0 && row->ticks == 0) ||
            !is_wanted_row(report, options, row))
            continue;
        add_to(&groups->all, row);
        if (!put_row(&grouping, row, by, by_count))
            error = -ENOMEM;
    }
    table_free(&grouping.tree);
    table_free(&grouping.leaves);
    if (groups->count > 0)
        qsort_r(groups->list, groups->count, sizeof(*groups->list), in_order, &order);
    return error;
}

void groups_free(struct groups *groups)
{
    free(groups->list);
    *groups = (struct groups){0};
}

/* ---- What they are called ---- */

static struct field number_field(const char *key, uint64_t number, bool is_known)
{
    return (struct field){
        .key = key, .kind = is_known ? FIELD_NUMBER : FIELD_NONE, .number = number};
}

static struct field text_field(const char *key, const char *text)
{
    return (struct field){.key = key, .kind = text ? FIELD_TEXT : FIELD_NONE, .text = text};
}

static const char *vm_name(const struct report *report, const struct sums_who *who)
{
    return who->vm == UINT32_MAX ? HOST : report->sums.names.list[who->vm];
}

static struct field vm_field(const struct report *report, const struct sums_who *who)
{
    return text_field("vm", vm_name(report, who));
}

static size_t process_fields(const struct report *report, const struct sums_who *who,
                             bool with_thread, struct field *fields)
{
    const bool has_pid = who->pid != 0 || who->tid != 0;
    size_t count = 0;

    fields[count++] = text_field("process", report->sums.names.list[who->name]);
    fields[count++] = number_field("pid", who->pid, has_pid);
    if (with_thread)
        fields[count++] = number_field("tid", who->tid, has_pid);
    fields[count++] =
        (struct field){.key = "cr3",
                       .kind = !who->has_cr3 || who->cr3 == PTD_ANY_CR3 ? FIELD_NONE : FIELD_HEX,
                       .number = who->cr3};
    return count;
}

static size_t fields_by(const struct report *report, const struct sums_row *row, enum report_by by,
                        struct field *fields)
{
    const struct sums_who *const who = &report->sums.who[row->who];

    switch (by) {
    case BY_VM:
        fields[0] = vm_field(report, who);
        return 1;
    case BY_PROCESS:
    case BY_THREAD:
        return process_fields(report, who, by == BY_THREAD, fields);
    case BY_NAME:
        fields[0] = text_field("process", report->sums.names.list[who->name]);
        return 1;
    case BY_CPU:
        fields[0] = number_field("cpu", (uint64_t)who->cpu, who->cpu >= 0);
        return 1;
    case BY_MODE:
        fields[0] = text_field("mode", row->in_kernel ? "kernel" : "user");
        return 1;
    case BY_FILE:
        fields[0] =
            text_field("file", row->file == UINT32_MAX ? NULL : report->sums.names.list[row->file]);
        return 1;
    default:
        fields[0] = text_field("function", report->sums.names.list[row->function]);
        return 1;
    }
}

size_t fields_of_row(const struct report *report, const struct sums_row *row,
                     const enum report_by *by, size_t by_count, struct field *fields)
{
    size_t count = 0;

    for (size_t i = 0; i < by_count; i++)
        count += fields_by(report, row, by[i], fields + count);
    return count;
}

size_t fields_of_who(const struct report *report, uint32_t who, struct field *fields)
{
    const struct sums_who *const one = &report->sums.who[who];

    fields[0] = vm_field(report, one);
    return 1 + process_fields(report, one, true, fields + 1);
}
