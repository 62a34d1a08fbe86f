/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast coverage is filled from traces of real programs.
 *
 *   coverage [--json FILE] PREFIX...: traces that record.c made, see traces.sh
 *
 * flow: the steps alone, uncounted; cold: the whole trace into a map of 64 KiB, by a coverage that
 * knows nothing of the code; warm: the same again; lists: cold, with edges and blocks. short: the
 * first 64 KiB of the trace, whose code is known, and the map cleared before. Medians of processor
 * time. That the counts are exact is asked of the same code by the unit tests; here, each way must
 * find as many edges.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ptdec_coverage.h"

#define RUNS        7
#define SHORT_RUNS  201
#define SHORT_BYTES (64u << 10)
#define MAP_BYTES   (64u << 10)
#define MOST_TRACES 16

struct trace {
    const char *name;
    uint8_t *bytes;
    size_t len_bytes;
    struct ptd_image *image;
};

struct result {
    uint64_t edges, short_edges;
    double flow_s, cold_s, warm_s, lists_s, short_s;
};

static uint8_t map[MAP_BYTES];

/* ---- Traces ---- */

static FILE *open_part(const char *prefix, const char *suffix)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof(path), "%s.%s", prefix, suffix) >= (int)sizeof(path))
        return NULL;
    file = fopen(path, "rb");
    if (!file)
        perror(path);
    return file;
}

static uint8_t *read_part(const char *prefix, const char *suffix, size_t *len)
{
    FILE *const file = open_part(prefix, suffix);
    uint8_t *bytes = NULL;
    long end;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = malloc((size_t)end);
        *len = bytes ? fread(bytes, 1, (size_t)end, file) : 0;
    }
    (void)fclose(file);
    return bytes;
}

static bool load(const char *prefix, struct trace *trace)
{
    const char *const slash = strrchr(prefix, '/');
    uint64_t address, section_bytes, offset = 0;
    size_t len = 0;
    uint8_t *const code = read_part(prefix, "code", &len);
    FILE *const sections = open_part(prefix, "map");
    bool loaded = code && sections;

    trace->name = slash ? slash + 1 : prefix;
    trace->bytes = read_part(prefix, "pt", &trace->len_bytes);
    trace->image = ptd_image_new();
    while (loaded && fscanf(sections, "%" SCNx64 " %" SCNx64, &address, &section_bytes) == 2) {
        loaded = section_bytes <= len - offset &&
                 ptd_image_add_bytes(trace->image, NULL, address, code + offset, section_bytes,
                                     PTD_ANY_CR3) == PTD_OK;
        offset += section_bytes;
    }
    if (sections)
        (void)fclose(sections);
    free(code);
    return loaded && trace->bytes;
}

/* ---- Measuring ---- */

static double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;

    return one < other ? -1 : one > other;
}

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(*times), compare);
    return times[count / 2];
}

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
    const double begin = now();

    memset(map, 0, sizeof(map));
    if (ptd_coverage_trace(coverage, trace->image, NULL, trace->bytes, len_bytes, &sums) !=
            PTD_OK ||
        (*edges > 0 && *edges != sums.edges) || sums.errors > (len_bytes < trace->len_bytes)) {
        (void)fprintf(stderr, "coverage: %s: wrong\n", trace->name);
        exit(EXIT_FAILURE);
    }
    *edges = sums.edges;
    return now() - begin;
}

/* The seconds that ptd_flow_run() takes by itself. */
static double step(const struct trace *trace)
{
    static uint32_t steps[4096];
    const double begin = now();
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_run run = {.steps = steps, .room = 4096, .timing = PTD_TIMING_NONE};

    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        continue;
    ptd_flow_free(flow);
    return now() - begin;
}

static void bench(const struct trace *trace, struct result *result)
{
    const size_t short_bytes = trace->len_bytes < SHORT_BYTES ? trace->len_bytes : SHORT_BYTES;
    double flow[RUNS], cold[RUNS], warm[RUNS], lists[RUNS], brief[SHORT_RUNS];

    *result = (struct result){0};
    for (unsigned i = 0; i < RUNS; i++) {
        struct ptd_coverage *coverage = make(false);

        flow[i] = step(trace);
        cold[i] = count(coverage, trace, trace->len_bytes, &result->edges);
        warm[i] = count(coverage, trace, trace->len_bytes, &result->edges);
        ptd_coverage_free(coverage);
        coverage = make(true);
        lists[i] = count(coverage, trace, trace->len_bytes, &result->edges);
        ptd_coverage_free(coverage);
    }

    struct ptd_coverage *const coverage = make(false);

    (void)count(coverage, trace, short_bytes, &result->short_edges);
    for (unsigned i = 0; i < SHORT_RUNS; i++)
        brief[i] = count(coverage, trace, short_bytes, &result->short_edges);
    ptd_coverage_free(coverage);
    result->flow_s = median(flow, RUNS);
    result->cold_s = median(cold, RUNS);
    result->warm_s = median(warm, RUNS);
    result->lists_s = median(lists, RUNS);
    result->short_s = median(brief, SHORT_RUNS);
}

/* ---- Figures ---- */

static const struct figure {
    const char *key, *unit;
    double factor;
} figures[] = {
    {"flow_edges_per_s", "M/s", 1e-6},
    {"cold_edges_per_s", "M/s", 1e-6},
    {"warm_edges_per_s", "M/s", 1e-6},
    {"lists_edges_per_s", "M/s", 1e-6},
    {"short_s", "ms", 1e3},
};

static double figure_of(size_t figure, const struct result *result)
{
    const double edges = (double)result->edges;

    switch (figure) {
    case 0:
        return edges / result->flow_s;
    case 1:
        return edges / result->cold_s;
    case 2:
        return edges / result->warm_s;
    case 3:
        return edges / result->lists_s;
    default:
        return result->short_s;
    }
}

static int write_json(const char *path, const struct trace *traces, const struct result *results,
                      size_t count)
{
    FILE *const file = fopen(path, "w");

    if (!file) {
        perror(path);
        return EXIT_FAILURE;
    }
    for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
        double sum = 0;

        (void)fprintf(file, "%s\n  \"%s\": {", f ? "," : "{", figures[f].key);
        for (size_t i = 0; i < count; i++) {
            (void)fprintf(file, "\"%s\": %.4g, ", traces[i].name, figure_of(f, &results[i]));
            sum += log(figure_of(f, &results[i]));
        }
        (void)fprintf(file, "\"geometric_mean\": %.4g}", exp(sum / (double)count));
    }
    (void)fprintf(file, "\n}\n");
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static struct trace traces[MOST_TRACES];
    static struct result results[MOST_TRACES];
    const bool has_json = argc > 2 && strcmp(argv[1], "--json") == 0;
    const int first = has_json ? 3 : 1;

    if (argc <= first || argc - first > MOST_TRACES) {
        (void)fprintf(stderr, "usage: coverage [--json FILE] PREFIX...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct trace *const trace = &traces[i - first];
        struct result *const result = &results[i - first];

        if (!load(argv[i], trace)) {
            (void)fprintf(stderr, "coverage: %s failed\n", argv[i]);
            return EXIT_FAILURE;
        }
        bench(trace, result);
        printf("%s: %" PRIu64 " M edges;", trace->name, result->edges / 1000000);
        for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
            printf("  %s %.3g %s", figures[f].key, figure_of(f, result) * figures[f].factor,
                   figures[f].unit);
        printf(" (%" PRIu64 " edges)\n", result->short_edges);
        free(trace->bytes);
        ptd_image_free(trace->image);
    }
    return has_json ? write_json(argv[2], traces, results, (size_t)(argc - first)) : EXIT_SUCCESS;
}
