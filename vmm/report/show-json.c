/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as one JSON object, and a table of it as CSV.
 */
#include "common/escape.h"
#include "common/json.h"
#include "report/show.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JSON ---- */

static void add_text(json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text));
}

static void add_hex(json_object *object, const char *key, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%#" PRIx64, value);
    add_text(object, key, text);
}

static void add_field(json_object *object, const struct field *field)
{
    switch (field->kind) {
    case FIELD_TEXT:
        add_text(object, field->key, field->text);
        break;
    case FIELD_NUMBER:
        json_add_number(object, field->key, field->number);
        break;
    case FIELD_HEX:
        add_hex(object, field->key, field->number);
        break;
    default:
        break;
    }
}

static void add_sums(json_object *object, const struct report *report, const struct group *group)
{
    json_add_number(object, "instructions", group->insns);
    json_add_number(object, "blocks", group->blocks);
    json_add_number(object, "calls", group->calls);
    if (time_unit(report))
        json_add_number(object, "time", time_of(report, group->ticks));
}

static json_object *group_to_json(const struct report *report, const struct group *group,
                                  const enum report_by *by, size_t by_count)
{
    json_object *const object = json_object_new_object();
    struct field fields[FIELDS_MAX];
    const size_t count = fields_of_row(report, group->row, by, by_count, fields);

    for (size_t i = 0; i < count; i++)
        add_field(object, &fields[i]);
    add_sums(object, report, group);
    return object;
}

static int add_groups(json_object *root, const char *key, const struct report *report,
                      const struct report_options *options, const enum report_by *by,
                      size_t by_count)
{
    json_object *const list = json_object_new_array();
    struct groups groups;
    const int error = groups_make(report, options, by, by_count, &groups);

    for (size_t i = 0; !error && i < rows_shown(options, groups.count); i++)
        json_object_array_add(list, group_to_json(report, &groups.list[i], by, by_count));
    groups_free(&groups);
    json_object_object_add(root, key, list);
    return error;
}

static int add_system_calls(json_object *root, const struct report *report,
                            const struct report_options *options)
{
    json_object *const list = json_object_new_array();
    struct groups groups;
    const int error = system_calls_make(report, options, &groups);

    for (size_t i = 0; !error && i < groups.count; i++)
        json_object_array_add(list, group_to_json(report, &groups.list[i], by_function, 1));
    groups_free(&groups);
    json_object_object_add(root, "system_calls", list);
    return error;
}

static json_object *event_to_json(const struct report *report, const struct event *event)
{
    json_object *const object = json_object_new_object();
    char text[EVENT_NAME_ROOM];

    add_text(object, "name", event_name(report, event, text, sizeof(text)));
    if (event->vector != NO_VECTOR)
        json_add_number(object, "vector", event->vector);
    json_add_number(object, "count", event->count);
    if (event->kind == EVENT_EXIT) {
        if (event->what != NO_REASON)
            json_add_number(object, "reason", event->what);
        json_add_number(object, "instructions", event->insns);
        if (time_unit(report))
            json_add_number(object, "time", time_of(report, event->ticks));
    }
    if (event->kind == EVENT_ERROR)
        json_add_number(object, "lost_bytes", event->bytes);
    if (event->has_address)
        add_hex(object, "address", event->address);
    return object;
}

static int add_events(json_object *root, const char *key, const struct report *report,
                      const struct report_options *options, enum event_kind kind)
{
    json_object *const list = json_object_new_array();
    struct event_list events;
    const int error = events_of_kind(report, options, kind, &events);

    for (size_t i = 0; !error && i < rows_shown(options, events.count); i++)
        json_object_array_add(list, event_to_json(report, &events.list[i]));
    free(events.list);
    json_object_object_add(root, key, list);
    return error;
}

static void add_totals(json_object *root, const struct report *report,
                       const struct report_options *options, const struct group *all)
{
    uint64_t lost, none;
    const uint64_t errors = events_total(report, options, EVENT_ERROR, &lost);

    json_add_number(root, "traces", report->trace_count);
    add_sums(root, report, all);
    json_object_object_del(root, "calls");
    if (time_unit(report)) {
        add_text(root, "time_unit", time_unit(report));
        json_add_number(root, "untraced_time", time_of(report, report_untraced(report)));
    }
    json_add_number(root, "interrupt_count", events_total(report, options, EVENT_INTERRUPT, &none));
    json_add_number(root, "exit_count", events_total(report, options, EVENT_EXIT, &none));
    json_add_number(root, "error_count", errors);
    json_add_number(root, "lost_bytes", lost);
    json_add_number(root, "overflow_count", events_total(report, options, EVENT_OVERFLOW, &none));
    json_object_object_add(root, "cut_off", json_object_new_boolean(report->sums.is_cut_off));
}

static int add_sections(json_object *root, const struct report *report,
                        const struct report_options *options)
{
    int error = add_groups(root, "who", report, options, by_who, BY_WHO_COUNT);

    if (!error)
        error = add_groups(root, "functions", report, options, by_function, BY_FUNCTION_COUNT);
    if (!error)
        error = add_system_calls(root, report, options);
    if (!error)
        error = add_events(root, "interrupts", report, options, EVENT_INTERRUPT);
    if (!error)
        error = add_events(root, "exits", report, options, EVENT_EXIT);
    if (!error)
        error = add_events(root, "errors", report, options, EVENT_ERROR);
    return error;
}

json_object *report_to_json(const struct report *report, const struct report_options *options)
{
    json_object *const root = json_object_new_object();
    struct groups all;
    int error = groups_make(report, options, by_who, BY_WHO_COUNT, &all);

    add_totals(root, report, options, &all.all);
    groups_free(&all);
    if (!error)
        error = options->by_count
                    ? add_groups(root, "rows", report, options, options->by, options->by_count)
                    : add_sections(root, report, options);
    if (!error)
        return root;
    json_object_put(root);
    return NULL;
}

int show_json(const struct report *report, const struct report_options *options)
{
    json_object *const root = report_to_json(report, options);

    if (!root)
        return -ENOMEM;
    json_print(root, JSON_C_TO_STRING_PRETTY);
    return 0;
}

/* ---- CSV ---- */

/*
 * As RFC 4180 says. A spreadsheet would compute what begins like a formula, and names may be
 * anybody's: a quote in front of it makes it a text.
 */
static void print_cell(const char *text)
{
    struct escaped room;
    const char *const plain = escaped(text, &room);
    const bool is_formula = *plain && strchr("=+-@", *plain);

    if (!is_formula && !strpbrk(plain, ",\"")) {
        fputs(plain, stdout);
        return;
    }
    fputs(is_formula ? "\"'" : "\"", stdout);
    for (const char *c = plain; *c; c++) {
        if (*c == '"')
            putchar('"');
        putchar(*c);
    }
    putchar('"');
}

static void print_csv_field(const struct field *field)
{
    if (field->kind == FIELD_TEXT)
        print_cell(field->text);
    else if (field->kind == FIELD_NUMBER)
        printf("%" PRIu64, field->number);
    else if (field->kind == FIELD_HEX)
        printf("%#" PRIx64, field->number);
    putchar(',');
}

/* Also where no row is wanted; not where nothing ran at all. */
static void print_csv_head(const struct report *report, const enum report_by *by, size_t by_count)
{
    static const struct sums_row any = {.file = UINT32_MAX};
    struct field fields[FIELDS_MAX];
    size_t count = 0;

    if (report->sums.who_count > 0)
        count = fields_of_row(report, &any, by, by_count, fields);
    for (size_t i = 0; i < count; i++)
        printf("%s,", fields[i].key);
    printf("instructions,blocks,calls");
    if (time_unit(report))
        printf(",time_%s", time_unit(report));
    putchar('\n');
}

int show_csv(const struct report *report, const struct report_options *options)
{
    static const enum report_by usual[] = {BY_VM, BY_PROCESS, BY_FUNCTION, BY_FILE};
    const bool is_usual = options->by_count == 0;
    const enum report_by *const by = is_usual ? usual : options->by;
    const size_t by_count = is_usual ? sizeof(usual) / sizeof(usual[0]) : options->by_count;
    struct groups groups;
    const int error = groups_make(report, options, by, by_count, &groups);

    if (!error)
        print_csv_head(report, by, by_count);
    for (size_t i = 0; !error && i < rows_shown(options, groups.count); i++) {
        const struct group *const group = &groups.list[i];
        struct field fields[FIELDS_MAX];
        const size_t count = fields_of_row(report, group->row, by, by_count, fields);

        for (size_t j = 0; j < count; j++)
            print_csv_field(&fields[j]);
        printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64, group->insns, group->blocks, group->calls);
        if (time_unit(report))
            printf(",%" PRIu64, time_of(report, group->ticks));
        putchar('\n');
    }
    groups_free(&groups);
    return error;
}
