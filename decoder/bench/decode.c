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
#include <intel-pt.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ptdec.h"
#include "truth.h"

#define RUNS        5
#define LIBIPT_RUNS 3 /* it takes long */
#define LOOP_TURNS  20000000u
#define ROUNDS_MAX  200
#define ROUNDS_MIN  15
#define QUIET       9    /* so many undisturbed rounds are enough */
#define QUIET_LEAST 5    /* fewer are too few */
#define QUIET_S     60.0 /* how long they are waited for, a trace */
#define WHOLE       0.97 /* of what a processor can do, if nobody shares its core */
#define ROOM        (16u << 10)
#define CACHE_BYTES (256u << 20) /* libipt crawls over large images without one */
#define MARKS       4096u

struct section {
    uint64_t address, offset, len_bytes; /* in the file of code */
};

/* One execution is traced without time, as perf does it by default, and with every cycle. */
enum { PLAIN, MTC, CYC, KINDS };
static const char *const suffixes[KINDS] = {"pt", "mtc.pt", "cyc.pt"};

struct trace {
    const char *prefix, *name;
    uint8_t *bytes; /* of one of the kinds at a time */
    size_t len_bytes;
    struct section *sections;
    size_t section_count;
    struct ptd_image *image;
    struct truth truth;
    double native_s; /* that as many instructions of such a program take without QEMU */
    uint64_t steps;
};

/* What is measured of a trace. */
struct result {
    double MB; /* of the trace without timing */
    double packets_MBps, packets_next_MBps, libipt_packets_MBps;
    double blocks_s, libipt_blocks_s, general_s;
    double edges_per_s, libipt_blocks_per_s;
    double vs_native; /* time with compound steps / that of the program */
    /* Of times, round by round: libipt / ours, twice, and single steps / compound ones. */
    double packets_ratio, packets_next_ratio, single_ratio;
    double threads2;     /* speedup where nothing disturbed, if that could be measured */
    double threads2_all; /* in all rounds */
    double loops2;       /* what two processors did of a loop, in all */
    unsigned quiet_rounds;
    double memory_MB;
    double timed_ratio[KINDS]; /* flow with times / without, round by round */
    double width[KINDS];       /* TSC ticks, of an interval on average */
};

/* ---- Traces ---- */

static FILE *open_part(const struct trace *trace, const char *suffix)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof(path), "%s.%s", trace->prefix, suffix) >= (int)sizeof(path))
        return NULL;
    file = fopen(path, "rb");
    if (!file)
        perror(path);
    return file;
}

static uint8_t *read_part(const struct trace *trace, const char *suffix, size_t *len)
{
    FILE *const file = open_part(trace, suffix);
    uint8_t *bytes = NULL;
    long end;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)end);
    if (bytes) {
        *len = (size_t)end;
        if (fread(bytes, 1, *len, file) != *len) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    return bytes;
}

static bool load_code(struct trace *trace)
{
    size_t len = 0;
    uint8_t *const code = read_part(trace, "code", &len);
    FILE *const map = open_part(trace, "map");
    uint64_t address, section_bytes, offset = 0;
    bool loaded = code && map;

    trace->image = ptd_image_new();
    while (loaded && fscanf(map, "%" SCNx64 " %" SCNx64, &address, &section_bytes) == 2) {
        struct section *const more =
            reallocarray(trace->sections, trace->section_count + 1, sizeof(*trace->sections));

        loaded = more && section_bytes <= len - offset &&
                 ptd_image_add_bytes(trace->image, NULL, address, code + offset, section_bytes,
                                     PTD_ANY_CR3) == PTD_OK;
        if (!more)
            break;
        trace->sections = more;
        more[trace->section_count++] = (struct section){address, offset, section_bytes};
        offset += section_bytes;
    }
    if (map)
        (void)fclose(map);
    free(code);
    return loaded;
}

static bool load_bytes(struct trace *trace, unsigned kind)
{
    free(trace->bytes);
    trace->bytes = read_part(trace, suffixes[kind], &trace->len_bytes);
    return trace->bytes != NULL;
}

/* What ran, and how long such a program runs, which may be longer or shorter than the trace. */
static bool load_truth(struct trace *trace)
{
    FILE *const truth = open_part(trace, "truth"), *const native = open_part(trace, "native");
    double seconds = 0, insns = 0;
    const bool known = truth && native && truth_read(&trace->truth, truth) &&
                       fscanf(native, "%lf %lf", &seconds, &insns) == 2;

    if (truth)
        (void)fclose(truth);
    if (native)
        (void)fclose(native);
    trace->native_s = seconds / insns * (double)trace->truth.insns;
    return known && seconds > 0 && insns > 0;
}

static bool load(struct trace *trace)
{
    return load_truth(trace) && load_code(trace) && load_bytes(trace, PLAIN);
}

static void unload(struct trace *trace)
{
    free(trace->bytes);
    free(trace->sections);
    ptd_image_free(trace->image);
}

/* ---- What was found ---- */

/* Blocks to branches; the last one's target is not known yet. */
struct finder {
    struct truth truth;
    bool open;
    uint64_t branch_ip;
    uint64_t steps, errors;
};

static void arrive(struct finder *finder, uint64_t ip)
{
    if (finder->open)
        truth_add(&finder->truth, finder->branch_ip, ip);
    finder->open = false;
}

static void find_in_block(struct finder *finder, const struct ptd_item *block)
{
    arrive(finder, block->ip);
    finder->truth.insns += block->insns;
    finder->open = block->last_class != PTD_INSN_OTHER;
    finder->branch_ip = block->last_ip;
}

static int find(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct finder *const finder = context;
    struct ptd_item block;

    for (size_t i = 0; i < run->count; i++)
        for (size_t part = 0; ptd_step_block(flow, run->steps[i], part, &block) == PTD_OK; part++)
            find_in_block(finder, &block);
    finder->steps += run->count;
    if (!run->has_item)
        return 0;
    if (run->item.type == PTD_ITEM_BLOCK)
        find_in_block(finder, &run->item);
    else if (run->item.type == PTD_ITEM_ERROR)
        finder->errors++;
    else if (run->item.type == PTD_ITEM_DISABLED && run->item.has_from)
        arrive(finder, run->item.from);
    return 0;
}

static bool found_all(const struct trace *trace, const char *how, const struct finder *finder)
{
    if (finder->errors == 0 && truth_equal(&trace->truth, &finder->truth))
        return true;
    (void)fprintf(stderr, "decode: %s, %s: %" PRIu64 " errors; ran, and found:\n", trace->name, how,
                  finder->errors);
    truth_write(&trace->truth, stderr);
    truth_write(&finder->truth, stderr);
    return false;
}

static const struct ptd_flow_config single_steps = {.mode = PTD_MODE_64};
static const struct ptd_flow_config compound_steps = {.mode = PTD_MODE_64, .compounds = true};

/* Sequential, and on two threads. Gives the number of steps back; 0: something is wrong. */
static uint64_t check_steps(const struct trace *trace, const struct ptd_flow_config *config)
{
    static uint32_t steps[ROOM];
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, config);
    struct ptd_run run = {.steps = steps, .room = ROOM};
    struct finder one = {.steps = 0}, two = {.steps = 0};

    truth_start(&one.truth);
    truth_start(&two.truth);
    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        (void)find(&one, flow, &run);
    ptd_flow_free(flow);
    if (ptd_flow_parallel(trace->bytes, trace->len_bytes, trace->image, config, PTD_TIMING_ITEMS, 2,
                          find, &two) != PTD_OK ||
        !found_all(trace, "ptd_flow_run()", &one) || !found_all(trace, "two threads", &two))
        return 0;
    return one.steps;
}

static bool check_ours(struct trace *trace)
{
    trace->steps = check_steps(trace, &single_steps);
    return trace->steps > 0 && check_steps(trace, &compound_steps) > 0;
}

/* ---- Consumers ---- */

struct sum {
    uint64_t insns, steps;
};

static int add_up(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    const uint32_t *const step_insns = ptd_flow_insns(flow, NULL);
    struct sum *const sum = context;
    uint64_t insns = 0;

    for (size_t i = 0; i < run->count; i++)
        insns += step_insns[run->steps[i] >> 2];
    if (run->has_item && run->item.type == PTD_ITEM_BLOCK)
        insns += run->item.insns;
    sum->insns += insns;
    sum->steps += run->count;
    return 0;
}

/* Each decodes a trace once and gives the number of instructions (of packets) back. */

static uint64_t run_steps(const struct trace *trace, enum ptd_timing timing,
                          const struct ptd_flow_config *config)
{
    static uint32_t steps[ROOM];
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, config);
    struct ptd_run run = {.steps = steps, .room = ROOM, .timing = (uint8_t)timing};
    struct sum sum = {0};

    while (flow && ptd_flow_run(flow, &run) == PTD_OK)
        (void)add_up(&sum, flow, &run);
    ptd_flow_free(flow);
    return sum.insns;
}

static uint64_t run_ours(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_ITEMS, &single_steps);
}

static uint64_t run_compounds(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_ITEMS, &compound_steps);
}

static uint64_t run_threads(const struct trace *trace, unsigned threads)
{
    struct sum sum = {0};

    (void)ptd_flow_parallel(trace->bytes, trace->len_bytes, trace->image, NULL, PTD_TIMING_ITEMS,
                            threads, add_up, &sum);
    return sum.insns;
}

static uint64_t run_one_thread(const struct trace *trace)
{
    return run_threads(trace, 1);
}

static uint64_t run_two_threads(const struct trace *trace)
{
    return run_threads(trace, 2);
}

/* ---- Time ---- */

/* The processor of record.c. */
static const struct ptd_time_config clocks = {.tsc_den = TRUTH_TSC_DEN,
                                              .tsc_num = TRUTH_TSC_NUM,
                                              .mtc_freq = TRUTH_MTC_FREQ,
                                              .max_nonturbo_ratio = TRUTH_RATIO};

/* Decodes a trace with its times; is given all that comes between two calls of ptd_flow_run(). */
typedef void (*timed_fn)(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                         const struct ptd_time_point *points);

static void run_with_time(const struct trace *trace, timed_fn consume, void *context)
{
    static uint32_t steps[ROOM];
    static struct ptd_mark marks[MARKS];
    static struct ptd_time_point points[MARKS];
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_time *const time = ptd_time_new(&clocks);
    struct ptd_packets packets;
    struct ptd_run run = {.steps = steps,
                          .room = ROOM,
                          .timing = PTD_TIMING_MARKS,
                          .marks = marks,
                          .mark_room = MARKS};

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while (flow && time && ptd_flow_run(flow, &run) == PTD_OK) {
        ptd_time_marks(time, &packets, marks, run.mark_count, points);
        consume(context, flow, &run, points);
    }
    ptd_time_free(time);
    ptd_flow_free(flow);
}

/* Where the execution is, and what time was told. */
struct timekeeper {
    uint64_t insns, earliest;
    uint64_t marks, wrong;
    double width; /* of all intervals */
};

/* A branch at a TSC of so many instructions, between two marks. */
static void keep_time(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                      const struct ptd_time_point *points)
{
    const uint32_t *const step_insns = ptd_flow_insns(flow, NULL);
    struct timekeeper *const keeper = context;
    size_t mark = 0;

    for (size_t i = 0; i <= run->count; i++) {
        for (; mark < run->mark_count && run->marks[mark].step == i; mark++) {
            const struct ptd_time_point *const point = &points[mark];

            keeper->wrong += keeper->insns > point->latest;
            keeper->earliest = point->earliest;
            keeper->width += (double)(point->latest - point->earliest);
        }
        if (i == run->count)
            break;
        keeper->insns += step_insns[run->steps[i] >> 2];
        keeper->wrong += keeper->insns < keeper->earliest;
    }
    keeper->marks += run->mark_count;
    if (run->has_item && run->item.type == PTD_ITEM_BLOCK)
        keeper->insns += run->item.insns;
}

/* Gives the average width of an interval back; NaN if one is wrong. */
static double check_times(const struct trace *trace, const char *kind)
{
    struct timekeeper keeper = {0};

    run_with_time(trace, keep_time, &keeper);
    if (keeper.insns == trace->truth.insns && keeper.wrong == 0 && keeper.marks > 0)
        return keeper.width / (double)keeper.marks;
    (void)fprintf(stderr, "decode: %s.%s: %" PRIu64 " times of %" PRIu64 " are wrong\n",
                  trace->name, kind, keeper.wrong, keeper.marks);
    return NAN;
}

struct timed_sum {
    struct sum sum;
    uint64_t ticks;
};

static void add_up_times(void *context, const struct ptd_flow *flow, const struct ptd_run *run,
                         const struct ptd_time_point *points)
{
    struct timed_sum *const timed = context;

    (void)add_up(&timed->sum, flow, run);
    for (size_t i = 0; i < run->mark_count; i++)
        timed->ticks += points[i].tsc;
}

static uint64_t run_timed(const struct trace *trace)
{
    struct timed_sum timed = {.ticks = 0};

    run_with_time(trace, add_up_times, &timed);
    return timed.ticks > 0 ? timed.sum.insns : 0;
}

static uint64_t run_untimed(const struct trace *trace)
{
    return run_steps(trace, PTD_TIMING_NONE, &single_steps);
}

/* ---- Other ways ---- */

/* The general walk, item by item. */
static uint64_t run_general(const struct trace *trace)
{
    struct ptd_flow *const flow = ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, NULL);
    struct ptd_item item;
    uint64_t insns = 0;

    while (flow && ptd_flow_next(flow, &item) == PTD_OK)
        if (item.type == PTD_ITEM_BLOCK)
            insns += item.insns;
    ptd_flow_free(flow);
    return insns;
}

static bool add_sections(struct pt_block_decoder *decoder, struct pt_image_section_cache *cache,
                         const struct trace *trace)
{
    struct pt_asid asid;
    char path[4096];

    pt_asid_init(&asid);
    if (snprintf(path, sizeof(path), "%s.code", trace->prefix) >= (int)sizeof(path))
        return false;
    for (size_t i = 0; i < trace->section_count; i++) {
        const struct section *const section = &trace->sections[i];
        const int id =
            pt_iscache_add_file(cache, path, section->offset, section->len_bytes, section->address);

        if (id < 0 || pt_image_add_cached(pt_blk_get_image(decoder), cache, id, &asid) < 0)
            return false;
    }
    return true;
}

static uint64_t libipt_blocks;

/* 0 after an error. */
static uint64_t walk_libipt(struct pt_block_decoder *decoder)
{
    uint64_t insns = 0;
    int status = pt_blk_sync_forward(decoder);

    libipt_blocks = 0;
    while (status >= 0) {
        struct pt_event event;
        struct pt_block block = {.ninsn = 0};

        while (status >= 0 && status & pts_event_pending)
            status = pt_blk_event(decoder, &event, sizeof(event));
        if (status < 0)
            break;
        status = pt_blk_next(decoder, &block, sizeof(block));
        insns += block.ninsn;
        libipt_blocks += block.ninsn > 0;
    }
    return status == -pte_eos ? insns : 0;
}

static void configure(struct pt_config *config, const struct trace *trace)
{
    pt_config_init(config);
    config->begin = trace->bytes;
    config->end = trace->bytes + trace->len_bytes;
}

static uint64_t run_libipt(const struct trace *trace)
{
    struct pt_image_section_cache *const cache = pt_iscache_alloc(NULL);
    struct pt_config config;
    uint64_t insns = 0;

    configure(&config, trace);

    struct pt_block_decoder *const decoder = pt_blk_alloc_decoder(&config);

    if (cache && decoder && pt_iscache_set_limit(cache, CACHE_BYTES) >= 0 &&
        add_sections(decoder, cache, trace))
        insns = walk_libipt(decoder);
    pt_blk_free_decoder(decoder);
    pt_iscache_free(cache);
    return insns;
}

static uint64_t run_packets(const struct trace *trace)
{
    static struct ptd_packet list[256];
    struct ptd_packets packets;
    uint64_t count = 0;
    int status = PTD_OK;

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while (status == PTD_OK)
        count += ptd_packets_read(&packets, list, sizeof(list) / sizeof(list[0]), &status);
    return status == PTD_END ? count : 0;
}

static uint64_t run_packets_next(const struct trace *trace)
{
    struct ptd_packets packets;
    struct ptd_packet packet;
    uint64_t count = 0;
    int status;

    ptd_packets_init(&packets, trace->bytes, trace->len_bytes);
    while ((status = ptd_packets_next(&packets, &packet)) == PTD_OK)
        count++;
    return status == PTD_END ? count : 0;
}

static uint64_t run_libipt_packets(const struct trace *trace)
{
    struct pt_config config;
    struct pt_packet packet;
    uint64_t count = 0;
    int status;

    configure(&config, trace);

    struct pt_packet_decoder *const decoder = pt_pkt_alloc_decoder(&config);

    if (!decoder || pt_pkt_sync_set(decoder, 0) < 0)
        return 0;
    while ((status = pt_pkt_next(decoder, &packet, sizeof(packet))) > 0)
        count++;
    pt_pkt_free_decoder(decoder);
    return status == -pte_eos ? count : 0;
}

/* ---- Measuring ---- */

static double now(clockid_t clock)
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

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(times[0]), compare_doubles);
    return times[count / 2];
}

/* The median of the seconds that it takes; NaN if a run does not give want. */
static double measure(uint64_t (*run)(const struct trace *), const struct trace *trace,
                      uint64_t want, unsigned runs, clockid_t clock, const char *what)
{
    double times[RUNS] = {0};

    for (unsigned i = 0; i < runs; i++) {
        const double begin = now(clock);
        const uint64_t got = run(trace);

        times[i] = now(clock) - begin;
        if (got != want) {
            (void)fprintf(stderr, "decode: %s, %s: %" PRIu64 " instead of %" PRIu64 "\n",
                          trace->name, what, got, want);
            return NAN;
        }
    }
    return median(times, runs);
}

/* One of several ways, of which each has its turn in each round: all have the same of the machine.
 */
struct way {
    uint64_t (*run)(const struct trace *);
    const char *what;
    double times[RUNS];
};

/* False: one of them does not give want. */
static bool measure_ways(struct way *ways, size_t count, const struct trace *trace, uint64_t want)
{
    for (unsigned i = 0; i < RUNS; i++) {
        for (size_t way = 0; way < count; way++) {
            ways[way].times[i] =
                measure(ways[way].run, trace, want, 1, CLOCK_PROCESS_CPUTIME_ID, ways[way].what);
            if (isnan(ways[way].times[i]))
                return false;
        }
    }
    return true;
}

static double median_of(const struct way *way)
{
    double times[RUNS];

    memcpy(times, way->times, sizeof(times));
    return median(times, RUNS);
}

/* How many times as long the one takes as the other. */
static double ratio_of(const struct way *one, const struct way *other)
{
    double ratios[RUNS];

    for (unsigned i = 0; i < RUNS; i++)
        ratios[i] = one->times[i] / other->times[i];
    return median(ratios, RUNS);
}

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

static bool measure_compounds(const struct trace *trace, struct result *result)
{
    enum { SINGLE, COMPOUND, WAYS };
    struct way ways[WAYS] = {
        [SINGLE] = {.run = run_ours, .what = "instructions"},
        [COMPOUND] = {.run = run_compounds, .what = "compound steps"},
    };

    if (!measure_ways(ways, WAYS, trace, trace->truth.insns))
        return false;
    result->blocks_s = median_of(&ways[SINGLE]);
    result->edges_per_s = (double)trace->steps / median_of(&ways[COMPOUND]);
    result->vs_native = median_of(&ways[COMPOUND]) / trace->native_s;
    result->single_ratio = ratio_of(&ways[SINGLE], &ways[COMPOUND]);
    return true;
}

/*
 * Nothing but computing, in registers, four things at a time: a core that two of them share is
 * about as fast as one of them. A single chain of instructions would not notice.
 */
static void *loop(void *unused)
{
    uint64_t a = 1, b = 2, c = 3, d = 4;

    for (unsigned i = 0; i < LOOP_TURNS; i++) {
        a ^= a << 13, b ^= b << 13, c ^= c << 13, d ^= d << 13;
        a ^= a >> 7, b ^= b >> 7, c ^= c >> 7, d ^= d >> 7;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    return unused;
}

static double time_loop(void)
{
    const double begin = now(CLOCK_MONOTONIC);

    (void)loop(NULL);
    return now(CLOCK_MONOTONIC) - begin;
}

/* NaN: there is no second thread. */
static double time_two_loops(void)
{
    const double begin = now(CLOCK_MONOTONIC);
    pthread_t other;

    if (pthread_create(&other, NULL, loop, NULL) != 0)
        return NAN;
    (void)loop(NULL);
    (void)pthread_join(other, NULL);
    return now(CLOCK_MONOTONIC) - begin;
}

/* Rounds of one thread, then two, with loops before, between and behind. */
struct rounds {
    double speedup[ROUNDS_MAX];
    double slowest_s[ROUNDS_MAX]; /* of the loops, on one or two processors */
    unsigned count;
};

/* The speedups of the rounds in which nothing disturbed: all loops had all they need. */
static unsigned quiet_speedups(const struct rounds *rounds, double least_s, double *speedups)
{
    unsigned quiet = 0;

    for (unsigned i = 0; i < rounds->count; i++)
        if (rounds->slowest_s[i] * WHOLE <= least_s)
            speedups[quiet++] = rounds->speedup[i];
    return quiet;
}

/*
 * How much faster two threads are than one just before, and what two processors of this machine are
 * worth at the time: they may share a core with each other, or each of them with somebody else, as
 * processors of virtual machines do. Where they do not for a while, those rounds count.
 */
static bool measure_threads(const struct trace *trace, struct result *result)
{
    static struct rounds rounds;
    static double loops[ROUNDS_MAX], quiet_speedup[ROUNDS_MAX];
    const uint64_t insns = trace->truth.insns;
    const double begin = now(CLOCK_MONOTONIC);
    double least = time_loop();
    unsigned quiet;

    rounds.count = 0;
    for (unsigned i = 1; i < ROUNDS_MIN; i++)
        least = fmin(least, time_loop());
    do {
        const double loop_s = time_loop();
        const double one_s = measure(run_one_thread, trace, insns, 1, CLOCK_MONOTONIC, "a thread");
        const double loop_behind_s = time_loop(), loops_s = time_two_loops();
        const double two_s =
            measure(run_two_threads, trace, insns, 1, CLOCK_MONOTONIC, "two threads");
        const double loops_behind_s = time_two_loops();

        if (isnan(one_s + two_s + loops_s + loops_behind_s))
            return false;
        rounds.speedup[rounds.count] = one_s / two_s;
        rounds.slowest_s[rounds.count] =
            fmax(fmax(loop_s, loop_behind_s), fmax(loops_s, loops_behind_s));
        loops[rounds.count++] = 2 * least / loops_s;
        least = fmin(least, fmin(loop_s, loop_behind_s));
        quiet = quiet_speedups(&rounds, least, quiet_speedup);
    } while (rounds.count < ROUNDS_MIN || (rounds.count < ROUNDS_MAX && quiet < QUIET &&
                                           now(CLOCK_MONOTONIC) - begin <= QUIET_S));
    result->loops2 = median(loops, rounds.count);
    result->quiet_rounds = quiet;
    result->threads2_all = median(rounds.speedup, rounds.count);
    result->threads2 = quiet >= QUIET_LEAST ? median(quiet_speedup, quiet) : result->threads2_all;
    return true;
}

/*
 * Megabytes that decoding on two threads needs besides the trace and the image: in a process of its
 * own, which has no memory at hand that was in use before.
 */
static double measure_memory(const struct trace *trace)
{
    struct rusage before, after;
    int status;

    (void)fflush(NULL);
    (void)malloc_trim(0);

    const pid_t child = fork();

    if (child == 0) {
        (void)getrusage(RUSAGE_SELF, &before);
        (void)run_two_threads(trace);
        (void)getrusage(RUSAGE_SELF, &after);

        const long MiB = (after.ru_maxrss - before.ru_maxrss) >> 10;

        _exit(MiB < 255 ? (int)MiB : 255); /* as far as a status can tell */
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return NAN;
    return WEXITSTATUS(status) * 1.048576;
}

static bool is_complete(const struct result *result)
{
    return !isnan(result->libipt_blocks_s + result->general_s + result->threads2 +
                  result->memory_MB);
}

static bool bench_time(struct trace *trace, struct result *result)
{
    enum { UNTIMED, TIMED, WAYS };

    for (unsigned kind = MTC; kind < KINDS; kind++) {
        struct way ways[WAYS] = {
            [UNTIMED] = {.run = run_untimed, .what = "instructions, untimed"},
            [TIMED] = {.run = run_timed, .what = "instructions, timed"},
        };

        if (!load_bytes(trace, kind))
            return false;
        result->width[kind] = check_times(trace, suffixes[kind]);
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

    if (packets == 0 || !check_ours(trace))
        return false;
    result->MB = (double)trace->len_bytes / 1e6;
    if (!measure_packets(trace, packets, result) || !measure_compounds(trace, result))
        return false;
    result->libipt_blocks_s =
        measure(run_libipt, trace, insns, LIBIPT_RUNS, cpu, "instructions of libipt");
    result->general_s = measure(run_general, trace, insns, 1, cpu, "ptd_flow_next()");
    if (!measure_threads(trace, result))
        return false;
    result->memory_MB = measure_memory(trace);
    result->libipt_blocks_per_s = (double)libipt_blocks / result->libipt_blocks_s;
    return is_complete(result) && bench_time(trace, result);
}

/* ---- Reports ---- */

/* The figures that count, and how each is computed. */
static double packets_ratio(const struct result *result)
{
    return result->packets_ratio;
}

static double packets_next_ratio(const struct result *result)
{
    return result->packets_next_ratio;
}

static double blocks_ratio(const struct result *result)
{
    return result->libipt_blocks_s / result->blocks_s;
}

static double edges(const struct result *result)
{
    return result->edges_per_s;
}

static double edges_ratio(const struct result *result)
{
    return result->single_ratio;
}

static double native_ratio(const struct result *result)
{
    return result->vs_native;
}

static double speedup(const struct result *result)
{
    return result->threads2;
}

static double speedup_all(const struct result *result)
{
    return result->threads2_all;
}

static double loops_speedup(const struct result *result)
{
    return result->loops2;
}

/* How much longer the flow takes with times than without, as a ratio. */
static double timed_cost(const struct result *result)
{
    return result->timed_ratio[MTC];
}

static double timed_cost_cyc(const struct result *result)
{
    return result->timed_ratio[CYC];
}

static const struct figure {
    const char *key;
    double (*of)(const struct result *result);
} figures[] = {
    {"packets_vs_libipt", packets_ratio}, {"packets_next_vs_libipt", packets_next_ratio},
    {"blocks_vs_libipt", blocks_ratio},   {"edges_per_s", edges},
    {"edges_per_s_vs_last", edges_ratio}, {"decode_vs_native", native_ratio},
    {"threads2_speedup", speedup},        {"threads2_speedup_all", speedup_all},
    {"loops2_speedup", loops_speedup},    {"timed_cost", timed_cost},
    {"timed_cost_cyc", timed_cost_cyc},
};

static double mean(const struct figure *figure, const struct result *results, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += log(figure->of(&results[i]));
    return exp(sum / (double)count);
}

static void print(const struct trace *trace, const struct result *result)
{
    const double MB = result->MB;

    printf("%s: %.1f MB, %" PRIu64 " M instructions, all as they ran; libipt finds as many\n",
           trace->name, MB, trace->truth.insns / 1000000);
    printf("  packets  %8.0f MB/s   libipt %7.0f MB/s   %6.2f x;  one by one %.0f MB/s   %.2f x\n",
           result->packets_MBps, result->libipt_packets_MBps, packets_ratio(result),
           result->packets_next_MBps, packets_next_ratio(result));
    printf("  flow     %8.0f MB/s   libipt %7.1f MB/s   %6.2f x\n", MB / result->blocks_s,
           MB / result->libipt_blocks_s, blocks_ratio(result));
    printf("  edges    %8.0f M/s    %.2f x as many as in single steps;  libipt %7.1f M blocks/s;  "
           "ptd_flow_next() %.1f M/s\n",
           result->edges_per_s / 1e6, edges_ratio(result), result->libipt_blocks_per_s / 1e6,
           (double)trace->steps / result->general_s / 1e6);
    printf("  native   %8.2f x the time that the program runs, %.3f s\n", native_ratio(result),
           trace->native_s);
    printf(
        "  threads  %8.2f x as fast on two as on one %s;  %.2f x and a mere loop %.2f x in all;  "
        "%.0f MB besides the images\n",
        speedup(result),
        result->quiet_rounds >= QUIET_LEAST ? "while both processors had a core"
                                            : "(two processors hardly ever had a core each)",
        speedup_all(result), loops_speedup(result), result->memory_MB);
    printf("  timed    %8.2f x the time of untimed flow with MTC, %.2f x with CYC packets;  every "
           "branch within its interval, of %.0f and %.0f ticks\n",
           timed_cost(result), timed_cost_cyc(result), result->width[MTC], result->width[CYC]);
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
    for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
        (void)fprintf(file, "  \"%s\": {", figures[f].key);
        for (size_t i = 0; i < count; i++)
            (void)fprintf(file, "\"%s\": %.4g, ", traces[i].name, figures[f].of(&results[i]));
        (void)fprintf(file, "\"geometric_mean\": %.4g},\n", mean(&figures[f], results, count));
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
                      results[i].memory_MB, results[i].quiet_rounds);
    (void)fprintf(file, "\n  }\n}\n");
    return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const char *name_of(const char *prefix)
{
    const char *const slash = strrchr(prefix, '/');

    return slash ? slash + 1 : prefix;
}

#define MOST_TRACES 16

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
        trace->name = name_of(argv[i]);
        if (!load(trace) || !bench(trace, &results[count])) {
            (void)fprintf(stderr, "decode: %s failed\n", argv[i]);
            return EXIT_FAILURE;
        }
        print(trace, &results[count]);
        unload(trace);
    }
    for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
        printf("%-20s %10.4g (geometric mean)\n", figures[f].key,
               mean(&figures[f], results, count));
    return json ? write_json(json, traces, results, count) : EXIT_SUCCESS;
}
