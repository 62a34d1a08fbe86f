/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A report on its way to standard output.
 */
#ifndef VMM_REPORT_SHOW_H
#define VMM_REPORT_SHOW_H

#include "report/group.h"

/* Each: 0 or -ENOMEM. */
int show_text(const struct report *report, const struct report_options *options);
int show_json(const struct report *report, const struct report_options *options);
int show_csv(const struct report *report, const struct report_options *options);
struct json_object;
/* What show_json() prints, to be put. NULL: no memory. */
struct json_object *report_to_json(const struct report *report,
                                   const struct report_options *options);

/* The two tables that every report has. The first key of the second tells functions alone. */
#define BY_WHO_COUNT      2u
#define BY_FUNCTION_COUNT 2u
extern const enum report_by by_who[BY_WHO_COUNT], by_function[BY_FUNCTION_COUNT];

/* What the times of a report are in: "ns", "ticks"; NULL: it has none. */
const char *time_unit(const struct report *report);
/* Ticks in that unit. */
uint64_t time_of(const struct report *report, uint64_t ticks);
/* How many rows of so many are shown. */
size_t rows_shown(const struct report_options *options, size_t count);
/*
 * The functions at which system calls of Linux begin, by their names: those that were called most
 * first. 0 or -ENOMEM; to be freed in either case.
 */
int system_calls_make(const struct report *report, const struct report_options *options,
                      struct groups *groups);

/* Events of one kind, whoever they came to, if those are wanted: the most of them first. */
struct event_list {
    struct event *list;
    size_t count;
};

/* 0 or -ENOMEM; to be freed. */
int events_of_kind(const struct report *report, const struct report_options *options,
                   enum event_kind kind, struct event_list *events);
/* How many there were of a kind, and the bytes that they lost, of those who are wanted. */
uint64_t events_total(const struct report *report, const struct report_options *options,
                      enum event_kind kind, uint64_t *lost_bytes);
#define EVENT_NAME_ROOM 64u
/* What happened, in words. */
const char *event_name(const struct report *report, const struct event *event, char *text,
                       size_t text_bytes);

#endif
