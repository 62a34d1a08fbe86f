/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks, medians, ways that take turns, and figures. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

double now(clockid_t clock)
{
    struct timespec time;

    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare_doubles);
    return values[count / 2];
}

double measure(uint64_t (*run)(const struct trace *), const struct trace *trace, uint64_t want,
               unsigned runs, clockid_t clock, const char *what)
{
    double times[MOST_RUNS] = {0};

    for (unsigned i = 0; i < runs; i++) {
        const double begin = now(clock);
        const uint64_t got = run(trace);

        times[i] = now(clock) - begin;
        if (got != want) {
            (void)fprintf(stderr, "%s: %s, %s: %" PRIu64 " instead of %" PRIu64 "\n",
                          program_invocation_short_name, trace->name, what, got, want);
            return NAN;
        }
    }
    return median(times, runs);
}

bool measure_ways(struct way *ways, size_t count, const struct trace *trace, uint64_t want)
{
    for (unsigned i = 0; i < MOST_RUNS; i++) {
        for (size_t way = 0; way < count; way++) {
            ways[way].times[i] =
                measure(ways[way].run, trace, want, 1, CLOCK_PROCESS_CPUTIME_ID, ways[way].what);
            if (isnan(ways[way].times[i]))
                return false;
        }
    }
    return true;
}

double median_of(const struct way *way)
{
    double times[MOST_RUNS];

    memcpy(times, way->times, sizeof(times));
    return median(times, MOST_RUNS);
}

double ratio_of(const struct way *one, const struct way *other)
{
    double ratios[MOST_RUNS];

    for (unsigned i = 0; i < MOST_RUNS; i++)
        ratios[i] = one->times[i] / other->times[i];
    return median(ratios, MOST_RUNS);
}

double figure_mean(const struct figure *figure, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += log(figure->values[i]);
    return exp(sum / (double)count);
}

void figure_write(const struct figure *figure, const struct trace *traces, size_t count, FILE *file)
{
    (void)fprintf(file, "  \"%s\": {", figure->key);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(file, "\"%s\": %.4g, ", traces[i].name, figure->values[i]);
    (void)fprintf(file, "\"geometric_mean\": %.4g}", figure_mean(figure, count));
}
