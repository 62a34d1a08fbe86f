/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all forms of a report share: units, events put together, and the choice of a form.
 */
#include "report/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum report_by by_who[BY_WHO_COUNT] = {BY_VM, BY_THREAD},
                     by_function[BY_FUNCTION_COUNT] = {BY_FUNCTION, BY_FILE};

int report_print(const struct report *report, const struct report_options *options,
                 struct reason *why)
{
    const int error = options->form == FORM_JSON  ? show_json(report, options)
                      : options->form == FORM_CSV ? show_csv(report, options)
                                                  : show_text(report, options);

    return error ? reason_no_memory(why) : 0;
}

const char *time_unit(const struct report *report)
{
    return report->timed_count == 0 ? NULL : report->ns_of_2_32_ticks ? "ns" : "ticks";
}

uint64_t time_of(const struct report *report, uint64_t ticks)
{
    __extension__ typedef unsigned __int128 product;

    return report->ns_of_2_32_ticks ? (uint64_t)((product)ticks * report->ns_of_2_32_ticks >> 32)
                                    : ticks;
}

size_t rows_shown(const struct report_options *options, size_t count)
{
    return options->top && options->top < count ? options->top : count;
}

/* A label within the kernel's entry, which is come to each time that the entry is. */
static bool is_within_entry(const char *function)
{
    return strstr(function, "_safe_stack") || strstr(function, "_after_hwframe");
}

/* Whether a function is where a system call of Linux begins, by its name. */
static bool is_system_call(const char *function)
{
    static const char *const begins[] = {"__x64_sys_",     "__ia32_sys_",    "__ia32_compat_sys_",
                                         "entry_SYSCALL_", "entry_SYSENTER", "entry_INT80",
                                         "asm_int80"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(function, begins[i], strlen(begins[i])) == 0)
            return !is_within_entry(function);
    }
    return false;
}

static int by_calls(const void *left, const void *right, void *context)
{
    const struct report *const report = context;
    const struct group *const a = left, *const b = right;

    if (a->calls != b->calls)
        return a->calls > b->calls ? -1 : 1;
    return strcmp(report->sums.names.list[a->row->function],
                  report->sums.names.list[b->row->function]);
}

int system_calls_make(const struct report *report, const struct report_options *options,
                      struct groups *groups)
{
    const int error = groups_make(report, options, by_function, 1, groups);
    size_t count = 0;

    for (size_t i = 0; !error && i < groups->count; i++) {
        const struct group *const group = &groups->list[i];

        if (group->calls > 0 && is_system_call(report->sums.names.list[group->row->function]))
            groups->list[count++] = *group;
    }
    if (count)
        qsort_r(groups->list, count, sizeof(*groups->list), by_calls, (void *)report);
    groups->count = count;
    return error;
}

/* ---- Events ---- */

static int by_count(const void *left, const void *right, void *context)
{
    const struct report *const report = context;
    const struct event *const a = left, *const b = right;

    if (a->ticks != b->ticks)
        return a->ticks < b->ticks ? 1 : -1;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    if (a->what == b->what)
        return (int)a->vector - (int)b->vector;
    if (a->kind == EVENT_INTERRUPT)
        return strcmp(report->sums.names.list[a->what], report->sums.names.list[b->what]);
    return a->what < b->what ? -1 : 1;
}

/* The one among those of a list that differs in nobody but who. NULL: no memory. */
static struct event *same_event(struct table *ids, struct event_list *events,
                                const struct event *event)
{
    struct sum *const sum = table_at(ids, event->vector, event->what, 0);

    if (!sum)
        return NULL;
    if (sum->count == 0) {
        events->list[events->count] = (struct event){.kind = event->kind,
                                                     .what = event->what,
                                                     .vector = event->vector,
                                                     .has_address = event->has_address,
                                                     .address = event->address};
        sum->count = ++events->count;
    }
    return &events->list[sum->count - 1];
}

int events_of_kind(const struct report *report, const struct report_options *options,
                   enum event_kind kind, struct event_list *events)
{
    const struct events *const all = &report->events;
    struct table ids = {0};
    int error = 0;

    *events = (struct event_list){.list = calloc(all->count + 1, sizeof(*events->list))};
    if (!events->list)
        return -ENOMEM;
    for (size_t i = 0; !error && i < all->count; i++) {
        const struct event *const event = &all->list[i];
        struct event *same;

        if (event->kind != kind || !is_wanted_who(report, options, event->who))
            continue;
        same = same_event(&ids, events, event);
        if (!same) {
            error = -ENOMEM;
            break;
        }
        same->count += event->count;
        same->ticks += event->ticks;
        same->insns += event->insns;
        same->bytes += event->bytes;
    }
    table_free(&ids);
    qsort_r(events->list, events->count, sizeof(*events->list), by_count, (void *)report);
    return error;
}

uint64_t events_total(const struct report *report, const struct report_options *options,
                      enum event_kind kind, uint64_t *lost_bytes)
{
    uint64_t count = 0;

    *lost_bytes = 0;
    for (size_t i = 0; i < report->events.count; i++) {
        const struct event *const event = &report->events.list[i];

        if (event->kind != kind || !is_wanted_who(report, options, event->who))
            continue;
        count += event->count;
        *lost_bytes += event->bytes;
    }
    return count;
}

static const char *exit_name(const struct event *event, char *text, size_t text_bytes)
{
    const char *const reason = exit_reason_name(event->what);
    size_t len;

    if (reason)
        (void)snprintf(text, text_bytes, "%s", reason);
    else if (event->what == NO_REASON)
        (void)snprintf(text, text_bytes, "reason not told");
    else
        (void)snprintf(text, text_bytes, "reason %" PRIu32, event->what);
    len = strlen(text);
    if (event->vector != NO_VECTOR)
        (void)snprintf(text + len, text_bytes - len, ", vector %u", event->vector);
    return text;
}

const char *event_name(const struct report *report, const struct event *event, char *text,
                       size_t text_bytes)
{
    switch (event->kind) {
    case EVENT_INTERRUPT:
        return report->sums.names.list[event->what];
    case EVENT_EXIT:
        return exit_name(event, text, text_bytes);
    case EVENT_ERROR:
        return ptd_strerror(-(int)event->what);
    default:
        return "overflow of the processor's buffer";
    }
}
