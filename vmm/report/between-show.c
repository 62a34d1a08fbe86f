/* SPDX-License-Identifier: BSD-3-Clause */
/* What ran between two points, as text and as JSON. */
#include "common/escape.h"
#include "common/json.h"
#include "report/between.h"
#include "report/show.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

struct ranked {
    uint32_t number; /* in names */
    uint64_t insns, spans;
};

/* Of traces with different clocks, or with none, there are no times. */
static const char *unit_of(const struct between *between)
{
    if (between->trace_count == 0 || between->timed_count != between->trace_count)
        return NULL;
    return between->ns_count == between->trace_count ? "ns" : between->ns_count ? NULL : "ticks";
}

static int by_insns(const void *left, const void *right)
{
    const struct ranked *const a = left, *const b = right;

    if (a->insns != b->insns)
        return a->insns < b->insns ? 1 : -1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Functions that are wanted, the most instructions first. -ENOMEM, or 0: to be freed. */
static int rank(const struct between *between, const struct report_options *options,
                struct ranked **list, size_t *count)
{
    *count = 0;
    *list = calloc(between->names.count ? between->names.count : 1, sizeof(**list));
    if (!*list)
        return -ENOMEM;
    for (uint32_t i = 0; i < between->names.count; i++) {
        const struct between_function *const function = &between->functions[i];

        if (function->spans && filter_takes_symbol(&options->filter, between->names.list[i]))
            (*list)[(*count)++] = (struct ranked){i, function->insns, function->spans};
    }
    if (*count > 0)
        qsort(*list, *count, sizeof(**list), by_insns);
    return 0;
}

/* ---- Text ---- */

static void print_spread(const char *what, const struct spread *spread)
{
    printf("%-13s %15" PRIu64 " %15" PRIu64 " %15" PRIu64 " %18" PRIu64 "\n", what, spread->least,
           spread_median(spread), spread->most, spread->total);
}

static void print_head(const struct between *between)
{
    struct escaped rooms[2];

    printf("from %s to %s: %" PRIu64 " times\n", escaped(between->from.text, &rooms[0]),
           escaped(between->to.text, &rooms[1]), between->insns.count);
    if (between->unended)
        printf("begun and not ended: %" PRIu64 "\n", between->unended);
    if (between->broken)
        printf("begun in front of a gap: %" PRIu64 "\n", between->broken);
    if (between->insns.count == 0)
        return;
    printf("\n%-13s %15s %15s %15s %18s\n", "", "least", "median", "most", "all");
    print_spread("instructions", &between->insns);
    if (unit_of(between))
        print_spread(unit_of(between), &between->times);
}

static void print_text(const struct between *between, const struct report_options *options,
                       const struct ranked *list, size_t count)
{
    const size_t shown = rows_shown(options, count);

    print_head(between);
    if (shown > 0)
        printf("\n%25s %12s\n", "instructions", "times");
    for (size_t i = 0; i < shown; i++) {
        struct escaped room;

        printf("%7.2f %% %15" PRIu64 " %12" PRIu64 "  %s\n",
               100.0 * (double)list[i].insns / (double)between->insns.total, list[i].insns,
               list[i].spans, escaped(between->names.list[list[i].number], &room));
    }
    if (shown < count)
        printf("and %zu more\n", count - shown);
}

/* ---- JSON ---- */

static json_object *spread_to_json(const struct spread *spread)
{
    json_object *const object = json_object_new_object();

    json_add_number(object, "least", spread->least);
    json_add_number(object, "median", spread_median(spread));
    json_add_number(object, "most", spread->most);
    json_add_number(object, "total", spread->total);
    return object;
}

static void print_json(const struct between *between, const struct report_options *options,
                       const struct ranked *list, size_t count)
{
    json_object *const root = json_object_new_object(), *const rows = json_object_new_array();

    json_object_object_add(root, "from", json_object_new_string(between->from.text));
    json_object_object_add(root, "to", json_object_new_string(between->to.text));
    json_add_number(root, "count", between->insns.count);
    json_add_number(root, "unended", between->unended);
    json_add_number(root, "broken", between->broken);
    json_object_object_add(root, "instructions", spread_to_json(&between->insns));
    if (unit_of(between)) {
        json_object_object_add(root, "time", spread_to_json(&between->times));
        json_object_object_add(root, "time_unit", json_object_new_string(unit_of(between)));
    }
    for (size_t i = 0; i < rows_shown(options, count); i++) {
        json_object *const row = json_object_new_object();

        json_object_object_add(row, "function",
                               json_object_new_string(between->names.list[list[i].number]));
        json_add_number(row, "instructions", list[i].insns);
        json_add_number(row, "count", list[i].spans);
        json_object_array_add(rows, row);
    }
    json_object_object_add(root, "functions", rows);
    json_print(root, JSON_C_TO_STRING_PRETTY);
}

int between_print(const struct between *between, const struct report_options *options)
{
    struct ranked *list;
    size_t count;
    const int error = rank(between, options, &list, &count);

    if (error)
        return error;
    if (options->form == FORM_JSON)
        print_json(between, options, list, count);
    else
        print_text(between, options, list, count);
    free(list);
    return 0;
}
