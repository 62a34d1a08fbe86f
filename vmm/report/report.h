/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vpt report: what happened in traces, summed up. It is an out_format, so every trace that vpt
 * decode reads comes to it; what is shown is chosen and printed when all of them have been.
 */
#ifndef VMM_REPORT_H
#define VMM_REPORT_H

#include "common/reason.h"
#include "report/events.h"
#include "report/sums.h"
#include "report/tally.h"
#include "view/filter.h"
#include "view/out.h"

enum report_by {
    BY_VM,
    BY_PROCESS, /* name and pid */
    BY_NAME,    /* of the process alone */
    BY_THREAD,  /* name, pid and tid */
    BY_CPU,
    BY_MODE, /* kernel or user */
    BY_FUNCTION,
    BY_FILE, /* that the function is in */
    BY_COUNT
};

enum report_form { FORM_TEXT, FORM_JSON, FORM_CSV };

/* What is shown. */
struct report_options {
    enum report_form form;
    enum report_by by[BY_COUNT]; /* one table of these; none: the sections */
    size_t by_count;
    struct filter filter;
    unsigned top;  /* rows of a table; 0: all */
    bool by_insns; /* the most instructions first, else the most time */
    bool is_coloured;
};

/* Begins as zeros, but for .tally: report_begin(). */
struct report {
    struct tally *tally;
    struct sums sums;
    struct events events;
    size_t trace_count, timed_count; /* timed: those that tell the time */
    uint64_t names_until;
    uint64_t changes, renames; /* of names by their places, seen so far */
    uint64_t ns_of_2_32_ticks; /* nanoseconds of 2^32 ticks; 0: not known */
    /* Of shards that others decoded, besides what is in the sums: as those of .tally. */
    uint64_t untraced, insns;
};

/* False: no memory. Each function is then told apart by who ran it, unless report_shows() says
 * more. */
bool report_begin(struct report *report);
/* What will be shown, so that no more is summed; to be called before the first trace, and to hold.
 */
void report_shows(struct report *report, const struct report_options *options);
/* Whether nobody asks who ran which function. */
bool report_is_of_all(const struct report_options *options);
void report_free(struct report *report);
/* Of a report: a struct report is what the functions are given as out. */
extern const struct out_format report_format;

/* Ticks that belong to nobody; whether anything ran, whoever it was. */
uint64_t report_untraced(const struct report *report);
bool report_has_run(const struct report *report);
/* Of report_format (shards.c). */
extern const struct out_shards report_shards;

/* Prints it to standard output. 0, or -errno and the reason. */
int report_print(const struct report *report, const struct report_options *options,
                 struct reason *why);
/* The word of an enum report_by; NULL: there is none. */
const char *report_by_word(size_t by);

#endif
