/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts edges and blocks of items one by one, and compares. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptdec_coverage.h"
#include "referee_coverage.h"

#define MAP_BYTES 1024u

/* All that was seen, again and again. */
struct list {
    struct ptd_coverage_entry *entries;
    size_t count, room;
};

struct expected {
    struct ptd_coverage_config config;
    struct list edges, blocks;
    uint8_t map[MAP_BYTES];
    struct ptd_coverage_sums sums;
};

/* ---- One by one ---- */

static void note(struct list *list, uint64_t from, uint64_t to, uint64_t cr3)
{
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->entries = reallocarray(list->entries, list->room, sizeof(*list->entries));
        if (!list->entries)
            abort();
    }
    list->entries[list->count++] = (struct ptd_coverage_entry){from, to, cr3, 1};
}

static uint64_t mix(const struct expected *expected, uint64_t x)
{
    if (expected->config.hash == PTD_COVERAGE_LIBXDC) {
        x ^= x >> 31;
        return x * 0x7fb5d329728ea185u;
    }
    for (unsigned i = 0; i < 2; i++) {
        x ^= x >> 32;
        x *= 0xd6e8feb86659fd93u;
    }
    return x ^ x >> 32;
}

static bool counts(const struct expected *expected, uint64_t ip, uint64_t cr3)
{
    const struct ptd_coverage_config *const config = &expected->config;
    bool found = config->range_count == 0;

    for (size_t i = 0; i < config->range_count; i++)
        found |= ip >= config->ranges[i].first && ip <= config->ranges[i].last &&
                 (config->ranges[i].cr3 == PTD_ANY_CR3 || config->ranges[i].cr3 == cr3);
    return found;
}

static void expect_edge(struct expected *expected, uint64_t from, uint64_t to, uint64_t cr3)
{
    const uint64_t key = expected->config.by_space ? mix(expected, cr3) : 0;
    const uint64_t place = mix(expected, to ^ key) ^ mix(expected, from ^ key) >> 1;
    uint8_t *const byte = &expected->map[place % MAP_BYTES];

    note(&expected->edges, from, to, cr3);
    expected->sums.edges++;
    if (*byte < 255)
        ++*byte;
    else if (expected->config.counter != PTD_COVERAGE_SATURATE)
        *byte = expected->config.counter == PTD_COVERAGE_NEVER_ZERO;
}

static void expect_block(struct expected *expected, const struct ptd_image *image,
                         const struct ptd_item *block)
{
    const unsigned edges = 1u << PTD_INSN_COND | 1u << PTD_INSN_RET | 1u << PTD_INSN_FAR |
                           1u << PTD_INSN_JMP_INDIRECT | 1u << PTD_INSN_CALL_INDIRECT;
    uint64_t end = block->ip;
    struct ptd_insn insn;

    expected->sums.insns += block->insns;
    while (ptd_block_insn(image, block, &end, &insn) == PTD_OK)
        ;
    if (counts(expected, block->ip, block->cr3))
        note(&expected->blocks, block->ip, end, block->cr3);
    if (edges >> block->last_class & 1 && block->has_to &&
        counts(expected, block->last_ip, block->cr3) && counts(expected, block->to, block->cr3))
        expect_edge(expected, block->last_ip, block->to, block->cr3);
}

static void expect_trace(struct expected *expected, const struct referee_trace *trace)
{
    struct ptd_flow *const flow =
        ptd_flow_new(trace->bytes, trace->len_bytes, trace->image, trace->config);
    struct ptd_item item;

    while (ptd_flow_next(flow, &item) == PTD_OK) {
        if (item.type == PTD_ITEM_BLOCK)
            expect_block(expected, trace->image, &item);
        expected->sums.overflows += item.type == PTD_ITEM_OVERFLOW;
        if (item.type != PTD_ITEM_ERROR)
            continue;
        if (expected->sums.errors++ == 0) {
            expected->sums.first_error = item.error;
            expected->sums.error_offset = item.offset;
            expected->sums.error_ip = item.has_from ? item.from : 0;
        }
        expected->sums.lost += item.value;
    }
    ptd_flow_free(flow);
}

/* ---- Comparing ---- */

static int compare(const void *a, const void *b)
{
    const struct ptd_coverage_entry *const one = a, *const other = b;

    if (one->from != other->from)
        return one->from < other->from ? -1 : 1;
    if (one->to != other->to)
        return one->to < other->to ? -1 : 1;
    return one->cr3 < other->cr3 ? -1 : one->cr3 > other->cr3;
}

/* Equal ones become one. */
static void sum_up(struct list *list)
{
    size_t count = 0;

    if (list->count > 0)
        qsort(list->entries, list->count, sizeof(*list->entries), compare);
    for (size_t i = 0; i < list->count; i++) {
        if (count > 0 && compare(&list->entries[count - 1], &list->entries[i]) == 0)
            list->entries[count - 1].count += list->entries[i].count;
        else
            list->entries[count++] = list->entries[i];
    }
    list->count = count;
}

typedef int (*list_fn)(struct ptd_coverage *coverage, const struct ptd_coverage_entry **entries,
                       size_t *count);

static bool same_list(struct ptd_coverage *coverage, list_fn list, const struct list *want)
{
    const struct ptd_coverage_entry *got;
    struct ptd_coverage_entry *sorted;
    size_t count;
    bool same = list(coverage, &got, &count) == PTD_OK && count == want->count;

    if (!same || count == 0)
        return same;
    sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        abort();
    memcpy(sorted, got, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare);
    for (size_t i = 0; i < count; i++)
        same &= compare(&sorted[i], &want->entries[i]) == 0 &&
                sorted[i].count == want->entries[i].count;
    free(sorted);
    return same;
}

static void expect_same(struct referee_verdict *verdict, const char *what, bool same)
{
    if (verdict->same && !same)
        (void)snprintf(verdict->difference, sizeof(verdict->difference), "coverage: %s", what);
    verdict->same &= same;
}

static void check(struct referee_verdict *verdict, struct ptd_coverage *coverage,
                  const struct expected *expected, const uint8_t *map)
{
    const struct ptd_coverage_sums *const want = &expected->sums, *got;

    if (expected->config.lists) {
        expect_same(verdict, "edges", same_list(coverage, ptd_coverage_edges, &expected->edges));
        expect_same(verdict, "blocks", same_list(coverage, ptd_coverage_blocks, &expected->blocks));
    }
    got = ptd_coverage_sums(coverage);
    expect_same(verdict, "the map", memcmp(map, expected->map, MAP_BYTES) == 0);
    expect_same(verdict, "sums of what ran",
                got->edges == want->edges && got->insns == want->insns);
    expect_same(verdict, "sums of what did not",
                got->errors == want->errors && got->lost == want->lost &&
                    got->overflows == want->overflows && got->left_out == 0 &&
                    got->first_error == want->first_error &&
                    got->error_offset == want->error_offset && got->error_ip == want->error_ip);
}

/* ---- The two ways ---- */

/* What is traced in turns: all of it, parts of the same code, and all of it again. */
#define TURNS 4

static struct referee_trace trace_of(const struct referee_trace *trace, unsigned turn)
{
    static const unsigned parts[TURNS] = {1, 256, 2, 1};
    struct referee_trace some = *trace;

    some.len_bytes = trace->len_bytes / parts[turn];
    return some;
}

static void check_traces(struct referee_verdict *verdict, const struct referee_trace *trace,
                         struct expected *expected)
{
    uint8_t map[MAP_BYTES] = {0};
    struct ptd_coverage_config config = expected->config;
    struct ptd_coverage *coverage = NULL;

    config.map = map;
    expect_same(verdict, "it is made", ptd_coverage_new(&config, &coverage) == PTD_OK);
    for (unsigned turn = 0; turn < TURNS && verdict->same; turn++) {
        const struct referee_trace some = trace_of(trace, turn);
        const struct ptd_coverage_sums before = expected->sums;
        struct ptd_coverage_sums sums = {0};

        expect_trace(expected, &some);
        sum_up(&expected->edges);
        sum_up(&expected->blocks);
        expect_same(verdict, "the status",
                    ptd_coverage_trace(coverage, some.image, some.config, some.bytes,
                                       some.len_bytes, &sums) == PTD_OK);
        expect_same(verdict, "sums of one trace",
                    before.edges + sums.edges == expected->sums.edges &&
                        before.insns + sums.insns == expected->sums.insns &&
                        before.errors + sums.errors == expected->sums.errors);
        check(verdict, coverage, expected, map);
    }
    ptd_coverage_free(coverage);
}

/* What is expected is that of the same turns. */
static void check_threads(struct referee_verdict *verdict, const struct referee_trace *trace,
                          const struct expected *expected)
{
    uint8_t map[MAP_BYTES] = {0};
    struct ptd_coverage_config config = expected->config;
    struct ptd_coverage *coverage = NULL;

    config.map = map;
    expect_same(verdict, "it is made", ptd_coverage_new(&config, &coverage) == PTD_OK);
    for (unsigned turn = 0; turn < TURNS && verdict->same; turn++) {
        const struct referee_trace some = trace_of(trace, turn);
        struct ptd_flow_config how = {.mode = PTD_MODE_64};

        if (some.config)
            how = *some.config;
        how.compounds = turn > 0;
        ptd_coverage_restart(coverage);
        expect_same(
            verdict, "the status of threads",
            ptd_flow_parallel(some.bytes, some.len_bytes, some.image, &how,
                              some.timing == PTD_TIMING_MARKS ? PTD_TIMING_NONE : some.timing, 2,
                              ptd_coverage_add, coverage) == PTD_OK);
    }
    check(verdict, coverage, expected, map);
    ptd_coverage_free(coverage);
}

struct referee_verdict referee_coverage(const struct referee_trace *trace, unsigned kind)
{
    static const struct ptd_coverage_range ranges[] = {
        {0x1000, 0x1030, PTD_ANY_CR3}, {0x1040, 0x1080, 0x6000}, {0x400000, 0x40ffff, PTD_ANY_CR3}};
    struct referee_verdict verdict = {.same = true};

    /* What is counted of compound steps goes another way where there are lists. */
    for (unsigned lists = 0; lists < 2 && verdict.same; lists++) {
        struct expected expected = {
            .config = {.map_bytes = MAP_BYTES,
                       .counter = (uint8_t)(kind % 3),
                       .hash = kind / 3 % 2 ? PTD_COVERAGE_LIBXDC : PTD_COVERAGE_MIX,
                       .by_space = kind / 2 % 2,
                       .lists = lists,
                       .ranges = ranges,
                       .range_count = kind / 4 % 2 ? sizeof(ranges) / sizeof(ranges[0]) : 0}};

        check_traces(&verdict, trace, &expected);
        if (verdict.same)
            check_threads(&verdict, trace, &expected);
        verdict.items = expected.sums.edges;
        free(expected.edges.entries);
        free(expected.blocks.entries);
    }
    return verdict;
}
