/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast coverage is filled from traces of real programs.
 *
 *   coverage [--json FILE] PREFIX...: traces that record.c made, see traces.sh
 *
 * flow: the steps alone, uncounted; cold: the whole trace into a map of 64 KiB, by a coverage that
 * knows nothing of the code; warm: the same again; lists: cold, with edges and blocks. short: the
 * first 64 KiB of the trace, whose code is known, and the map cleared before. threads2: cold,
 * decoded on two threads, and counted by both in turns. Medians of processor time, and of elapsed
 * time for threads2. That the counts are exact is asked of the same code by the unit tests; here,
 * each way must find as many edges.
 */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "ptdec_coverage.h"
#include "trace.h"

#define RUNS        7
#define SHORT_RUNS  201
#define SHORT_BYTES (64u << 10)
#define MAP_BYTES   (64u << 10)
#define CLOCK       CLOCK_PROCESS_CPUTIME_ID

enum { FLOW, COLD, WARM, LISTS, THREADS2, SHORT, FIGURES };
static struct figure figures[FIGURES] = {
    [FLOW] = {.key = "flow_edges_per_s"},         [COLD] = {.key = "cold_edges_per_s"},
    [WARM] = {.key = "warm_edges_per_s"},         [LISTS] = {.key = "lists_edges_per_s"},
    [THREADS2] = {.key = "threads2_edges_per_s"}, [SHORT] = {.key = "short_s"},
};

static uint8_t map[MAP_BYTES];

static struct ptd_coverage *make(bool lists)
{
    const struct ptd_coverage_config config = {
        .map = map, .map_bytes = sizeof(map), .lists = lists};
    struct ptd_coverage *coverage;

    if (ptd_coverage_new(&config, &coverage) != PTD_OK)
        exit(EXIT_FAILURE);
    return coverage;
}

/* The seconds that it took; *edges must be 0 or as many. */
static double count(struct ptd_coverage *coverage, const struct trace *trace, size_t len_bytes,
                    uint64_t *edges)
{
    struct ptd_coverage_sums sums;
    const double begin = now(CLOCK);

    memset(map, 0, sizeof(map));
    if (ptd_coverage_trace(coverage, trace->image, NULL, trace->bytes, len_bytes, &sums) !=
            PTD_OK ||
        (*edges > 0 && *edges != sums.edges) || sums.errors > (len_bytes < trace->len_bytes)) {
        (void)fprintf(stderr, "coverage: %s: wrong\n", trace->name);
        exit(EXIT_FAILURE);
    }
    *edges = sums.edges;
    return now(CLOCK) - begin;
}

/* The seconds that pass while two threads decode all of it. */
static double count_on_two(const struct trace *trace, uint64_t edges)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .compounds = true};
    const double begin = now(CLOCK_MONOTONIC);
    struct ptd_coverage *const coverage = make(false);
    double seconds;

    memset(map, 0, sizeof(map));
    if (ptd_flow_parallel(trace->bytes, trace->len_bytes, trace->image, &config, PTD_TIMING_NONE, 2,
                          ptd_coverage_add, coverage) != PTD_OK ||
        ptd_coverage_sums(coverage)->edges != edges) {
        (void)fprintf(stderr, "coverage: %s: wrong on two threads\n", trace->name);
        exit(EXIT_FAILURE);
    }
    seconds = now(CLOCK_MONOTONIC) - begin;
    ptd_coverage_free(coverage);
    return seconds;
}

/* The seconds that ptd_flow_run() takes by itself. */
static double step(const struct trace *trace)
{
    static uint32_t steps[4096];
    const double begin = now(CLOCK);
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_run run = {.steps = steps, .room = 4096, .timing = PTD_TIMING_NONE};

    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        continue;
    ptd_flow_free(flow);
    return now(CLOCK) - begin;
}

/* The figures of one of the traces, and its line. */
static void bench(const struct trace *trace, size_t number)
{
    const size_t short_bytes = trace->len_bytes < SHORT_BYTES ? trace->len_bytes : SHORT_BYTES;
    double flow[RUNS], cold[RUNS], warm[RUNS], lists[RUNS], two[RUNS], brief[SHORT_RUNS];
    uint64_t edges = 0, short_edges = 0;

    for (unsigned i = 0; i < RUNS; i++) {
        struct ptd_coverage *coverage = make(false);

        flow[i] = step(trace);
        cold[i] = count(coverage, trace, trace->len_bytes, &edges);
        warm[i] = count(coverage, trace, trace->len_bytes, &edges);
        ptd_coverage_free(coverage);
        coverage = make(true);
        lists[i] = count(coverage, trace, trace->len_bytes, &edges);
        ptd_coverage_free(coverage);
        two[i] = count_on_two(trace, edges);
    }

    struct ptd_coverage *const coverage = make(false);

    (void)count(coverage, trace, short_bytes, &short_edges);
    for (unsigned i = 0; i < SHORT_RUNS; i++)
        brief[i] = count(coverage, trace, short_bytes, &short_edges);
    ptd_coverage_free(coverage);
    figures[FLOW].values[number] = (double)edges / median(flow, RUNS);
    figures[COLD].values[number] = (double)edges / median(cold, RUNS);
    figures[WARM].values[number] = (double)edges / median(warm, RUNS);
    figures[LISTS].values[number] = (double)edges / median(lists, RUNS);
    figures[THREADS2].values[number] = (double)edges / median(two, RUNS);
    figures[SHORT].values[number] = median(brief, SHORT_RUNS);
    printf("%s: %" PRIu64 " M edges;", trace->name, edges / 1000000);
    for (size_t f = 0; f < SHORT; f++)
        printf("  %s %.3g M/s", figures[f].key, figures[f].values[number] * 1e-6);
    printf("  %s %.3g ms (%" PRIu64 " edges)\n", figures[SHORT].key,
           figures[SHORT].values[number] * 1e3, short_edges);
}

static int write_json(const char *path, const struct trace *traces, size_t count)
{
    FILE *const file = fopen(path, "w");

    if (!file) {
        perror(path);
        return EXIT_FAILURE;
    }
    for (size_t f = 0; f < FIGURES; f++) {
        (void)fprintf(file, f ? ",\n" : "{\n");
        figure_write(&figures[f], traces, count, file);
    }
    (void)fprintf(file, "\n}\n");
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static struct trace traces[MOST_TRACES];
    const bool has_json = argc > 2 && strcmp(argv[1], "--json") == 0;
    const int first = has_json ? 3 : 1;

    if (argc <= first || argc - first > MOST_TRACES) {
        (void)fprintf(stderr, "usage: coverage [--json FILE] PREFIX...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct trace *const trace = &traces[i - first];

        trace->prefix = argv[i];
        if (!trace_load(trace)) {
            (void)fprintf(stderr, "coverage: %s failed\n", argv[i]);
            return EXIT_FAILURE;
        }
        bench(trace, (size_t)(i - first));
        trace_unload(trace);
    }
    return has_json ? write_json(argv[2], traces, (size_t)(argc - first)) : EXIT_SUCCESS;
}
