/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report as text for people.
 */
#include "common/escape.h"
#include "report/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TITLE     "\033[1m"
#define TITLE_END "\033[0m"

struct page {
    const struct report *report;
    const struct report_options *options;
    bool has_time, is_ns;
};

static void print_title(const struct page *page, const char *title)
{
    printf("\n%s%s%s\n", page->options->is_coloured ? TITLE : "", title,
           page->options->is_coloured ? TITLE_END : "");
}

static void print_time(const struct page *page, uint64_t ticks)
{
    const uint64_t time = time_of(page->report, ticks);

    if (page->is_ns)
        printf("%11" PRIu64 ".%06" PRIu64, time / 1000000, time % 1000000);
    else
        printf("%18" PRIu64, time);
}

static double percent(uint64_t part, uint64_t all)
{
    return all ? 100.0 * (double)part / (double)all : 0;
}

/* ---- Totals ---- */

static void print_totals(const struct page *page, const struct group *all)
{
    const struct report *const report = page->report;
    const struct report_options *const options = page->options;
    uint64_t lost, none;
    const uint64_t errors = events_total(report, options, EVENT_ERROR, &lost);

    printf("instructions %" PRIu64 "\nblocks       %" PRIu64 "\n", all->insns, all->blocks);
    if (page->has_time) {
        printf("time         ");
        print_time(page, all->ticks);
        printf(page->is_ns ? " ms\nnot traced   " : " ticks\nnot traced   ");
        print_time(page, report_untraced(report));
        puts(page->is_ns ? " ms" : " ticks");
    }
    printf("interrupts   %" PRIu64 "\nVM exits     %" PRIu64 "\nerrors       %" PRIu64 " (%" PRIu64
           " bytes lost)\noverflows    %" PRIu64 "\n",
           events_total(report, options, EVENT_INTERRUPT, &none),
           events_total(report, options, EVENT_EXIT, &none), errors, lost,
           events_total(report, options, EVENT_OVERFLOW, &none));
    if (all->insns == 0 && report_has_run(report))
        puts("Nothing of what ran is what the options choose.");
    if (report->sums.is_cut_off)
        puts("There were too many of those who ran, or of their functions: (others) has the rest.");
}

/* ---- Tables of groups ---- */

static void print_field(const struct field *field, bool is_first)
{
    const char *const comma = is_first ? "" : ", ";
    struct escaped room;

    switch (field->kind) {
    case FIELD_TEXT:
        printf("%s%s%s", comma,
               strcmp(field->key, "vm") == 0 && strcmp(field->text, "host") != 0 ? "VM " : "",
               escaped(field->text, &room));
        break;
    case FIELD_NUMBER:
        printf("%s%s %" PRIu64, comma, field->key, field->number);
        break;
    case FIELD_HEX:
        printf("%sCR3 %#" PRIx64, comma, field->number);
        break;
    default:
        break;
    }
}

/*
 * What goes without saying: the pid of a process with one thread a second time, and of a process of
 * the host that it is one.
 */
static bool is_said(const struct field *fields, size_t count, size_t index)
{
    const struct field *const field = &fields[index];

    if (count > 1 && strcmp(field->key, "vm") == 0)
        return strcmp(field->text, "host") == 0;
    return index > 0 && field->kind == FIELD_NUMBER && fields[index - 1].kind == FIELD_NUMBER &&
           strcmp(field->key, "tid") == 0 && field->number == fields[index - 1].number;
}

static void print_fields(const struct field *fields, size_t count)
{
    bool is_first = true;

    for (size_t i = 0; i < count; i++) {
        if (fields[i].kind == FIELD_NONE || is_said(fields, count, i))
            continue;
        print_field(&fields[i], is_first);
        is_first = false;
    }
    putchar('\n');
}

static void print_group(const struct page *page, const struct groups *groups,
                        const struct group *group, const enum report_by *by, size_t by_count)
{
    struct field fields[FIELDS_MAX];
    const size_t count = fields_of_row(page->report, group->row, by, by_count, fields);

    printf("%7.2f %% %15" PRIu64, percent(group->insns, groups->all.insns), group->insns);
    if (page->has_time) {
        printf(" %7.2f %% ", percent(group->ticks, groups->all.ticks));
        print_time(page, group->ticks);
    }
    printf(" %12" PRIu64 "  ", group->calls);
    print_fields(fields, count);
}

/* Rows that --top leaves out. */
static void print_more(size_t count)
{
    if (count > 0)
        printf("and %zu more (--top 0 shows all)\n", count);
}

static void print_head(const struct page *page)
{
    printf("%25s", "instructions");
    if (page->has_time)
        printf(" %28s", page->is_ns ? "time (ms)" : "time (ticks)");
    printf(" %12s\n", "calls");
}

static int print_groups(const struct page *page, const char *title, const enum report_by *by,
                        size_t by_count)
{
    struct groups groups;
    const int error = groups_make(page->report, page->options, by, by_count, &groups);

    if (!error && (groups.count > 0 || !title)) {
        const size_t shown = rows_shown(page->options, groups.count);

        if (title)
            print_title(page, title);
        print_head(page);
        for (size_t i = 0; i < shown; i++)
            print_group(page, &groups, &groups.list[i], by, by_count);
        print_more(groups.count - shown);
    }
    groups_free(&groups);
    return error;
}

static int print_system_calls(const struct page *page)
{
    struct groups groups;
    const int error = system_calls_make(page->report, page->options, &groups);
    const size_t shown = error ? 0 : rows_shown(page->options, groups.count);

    if (shown)
        print_title(page, "System calls");
    for (size_t i = 0; i < shown; i++) {
        const struct group *const group = &groups.list[i];
        struct escaped room;

        printf("%12" PRIu64 "  %s\n", group->calls,
               escaped(page->report->sums.names.list[group->row->function], &room));
    }
    if (!error)
        print_more(groups.count - shown);
    groups_free(&groups);
    return error;
}

/* ---- Tables of events ---- */

static void print_event(const struct page *page, const struct event *event)
{
    char text[EVENT_NAME_ROOM];
    struct escaped room;

    printf("%12" PRIu64 "  ", event->count);
    if (event->kind == EVENT_EXIT) {
        printf("%15" PRIu64 " ", event->insns);
        if (page->has_time)
            print_time(page, event->ticks);
        printf("  ");
    }
    printf("%s", escaped(event_name(page->report, event, text, sizeof(text)), &room));
    if (event->kind == EVENT_INTERRUPT && event->vector != NO_VECTOR)
        printf(", vector %u", event->vector);
    if (event->kind == EVENT_ERROR)
        printf(", %" PRIu64 " bytes lost", event->bytes);
    if (event->has_address)
        printf(", first at %#" PRIx64, event->address);
    putchar('\n');
}

static void print_event_title(const struct page *page, enum event_kind kind, const char *title)
{
    if (title)
        print_title(page, title);
    if (kind == EVENT_EXIT)
        printf("%12s  %15s%s\n", "", "instructions",
               !page->has_time ? ""
               : page->is_ns   ? "          time (ms)"
                               : "       time (ticks)");
}

static int print_events(const struct page *page, enum event_kind kind, const char *title,
                        size_t *printed)
{
    struct event_list events;
    const int error = events_of_kind(page->report, page->options, kind, &events);
    const size_t shown = error ? 0 : rows_shown(page->options, events.count);

    if (shown > 0)
        print_event_title(page, kind, *printed ? NULL : title);
    for (size_t i = 0; i < shown; i++)
        print_event(page, &events.list[i]);
    if (!error)
        print_more(events.count - shown);
    *printed += shown;
    free(events.list);
    return error;
}

static int print_all_events(const struct page *page)
{
    size_t interrupts = 0, exits = 0, lost = 0;
    int error = print_events(page, EVENT_INTERRUPT, "Interrupts and exceptions", &interrupts);

    if (!error)
        error = print_system_calls(page);
    if (!error)
        error = print_events(page, EVENT_EXIT, "VM exits, and what they cost", &exits);
    if (!error)
        error = print_events(page, EVENT_ERROR, "What was lost", &lost);
    if (!error)
        error = print_events(page, EVENT_OVERFLOW, "What was lost", &lost);
    return error;
}

static int print_sections(const struct page *page)
{
    struct groups all;
    int error = groups_make(page->report, page->options, by_who, BY_WHO_COUNT, &all);

    if (!error)
        print_totals(page, &all.all);
    groups_free(&all);
    if (!error)
        error = print_groups(page, "Who ran", by_who, BY_WHO_COUNT);
    if (!error)
        error = print_groups(page, "Functions", by_function, BY_FUNCTION_COUNT);
    return error ? error : print_all_events(page);
}

int show_text(const struct report *report, const struct report_options *options)
{
    const char *const unit = time_unit(report);
    const struct page page = {.report = report,
                              .options = options,
                              .has_time = unit,
                              .is_ns = unit && strcmp(unit, "ns") == 0};

    return options->by_count ? print_groups(&page, NULL, options->by, options->by_count)
                             : print_sections(&page);
}
