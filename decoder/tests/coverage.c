/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage, by edges that are written out by hand; that it is what the flow tells item by item is
 * asked of all golden traces, of noise and of a real trace (referee_coverage.h).
 */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "golden.h"
#include "ptdec_coverage.h"
#include "suites.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAP_BYTES    65536u

/* clang-format off */
static const uint8_t code[] = {
    /*  0 */ 0x90,                         /* nop */
    /*  1 */ 0x75, 0xfd,                   /* jnz 0 */
    /*  3 */ 0xe8, 0x02, 0x00, 0x00, 0x00, /* call a */
    /*  8 */ 0xff, 0xe0,                   /* jmp rax */
    /*  a */ 0xeb, 0x00,                   /* jmp c */
    /*  c */ 0xc3,                         /* ret */
    /*  d */ 0x0f, 0x05,                   /* syscall */
    /*  f */ 0x48, 0xcf,                   /* iretq */
};
/* The loop three times, the call, its compressed RET, then a jump, SYSCALL and IRET. */
static const uint8_t trace[] = {
    START(CODE), TNT_TT, TNT_NT, TIP(CODE + 0xd), TIP(CODE + 0xf), TIP(CODE), TNT_N, TIP(CODE + 8),
    TIP(CODE),
};
/* clang-format on */

struct edge {
    uint64_t from, to, count;
};

static const struct edge edges[] = {
    {1, 0, 2}, {1, 3, 2}, {0xc, 8, 2}, {8, 0xd, 1}, {0xd, 0xf, 1}, {8, 0, 1},
};
static const struct edge blocks[] = {
    {0, 3, 4}, {3, 8, 2}, {0xa, 0xc, 2}, {0xc, 0xd, 2}, {8, 0xa, 2}, {0xd, 0xf, 1}, {0xf, 0x11, 1},
};

static struct ptd_image *image_of(const uint8_t *bytes, size_t len_bytes)
{
    struct ptd_image *const image = ptd_image_new();

    CU_ASSERT_EQUAL_FATAL(ptd_image_add_bytes(image, NULL, CODE, bytes, len_bytes, PTD_ANY_CR3),
                          PTD_OK);
    return image;
}

static struct ptd_coverage *coverage_of(struct ptd_coverage_config config)
{
    struct ptd_coverage *coverage = NULL;

    CU_ASSERT_EQUAL_FATAL(ptd_coverage_new(&config, &coverage), PTD_OK);
    return coverage;
}

static void check_list(const struct ptd_coverage_entry *got, size_t got_count,
                       const struct edge *want, size_t want_count, uint64_t times)
{
    CU_ASSERT_EQUAL(got_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        size_t found = 0;

        for (size_t j = 0; j < got_count; j++)
            found += got[j].from == CODE + want[i].from && got[j].to == CODE + want[i].to &&
                     got[j].count == times * want[i].count && got[j].cr3 == 0;
        CU_ASSERT_EQUAL(found, 1);
    }
}

/* ptd_coverage_edges(), _blocks() */
static void lists_by_hand(void)
{
    struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){.lists = true});
    struct ptd_image *const image = image_of(code, sizeof(code));
    const struct ptd_coverage_entry *list;
    struct ptd_coverage_sums sums;
    size_t count;

    for (uint64_t times = 1; times <= 3; times++) {
        CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, trace, sizeof(trace), &sums),
                        PTD_OK);
        CU_ASSERT_EQUAL(sums.edges, 9);
        CU_ASSERT_EQUAL(sums.insns, 18);
        CU_ASSERT_EQUAL(sums.errors, 0);
        CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
        check_list(list, count, edges, COUNT(edges), times);
        CU_ASSERT_EQUAL(ptd_coverage_blocks(coverage, &list, &count), PTD_OK);
        check_list(list, count, blocks, COUNT(blocks), times);
    }
    CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 27);
    ptd_coverage_clear(coverage);
    CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 0);
    CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, trace, sizeof(trace), NULL), PTD_OK);
    CU_ASSERT_EQUAL(ptd_coverage_blocks(coverage, &list, &count), PTD_OK);
    check_list(list, count, blocks, COUNT(blocks), 1);
    ptd_coverage_free(coverage);
    ptd_image_free(image);
}

/* ptd_coverage_add(), _sums(), _clear(): when the map has what was counted */
static void map_when_asked(void)
{
    static const uint8_t zeros[1024];
    static uint8_t map[1024];
    struct ptd_coverage *const coverage =
        coverage_of((struct ptd_coverage_config){.map = map, .map_bytes = sizeof(map)});
    struct ptd_image *const image = image_of(code, sizeof(code));
    static uint32_t steps[256];

    memset(map, 0, sizeof(map));
    for (unsigned asks = 0; asks < 2; asks++) {
        struct ptd_flow *const flow = ptd_flow_new(trace, sizeof(trace), image, NULL);
        struct ptd_run run = {.steps = steps, .room = COUNT(steps), .timing = PTD_TIMING_NONE};

        while (ptd_flow_run(flow, &run) == PTD_OK)
            CU_ASSERT_EQUAL(ptd_coverage_add(coverage, flow, &run), PTD_OK);
        if (asks) {
            CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 9);
            CU_ASSERT_NOT_EQUAL(memcmp(map, zeros, sizeof(map)), 0);
        }
        ptd_coverage_clear(coverage);
        memset(map, 0, sizeof(map));
        CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 0);
        CU_ASSERT_EQUAL(memcmp(map, zeros, sizeof(map)), 0);
        ptd_coverage_restart(coverage);
        ptd_flow_free(flow);
    }
    ptd_coverage_free(coverage);
    ptd_image_free(image);
}

/* Places as a script computed them from what ptdec_coverage.h says. */
static void map_by_hand(void)
{
    static const struct {
        uint8_t hash;
        uint16_t places[COUNT(edges)]; /* of edges[] */
    } cases[] = {
        {PTD_COVERAGE_MIX, {0x9254, 0x25d6, 0x9106, 0x53ae, 0x9ba4, 0x02eb}},
        {PTD_COVERAGE_LIBXDC, {0x28c2, 0x4c4d, 0xad36, 0x2dd5, 0x872b, 0xfe14}},
    };
    static uint8_t map[MAP_BYTES];

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){
            .map = map, .map_bytes = MAP_BYTES, .hash = cases[i].hash});
        struct ptd_image *const image = image_of(code, sizeof(code));
        unsigned used = 0;

        memset(map, 0, sizeof(map));
        CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, trace, sizeof(trace), NULL),
                        PTD_OK);
        for (size_t edge = 0; edge < COUNT(edges); edge++)
            CU_ASSERT_EQUAL(map[cases[i].places[edge]], edges[edge].count);
        for (size_t byte = 0; byte < MAP_BYTES; byte++)
            used += map[byte] != 0;
        CU_ASSERT_EQUAL(used, COUNT(edges));
        ptd_coverage_free(coverage);
        ptd_image_free(image);
    }
}

/* enum ptd_coverage_counter, of a map of one byte: 300 times JNZ to itself, and on. */
static void counters(void)
{
    static const uint8_t loop[] = {0x75, 0xfe, 0xff, 0xe0};
    static const struct {
        uint8_t counter, byte;
    } cases[] = {
        {PTD_COVERAGE_WRAP, 300 - 256},
        {PTD_COVERAGE_NEVER_ZERO, 300 - 255},
        {PTD_COVERAGE_SATURATE, 255},
    };
    static const uint8_t start[] = {START(CODE)};
    struct ptd_image *const image = image_of(loop, sizeof(loop));
    uint8_t bytes[sizeof(start) + 50];

    memcpy(bytes, start, sizeof(start));
    memset(bytes + sizeof(start), 0xfe, 50); /* six taken each */
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t map = 0;
        struct ptd_coverage *const coverage = coverage_of(
            (struct ptd_coverage_config){.map = &map, .map_bytes = 1, .counter = cases[i].counter});

        CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, bytes, sizeof(bytes), NULL),
                        PTD_OK);
        CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 300);
        CU_ASSERT_EQUAL(map, cases[i].byte);
        ptd_coverage_free(coverage);
    }
    ptd_image_free(image);
}

/* Both ends have to be in a range; of a block its begin. */
static void ranges(void)
{
    static const struct edge within[] = {{1, 0, 2}, {1, 3, 2}};
    static const struct edge blocks_within[] = {{0, 3, 4}, {3, 8, 2}};
    static const struct ptd_coverage_range of_code[] = {{CODE, CODE + 3, PTD_ANY_CR3},
                                                        {CODE + 8, CODE + 0xf, CR3_A}};
    struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){
        .lists = true, .ranges = of_code, .range_count = COUNT(of_code)});
    struct ptd_image *const image = image_of(code, sizeof(code));
    const struct ptd_coverage_entry *list;
    size_t count;

    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, trace, sizeof(trace), NULL), PTD_OK);
    CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->edges, 4);
    CU_ASSERT_EQUAL(ptd_coverage_sums(coverage)->insns, 18);
    CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
    check_list(list, count, within, COUNT(within), 1);
    CU_ASSERT_EQUAL(ptd_coverage_blocks(coverage, &list, &count), PTD_OK);
    check_list(list, count, blocks_within, COUNT(blocks_within), 1);
    ptd_coverage_free(coverage);
    ptd_image_free(image);
}

/* by_space: the same code in two address spaces. */
static void spaces(void)
{
    static const uint8_t two[] = {PSB, PIP(CR3_A), PSBEND, PGE(CODE), TNT_T, PGD_NO_IP,
                                  PSB, PIP(CR3_B), PSBEND, PGE(CODE), TNT_T, PGD_NO_IP};
    struct ptd_image *const image = image_of(code, sizeof(code));

    for (unsigned by_space = 0; by_space < 2; by_space++) {
        static uint8_t map[MAP_BYTES];
        struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){
            .map = map, .map_bytes = MAP_BYTES, .by_space = by_space, .lists = true});
        const struct ptd_coverage_entry *list;
        unsigned used = 0;
        size_t count;

        memset(map, 0, sizeof(map));
        CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, two, sizeof(two), NULL), PTD_OK);
        CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
        CU_ASSERT_EQUAL_FATAL(count, 2);
        CU_ASSERT_EQUAL(list[0].cr3 ^ list[1].cr3, CR3_A ^ CR3_B);
        for (size_t byte = 0; byte < MAP_BYTES; byte++)
            used += map[byte] != 0;
        CU_ASSERT_EQUAL(used, 1 + by_space);
        ptd_coverage_free(coverage);
    }
    ptd_image_free(image);
}

/* What was known of code does not outlive it; nor does one trace's state. */
static void code_changes(void)
{
    static const uint8_t changed[] = {0x75, 0x02}; /* jnz 5 instead of jnz 0 */
    static const uint8_t cut[] = {START(CODE), TNT_T, TNT_N, OVF};
    static const uint8_t once[] = {START(CODE), TNT_N, TIP(CODE + 0x100), TNT_T};
    struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){.lists = true});
    struct ptd_image *const image = image_of(code, sizeof(code));
    struct ptd_image *const other = image_of(code + 1, sizeof(code) - 1);
    const struct ptd_coverage_entry *list;
    struct ptd_coverage_sums sums;
    size_t count;

    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, cut, sizeof(cut), &sums), PTD_OK);
    CU_ASSERT_EQUAL(sums.edges, 2);
    CU_ASSERT_EQUAL(sums.overflows, 1);
    CU_ASSERT_EQUAL(ptd_image_patch(image, CODE + 1, changed, sizeof(changed), PTD_ANY_CR3),
                    PTD_OK);
    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, cut, 26, &sums), PTD_OK);
    CU_ASSERT_EQUAL(sums.edges, 1);
    CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
    check_list(list, count, (const struct edge[]){{1, 0, 1}, {1, 3, 1}, {1, 5, 1}}, 3, 1);
    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, other, NULL, once, sizeof(once), &sums), PTD_OK);
    CU_ASSERT_EQUAL(sums.errors, 1);
    CU_ASSERT_EQUAL(sums.first_error, PTD_E_NOMAP);
    CU_ASSERT_EQUAL(sums.error_ip, CODE + 0x100);
    CU_ASSERT_EQUAL(sums.edges, 2); /* of the other image: JNZ at 0, and the RET */
    ptd_coverage_free(coverage);
    ptd_image_free(image);
    ptd_image_free(other);
}

/* A start state is a trace's own. */
static void start_states(void)
{
    static const uint8_t bytes[] = {TNT_T};
    const struct ptd_flow_config config = {
        .mode = PTD_MODE_64, .cr3 = CR3_B, .at_start = true, .has_ip = true, .ip = CODE};
    struct ptd_coverage *const coverage = coverage_of((struct ptd_coverage_config){.lists = true});
    struct ptd_image *const image = image_of(code, sizeof(code));
    const struct ptd_coverage_entry *list;
    struct ptd_coverage_sums sums;
    size_t count;

    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, bytes, sizeof(bytes), &sums), PTD_OK);
    CU_ASSERT_EQUAL(sums.edges, 0);
    CU_ASSERT_EQUAL(sums.first_error, PTD_E_NOSYNC);
    CU_ASSERT_EQUAL(sums.lost, 1);
    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, &config, bytes, sizeof(bytes), &sums),
                    PTD_OK);
    CU_ASSERT_EQUAL(sums.edges, 1);
    CU_ASSERT_EQUAL(sums.errors, 0);
    CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_OK);
    CU_ASSERT_TRUE(count == 1 && list[0].cr3 == CR3_B && list[0].to == CODE);
    CU_ASSERT_EQUAL(ptd_coverage_trace(coverage, image, NULL, "", 0, &sums), PTD_OK);
    CU_ASSERT_EQUAL(sums.edges, 0);
    ptd_coverage_free(coverage);
    ptd_image_free(image);
}

static void bad_arguments(void)
{
    static const struct ptd_coverage_config cases[] = {
        {.map = (uint8_t *)(uintptr_t)&cases, .map_bytes = 0},
        {.map = (uint8_t *)(uintptr_t)&cases, .map_bytes = 3},
        {.map = (uint8_t *)(uintptr_t)&cases, .map_bytes = (size_t)PTD_COVERAGE_MAP_MAX * 2},
        {.counter = 3},
        {.hash = 2},
        {.range_count = 1},
    };
    struct ptd_coverage *coverage = NULL;
    const struct ptd_coverage_entry *list;
    size_t count;

    for (size_t i = 0; i < COUNT(cases); i++)
        CU_ASSERT_EQUAL(ptd_coverage_new(&cases[i], &coverage), PTD_E_ARG);
    CU_ASSERT_PTR_NULL(coverage);
    coverage = coverage_of((struct ptd_coverage_config){.hash = 0});
    CU_ASSERT_EQUAL(ptd_coverage_edges(coverage, &list, &count), PTD_E_ARG);
    CU_ASSERT_EQUAL(ptd_coverage_blocks(coverage, &list, &count), PTD_E_ARG);
    ptd_coverage_free(coverage);
    ptd_coverage_free(NULL);
}

void add_coverage_suite(void)
{
    CU_pSuite suite = CU_add_suite("coverage", NULL, NULL);

    CU_add_test(suite, "lists, by hand", lists_by_hand);
    CU_add_test(suite, "places in the map, by hand", map_by_hand);
    CU_add_test(suite, "the map when it is asked for", map_when_asked);
    CU_add_test(suite, "counters", counters);
    CU_add_test(suite, "ranges", ranges);
    CU_add_test(suite, "address spaces", spaces);
    CU_add_test(suite, "code that changes", code_changes);
    CU_add_test(suite, "start states", start_states);
    CU_add_test(suite, "bad arguments", bad_arguments);
}
