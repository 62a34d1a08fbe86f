/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast traces of real programs are decoded, next to libipt on the same machine and trace.
 *
 *   decode [--json FILE] PREFIX...: traces that record.c made, see traces.sh
 *
 * First the results are checked: what ptd_flow_run() and ptd_flow_parallel() find must be what ran,
 * branch by branch, and libipt must find as many instructions. Then medians: of processor time
 * where one thread works, so that other work on the machine does not count; for two threads, of how
 * much less time elapses than with one just before. Every step is looked at by its consumer, which
 * adds up the instructions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "libipt.h"
#include "measure.h"
#include "threads.h"
#include "ways.h"

#define LIBIPT_RUNS 3 /* it takes long */

/* What is measured of a trace. */
struct result {
    double MB;      /* of the trace without timing */
    uint64_t steps; /* single ones */
    double packets_MBps, packets_next_MBps, libipt_packets_MBps;
    double blocks_s, libipt_blocks_s, general_s;
    double edges_per_s, libipt_blocks_per_s;
    double vs_native;    /* time with compound steps / that of the program */
    double blocks_ratio; /* of times: libipt / ours */
    /* Of times, round by round: libipt / ours, twice, and single steps / compound ones. */
    double packets_ratio, packets_next_ratio, single_ratio;
    struct threads threads;
    double memory_MB;
    double timed_ratio[KINDS]; /* flow with times / without, round by round */
    double width[KINDS];       /* TSC ticks, of an interval on average */
};

/* ---- Measuring ---- */

static bool measure_packets(const struct trace *trace, uint64_t packets, struct result *result)
{
    enum { BULK, NEXT, LIBIPT, WAYS };
    struct way ways[WAYS] = {
        [BULK] = {.run = run_packets, .what = "packets"},
        [NEXT] = {.run = run_packets_next, .what = "packets one by one"},
        [LIBIPT] = {.run = run_libipt_packets, .what = "packets of libipt"},
    };

    if (!measure_ways(ways, WAYS, trace, packets))
        return false;
    result->packets_MBps = result->MB / median_of(&ways[BULK]);
    result->packets_next_MBps = result->MB / median_of(&ways[NEXT]);
    result->libipt_packets_MBps = result->MB / median_of(&ways[LIBIPT]);
    result->packets_ratio = ratio_of(&ways[LIBIPT], &ways[BULK]);
    result->packets_next_ratio = ratio_of(&ways[LIBIPT], &ways[NEXT]);
    return true;
}

static bool measure_flow(const struct trace *trace, struct result *result)
{
    enum { SINGLE, COMPOUND, WAYS };
    struct way ways[WAYS] = {
        [SINGLE] = {.run = run_ours, .what = "instructions"},
        [COMPOUND] = {.run = run_compounds, .what = "compound steps"},
    };

    if (!measure_ways(ways, WAYS, trace, trace->truth.insns))
        return false;
    result->blocks_s = median_of(&ways[SINGLE]);
    result->edges_per_s = (double)result->steps / median_of(&ways[COMPOUND]);
    result->vs_native = median_of(&ways[COMPOUND]) / trace->native_s;
    result->single_ratio = ratio_of(&ways[SINGLE], &ways[COMPOUND]);
    return true;
}

static bool bench_time(struct trace *trace, struct result *result)
{
    enum { UNTIMED, TIMED, WAYS };

    for (unsigned kind = MTC; kind < KINDS; kind++) {
        struct way ways[WAYS] = {
            [UNTIMED] = {.run = run_untimed, .what = "instructions, untimed"},
            [TIMED] = {.run = run_timed, .what = "instructions, timed"},
        };

        if (!trace_load_kind(trace, kind))
            return false;
        result->width[kind] = check_times(trace);
        if (isnan(result->width[kind]) || !measure_ways(ways, WAYS, trace, trace->truth.insns))
            return false;
        result->timed_ratio[kind] = ratio_of(&ways[TIMED], &ways[UNTIMED]);
    }
    return true;
}

static bool bench(struct trace *trace, struct result *result)
{
    const clockid_t cpu = CLOCK_PROCESS_CPUTIME_ID;
    const uint64_t insns = trace->truth.insns, packets = run_packets(trace);

    result->steps = packets > 0 ? check_branches(trace) : 0;
    result->MB = (double)trace->len_bytes / 1e6;
    if (result->steps == 0 || !measure_packets(trace, packets, result) ||
        !measure_flow(trace, result))
        return false;
    result->libipt_blocks_s =
        measure(run_libipt, trace, insns, LIBIPT_RUNS, cpu, "instructions of libipt");
    result->general_s = measure(run_general, trace, insns, 1, cpu, "ptd_flow_next()");
    if (!measure_threads(trace, &result->threads))
        return false;
    result->memory_MB = measure_memory(trace);
    result->blocks_ratio = result->libipt_blocks_s / result->blocks_s;
    result->libipt_blocks_per_s = (double)libipt_blocks / result->libipt_blocks_s;
    return !isnan(result->libipt_blocks_s + result->general_s + result->threads.speedup +
                  result->memory_MB) &&
           bench_time(trace, result);
}

/* ---- Reports ---- */

#define FIGURES 11

static struct figure figures[FIGURES];

/* The figures that count, and how each is called. */
static void set_figures(const struct result *result, size_t trace)
{
    const struct {
        const char *key;
        double value;
    } all[FIGURES] = {
        {"packets_vs_libipt", result->packets_ratio},
        {"packets_next_vs_libipt", result->packets_next_ratio},
        {"blocks_vs_libipt", result->blocks_ratio},
        {"edges_per_s", result->edges_per_s},
        {"edges_per_s_vs_last", result->single_ratio},
        {"decode_vs_native", result->vs_native},
        {"threads2_speedup", result->threads.speedup},
        {"threads2_speedup_all", result->threads.speedup_all},
        {"loops2_speedup", result->threads.loops},
        /* How much longer the flow takes with times than without, as a ratio. */
        {"timed_cost", result->timed_ratio[MTC]},
        {"timed_cost_cyc", result->timed_ratio[CYC]},
    };

    for (size_t f = 0; f < FIGURES; f++) {
        figures[f].key = all[f].key;
        figures[f].values[trace] = all[f].value;
    }
}

static void print(const struct trace *trace, const struct result *result)
{
    const double MB = result->MB;

    printf("%s: %.1f MB, %" PRIu64 " M instructions, all as they ran; libipt finds as many\n",
           trace->name, MB, trace->truth.insns / 1000000);
    printf("  packets  %8.0f MB/s   libipt %7.0f MB/s   %6.2f x;  one by one %.0f MB/s   %.2f x\n",
           result->packets_MBps, result->libipt_packets_MBps, result->packets_ratio,
           result->packets_next_MBps, result->packets_next_ratio);
    printf("  flow     %8.0f MB/s   libipt %7.1f MB/s   %6.2f x\n", MB / result->blocks_s,
           MB / result->libipt_blocks_s, result->blocks_ratio);
    printf("  edges    %8.0f M/s    %.2f x as many as in single steps;  libipt %7.1f M blocks/s;  "
           "ptd_flow_next() %.1f M/s\n",
           result->edges_per_s / 1e6, result->single_ratio, result->libipt_blocks_per_s / 1e6,
           (double)result->steps / result->general_s / 1e6);
    printf("  native   %8.2f x the time that the program runs, %.3f s\n", result->vs_native,
           trace->native_s);
    printf(
        "  threads  %8.2f x as fast on two as on one %s;  %.2f x and a mere loop %.2f x in all;  "
        "%.0f MB besides the images\n",
        result->threads.speedup,
        result->threads.is_quiet ? "while both processors had a core"
                                 : "(two processors hardly ever had a core each)",
        result->threads.speedup_all, result->threads.loops, result->memory_MB);
    printf("  timed    %8.2f x the time of untimed flow with MTC, %.2f x with CYC packets;  every "
           "branch within its interval, of %.0f and %.0f ticks\n",
           result->timed_ratio[MTC], result->timed_ratio[CYC], result->width[MTC],
           result->width[CYC]);
}

static int write_json(const char *path, const struct trace *traces, const struct result *results,
                      size_t count)
{
    FILE *const file = fopen(path, "w");

    if (!file) {
        perror(path);
        return EXIT_FAILURE;
    }
    (void)fprintf(file, "{\n");
    for (size_t f = 0; f < FIGURES; f++) {
        figure_write(&figures[f], traces, count, file);
        (void)fprintf(file, ",\n");
    }
    (void)fprintf(file, "  \"traces\": {");
    for (size_t i = 0; i < count; i++)
        (void)fprintf(file,
                      "%s\n    \"%s\": {\"bytes\": %.0f, \"instructions\": %" PRIu64
                      ", \"branches\": %" PRIu64 ", \"packets_MBps\": %.1f, "
                      "\"libipt_packets_MBps\": %.1f, \"flow_s\": %.4f, \"libipt_flow_s\": %.4f, "
                      "\"libipt_blocks_per_s\": %.4g, \"memory_MB\": %.0f, "
                      "\"quiet_rounds\": %u}",
                      i ? "," : "", traces[i].name, results[i].MB * 1e6, traces[i].truth.insns,
                      traces[i].truth.branches, results[i].packets_MBps,
                      results[i].libipt_packets_MBps, results[i].blocks_s,
                      results[i].libipt_blocks_s, results[i].libipt_blocks_per_s,
                      results[i].memory_MB, results[i].threads.quiet_rounds);
    (void)fprintf(file, "\n  }\n}\n");
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static struct result results[MOST_TRACES];
    static struct trace traces[MOST_TRACES];
    const char *json = NULL;
    size_t count = 0;
    int first = 1;

    if (argc > 2 && strcmp(argv[1], "--json") == 0) {
        json = argv[2];
        first = 3;
    }
    if (argc <= first || argc - first > MOST_TRACES) {
        (void)fprintf(stderr, "usage: decode [--json FILE] PREFIX...\n");
        return 2;
    }
    for (int i = first; i < argc; i++, count++) {
        struct trace *const trace = &traces[count];

        trace->prefix = argv[i];
        if (!trace_load_truth(trace) || !trace_load(trace) || !bench(trace, &results[count])) {
            (void)fprintf(stderr, "decode: %s failed\n", argv[i]);
            return EXIT_FAILURE;
        }
        print(trace, &results[count]);
        set_figures(&results[count], count);
        trace_unload(trace);
    }
    for (size_t f = 0; f < FIGURES; f++)
        printf("%-20s %10.4g (geometric mean)\n", figures[f].key, figure_mean(&figures[f], count));
    return json ? write_json(json, traces, results, count) : EXIT_SUCCESS;
}
