/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of the sums that are wanted, put together by what they are shown by.
 */
#ifndef VMM_REPORT_GROUP_H
#define VMM_REPORT_GROUP_H

#include "report/report.h"

struct group {
    const struct sums_row *row; /* the first one of it: says what all of them have in common */
    uint64_t insns, blocks, calls;
    uint64_t ticks, fraction; /* fraction: parts of a tick, as in tally.h */
};

struct groups {
    struct group *list;
    size_t count, room;
    struct group all; /* .row is NULL */
};

/* Whether somebody is wanted, by VM, process, pid and processor. */
bool is_wanted_who(const struct report *report, const struct report_options *options, uint32_t who);
/* The most first. 0 or -ENOMEM; to be freed in either case. */
int groups_make(const struct report *report, const struct report_options *options,
                const enum report_by *by, size_t by_count, struct groups *groups);
void groups_free(struct groups *groups);

/* A part of what a group is called. */
struct field {
    const char *key;
    enum { FIELD_NONE, FIELD_TEXT, FIELD_NUMBER, FIELD_HEX } kind; /* NONE: not known */
    const char *text;
    uint64_t number;
};

#define FIELDS_MAX 14u

/* Those of a row, always the same of them in the same order. How many. */
size_t fields_of_row(const struct report *report, const struct sums_row *row,
                     const enum report_by *by, size_t by_count, struct field *fields);
/* The same of somebody: VM, process, pid, tid, CR3. */
size_t fields_of_who(const struct report *report, uint32_t who, struct field *fields);

#endif
