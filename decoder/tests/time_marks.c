/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ptd_time_marks() against ptd_time_packet(), by the referee, on made-up traces that are nearly all
 * timing: clocks of many rates and periods that agree for a while, then something goes wrong.
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "referee.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TRACES       400u
#define TRACE_BYTES  20000u
#define STEP_BYTES   64u /* one step makes no more */

/* A processor in a loop, and its trace. */
struct source {
    uint64_t random;
    const struct ptd_time_config *clocks;
    unsigned cbr;
    unsigned stride; /* how far a step goes */
    uint64_t tsc;
    uint64_t cycles, told_cycles; /* so far; up to the last CYC */
    uint64_t parts;               /* of the next cycle */
    uint64_t mtc;                 /* periods of MTC packets up to the last one */
    uint64_t silence;             /* MTC packets that get lost */
    uint8_t bytes[TRACE_BYTES];
    size_t len;
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
}

/* All cycles since the last one. */
static void put_due_cyc(struct source *source)
{
    put_cyc(source, source->cycles - source->told_cycles);
    source->told_cycles = source->cycles;
}

static uint64_t crystal(const struct source *source)
{
    return source->tsc * source->clocks->tsc_den / source->clocks->tsc_num;
}

static void put_tsc(struct source *source)
{
    const uint64_t tsc = source->tsc;

    PUT(source, 0x19, (uint8_t)tsc, (uint8_t)(tsc >> 8), (uint8_t)(tsc >> 16), (uint8_t)(tsc >> 24),
        (uint8_t)(tsc >> 32), (uint8_t)(tsc >> 40), (uint8_t)(tsc >> 48));
}

static void put_tma(struct source *source)
{
    const uint64_t clocks = crystal(source);
    const uint64_t fast = source->tsc - clocks * source->clocks->tsc_num / source->clocks->tsc_den;

    PUT(source, 2, 0x73, (uint8_t)clocks, (uint8_t)(clocks >> 8), 0, (uint8_t)fast,
        (uint8_t)(fast >> 8 & 1));
}

/* Between two steps the loop is at its begin. */
static void put_psb(struct source *source)
{
    PUT(source, PSB);
    put_tsc(source);
    if (below(source, 8))
        put_tma(source);
    PUT(source, 2, 0x03, (uint8_t)source->cbr, 0);
    PUT(source, FUP(CODE), MODE64, PSBEND);
}

/* What does not happen every day. */
static void disturb(struct source *source, uint64_t period_ticks)
{
    switch (below(source, 16)) {
    case 0:
        put_psb(source);
        break;
    case 1:
        put_tsc(source);
        put_tma(source);
        break;
    case 2:
        put_tsc(source);
        break;
    case 3: /* a TSC that was written */
        source->tsc -= below(source, source->tsc / 2);
        put_tsc(source);
        put_tma(source);
        source->mtc = crystal(source) >> source->clocks->mtc_freq;
        break;
    case 4:
        source->cbr = 8 + (unsigned)below(source, 40);
        PUT(source, 2, 0x03, (uint8_t)source->cbr, 0);
        break;
    case 5: /* an MTC that says the same again, or that nobody expects */
        PUT(source, 0x59, (uint8_t)(source->mtc + below(source, 3)));
        break;
    case 6: /* a CYC that says too much */
        put_cyc(source, below(source, 100000));
        break;
    case 7: /* or too little */
        source->told_cycles = source->cycles;
        break;
    case 8: /* lost MTCs */
        source->tsc += below(source, 300) * period_ticks;
        source->mtc = crystal(source) >> source->clocks->mtc_freq;
        break;
    case 9:
        source->tsc += below(source, (uint64_t)1 << 40);
        break;
    case 10: /* a stretch of many cycles */
        put_cyc(source, (uint64_t)1 << below(source, 34));
        break;
    case 11:
        PUT(source, OVF, FUP(CODE));
        break;
    case 12: /* an item, and a change of nothing */
        PUT(source, MODE64);
        break;
    case 13:
        PUT(source, PAD, PAD);
        break;
    case 14:
        source->silence = below(source, 20);
        break;
    default:
        break;
    }
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
    if (below(source, 150) == 0)
        disturb(source, period_ticks);

    const uint64_t mtc = crystal(source) >> clocks->mtc_freq;

    if (mtc != source->mtc) {
        if (below(source, 30))
            put_due_cyc(source);
        if (source->silence > 0)
            source->silence--;
        else
            PUT(source, 0x59, (uint8_t)mtc);
        source->mtc = mtc;
    } else if (!clocks->cyc_threshold || below(source, 2)) {
        put_due_cyc(source);
    }
    if (below(source, 4))
        PUT(source, (uint8_t)(((2u << (1 + below(source, 6))) - 1) << 1)); /* taken, all of them */
    else if (below(source, 4) == 0)
        PUT(source, TNT_N, TIP(CODE));
}

static void make_trace(struct source *source, uint64_t random, const struct ptd_time_config *clocks)
{
    *source = (struct source){.random = random, .clocks = clocks};
    source->cbr = 8 + (unsigned)below(source, 40);
    source->stride = below(source, 8) ? 1 : 200;
    source->tsc = below(source, (uint64_t)1 << (20 + below(source, 36)));
    source->mtc = crystal(source) >> clocks->mtc_freq;
    PUT(source, PSB);
    put_tsc(source);
    if (below(source, 8))
        put_tma(source);
    PUT(source, 2, 0x03, (uint8_t)source->cbr, 0, PSBEND, PGE(CODE));
    while (source->len < TRACE_BYTES - STEP_BYTES)
        step(source);
}

static void clocks_that_agree_mostly(void)
{
    static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0}; /* JNE itself; JMP RAX */
    static const struct {
        uint32_t num, den;
    } ratios[] = {{250, 2}, {168, 2}, {1, 1}, {250, 3}, {3000, 1}};
    static const uint8_t most_ratios[8] = {0, 24, 24, 24, 24, 24, 24, 240};
    static struct source source;
    struct ptd_image *const image = ptd_image_new();
    uint64_t random = 0x2545f4914f6cdd1d, in_steps = 0;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    for (unsigned i = 0; i < TRACES; i++) {
        const uint64_t value = next_random(&random);
        const struct ptd_time_config clocks = {
            .tsc_num = ratios[value % COUNT(ratios)].num,
            .tsc_den = ratios[value % COUNT(ratios)].den,
            .mtc_freq = value >> 8 & 15,
            .max_nonturbo_ratio = most_ratios[value >> 12 & 7],
            .cyc_threshold = value & 0x30000 ? 0 : 4,
            .mtc_delay_ticks = value & 0x1c0000 ? 0 : 40,
        };
        const struct referee_trace trace = {.bytes = source.bytes,
                                            .len_bytes = TRACE_BYTES - STEP_BYTES,
                                            .image = image,
                                            .timing = PTD_TIMING_MARKS,
                                            .clocks = &clocks};
        struct referee_verdict verdict;

        make_trace(&source, value, &clocks);
        verdict = referee_run(&trace, PTD_RUN_ROOM + i);
        CU_ASSERT_TRUE(verdict.same);
        if (!verdict.same)
            printf("\n    trace %u: %s", i, verdict.difference);
        in_steps += verdict.in_steps;
    }
    CU_ASSERT_TRUE(in_steps > TRACES * TRACE_BYTES / 2);
    ptd_image_free(image);
}

void add_time_marks_suite(void)
{
    CU_pSuite const suite = CU_add_suite("time in bulk", NULL, NULL);

    CU_add_test(suite, "clocks that agree mostly", clocks_that_agree_mostly);
}
