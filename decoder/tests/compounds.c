/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compound steps: paths that come again and again, through conditional branches, CALLs and RETs
 * that belong together or do not, and deeper than the CALL stack (SDM 33.4.2.2), and TIPs between
 * them. The referee says whether they stand for what ran.
 */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "ptdec.h"
#include "referee_coverage.h"
#include "suites.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define PHRASES       6u  /* short pieces that a trace is made of, */
#define PHRASE_BITS   16u /* of so many conditional branches */
#define SPOKEN        400u
#define ENTRIES       64u /* of the CALL stack */
#define TRACES        40u
#define ROOM          60000u
#define LONG_ROOM     1000000u
#define ROUND         200u /* TIPs in a row: more than a run has room for steps */
#define NEW_BRANCHES  400000u
#define LOOP_BRANCHES 1200000u
#define TIMES         7u /* a RET of so many is not compressed though it could be */

/* clang-format off */
static const uint8_t code[] = {
    /*  0 */ 0x74, 0x05,                   /* jz 7 */
    /*  2 */ 0xe8, 0xf9, 0xff, 0xff, 0xff, /* call 0 */
    /*  7 */ 0x75, 0x09,                   /* jnz 12 */
    /*  9 */ 0xe8, 0xf2, 0xff, 0xff, 0xff, /* call 0 */
    /*  e */ 0x75, 0x02,                   /* jnz 12 */
    /* 10 */ 0xeb, 0xee,                   /* jmp 0 */
    /* 12 */ 0xc3,                         /* ret */
    /* 13 */ 0xff, 0xe0,                   /* jmp *rax */
    /* 15 */ 0xff, 0xd0,                   /* call *rax */
    /* 17 */ 0xeb, 0xe7,                   /* jmp 0 */
};
/* clang-format on */
#define JMP_INDIRECT  0x13u
#define CALL_INDIRECT 0x15u
#define BEHIND_CALL   0x17u

/* Packets of time among the TNTs. */
enum timing {
    UNTIMED,
    WITH_MTC,     /* some MTC packets */
    WITH_MTC_CYC, /* and some CYC packets */
    CUT_BY_MTC,   /* an MTC packet behind each bit or two, now and then several */
    TIMINGS,
};

/* A trace of that code in the making. */
struct maker {
    uint8_t *bytes;
    size_t len;
    unsigned bits, count;   /* of a TNT packet that is not full yet */
    uint8_t stack[ENTRIES]; /* offsets of code, the youngest at the end */
    unsigned depth;
    uint8_t at;        /* the next instruction, 0, 7, e or 17 */
    uint8_t goes_to;   /* a RET whose CALL is not on the stack */
    unsigned returned; /* so many RETs, whose CALLs are */
    enum timing timing;
};

static void put(struct maker *maker, const uint8_t *bytes, size_t len)
{
    memcpy(maker->bytes + maker->len, bytes, len);
    maker->len += len;
}

static void put_tnt(struct maker *maker)
{
    static const uint8_t mtc[] = {MTC}, cyc[] = {CYC};
    const uint8_t packet = (uint8_t)((1u << maker->count | maker->bits) << 1);

    if (maker->count > 0)
        put(maker, &packet, 1);
    if (maker->timing == CUT_BY_MTC || (maker->timing != UNTIMED && maker->bits % 4 == 1))
        put(maker, mtc, sizeof(mtc));
    if (maker->timing == CUT_BY_MTC && maker->len % 16 == 0)
        put(maker, mtc, sizeof(mtc));
    if (maker->timing == WITH_MTC_CYC && maker->bits % 8 > 5)
        put(maker, cyc, sizeof(cyc));
    maker->bits = maker->count = 0;
}

static void put_bit(struct maker *maker, bool bit)
{
    maker->bits = maker->bits << 1 | bit;
    if (++maker->count == 6 || (maker->timing == CUT_BY_MTC && (bit || maker->count == 2)))
        put_tnt(maker);
}

static void put_tip(struct maker *maker, uint8_t at)
{
    const uint8_t tip[] = {TIP(CODE + at)};

    put_tnt(maker);
    put(maker, tip, sizeof(tip));
    maker->at = at;
}

/* A CALL: the oldest entry is lost if there are too many. */
static void call(struct maker *maker, uint8_t back)
{
    if (maker->depth == ENTRIES)
        memmove(maker->stack, maker->stack + 1, --maker->depth);
    maker->stack[maker->depth++] = back;
    maker->at = 0;
}

/* A RET may be compressed as long as the stack has its CALL, and takes it off in any case. */
static void return_once(struct maker *maker)
{
    if (maker->depth == 0) {
        put_tip(maker, maker->goes_to);
        return;
    }
    maker->at = maker->stack[--maker->depth];
    if (++maker->returned % TIMES == 0)
        put_tip(maker, maker->at);
    else
        put_bit(maker, true);
}

static void branch(struct maker *maker, bool taken)
{
    if (maker->at == BEHIND_CALL)
        maker->at = 0;
    put_bit(maker, taken);
    if (maker->at == 0 && taken)
        maker->at = 7;
    else if (taken)
        return_once(maker);
    else if (maker->at == 0xe)
        maker->at = 0;
    else
        call(maker, maker->at == 0 ? 7 : 0xe);
}

/* Behind it the stack is empty. */
static void put_psb(struct maker *maker)
{
    static const uint8_t psb[] = {PSB}, end[] = {PSBEND};
    const uint8_t fup[] = {FUP(CODE + maker->at)};

    put_tnt(maker);
    put(maker, psb, sizeof(psb));
    put(maker, fup, sizeof(fup));
    put(maker, end, sizeof(end));
    maker->depth = 0;
}

/*
 * Deeper than the stack, where a CALL loses the oldest entry also if its RET is next, and back to
 * where it is empty: the RET there is an error, which shows whether all agree on its depth.
 */
static void go_deep(struct maker *maker)
{
    static const bool there_and_back[] = {false, false, true, true, true, true, false};

    while (maker->at != 0 || maker->depth < ENTRIES)
        branch(maker, false);
    for (unsigned i = 0; i < 40; i++) {
        for (unsigned calls = 0; calls < i % 4; calls++)
            branch(maker, false);
        for (unsigned j = 0; j < COUNT(there_and_back); j++)
            branch(maker, there_and_back[j]);
    }
    while (maker->at == 0 || maker->depth > 0)
        branch(maker, true);
    put_bit(maker, true);
    put_bit(maker, true);
    put_psb(maker);
}

/* From one indirect branch to the next, some of which are CALLs. */
static void go_round(struct maker *maker)
{
    put_psb(maker);
    maker->goes_to = JMP_INDIRECT;
    while (maker->at != JMP_INDIRECT)
        branch(maker, true);
    maker->goes_to = 0;
    for (unsigned i = 0; i < ROUND; i++) {
        const uint8_t next = i + 1 == ROUND ? 0 : i % 9 == 4 ? CALL_INDIRECT : JMP_INDIRECT;

        if (maker->at == CALL_INDIRECT)
            call(maker, BEHIND_CALL);
        put_tip(maker, next);
    }
}

/* Phrases again and again, in any order. */
static void speak(struct maker *maker, uint64_t *random)
{
    static const uint8_t start[] = {START(CODE)};
    unsigned phrases[PHRASES];

    put(maker, start, sizeof(start));
    for (unsigned i = 0; i < PHRASES; i++)
        phrases[i] = (unsigned)next_random(random);
    for (unsigned i = 0; i < SPOKEN; i++) {
        const unsigned phrase = phrases[next_random(random) % PHRASES];

        for (unsigned bit = 0; bit < PHRASE_BITS; bit++)
            branch(maker, phrase >> bit & 1);
        if (i % 50 == 20)
            go_deep(maker);
        if (i % 100 == 70)
            go_round(maker);
        if (i % 100 == 99)
            put_psb(maker);
    }
    put_tnt(maker);
}

static struct ptd_image *image_of_code(void)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    return image;
}

static void expect_same(const char *what, struct referee_verdict verdict)
{
    CU_ASSERT_TRUE(verdict.same);
    if (!verdict.same)
        printf("\n    %s: %s", what, verdict.difference);
}

static void phrases(void)
{
    static uint8_t bytes[ROOM];
    struct ptd_image *const image = image_of_code();
    uint64_t random = 0x2545f4914f6cdd1d, compounds = 0, steps = 0;

    for (unsigned i = 0; i < TRACES; i++) {
        struct maker maker = {.bytes = bytes, .timing = i / 3 % TIMINGS};
        struct referee_trace trace = {.bytes = bytes, .image = image, .timing = i % 3};
        struct referee_verdict verdict;

        speak(&maker, &random);
        trace.len_bytes = maker.len;
        CU_ASSERT_TRUE(maker.len < ROOM);
        verdict = referee_run(&trace, PTD_RUN_ROOM + i);
        compounds += verdict.compounds;
        steps += verdict.in_steps;
        expect_same("phrases", verdict);
        expect_same("phrases, up to offsets", referee_run_before(&trace, 1000, 1 + i));
        expect_same("phrases on threads", referee_parallel(&trace, 1 + i % 8, 1));
        expect_same("coverage of phrases", referee_coverage(&trace, i));
        bytes[next_random(&random) % maker.len] ^= (uint8_t)(1u << i % 8);
        expect_same("damaged phrases", referee_run(&trace, 1000));
        expect_same("damaged phrases on threads", referee_parallel(&trace, 2, 1));
    }
    /* Or else the comparison says nothing about them. */
    CU_ASSERT_TRUE(compounds > steps / 20);
    ptd_image_free(image);
}

/* All steps of a trace, with compound ones or without, as single ones; how many were compound. */
static unsigned expand(const struct maker *maker, const struct ptd_image *image, bool compounds,
                       uint32_t *edges, size_t *count)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .compounds = compounds};
    struct ptd_flow *const flow = ptd_flow_new(maker->bytes, maker->len, image, &config);
    static uint32_t steps[ROOM];
    struct ptd_run run = {.steps = steps, .room = ROOM};
    unsigned compound_count = 0;

    *count = 0;
    while (ptd_flow_run(flow, &run) == PTD_OK) {
        for (size_t i = 0; i < run.count; i++) {
            uint32_t some[PTD_STEP_EDGES];
            const int length = ptd_step_edges(flow, steps[i], some);
            const bool is_compound = steps[i] & PTD_STEP_COMPOUND;

            CU_ASSERT_TRUE(length >= 1 && (is_compound || (length == 1 && some[0] == steps[i])));
            compound_count += is_compound;
            for (int j = 0; j < length && *count < ROOM; j++)
                edges[(*count)++] = some[j];
        }
    }
    ptd_flow_free(flow);
    return compound_count;
}

/* Numbers of code differ, but not whether a branch was taken. */
static void edges_of_steps(void)
{
    static uint32_t single[ROOM], expanded[ROOM];
    static uint8_t bytes[ROOM];
    struct ptd_image *const image = image_of_code();
    struct maker maker = {.bytes = bytes};
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t count, expanded_count;

    speak(&maker, &random);
    CU_ASSERT_EQUAL(expand(&maker, image, false, single, &count), 0);
    CU_ASSERT_TRUE(expand(&maker, image, true, expanded, &expanded_count) > 500);
    CU_ASSERT_EQUAL(expanded_count, count);
    for (size_t i = 0; i < count && i < expanded_count; i++)
        CU_ASSERT_EQUAL(expanded[i] & 3, single[i] & 1);
    ptd_image_free(image);
}

/* How many of a trace's edges, from one to another, are parts of compound steps. */
static size_t count_in_compounds(const struct maker *maker, const struct ptd_image *image,
                                 size_t from, size_t to)
{
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .compounds = true};
    struct ptd_flow *const flow = ptd_flow_new(maker->bytes, maker->len, image, &config);
    uint32_t steps[4 * PTD_RUN_ROOM], edges[PTD_STEP_EDGES];
    struct ptd_run run = {.steps = steps, .room = COUNT(steps)};
    size_t at = 0, count = 0;

    while (ptd_flow_run(flow, &run) == PTD_OK) {
        for (size_t i = 0; i < run.count; i++) {
            const int length = ptd_step_edges(flow, steps[i], edges);

            if (at >= from && at < to && (steps[i] & PTD_STEP_COMPOUND))
                count += (size_t)length;
            at += (size_t)length;
        }
    }
    CU_ASSERT_TRUE(at >= to);
    ptd_flow_free(flow);
    return count;
}

/* Paths at random, most of which are new, are taken in single steps; a loop behind them is not. */
static void new_paths(void)
{
    static const uint8_t start[] = {START(CODE)};
    static const bool there_and_back[] = {true, false, true, true, false};
    static uint8_t bytes[LONG_ROOM];
    struct ptd_image *const image = image_of_code();
    struct maker maker = {.bytes = bytes};
    struct referee_trace trace = {.bytes = bytes, .image = image};
    uint64_t random = 0x2545f4914f6cdd1d;

    put(&maker, start, sizeof(start));
    for (unsigned i = 0; i < NEW_BRANCHES; i++)
        branch(&maker, next_random(&random) & 1);
    for (unsigned i = 0; i < LOOP_BRANCHES; i++)
        branch(&maker, there_and_back[i % COUNT(there_and_back)]);
    put_tnt(&maker);
    trace.len_bytes = maker.len;
    CU_ASSERT_TRUE(maker.len < LONG_ROOM);
    CU_ASSERT_TRUE(count_in_compounds(&maker, image, 0, NEW_BRANCHES) < NEW_BRANCHES / 2);
    CU_ASSERT_TRUE(count_in_compounds(&maker, image, NEW_BRANCHES + LOOP_BRANCHES / 2,
                                      NEW_BRANCHES + LOOP_BRANCHES) > LOOP_BRANCHES / 5 * 2);
    expect_same("new paths", referee_run(&trace, 1000));
    expect_same("new paths on threads", referee_parallel(&trace, 2, 1));
    ptd_image_free(image);
}

static void no_such_step(void)
{
    static const uint8_t trace[] = {START(CODE), TNT_TTT};
    const struct ptd_flow_config config = {.mode = PTD_MODE_64, .compounds = true};
    struct ptd_image *const image = image_of_code();
    struct ptd_flow *const flow = ptd_flow_new(trace, sizeof(trace), image, &config);
    uint32_t steps[PTD_RUN_ROOM], edges[PTD_STEP_EDGES];
    struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM};
    struct ptd_item block;

    CU_ASSERT_EQUAL(ptd_step_edges(flow, 4, edges), PTD_E_ARG); /* nothing ran yet */
    while (ptd_flow_run(flow, &run) == PTD_OK)
        ;
    CU_ASSERT_EQUAL(ptd_step_edges(flow, 0, edges), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_step_edges(flow, UINT32_MAX, edges), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_step_edges(flow, UINT32_MAX & ~1u, edges), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_step_block(flow, UINT32_MAX & ~1u, 0, &block), PTD_E_ARG);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

void add_compound_suite(void)
{
    CU_pSuite const suite = CU_add_suite("compound steps", NULL, NULL);

    CU_add_test(suite, "phrases", phrases);
    CU_add_test(suite, "edges of steps", edges_of_steps);
    CU_add_test(suite, "new paths", new_paths);
    CU_add_test(suite, "no such step", no_such_step);
}
