/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long traces: the index, parts that begin at its points, start states, and the interface of
 * streams. That streams give the same items and times is tested with the other ways to decode
 * (fast.c, golden.c).
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "golden.h"
#include "ptdec.h"
#include "referee.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The index ---- */

static void points(void)
{
    static const uint8_t bytes[] = {
        PAD,       PSB,    TSC,  PIP_NR(CR3_A), VMCS(0x7000), MODE64,
        FUP(CODE), PSBEND,                                         /* 1 */
        TNT_N,     0x02,   0x82, PSB,           PIP(CR3_B),   OVF, /* behind a pair */
        MODE32,    PSBEND, PSB,  PSB,           MODE16,       0xb9 /* no packet */,
        PSB,       0x19,
    };
    struct ptd_sync_point *list;
    size_t count;

    CU_ASSERT_EQUAL(ptd_index(bytes, sizeof(bytes), &list, &count), PTD_OK);
    CU_ASSERT_EQUAL_FATAL(count, 5);
    CU_ASSERT_EQUAL(list[0].offset, 1);
    CU_ASSERT_TRUE(list[0].is_complete && list[0].has_tsc && list[0].has_cr3 && list[0].nr &&
                   list[0].has_vmcs && list[0].has_mode && list[0].has_ip);
    CU_ASSERT_EQUAL(list[0].tsc, 1);
    CU_ASSERT_EQUAL(list[0].cr3, CR3_A);
    CU_ASSERT_EQUAL(list[0].vmcs, 0x7000);
    CU_ASSERT_EQUAL(list[0].mode, PTD_MODE_64);
    CU_ASSERT_EQUAL(list[0].ip, CODE);
    CU_ASSERT_EQUAL(bytes[list[1].offset - 1], 0x82); /* the pair is not part of it */
    CU_ASSERT_TRUE(list[1].has_cr3 && !list[1].nr && !list[1].is_complete && !list[1].has_tsc &&
                   !list[1].has_mode); /* OVF ends PSB+ */
    CU_ASSERT_EQUAL(list[1].cr3, CR3_B);
    CU_ASSERT_EQUAL(list[3].offset, list[2].offset + 16);
    CU_ASSERT_TRUE(!list[2].is_complete && !list[2].has_mode);
    CU_ASSERT_TRUE(!list[3].is_complete && list[3].has_mode);
    CU_ASSERT_EQUAL(list[3].mode, PTD_MODE_16);
    CU_ASSERT_TRUE(!list[4].has_tsc); /* cut off */

    CU_ASSERT_EQUAL(ptd_index_at(list, count, 0), count);
    CU_ASSERT_EQUAL(ptd_index_at(list, count, 1), 0);
    CU_ASSERT_EQUAL(ptd_index_at(list, count, list[1].offset - 1), 0);
    CU_ASSERT_EQUAL(ptd_index_at(list, count, list[1].offset), 1);
    CU_ASSERT_EQUAL(ptd_index_at(list, count, UINT64_MAX), 4);
    free(list);

    CU_ASSERT_EQUAL(ptd_index(bytes, 10, &list, &count), PTD_OK);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_EQUAL(ptd_index_at(list, count, 5), count);
    free(list);
}

static void points_by_time(void)
{
    static const struct ptd_sync_point list[] = {
        {.offset = 10},
        {.offset = 20, .has_tsc = true, .tsc = 100},
        {.offset = 30, .has_tsc = true, .tsc = 200},
        {.offset = 40},
        {.offset = 50, .has_tsc = true, .tsc = 200},
        {.offset = 60, .has_tsc = true, .tsc = 50}, /* the TSC was written */
        {.offset = 70, .has_tsc = true, .tsc = 300},
    };
    static const struct {
        uint64_t tsc;
        size_t point;
    } cases[] = {{0, COUNT(list)}, {100, COUNT(list)}, {101, 1}, {200, 1}, {201, 5}, {301, 6}};

    for (size_t i = 0; i < COUNT(cases); i++)
        CU_ASSERT_EQUAL(ptd_index_before(list, COUNT(list), cases[i].tsc), cases[i].point);
}

/* ---- Parts ---- */

#define SEGMENTS 12u

static bool is_same(const struct ptd_item *a, const struct ptd_item *b)
{
    return a->type == b->type && a->offset == b->offset && a->ip == b->ip && a->cr3 == b->cr3 &&
           a->insns == b->insns && a->to == b->to && a->value == b->value && a->mode == b->mode;
}

/* What a stream finds that begins in front of a point, from the point on, is what the flow finds.
 */
static void compare_part(const uint8_t *bytes, size_t len, const struct ptd_image *image,
                         const struct ptd_sync_point *before, const struct ptd_sync_point *point)
{
    struct ptd_flow *const whole = ptd_flow_new(bytes, len, image, NULL);
    struct ptd_stream *const part = ptd_stream_new(image, NULL, NULL);
    struct ptd_item want, got;
    size_t items = 0;

    ptd_stream_begin_at(part, before->offset);
    CU_ASSERT_EQUAL(ptd_stream_feed(part, bytes + before->offset, len - before->offset), PTD_OK);
    ptd_stream_end(part);
    while (ptd_stream_next(part, &got, NULL) == PTD_OK) {
        if (got.offset < point->offset)
            continue;
        do {
            CU_ASSERT_EQUAL_FATAL(ptd_flow_next(whole, &want), PTD_OK);
        } while (want.offset < point->offset);
        CU_ASSERT_TRUE_FATAL(is_same(&want, &got));
        items++;
    }
    CU_ASSERT_TRUE(items > 0);
    CU_ASSERT_EQUAL(ptd_flow_next(whole, &want), PTD_END);
    ptd_stream_free(part);
    ptd_flow_free(whole);
}

/* Segments in which CR3 changes, a loop runs and a call crosses the PSB. */
static void parts(void)
{
    static const uint8_t code[] = {
        0x75, 0xfe,          /* 0: JNE itself */
        0xff, 0xe0,          /* 2: JMP RAX */
        0xe8, 1,    0, 0, 0, /* 4: CALL 10 */
        0x90,                /* 9 */
        0xeb, 0xfe,          /* 10: JMP itself */
    };
    static const uint8_t one[] = {TNT_TN, TIP(CODE), TNT_TTT, TNT_NT};
    struct ptd_image *const image = ptd_image_new();
    uint8_t bytes[SEGMENTS * 80u];
    struct ptd_sync_point *list;
    size_t len = 0, count;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        const uint8_t first[] = {PSB, PIP(CR3_A), MODE64, PSBEND, PGE(CODE)};
        const uint8_t psb[] = {PSB, PIP(CR3_A + (i / 3u << 12)), MODE64, FUP(CODE), PSBEND};

        memcpy(bytes + len, i ? psb : first, i ? sizeof(psb) : sizeof(first));
        len += i ? sizeof(psb) : sizeof(first);
        memcpy(bytes + len, one, sizeof(one));
        len += sizeof(one);
    }
    CU_ASSERT_EQUAL(ptd_index(bytes, len, &list, &count), PTD_OK);
    CU_ASSERT_EQUAL(count, SEGMENTS);
    for (size_t i = 1; i < count; i++)
        compare_part(bytes, len, image, &list[i - 1], &list[i]);
    free(list);
    ptd_image_free(image);
}

/* ---- Start states ---- */

#define HIGH 0x770000u

/* A buffer that goes on in the middle of a loop. */
static void start_states(void)
{
    static const uint8_t code[] = {
        0x75, 0x02, /* 0: JNE 4 */
        0x90, 0x90, /* 2 */
        0xff, 0xe0, /* 4: JMP RAX */
    };
    static const uint8_t bytes[] = {
        TNT_N, 0x2d, 0, 0x10 /* TIP of 16 bits */, TNT_T, TIP(CODE + HIGH), TNT_N, PGD_NO_IP};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_flow_config config = {
        .mode = PTD_MODE_64,
        .at_start = true,
        .has_ip = true,
        .ip = CODE + HIGH,
        .last_ip = HIGH + 99,
    };
    const struct referee_trace trace = {
        .bytes = bytes, .len_bytes = sizeof(bytes), .image = image, .config = &config};
    struct ptd_item item;
    uint32_t insns = 0;

    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE + HIGH, code, sizeof(code), PTD_ANY_CR3),
                    PTD_OK);
    struct ptd_flow *flow = ptd_flow_new(bytes, sizeof(bytes), image, &config);

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        CU_ASSERT_NOT_EQUAL(item.type, PTD_ITEM_ERROR);
        if (item.type == PTD_ITEM_BLOCK)
            insns += item.insns;
    }
    CU_ASSERT_EQUAL(insns, 4 + 2 + 4);
    ptd_flow_free(flow);
    CU_ASSERT_TRUE(referee_run(&trace, PTD_RUN_ROOM).same);
    CU_ASSERT_TRUE(referee_parallel(&trace, 2, 1).same);
    CU_ASSERT_TRUE(referee_stream(&trace, 1, 1, NULL).same);

    config.has_ip = false; /* a TNT, and nobody says where */
    flow = ptd_flow_new(bytes, sizeof(bytes), image, &config);
    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_OK);
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_ERROR);
    CU_ASSERT_EQUAL(item.error, PTD_E_MISMATCH);
    ptd_flow_free(flow);
    ptd_image_free(image);
}

/* NR and VMCS of a start state say whose CR3 it is. */
static void start_state_of_a_guest(void)
{
    static const uint8_t code[] = {0xff, 0xe0};
    static const uint8_t bytes[] = {TIP(CODE), PGD_NO_IP};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_contexts *const contexts = ptd_contexts_new(image);
    const int vm = ptd_contexts_add_vm(contexts, "one", 0, 0);
    struct ptd_flow_config config = {.mode = PTD_MODE_64,
                                     .cr3 = CR3_A,
                                     .at_start = true,
                                     .has_ip = true,
                                     .ip = CODE,
                                     .nr = true,
                                     .vmcs = 0x7000};
    struct ptd_context who;
    struct ptd_item item;

    CU_ASSERT_EQUAL(ptd_contexts_add_vmcs(contexts, (unsigned)vm, 0x7000), PTD_OK);
    CU_ASSERT_EQUAL(ptd_image_add_bytes(image, NULL, CODE, code, sizeof(code),
                                        ptd_image_space(image, true, 0x7000, CR3_A)),
                    PTD_OK);

    struct ptd_flow *const flow = ptd_flow_new(bytes, sizeof(bytes), image, &config);

    CU_ASSERT_EQUAL(ptd_flow_next(flow, &item), PTD_OK);
    CU_ASSERT_EQUAL(item.type, PTD_ITEM_BLOCK);
    CU_ASSERT_TRUE(item.nr);
    ptd_contexts_find(contexts, item.cr3, item.ip, &who);
    CU_ASSERT_EQUAL(who.vm, (unsigned)vm);
    ptd_flow_free(flow);
    ptd_contexts_free(contexts);
    ptd_image_free(image);
}

/* ---- The interface ---- */

static void interface(void)
{
    static const struct ptd_time_config bad = {.mtc_freq = 16}, clocks = {.mtc_freq = 3};
    static const uint8_t bytes[] = {START(CODE), TNT_N};
    uint32_t steps[PTD_RUN_ROOM];
    struct ptd_run run = {.steps = steps, .room = PTD_RUN_ROOM, .timing = PTD_TIMING_NONE};
    struct ptd_image *const image = ptd_image_new();
    struct ptd_stream *stream = ptd_stream_new(image, NULL, NULL);
    struct ptd_item item;
    unsigned items = 0;

    CU_ASSERT_EQUAL(ptd_stream_next(stream, &item, NULL), PTD_MORE);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, NULL, 0), PTD_OK);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, bytes, sizeof(bytes)), PTD_OK);
    ptd_stream_end(stream);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, bytes, 1), PTD_E_ARG);
    while (ptd_stream_next(stream, &item, NULL) == PTD_OK)
        items++;
    CU_ASSERT_EQUAL(items, 3); /* PSB, enabled, and an error: there is no code */
    CU_ASSERT_EQUAL(ptd_stream_next(stream, &item, NULL), PTD_END);
    ptd_stream_free(stream);

    stream = ptd_stream_new(image, NULL, NULL);
    ptd_stream_begin_at(stream, 1000);
    ptd_stream_end(stream);
    CU_ASSERT_EQUAL(ptd_stream_next(stream, &item, NULL), PTD_END); /* nothing was lost */
    ptd_stream_free(stream);

    stream = ptd_stream_new(image, NULL, NULL);
    ptd_stream_begin_at(stream, 1000);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, bytes, 10), PTD_OK);
    ptd_stream_end(stream);
    CU_ASSERT_EQUAL(ptd_stream_next(stream, &item, NULL), PTD_OK);
    CU_ASSERT_EQUAL(item.error, PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(item.offset, 1000);
    CU_ASSERT_EQUAL(item.value, 10);
    ptd_stream_free(stream);

    stream = ptd_stream_new(image, NULL, &clocks);
    CU_ASSERT_EQUAL(ptd_stream_run(stream, &run, NULL), PTD_E_ARG); /* time needs items */
    run.timing = PTD_TIMING_ITEMS;
    CU_ASSERT_EQUAL(ptd_stream_run(stream, &run, NULL), PTD_MORE);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, bytes, sizeof(bytes)), PTD_OK);
    ptd_stream_end(stream);
    for (items = 0; ptd_stream_run(stream, &run, NULL) == PTD_OK;)
        items += run.has_item;
    CU_ASSERT_EQUAL(items, 3);
    CU_ASSERT_EQUAL(ptd_stream_run(stream, &run, NULL), PTD_END);
    ptd_stream_free(stream);

    CU_ASSERT_PTR_NULL(ptd_stream_new(image, NULL, &bad));
    ptd_stream_free(NULL);
    ptd_image_free(image);
}

#define PIECE    (UINT64_C(1) << 20)
#define PIECES   90u /* more than PTD_LOOK_AHEAD_MAX */
#define MOST_KIB (160l << 10)
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER_KIB (256l << 10) /* what was freed and is kept */
#elif defined(__SANITIZE_THREAD__)
#define SANITIZER_KIB (512l << 10) /* who touched what */
#else
#define SANITIZER_KIB 0l
#endif

static long peak_kib(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* The same filling on and on, in which nothing of what is looked for comes. How many items. */
static unsigned long feed_filling(const struct ptd_image *image, const uint8_t *filling,
                                  size_t size)
{
    static const uint8_t sync[] = {SYNC, TSC, OVF};
    static const struct ptd_time_config clocks = {0};
    static uint8_t piece[PIECE];
    struct ptd_stream *const stream = ptd_stream_new(image, NULL, &clocks);
    struct ptd_time_point point;
    struct ptd_item item;
    unsigned long items = 0;
    size_t len = 0;

    for (; len + size <= sizeof(piece); len += size)
        memcpy(piece + len, filling, size);
    CU_ASSERT_EQUAL(ptd_stream_feed(stream, sync, sizeof(sync)), PTD_OK);
    for (unsigned n = 0; n <= PIECES; n++) {
        if (n == PIECES)
            ptd_stream_end(stream);
        else
            CU_ASSERT_EQUAL(ptd_stream_feed(stream, piece, len), PTD_OK);
        while (ptd_stream_next(stream, &item, &point) == PTD_OK)
            items++;
    }
    ptd_stream_free(stream);
    return items;
}

/* In a process of its own, whose peak begins with what is there now. */
static bool fits(const struct ptd_image *image, const uint8_t *filling, size_t size,
                 unsigned long items, long most_kib)
{
    const pid_t child = fork();
    int status = -1;

    if (child == 0) {
        const long before = peak_kib();
        const bool same = feed_filling(image, filling, size) == items;

        _exit(same && peak_kib() - before < most_kib ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void bounded_memory(void)
{
    static const uint8_t no_packet[] = {0xb9};
    static const uint8_t mnt[] = {2, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8};
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_TRUE(fits(image, no_packet, sizeof(no_packet), 4, MOST_KIB / 10 + SANITIZER_KIB));
    CU_ASSERT_TRUE(fits(image, mnt, sizeof(mnt), 3 + PIECES * (PIECE / sizeof(mnt)),
                        MOST_KIB + SANITIZER_KIB));
    ptd_image_free(image);
}

void add_stream_suite(void)
{
    CU_pSuite const suite = CU_add_suite("long traces", NULL, NULL);

    CU_add_test(suite, "index", points);
    CU_add_test(suite, "index by time", points_by_time);
    CU_add_test(suite, "parts", parts);
    CU_add_test(suite, "start states", start_states);
    CU_add_test(suite, "start state of a guest", start_state_of_a_guest);
    CU_add_test(suite, "interface of streams", interface);
    CU_add_test(suite, "bounded memory", bounded_memory);
}
