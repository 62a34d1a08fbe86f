/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ptd_time_marks() against ptd_time_packet(), by the referee, on made-up traces that are nearly all
 * timing: clocks of many rates and periods that agree for a while, then something goes wrong. They
 * begin in many ways, with or without CYC packets, and some are of VMs. Some clocks are never
 * wrong: then both must tell an interval that holds the true time.
 */
#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "referee.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#ifdef __SANITIZE_ADDRESS__ /* which takes ten times as long */
#define TRACES      60u
#define TRUE_TRACES 30u
#else
#define TRACES      600u
#define TRUE_TRACES 3000u
#endif
#define TRACE_BYTES   20000u
#define STEP_BYTES    128u /* one step makes no more */
#define MARKS         (2 * PTD_RUN_ROOM)
#define VM_VMCS       0x7000u
#define OTHER_VMCS    0x9000u
#define DAMAGED_BYTES 6u

/* When a packet was sent. */
struct stamp {
    uint64_t end, tsc; /* end: the offset behind it */
};

/* A processor in a loop, and its trace. */
struct source {
    uint64_t random;
    const struct ptd_time_config *clocks;
    bool is_true; /* the trace never says what is wrong */
    bool has_cyc;
    unsigned rarity; /* of disturbances */
    unsigned cbr;
    unsigned stride; /* how far a step goes */
    uint64_t tsc;
    uint64_t cycles, told_cycles; /* so far; up to the last CYC */
    uint64_t parts;               /* of the next cycle */
    uint64_t mtc;                 /* periods of MTC packets up to the last one */
    uint64_t told_mtc;            /* the same of those that were put */
    uint64_t silence;             /* MTC packets that get lost */
    const struct ptd_time_vm *vm; /* whose TSC packets have; NULL: the host's */
    uint8_t bytes[TRACE_BYTES];
    size_t len;
    struct stamp stamps[TRACE_BYTES]; /* of timing packets */
    size_t stamp_count;
};

static uint64_t below(struct source *source, uint64_t count)
{
    return next_random(&source->random) % count;
}

static void put(struct source *source, const uint8_t *bytes, size_t len)
{
    memcpy(source->bytes + source->len, bytes, len);
    source->len += len;
}

/* A timing packet was put. */
static void stamp(struct source *source)
{
    source->stamps[source->stamp_count++] = (struct stamp){source->len, source->tsc};
}

#define PUT(source, ...)                                                                           \
    put(source, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_cyc(struct source *source, uint64_t cycles)
{
    uint8_t byte = (uint8_t)((cycles & 31) << 3 | 3);

    cycles >>= 5;
    PUT(source, (uint8_t)(byte | (cycles ? 4 : 0)));
    while (cycles) {
        byte = (uint8_t)((cycles & 127) << 1);
        cycles >>= 7;
        PUT(source, (uint8_t)(byte | (cycles ? 1 : 0)));
    }
    stamp(source);
}

/* All cycles since the last one. */
static void put_due_cyc(struct source *source)
{
    if (!source->has_cyc)
        return;
    put_cyc(source, source->cycles - source->told_cycles);
    source->told_cycles = source->cycles;
}

static uint64_t crystal(const struct source *source)
{
    return source->tsc * source->clocks->tsc_den / source->clocks->tsc_num;
}

static void put_tsc(struct source *source)
{
    const uint64_t tsc = source->vm ? ptd_time_guest_tsc(source->vm, source->tsc) : source->tsc;

    PUT(source, 0x19, (uint8_t)tsc, (uint8_t)(tsc >> 8), (uint8_t)(tsc >> 16), (uint8_t)(tsc >> 24),
        (uint8_t)(tsc >> 32), (uint8_t)(tsc >> 40), (uint8_t)(tsc >> 48));
    stamp(source);
}

static void put_tma(struct source *source)
{
    const uint64_t clocks = crystal(source);
    const uint64_t fast = source->tsc - clocks * source->clocks->tsc_num / source->clocks->tsc_den;

    PUT(source, 2, 0x73, (uint8_t)clocks, (uint8_t)(clocks >> 8), 0, (uint8_t)fast,
        (uint8_t)(fast >> 8 & 1));
    stamp(source);
}

static void put_cbr(struct source *source)
{
    PUT(source, 2, 0x03, (uint8_t)source->cbr, 0);
    stamp(source);
}

static void put_mtc(struct source *source, uint64_t periods)
{
    PUT(source, 0x59, (uint8_t)periods);
    stamp(source);
    source->told_mtc = periods;
}

/* The host or one of the VMs goes on, and PSB+ says which. */
static void put_who(struct source *source)
{
    const struct ptd_time_config *const clocks = source->clocks;

    if (clocks->vm_count == 0)
        return;
    if (source->vm)
        PUT(source, PIP_NR(CR3_A));
    else
        PUT(source, PIP(CR3_A));
    if (source->vm == &clocks->vms[0])
        PUT(source, VMCS(VM_VMCS));
    else
        PUT(source, VMCS(OTHER_VMCS));
}

/* Between two steps the loop is at its begin. Most PSB+ say all there is, and a few say nothing. */
static void put_psb(struct source *source, bool has_ip)
{
    const size_t vms = source->clocks->vm_count;
    const uint64_t vm = below(source, vms + 1);
    const uint64_t tells = source->is_true ? 7 : below(source, 64);

    if (source->is_true)
        put_due_cyc(source);
    source->vm = vm < vms ? &source->clocks->vms[vm] : NULL;
    PUT(source, PSB);
    if (tells & 7)
        put_tsc(source);
    if (tells & 6)
        put_tma(source);
    if (tells & 5)
        put_cbr(source);
    put_who(source);
    if (has_ip)
        PUT(source, FUP(CODE));
    PUT(source, MODE64, PSBEND);
}

/*
 * MTC packets get lost: fewer than 256 in a row, or it would be wrong; and no more than a TMA
 * packet, which has 16 bits, can tell from none.
 */
static void lose_mtcs(struct source *source, uint64_t period_ticks)
{
    const uint8_t freq = source->clocks->mtc_freq;
    const uint64_t most = freq > 8 ? (UINT64_C(1) << (16 - freq)) - 1 : 200;

    if (source->is_true && source->mtc != source->told_mtc)
        return; /* some were lost before */
    source->tsc += below(source, source->is_true ? most : 300) * period_ticks;
    source->mtc = crystal(source) >> source->clocks->mtc_freq;
}

/* More of them get lost than their counts tell apart; a TSC packet says so. */
static void lose_count(struct source *source, uint64_t period_ticks)
{
    put_due_cyc(source);
    source->tsc += below(source, 3000) * period_ticks;
    source->mtc = crystal(source) >> source->clocks->mtc_freq;
    PUT(source, OVF, FUP(CODE));
    put_tsc(source);
}

/* What does not happen every day, but is not wrong. */
static void disturb(struct source *source, uint64_t period_ticks)
{
    switch (below(source, 9)) {
    case 0:
        put_psb(source, true);
        break;
    case 8:
        lose_count(source, period_ticks);
        break;
    case 1:
        put_due_cyc(source);
        put_tsc(source);
        put_tma(source);
        break;
    case 2:
        put_due_cyc(source);
        source->cbr = 8 + (unsigned)below(source, 40);
        put_cbr(source);
        break;
    case 3: /* TNTs and TIPs without a time */
        PUT(source, TNT_N, TIP(CODE), TNT_T, TNT_T, TNT_N, TIP(CODE));
        break;
    case 4:
        put_due_cyc(source);
        lose_mtcs(source, period_ticks);
        PUT(source, OVF, FUP(CODE));
        break;
    case 5: /* an item; it belongs to no packet */
        if (!source->is_true)
            PUT(source, MODE64);
        break;
    case 6:
        PUT(source, PAD, PAD);
        break;
    default:
        break;
    }
}

/* What must not happen. */
static void lie(struct source *source, uint64_t period_ticks)
{
    switch (below(source, 12)) {
    case 0:
        put_tsc(source);
        put_tma(source);
        break;
    case 1:
        put_tsc(source);
        break;
    case 2: /* a TSC that was written */
        source->tsc -= below(source, source->tsc / 2 + 1);
        put_tsc(source);
        put_tma(source);
        source->mtc = crystal(source) >> source->clocks->mtc_freq;
        break;
    case 3: /* a TMA that belongs to no TSC, or has a FastCounter of other clocks */
        PUT(source, 2, 0x73, (uint8_t)below(source, 256), 3, 0, (uint8_t)below(source, 256), 1);
        stamp(source);
        break;
    case 4: /* an MTC that says the same again, or that nobody expects, and another one behind it */
        put_mtc(source, source->mtc + below(source, 3));
        put_mtc(source, source->mtc + below(source, 3));
        break;
    case 5:
        put_mtc(source, below(source, 256));
        break;
    case 6: /* a CYC that says too much */
        put_cyc(source, below(source, 100000));
        break;
    case 7: /* or too little */
        source->told_cycles = source->cycles;
        break;
    case 8: /* a stretch of many cycles */
        put_cyc(source, (uint64_t)1 << below(source, 34));
        break;
    case 9:
        lose_mtcs(source, period_ticks);
        break;
    case 10:
        source->tsc += below(source, (uint64_t)1 << 40);
        break;
    default:
        source->silence = below(source, 20);
        break;
    }
}

/* Whether the cycles that nobody told are as many as may be. */
static bool must_tell(struct source *source)
{
    const uint8_t threshold = source->clocks->cyc_threshold;

    if (!threshold)
        return true;
    if (source->is_true)
        return source->cycles - source->told_cycles >= UINT64_C(1) << (threshold - 1);
    return below(source, 2);
}

/* Time goes on, and the trace says so. */
static void step(struct source *source)
{
    const struct ptd_time_config *const clocks = source->clocks;
    const uint64_t period_ticks = (clocks->tsc_num << clocks->mtc_freq) / clocks->tsc_den;
    const uint64_t ticks = below(source, period_ticks / 8 + 2) * source->stride;
    const unsigned base = clocks->max_nonturbo_ratio ? clocks->max_nonturbo_ratio : 24;

    source->tsc += ticks;
    source->parts += ticks * source->cbr;
    source->cycles += source->parts / base;
    source->parts %= base;
    if (!source->is_true && below(source, source->rarity) == 0)
        (below(source, 2) ? disturb : lie)(source, period_ticks);

    const uint64_t mtc = crystal(source) >> clocks->mtc_freq;

    if (mtc != source->mtc) {
        if (source->is_true || below(source, 30))
            put_due_cyc(source);
        if (source->silence > 0)
            source->silence--;
        else
            put_mtc(source, mtc);
        source->mtc = mtc;
    } else if (must_tell(source)) {
        put_due_cyc(source);
    }
    if (below(source, 4))
        PUT(source, (uint8_t)(((2u << (1 + below(source, 6))) - 1) << 1)); /* taken, all of them */
    else if (below(source, 4) == 0)
        PUT(source, TNT_N, TIP(CODE));
    if (source->is_true && below(source, source->rarity) == 0)
        disturb(source, period_ticks); /* no MTC is due */
}

/* The loop runs from the first byte on, or from behind the first PSB+. Little may be known. */
static void begin(struct source *source)
{
    switch (below(source, source->is_true ? 2 : 6)) {
    case 0: /* as most traces do */
        put_psb(source, true);
        break;
    case 1: /* a trace of something that runs already: an MTC comes first */
        put_psb(source, true);
        if (source->is_true)
            put_due_cyc(source);
        put_mtc(source, source->mtc);
        break;
    case 2:
        PUT(source, PSB, PSBEND);
        break;
    case 3:
        put_mtc(source, source->mtc);
        break;
    case 4: /* a TSC without TMA */
        put_tsc(source);
        break;
    default:
        break;
    }
}

static void make_trace(struct source *source, uint64_t random, const struct ptd_time_config *clocks,
                       bool is_true)
{
    memset(source, 0, sizeof(*source));
    source->random = random;
    source->clocks = clocks;
    source->is_true = is_true;
    source->has_cyc = below(source, 3);
    source->rarity = 20u << below(source, 5);
    source->cbr = 8 + (unsigned)below(source, 40);
    source->stride = is_true || below(source, 8) ? 1 : 200;
    source->tsc = below(source, (uint64_t)1 << (20 + below(source, 36)));
    source->mtc = source->told_mtc = crystal(source) >> clocks->mtc_freq;
    begin(source);
    while (source->len < TRACE_BYTES - STEP_BYTES)
        step(source);
    if (!is_true && below(source, 8) == 0)
        for (unsigned i = 0; i < DAMAGED_BYTES; i++)
            source->bytes[below(source, source->len)] = (uint8_t)below(source, 256);
}

/* ---- Clocks, and a loop that they are of ---- */

static const struct ptd_flow_config in_the_loop = {
    .mode = PTD_MODE_64, .at_start = true, .has_ip = true, .ip = CODE, .last_ip = CODE};
/* Each CYC packet of more than a byte is looked at twice. */
static const struct ptd_flow_config with_errata = {.mode = PTD_MODE_64,
                                                   .at_start = true,
                                                   .has_ip = true,
                                                   .ip = CODE,
                                                   .last_ip = CODE,
                                                   .errata = PTD_SKD007};

static struct ptd_image *loop(void)
{
    static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0}; /* JNE itself; JMP RAX */
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    return image;
}

static struct ptd_time_config clocks_of(uint64_t value, struct ptd_time_vm vms[2])
{
    static const struct {
        uint32_t num, den;
    } ratios[] = {{250, 2}, {168, 2}, {1, 1}, {250, 3}, {3000, 1}};
    static const uint8_t most_ratios[8] = {0, 24, 24, 24, 24, 24, 24, 240};

    vms[0] = (struct ptd_time_vm){
        .vmcs = VM_VMCS, .offset = value * 7, .multiplier = UINT64_C(0xc00000000000)};
    vms[1] = (struct ptd_time_vm){
        .vmcs = PTD_ANY_VMCS, .offset = -(value >> 20), .multiplier = UINT64_C(0x1555555555555)};
    return (struct ptd_time_config){
        .tsc_num = ratios[value % COUNT(ratios)].num,
        .tsc_den = ratios[value % COUNT(ratios)].den,
        .mtc_freq = value >> 8 & 15,
        .max_nonturbo_ratio = most_ratios[value >> 12 & 7],
        .cyc_threshold = value & 0x30000 ? 0 : 4,
        .mtc_delay_ticks = value & 0x1c0000 ? 0 : 40,
        .vms = vms,
        .vm_count = value & 0x600000 ? 0 : 1 + (value >> 23 & 1),
    };
}

static void clocks_that_agree_mostly(void)
{
    static struct source source;
    struct ptd_image *const image = loop();
    uint64_t random = 0x2545f4914f6cdd1d, in_steps = 0;

    for (unsigned i = 0; i < TRACES; i++) {
        const uint64_t value = next_random(&random);
        struct ptd_time_vm vms[2];
        const struct ptd_time_config clocks = clocks_of(value, vms);
        const struct referee_trace trace = {.bytes = source.bytes,
                                            .len_bytes = TRACE_BYTES - STEP_BYTES,
                                            .image = image,
                                            .config = i % 8 ? &in_the_loop : &with_errata,
                                            .timing = PTD_TIMING_MARKS,
                                            .clocks = &clocks,
                                            .most_marks = i % 4 ? i % 40 : 0};
        struct referee_verdict verdict;

        make_trace(&source, value, &clocks, false);
        verdict = referee_run(&trace, PTD_RUN_ROOM + i);
        CU_ASSERT_TRUE(verdict.same);
        if (!verdict.same)
            printf("\n    trace %u: %s", i, verdict.difference);
        in_steps += verdict.in_steps;
        CU_ASSERT_TRUE(referee_scan(&trace, 1 + i * 64));
    }
    CU_ASSERT_TRUE(in_steps > TRACES * TRACE_BYTES / 2);
    ptd_image_free(image);
}

/*
 * What is behind a CYC packet is known exactly up to the packet that it is about: the bound behind
 * the first TIP is nearer than that behind the second.
 */
static void several_tips(void)
{
    static const uint8_t bytes[] = {TSC,         CBR,         CYC,   PAD, TIP(0x1000),
                                    TIP(0x1000), TIP(0x1000), PAD,   CYC, PAD,
                                    TIP(0x1000), PSB,         PSBEND};
    static const struct ptd_time_config clocks = {
        .tsc_den = 2, .tsc_num = 250, .mtc_freq = 3, .max_nonturbo_ratio = 24, .cyc_threshold = 4};
    const struct referee_trace trace = {
        .bytes = bytes, .len_bytes = sizeof(bytes), .clocks = &clocks};

    for (size_t piece = 1; piece <= sizeof(bytes); piece++)
        CU_ASSERT_TRUE(referee_scan(&trace, piece));
}

/* Behind an error, a PSB is looked for, and it may end where a piece of the trace does. */
static void psb_at_an_end(void)
{
    static const uint8_t begin[] = {TSC, 2, 0xff}, psb[] = {PSB, PSBEND};
    static uint8_t bytes[TRACE_BYTES];
    const struct referee_trace trace = {.bytes = bytes, .len_bytes = sizeof(bytes)};
    const size_t at = sizeof(bytes) - 1000;

    memcpy(bytes, begin, sizeof(begin));
    memcpy(bytes + at, psb, sizeof(psb));
    for (size_t behind = 1; behind < 40; behind++)
        CU_ASSERT_TRUE(referee_scan(&trace, at + behind));
}

/* ---- Clocks that are right ---- */

/* What one and the other way say of a mark, and what is true of it. */
struct judge {
    const struct source *source;
    size_t stamp;
    uint64_t marks, bounded, wrong;
};

static bool holds(const struct ptd_time_point *point, uint64_t tsc)
{
    return point->tsc == PTD_TIME_UNKNOWN ||
           (point->earliest <= tsc && point->latest >= tsc && point->tsc >= point->earliest &&
            point->tsc <= point->latest);
}

static void judge_mark(struct judge *judge, const struct ptd_mark *mark,
                       const struct ptd_time_point *point)
{
    const struct source *const source = judge->source;
    const struct stamp *const stamp = &source->stamps[judge->stamp];

    if (judge->stamp >= source->stamp_count || stamp->end != mark->offset) {
        judge->wrong++; /* a mark of no packet */
        return;
    }
    judge->stamp++;
    judge->marks++;
    judge->bounded += point->latest != PTD_TIME_UNKNOWN;
    if (!holds(point, stamp->tsc) && judge->wrong++ == 0)
        printf("\n    offset %" PRIu64 ": %" PRIu64 ", not %" PRIu64 " to %" PRIu64, mark->offset,
               stamp->tsc, point->earliest, point->latest);
}

static void judge_trace(struct judge *judge, const struct ptd_image *image)
{
    const struct source *const source = judge->source;
    struct ptd_flow *const flow = ptd_flow_new(source->bytes, source->len, image, &in_the_loop);
    struct ptd_time *const time = ptd_time_new(source->clocks);
    struct ptd_time_point points[MARKS];
    struct ptd_mark marks[MARKS];
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_packets packets;
    struct ptd_run run = {.steps = steps,
                          .room = PTD_RUN_ROOM,
                          .timing = PTD_TIMING_MARKS,
                          .marks = marks,
                          .mark_room = MARKS};

    CU_ASSERT_PTR_NOT_NULL_FATAL(flow);
    CU_ASSERT_PTR_NOT_NULL_FATAL(time);
    ptd_packets_init(&packets, source->bytes, source->len);
    while (ptd_flow_run(flow, &run) == PTD_OK) {
        ptd_time_marks(time, &packets, marks, run.mark_count, points);
        for (size_t i = 0; i < run.mark_count; i++)
            judge_mark(judge, &marks[i], &points[i]);
        judge->wrong += run.has_item && run.item.type == PTD_ITEM_ERROR;
    }
    CU_ASSERT_EQUAL(judge->wrong, 0);
    CU_ASSERT_EQUAL(judge->stamp, source->stamp_count);
    CU_ASSERT_EQUAL(ptd_time_set_backs(time), 0);
    ptd_time_free(time);
    ptd_flow_free(flow);
}

/* No time of an interval is known better than it can be: most of them have an end. */
static void clocks_that_are_right(void)
{
    static struct source source;
    struct ptd_image *const image = loop();
    uint64_t random = 0x9e3779b97f4a7c15, marks = 0, bounded = 0;

    for (unsigned i = 0; i < TRUE_TRACES; i++) {
        const uint64_t value = next_random(&random);
        struct judge judge = {.source = &source};
        struct ptd_time_vm vms[2];
        struct ptd_time_config clocks = clocks_of(value, vms);

        clocks.mtc_delay_ticks = 0; /* a step is longer */
        if (clocks.max_nonturbo_ratio > 24)
            clocks.max_nonturbo_ratio = 24; /* a cycle in which the ratio changes is short */
        make_trace(&source, value, &clocks, true);
        judge_trace(&judge, image);
        marks += judge.marks;
        bounded += judge.bounded;
    }
    CU_ASSERT_TRUE(bounded > marks / 10 * 9);
    ptd_image_free(image);
}

void add_time_marks_suite(void)
{
    CU_pSuite const suite = CU_add_suite("time in bulk", NULL, NULL);

    CU_add_test(suite, "clocks that agree mostly", clocks_that_agree_mostly);
    CU_add_test(suite, "several TIPs", several_tips);
    CU_add_test(suite, "a PSB at an end", psb_at_an_end);
    CU_add_test(suite, "clocks that are right", clocks_that_are_right);
}
