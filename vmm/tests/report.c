/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of vpt report: those of a trace in bulk and item by item, with a plain count of the
 * items as the witness.
 */
#include "report/report.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE         0x5000u
#define TWO         0x6000u
#define FUNCTION    0x40u /* bytes */
#define SPACES      3u
#define CELLS       (2 * SPACES) /* a function in an address space */
#define TRACES      60u
#define TRACE_BYTES 6000u
#define STEP_BYTES  64u
#define START       100000u         /* TSC */
#define RENAMED     (START + 5000u) /* the time from which on there are other names */
#define EVENTS      (8 * TRACE_BYTES)

static const struct ptd_time_config clocks = {
    .tsc_den = 2, .tsc_num = 200, .mtc_freq = 3, .max_nonturbo_ratio = 20};

#define MTC_TICKS 800u /* of TSC, from one MTC packet to the next, as clocks say */

/* ---- A trace ---- */

/* What tells the time besides TSC packets. */
enum kind {
    TSC_ONLY,
    WITH_CYC, /* in front of each packet of code */
    WITH_MTC, /* among more TNT packets */
    SOME_CYC, /* the same, and CYC packets, two of them in a row now and then */
    KINDS,
};

struct made {
    enum kind kind;
    uint8_t bytes[TRACE_BYTES];
    size_t len;
    uint64_t random, tsc, cr3;
    uint64_t ip; /* of the next instruction */
};

static uint64_t below(struct made *made, uint64_t count)
{
    made->random ^= made->random << 13;
    made->random ^= made->random >> 7;
    made->random ^= made->random << 17;
    return made->random % count;
}

static void put(struct made *made, const void *bytes, size_t len)
{
    memcpy(made->bytes + made->len, bytes, len);
    made->len += len;
}

#define PUT(made, ...)                                                                             \
    put(made, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_tsc(struct made *made)
{
    PUT(made, 0x19);
    put(made, &made->tsc, 7);
}

static void put_ip(struct made *made, uint8_t opcode, uint64_t ip)
{
    PUT(made, (uint8_t)(opcode | 3 << 5));
    put(made, &ip, 6);
}

static void put_pip(struct made *made)
{
    const uint64_t payload = made->cr3 >> 5 << 1;

    PUT(made, 2, 0x43);
    put(made, &payload, 6);
}

/* Of a TSC packet in front of it. */
static void put_tma(struct made *made)
{
    const uint64_t ctc = made->tsc / 100;

    PUT(made, 2, 0x73, (uint8_t)ctc, (uint8_t)(ctc >> 8), 0, (uint8_t)(made->tsc % 100), 0);
}

static void put_psb(struct made *made)
{
    for (unsigned i = 0; i < 8; i++)
        PUT(made, 2, 0x82);
    put_tsc(made);
    if (made->kind >= WITH_MTC)
        put_tma(made);
    put_pip(made);
    PUT(made, 0x99, 0x01);
    put_ip(made, 0x1d, made->ip);
    PUT(made, 2, 0x23);
}

/* CYC of less than 32 cycles. */
static void put_cyc(struct made *made, uint8_t cycles)
{
    PUT(made, (uint8_t)(cycles << 3 | 3));
    made->tsc += cycles;
}

/* Time passes. */
static void pass(struct made *made, uint64_t ticks)
{
    const uint64_t before = made->tsc / MTC_TICKS;

    made->tsc += ticks;
    for (uint64_t i = before + 1; made->kind >= WITH_MTC && i <= made->tsc / MTC_TICKS; i++)
        PUT(made, 0x59, (uint8_t)i);
}

/* What happens between two turns of a function: with CYC, such a packet in front of each. */
static void disturb(struct made *made)
{
    const bool with_cyc = made->kind == WITH_CYC;

    made->ip = below(made, 2) ? ONE : TWO;
    switch (below(made, 12)) {
    case 0:
        PUT(made, 0x01); /* TIP.PGD without an IP */
        pass(made, below(made, 500));
        put_tsc(made);
        made->cr3 = (1 + below(made, SPACES)) << 12;
        put_pip(made);
        put_ip(made, 0x11, made->ip);
        return;
    case 1:
        if (!with_cyc)
            put_tsc(made);
        break;
    case 2:
        pass(made, below(made, 1000));
        put_tsc(made);
        break;
    default:
        break;
    }
    if (with_cyc)
        put_cyc(made, (uint8_t)(1 + below(made, 30)));
    put_ip(made, 0x0d, made->ip);
}

/* Functions that loop so and so often, and jump to each other. */
static void make_trace(struct made *made, uint64_t seed, enum kind kind)
{
    *made = (struct made){.kind = kind,
                          .random = seed * 0x9e3779b97f4a7c15u + 1,
                          .tsc = START,
                          .cr3 = 1 << 12,
                          .ip = ONE};
    put_psb(made);
    while (made->len + 2 * STEP_BYTES < TRACE_BYTES) {
        unsigned loops = (unsigned)below(made, kind >= WITH_MTC ? 60 : 6);

        pass(made, below(made, 40));
        if (kind == WITH_CYC)
            put_cyc(made, (uint8_t)(1 + below(made, 30)));
        for (; loops >= 6; loops -= 6) {
            for (uint64_t i = kind == SOME_CYC ? below(made, 8) : 0; i > 5; i--)
                put_cyc(made, (uint8_t)(1 + below(made, 30)));
            PUT(made, 0xfe);
            pass(made, below(made, 400));
        }
        PUT(made, (uint8_t)(((2u << loops | ((1u << loops) - 1) << 1) << 1) & 0xff));
        disturb(made);
        if (below(made, 40) == 0)
            put_psb(made);
    }
    PUT(made, 0x06, 0x01); /* what is behind the last item, items do not tell: TNT, TIP.PGD */
}

/* Each: NOPs, JNE to its begin, JMP RAX. */
static struct ptd_image *make_image(void)
{
    struct ptd_image *const image = ptd_image_new();
    uint8_t code[FUNCTION];

    for (unsigned nops = 3; nops <= 10; nops += 7) {
        memset(code, 0x90, sizeof(code));
        code[nops] = 0x75;
        code[nops + 1] = (uint8_t)(0 - (nops + 2));
        code[nops + 2] = 0xff;
        code[nops + 3] = 0xe0;
        CU_ASSERT_EQUAL(ptd_image_add_bytes(image, nops == 3 ? "one" : "two", nops == 3 ? ONE : TWO,
                                            code, sizeof(code), PTD_ANY_CR3),
                        PTD_OK);
    }
    return image;
}

/* ---- The witness ---- */

struct cell {
    uint64_t insns, blocks, calls;
    double ticks;
};

struct witness {
    struct cell cells[CELLS];
    /* Blocks since the last time, and what they have to share. */
    struct {
        unsigned cell;
        uint32_t insns;
    } since[EVENTS];
    size_t count;
    double due, total;
    bool off, first_is_of_cyc;
    uint64_t now, cycles;
    uint64_t insns, insns_before; /* all; those in front of RENAMED */
};

static unsigned cell_of(uint64_t cr3, bool is_two)
{
    return (unsigned)(cr3 >> 12) - 1 + (is_two ? SPACES : 0);
}

static void share(struct witness *witness)
{
    uint64_t all = 0;

    for (size_t i = 0; i < witness->count; i++)
        all += witness->since[i].insns;
    witness->first_is_of_cyc = false;
    if (witness->count == 0)
        return;
    for (size_t i = 0; i < witness->count; i++)
        witness->cells[witness->since[i].cell].ticks +=
            witness->due * (double)witness->since[i].insns / (double)all;
    witness->total += witness->due;
    witness->due = 0;
    witness->count = 0;
}

static void see_time(struct witness *witness, const struct ptd_time_point *point)
{
    const bool is_cyc = point->cycles != witness->cycles;
    uint64_t passed = 0;

    if (point->tsc == PTD_TIME_UNKNOWN)
        return;
    if (witness->insns_before == 0 && point->tsc >= RENAMED)
        witness->insns_before = witness->insns;
    if (witness->now)
        passed = point->tsc - witness->now;
    if (witness->now && passed == 0 && !is_cyc)
        return;
    witness->now = point->tsc;
    witness->cycles = point->cycles;
    if (witness->first_is_of_cyc && is_cyc)
        share(witness);
    if (!witness->off)
        witness->due += (double)passed;
    if (is_cyc && !witness->off)
        witness->first_is_of_cyc = true;
    if (!witness->first_is_of_cyc)
        share(witness);
}

static void see_block(struct witness *witness, const struct ptd_item *block)
{
    const unsigned number = cell_of(block->cr3, block->ip >= TWO);
    struct cell *const cell = &witness->cells[number];

    cell->insns += block->insns;
    witness->insns += block->insns;
    cell->blocks++;
    cell->calls += block->ip == ONE || block->ip == TWO;
    witness->off = false;
    witness->since[witness->count].cell = number;
    witness->since[witness->count++].insns = block->insns;
    if (witness->first_is_of_cyc)
        share(witness);
}

/* Item by item, each packet told to a clock. */
static void ask_witness(struct witness *witness, const struct made *made,
                        const struct ptd_image *image)
{
    struct ptd_flow *const flow = ptd_flow_new(made->bytes, made->len, image, NULL);
    struct ptd_time *const time = ptd_time_new(&clocks);
    struct ptd_packets packets;
    struct ptd_packet packet;
    struct ptd_time_point point;
    struct ptd_item item;

    *witness = (struct witness){.off = true, .now = START};
    ptd_packets_init(&packets, made->bytes, made->len);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        const bool is_timing = item.type == PTD_ITEM_TSC ||
                               (item.type == PTD_ITEM_PACKET &&
                                (item.packet.type == PTD_CYC || item.packet.type == PTD_TMA ||
                                 item.packet.type == PTD_MTC));

        while (is_timing && ptd_packets_offset(&packets) <= item.offset &&
               ptd_time_next(time, &packets, &packet))
            ptd_time_packet(time, &packet);
        ptd_time_point(time, &point);
        if (is_timing)
            see_time(witness, &point);
        else if (item.type == PTD_ITEM_BLOCK)
            see_block(witness, &item);
        if (item.type == PTD_ITEM_DISABLED) {
            witness->off = true;
            share(witness);
        }
        if (item.type == PTD_ITEM_ENABLED || item.type == PTD_ITEM_PSB)
            witness->off = false;
    }
    share(witness);
    ptd_time_free(time);
    ptd_flow_free(flow);
}

/* ---- The report ---- */

static size_t compounds_seen;

struct feeding {
    struct report *report;
    struct ptd_time *time;
    struct ptd_packets packets;
};

static int feed(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct feeding *const feeding = context;
    struct ptd_time_point *const points = calloc(run->mark_count + 1, sizeof(*points));
    bool is_good;

    for (size_t i = 0; i < run->count; i++)
        compounds_seen += (run->steps[i] & PTD_STEP_COMPOUND) != 0;
    if (feeding->time)
        ptd_time_marks(feeding->time, &feeding->packets, run->marks, run->mark_count, points);
    is_good = report_format.run(feeding->report, flow, run, feeding->time ? points : NULL);
    free(points);
    return is_good ? 0 : PTD_E_NOMEM;
}

static void feed_in_short_runs(struct feeding *feeding, const struct made *made,
                               const struct ptd_image *image, const struct ptd_flow_config *config,
                               enum ptd_timing timing)
{
    struct ptd_flow *const flow = ptd_flow_new(made->bytes, made->len, image, config);
    struct ptd_mark marks[PTD_RUN_ROOM];
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_run run = {.steps = steps,
                          .room = PTD_RUN_ROOM,
                          .timing = (uint8_t)timing,
                          .marks = marks,
                          .mark_room = PTD_RUN_ROOM};

    while (ptd_flow_run(flow, &run) == PTD_OK)
        CU_ASSERT_EQUAL(feed(feeding, flow, &run), 0);
    ptd_flow_free(flow);
}

/* On so many threads; 0: in short runs, between which something waits for its time. */
static void feed_in_bulk(struct report *report, const struct made *made,
                         const struct ptd_image *image, bool with_time, unsigned threads,
                         bool compounds)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .compounds = compounds};
    const enum ptd_timing timing = with_time ? PTD_TIMING_MARKS : PTD_TIMING_NONE;
    struct feeding feeding = {.report = report};

    if (with_time)
        feeding.time = ptd_time_new(&clocks);
    ptd_packets_init(&feeding.packets, made->bytes, made->len);
    if (threads == 0)
        feed_in_short_runs(&feeding, made, image, &config, timing);
    else if (ptd_flow_parallel(made->bytes, made->len, image, &config, timing, threads, feed,
                               &feeding) != PTD_OK)
        CU_FAIL("ptd_flow_parallel()");
    ptd_time_free(feeding.time);
}

static void feed_items(struct report *report, const struct made *made,
                       const struct ptd_image *image, uint64_t *cycles)
{
    struct ptd_flow *const flow = ptd_flow_new(made->bytes, made->len, image, NULL);
    struct ptd_time *const time = ptd_time_new(&clocks);
    struct ptd_time_point point;
    struct ptd_packets packets;
    struct ptd_packet packet;
    struct ptd_item item;

    ptd_packets_init(&packets, made->bytes, made->len);
    while (ptd_flow_next(flow, &item) == PTD_OK) {
        while (ptd_packets_offset(&packets) < item.offset &&
               ptd_time_next(time, &packets, &packet)) {
            ptd_time_packet(time, &packet);
            ptd_time_point(time, &point);
            *cycles = point.cycles;
        }
        ptd_time_point(time, &point);
        CU_ASSERT_TRUE(report_format.item(report, &item, point.tsc));
    }
    ptd_time_free(time);
    ptd_flow_free(flow);
}

static const struct sums_row *row_at(const struct report *report, unsigned cell)
{
    for (size_t i = 0; i < report->sums.row_count; i++) {
        const struct sums_row *const row = &report->sums.rows[i];
        const char *const name = report->sums.names.list[row->function];

        if (cell_of(report->sums.who[row->who].cr3, strcmp(name, "two") == 0) == cell)
            return row;
    }
    return NULL;
}

static void compare(const struct report *report, const struct witness *witness, bool with_time)
{
    double total = 0;

    for (unsigned i = 0; i < CELLS; i++) {
        static const struct sums_row none;
        const struct cell *const cell = &witness->cells[i];
        const struct sums_row *const found = row_at(report, i), *const row = found ? found : &none;
        const double ticks =
            (double)row->ticks + (double)row->fraction / (double)(1u << TALLY_FRACTION);

        CU_ASSERT_EQUAL(row->insns, cell->insns);
        CU_ASSERT_EQUAL(row->blocks, cell->blocks);
        CU_ASSERT_EQUAL(row->calls, cell->calls);
        total += ticks;
        /* Each interval rounds by less than 2^-16 for each instruction. */
        CU_ASSERT_TRUE(!with_time || fabs(ticks - cell->ticks) < 1 + (double)cell->insns / 1000);
    }
    CU_ASSERT_TRUE(fabs(total - (with_time ? witness->total : 0)) < 0.001);
}

/* What a report has of a cell, to the smallest part of a tick. */
static uint64_t exact_time(const struct report *report, unsigned cell)
{
    const struct sums_row *const row = row_at(report, cell);

    return row ? row->ticks << TALLY_FRACTION | row->fraction : 0;
}

/* Without time and with it, on threads, in single steps and in compound ones; then in items. */
enum { TIMES = 3, ITEMS = 2 * TIMES };
static const unsigned threads_of[TIMES] = {1, 0, 3};

static void check_trace(const struct made *made, const struct ptd_image *image,
                        struct witness *witness)
{
    uint64_t times[ITEMS][CELLS];

    ask_witness(witness, made, image);
    CU_ASSERT_TRUE(witness->total > 1000); /* or else the comparison says little */
    for (unsigned how = 0; how <= ITEMS; how++) {
        uint64_t cycles = 0;
        const struct out_thread thread = {.image = image,
                                          .start = START,
                                          .cpu = -1,
                                          .is_tsc = how % TIMES != 0 || how == ITEMS,
                                          .cycles = &cycles};
        struct report report;

        CU_ASSERT_TRUE_FATAL(report_begin(&report));
        CU_ASSERT_TRUE(report_format.begin(&report, &thread));
        if (how < ITEMS)
            feed_in_bulk(&report, made, image, thread.is_tsc, threads_of[how % TIMES],
                         how >= TIMES);
        else
            feed_items(&report, made, image, &cycles);
        CU_ASSERT_TRUE(report_format.end(&report));
        CU_ASSERT_EQUAL(report.events.count, 0); /* no error either */
        compare(&report, witness, thread.is_tsc);
        for (unsigned i = 0; i < CELLS && how < ITEMS; i++) {
            times[how][i] = exact_time(&report, i);
            CU_ASSERT_EQUAL(times[how][i], times[how % TIMES ? 1 : 0][i]);
        }
        report_free(&report);
    }
}

static void sums_are_those_of_items(void)
{
    struct ptd_image *const image = make_image();
    struct made *const made = malloc(sizeof(*made));
    struct witness *const witness = malloc(sizeof(*witness));

    for (unsigned i = 0; i < TRACES; i++) {
        make_trace(made, i, i % KINDS);
        check_trace(made, image, witness);
    }
    CU_ASSERT_TRUE(compounds_seen > 1000); /* or else nothing is said of them */
    free(witness);
    free(made);
    ptd_image_free(image);
}

/* ---- Names that change ---- */

static void who_at(const void *owner, uint64_t cr3, uint64_t ns, struct out_who *who)
{
    (void)owner;
    (void)cr3;
    *who = (struct out_who){.pid = 1, .tid = 1, .comm = ns < RENAMED ? "before" : "behind"};
}

static uint64_t names_until(const void *owner, uint64_t ns)
{
    (void)owner;
    return ns < RENAMED ? RENAMED : UINT64_MAX;
}

static uint64_t same_ns(const void *owner, uint64_t tsc)
{
    (void)owner;
    return tsc;
}

static uint64_t insns_of(const struct report *report, const char *name)
{
    const struct sums *const sums = &report->sums;
    const struct sums_row *const rows = sums->is_of_all ? sums->who_rows : sums->rows;
    const size_t count = sums->is_of_all ? sums->who_count : sums->row_count;
    uint64_t insns = 0;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(sums->names.list[sums->who[rows[i].who].name], name) == 0)
            insns += rows[i].insns;
    }
    return insns;
}

static uint64_t insns_of_functions(const struct report *report)
{
    uint64_t insns = 0;

    for (size_t i = 0; i < report->sums.row_count; i++)
        insns += report->sums.rows[i].insns;
    return insns;
}

/* By both, by either, and by either of those whom a filter takes. */
static const struct {
    struct report_options options;
    bool is_filtered;
} shown[] = {
    {{.by = {BY_PROCESS, BY_FUNCTION}, .by_count = 2}, false},
    {{.by_count = 0}, false},
    {{.by = {BY_FUNCTION}, .by_count = 1, .filter = {.process = "behind"}}, true},
    {{.by = {BY_CPU, BY_MODE}, .by_count = 2, .filter = {.process = "behind"}}, true},
};

static void names_get_what_ran_while_they_held(void)
{
    struct ptd_image *const image = make_image();
    struct made *const made = malloc(sizeof(*made));
    struct witness *const witness = malloc(sizeof(*witness));

    for (unsigned i = 0; i < 2 * sizeof(shown) / sizeof(shown[0]); i++) {
        const bool is_filtered = shown[i / 2].is_filtered;
        const struct out_thread thread = {.image = image,
                                          .start = START,
                                          .cpu = -1,
                                          .is_tsc = true,
                                          .to_ns = same_ns,
                                          .who = who_at,
                                          .names_until = names_until};
        struct report report;

        make_trace(made, i, i % KINDS);
        ask_witness(witness, made, image);
        CU_ASSERT_TRUE(witness->insns_before > 0 && witness->insns_before < witness->insns);
        CU_ASSERT_TRUE_FATAL(report_begin(&report));
        report_shows(&report, &shown[i / 2].options);
        CU_ASSERT_TRUE(report_format.begin(&report, &thread));
        feed_in_bulk(&report, made, image, true, 2, true);
        CU_ASSERT_TRUE(report_format.end(&report));
        CU_ASSERT_EQUAL(insns_of(&report, "before"), is_filtered ? 0 : witness->insns_before);
        CU_ASSERT_EQUAL(insns_of(&report, "behind"), witness->insns - witness->insns_before);
        CU_ASSERT_EQUAL(insns_of_functions(&report),
                        witness->insns - (is_filtered ? witness->insns_before : 0));
        report_free(&report);
    }
    free(witness);
    free(made);
    ptd_image_free(image);
}

void add_report_suite(void)
{
    CU_pSuite suite = CU_add_suite("report", NULL, NULL);

    CU_add_test(suite, "sums are those of items", sums_are_those_of_items);
    CU_add_test(suite, "names get what ran while they held", names_get_what_ran_while_they_held);
}
