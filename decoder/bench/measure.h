/* SPDX-License-Identifier: BSD-3-Clause */
/* How long something takes, and figures of several traces. */
#ifndef PTD_BENCH_MEASURE_H
#define PTD_BENCH_MEASURE_H

#include <time.h>

#include "trace.h"

#define MOST_RUNS 5 /* of one way */

/* Seconds. */
double now(clockid_t clock);
/* Sorts the values. */
double median(double *values, size_t count);

/*
 * The median of the seconds that it takes in so many runs, MOST_RUNS at most; NaN if one of them
 * does not give want, which stderr says.
 */
double measure(uint64_t (*run)(const struct trace *), const struct trace *trace, uint64_t want,
               unsigned runs, clockid_t clock, const char *what);

/*
 * One of several ways, of which each has its turn in each of MOST_RUNS rounds: all have the same of
 * the machine.
 */
struct way {
    uint64_t (*run)(const struct trace *);
    const char *what;
    double times[MOST_RUNS]; /* seconds of processor time */
};

/* False: one of them does not give want. */
bool measure_ways(struct way *ways, size_t count, const struct trace *trace, uint64_t want);
/* Seconds. */
double median_of(const struct way *way);
/* How many times as long the one takes as the other. */
double ratio_of(const struct way *one, const struct way *other);

/* A figure that counts, of each trace. */
struct figure {
    const char *key;
    double values[MOST_TRACES];
};

/* The geometric mean of the first traces. */
double figure_mean(const struct figure *figure, size_t count);
/* A member of a JSON object: the value of each trace by its name, and the mean. */
void figure_write(const struct figure *figure, const struct trace *traces, size_t count,
                  FILE *file);

#endif
