/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage (ptdec_coverage.h). An edge's place in the map is made of two halves, one of each end.
 * Both are found out once for each piece of code that is stepped over, so a step costs one load, an
 * exclusive or, and the count. Lists count steps by number, and are made of that when they are
 * asked for, or when numbers end.
 */
#include <stdlib.h>
#include <string.h>

#include "flow/flow.h"
#include "ptdec_coverage.h"
#include "whole/entries.h"

#define ROOM (4u << 10) /* steps at a time: they stay in the nearest cache */

/* Halves of places. The rest is the place, as far as it is this end's. */
#define HALF_COUNTS (UINT32_C(1) << 31)  /* this end counts; an edge needs both */
#define HALF_KNOWN  PTD_COVERAGE_MAP_MAX /* only in .from: the code was looked at */

_Static_assert(PTD_COVERAGE_MAP_MAX < HALF_COUNTS, "places and flags are apart");

/* What a step's code is as the begin and the end of edges. */
struct ends {
    uint32_t to, from;
};

/* For lists, of the same code. */
struct seen {
    uint64_t runs[2];                  /* by bit 0 of steps; since the lists were made */
    uint32_t first_block, block_count; /* in coverage->steps_blocks */
    /* Where it went last if it does not end in a conditional branch, and that edge. */
    uint32_t next, edge;
    uint64_t ip, from; /* the first and the last instruction */
    uint64_t to[2];    /* of a conditional branch, by bit */
    uint64_t cr3;
    bool is_cond;
};

struct ptd_coverage {
    struct ptd_coverage_config config;
    struct ptd_coverage_range *ranges;
    uint32_t mask; /* of places */
    uint8_t none;  /* stands for the map if there is none */
    struct ptd_coverage_sums sums;

    /* By number of code. */
    struct ends *ends;
    struct seen *seen;  /* NULL: no lists */
    size_t code_room;   /* of both */
    size_t code_count;  /* of both that may be in use */
    uint32_t epoch;     /* that they are of */
    bool is_other_flow; /* nothing that is known of numbers holds */
    uint32_t *of_steps; /* indices of blocks, one piece of code behind the other */
    size_t of_steps_count, of_steps_room;
    struct entries edges, blocks;

    struct ptd_flow *flow; /* of ptd_coverage_trace() */
    const struct ptd_image *image;
    uint32_t steps[ROOM];
};

/* ---- Places ---- */

static uint64_t mix(const struct ptd_coverage *coverage, uint64_t x)
{
    if (coverage->config.hash == PTD_COVERAGE_LIBXDC)
        return (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static bool in_ranges(const struct ptd_coverage *coverage, uint64_t ip, uint64_t cr3)
{
    if (coverage->config.range_count == 0)
        return true;
    for (size_t i = 0; i < coverage->config.range_count; i++) {
        const struct ptd_coverage_range *const range = &coverage->ranges[i];

        if (ip >= range->first && ip <= range->last &&
            (range->cr3 == PTD_ANY_CR3 || range->cr3 == cr3))
            return true;
    }
    return false;
}

static uint32_t half(const struct ptd_coverage *coverage, uint64_t ip, uint64_t cr3, unsigned shift)
{
    const uint64_t x = coverage->config.by_space ? ip ^ mix(coverage, cr3) : ip;
    const uint32_t place = (uint32_t)(mix(coverage, x) >> shift) & coverage->mask;

    return in_ranges(coverage, ip, cr3) ? place | HALF_COUNTS : place;
}

static uint32_t half_to(const struct ptd_coverage *coverage, uint64_t ip, uint64_t cr3)
{
    return half(coverage, ip, cr3, 0);
}

static uint32_t half_from(const struct ptd_coverage *coverage, uint64_t ip, uint64_t cr3)
{
    return half(coverage, ip, cr3, 1);
}

/* Whether a block ends in what can be the begin of an edge. */
static bool ends_in_edge(const struct ptd_item *block)
{
    switch ((enum ptd_insn_class)block->last_class) {
    case PTD_INSN_COND:
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_INDIRECT:
    case PTD_INSN_RET:
    case PTD_INSN_FAR:
        return true;
    default:
        return false;
    }
}

/* ---- Counting into the map ---- */

/* Adds 0 or 1. */
static inline uint8_t bump(uint8_t byte, uint32_t one, enum ptd_coverage_counter counter)
{
    const uint8_t sum = (uint8_t)(byte + one);

    if (counter == PTD_COVERAGE_NEVER_ZERO)
        return (uint8_t)(sum + (sum < byte));
    if (counter == PTD_COVERAGE_SATURATE)
        return sum < byte ? byte : sum;
    return sum;
}

static inline uint32_t count_edge(uint8_t *map, uint32_t mask, uint32_t from, uint32_t to,
                                  enum ptd_coverage_counter counter)
{
    uint8_t *const byte = &map[(from ^ to) & mask];
    const uint32_t one = (from & to) / HALF_COUNTS;

    *byte = bump(*byte, one, counter);
    return one;
}

static int learn(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t step);

/*
 * Counts all steps but the last one's edge, of which *from is the begin. It is inlined for each
 * counter, so that the loop has no branch but those that are never taken.
 */
static inline int count_steps(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                              const struct ptd_run *run, enum ptd_coverage_counter counter,
                              uint32_t *from)
{
    const uint32_t *const insns = ptd_flow_insns(flow, NULL);
    const struct ends *const ends = coverage->ends;
    uint8_t *const map = coverage->config.map ? coverage->config.map : &coverage->none;
    const uint32_t mask = coverage->mask;
    uint64_t edges = 0, insns_sum = 0;
    uint32_t last = 0;

    for (size_t i = 0; i < run->count; i++) {
        const uint32_t code = run->steps[i] >> 2;
        struct ends of_code = ends[code];

        if (__builtin_expect(!(of_code.from & HALF_KNOWN), 0)) {
            const int status = learn(coverage, flow, run->steps[i]);

            if (status != PTD_OK)
                return status;
            of_code = ends[code];
        }
        edges += count_edge(map, mask, last, of_code.to, counter);
        insns_sum += insns[code];
        last = of_code.from;
    }
    coverage->sums.edges += edges;
    coverage->sums.insns += insns_sum;
    *from = last;
    return PTD_OK;
}

static int count_run(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                     const struct ptd_run *run, uint32_t *from)
{
    switch (coverage->config.counter) {
    case PTD_COVERAGE_NEVER_ZERO:
        return count_steps(coverage, flow, run, PTD_COVERAGE_NEVER_ZERO, from);
    case PTD_COVERAGE_SATURATE:
        return count_steps(coverage, flow, run, PTD_COVERAGE_SATURATE, from);
    default:
        return count_steps(coverage, flow, run, PTD_COVERAGE_WRAP, from);
    }
}

/* One edge whose ends are known: also where nothing steps. */
static void count_one(struct ptd_coverage *coverage, uint32_t from, uint64_t to, uint64_t cr3)
{
    uint8_t *const map = coverage->config.map ? coverage->config.map : &coverage->none;

    coverage->sums.edges += count_edge(map, coverage->mask, from, half_to(coverage, to, cr3),
                                       (enum ptd_coverage_counter)coverage->config.counter);
}

/* ---- Counting into lists ---- */

static int add_edge(struct ptd_coverage *coverage, uint64_t from, uint64_t to, uint64_t cr3,
                    uint64_t count)
{
    uint32_t index;
    int status;

    if (!in_ranges(coverage, from, cr3) || !in_ranges(coverage, to, cr3))
        return PTD_OK;
    status = ptd_entries_find(&coverage->edges, from, to, cr3, &index);
    if (status != PTD_OK)
        return status;
    if (index == ENTRY_NONE)
        coverage->sums.left_out += count;
    else
        coverage->edges.list[index].count += count;
    return PTD_OK;
}

/* Where a block ends: behind its last instruction, as far as that is known. */
static uint64_t end_of(const struct ptd_image *image, const struct ptd_item *block)
{
    struct ptd_insn insn;
    const uint8_t *bytes;
    size_t len_bytes;
    uint8_t copy[15];
    size_t copied = 0;

    while (copied < sizeof(copy) && ptd_image_find(image, block->cr3, block->last_ip + copied,
                                                   &bytes, &len_bytes) == PTD_OK) {
        const size_t more = len_bytes < sizeof(copy) - copied ? len_bytes : sizeof(copy) - copied;

        memcpy(copy + copied, bytes, more);
        copied += more;
    }
    if (ptd_insn_decode((enum ptd_mode)block->mode, block->last_ip, copy, copied, &insn) != PTD_OK)
        return block->last_ip + 1;
    return block->last_ip + insn.size_bytes;
}

/* *index of a block, or ENTRY_NONE: it does not count, or the list is full. */
static int find_block(struct ptd_coverage *coverage, const struct ptd_image *image,
                      const struct ptd_item *block, uint32_t *index)
{
    *index = ENTRY_NONE;
    if (!in_ranges(coverage, block->ip, block->cr3))
        return PTD_OK;

    const int status =
        ptd_entries_find(&coverage->blocks, block->ip, end_of(image, block), block->cr3, index);

    if (status == PTD_OK && *index == ENTRY_NONE)
        coverage->sums.left_out++;
    return status;
}

static int learn_block(struct ptd_coverage *coverage, const struct ptd_image *image,
                       const struct ptd_item *block)
{
    uint32_t index;
    const int status = find_block(coverage, image, block, &index);

    if (status != PTD_OK || index == ENTRY_NONE)
        return status;
    if (!array_grow((void **)&coverage->of_steps, &coverage->of_steps_room,
                    coverage->of_steps_count, sizeof(*coverage->of_steps)))
        return PTD_E_NOMEM;
    coverage->of_steps[coverage->of_steps_count++] = index;
    return PTD_OK;
}

/* The code of a step, block by block; its last one is *last. */
static int learn_blocks(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t step,
                        struct seen *seen, struct ptd_item *last)
{
    struct ptd_item block;
    int status = PTD_OK;

    seen->first_block = (uint32_t)coverage->of_steps_count;
    for (size_t i = 0; status == PTD_OK && ptd_step_block(flow, step, i, &block) == PTD_OK; i++) {
        status = learn_block(coverage, flow->blocks.image, &block);
        *last = block;
    }
    seen->block_count = (uint32_t)(coverage->of_steps_count - seen->first_block);
    return status;
}

static int learn_for_lists(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                           uint32_t step, uint64_t ip)
{
    struct seen *const seen = &coverage->seen[step >> 2];
    struct ptd_item not_taken = {0}, last;
    const int status = learn_blocks(coverage, flow, step & ~UINT32_C(1), seen, &not_taken);

    if (status != PTD_OK)
        return status;
    seen->ip = ip;
    seen->from = not_taken.last_ip;
    seen->cr3 = not_taken.cr3;
    seen->next = UINT32_MAX;
    seen->is_cond = not_taken.last_class == PTD_INSN_COND;
    if (!seen->is_cond)
        return PTD_OK;
    last = not_taken;
    for (size_t i = 0; ptd_step_block(flow, step | 1, i, &last) == PTD_OK; i++)
        ;
    seen->to[0] = not_taken.to;
    seen->to[1] = last.to;
    return PTD_OK;
}

/* The code of a step that was not seen before. */
static int learn(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t step)
{
    struct ends *const ends = &coverage->ends[step >> 2];
    struct ptd_item block, first;
    uint32_t from = 0;

    if (ptd_step_block(flow, step, 0, &first) != PTD_OK)
        return PTD_E_ARG;
    for (size_t i = 0; ptd_step_block(flow, step, i, &block) == PTD_OK; i++)
        from = ends_in_edge(&block) ? half_from(coverage, block.last_ip, block.cr3) : 0;
    if (coverage->seen) {
        const int status = learn_for_lists(coverage, flow, step, first.ip);

        if (status != PTD_OK)
            return status;
    }
    ends->to = half_to(coverage, first.ip, first.cr3);
    ends->from = from | HALF_KNOWN;
    return PTD_OK;
}

/* Code that does not end in a conditional branch led to other code. */
static int list_pair(struct ptd_coverage *coverage, uint32_t from, uint32_t to)
{
    struct seen *const seen = &coverage->seen[from];

    if (!(coverage->ends[from].from & coverage->ends[to].to & HALF_COUNTS))
        return PTD_OK;
    if (seen->next != to) {
        const int status = ptd_entries_find(&coverage->edges, seen->from, coverage->seen[to].ip,
                                            seen->cr3, &seen->edge);

        if (status != PTD_OK)
            return status;
        seen->next = to;
    }
    if (seen->edge == ENTRY_NONE)
        coverage->sums.left_out++;
    else
        coverage->edges.list[seen->edge].count++;
    return PTD_OK;
}

/* All code of the run was learned. */
static int list_run(struct ptd_coverage *coverage, const struct ptd_run *run)
{
    const struct seen *last = NULL;
    int status = PTD_OK;

    for (size_t i = 0; i < run->count && status == PTD_OK; i++) {
        const uint32_t step = run->steps[i];
        struct seen *const seen = &coverage->seen[step >> 2];

        seen->runs[step & 1]++;
        if (last && !last->is_cond)
            status = list_pair(coverage, (uint32_t)(last - coverage->seen), step >> 2);
        last = seen;
    }
    if (status == PTD_OK && last && !last->is_cond &&
        (coverage->ends[last - coverage->seen].from & HALF_COUNTS))
        status = add_edge(coverage, last->from, run->to, last->cr3, 1);
    return status;
}

/* What steps were counted becomes entries. */
static int fold(struct ptd_coverage *coverage)
{
    for (size_t i = 0; coverage->seen && i < coverage->code_count; i++) {
        struct seen *const seen = &coverage->seen[i];
        const uint64_t runs[2] = {seen->runs[0], seen->runs[1]};

        if (runs[0] + runs[1] == 0)
            continue;
        for (unsigned bit = 0; seen->is_cond && bit < 2; bit++) {
            const int status =
                runs[bit] ? add_edge(coverage, seen->from, seen->to[bit], seen->cr3, runs[bit])
                          : PTD_OK;

            if (status != PTD_OK)
                return status;
            seen->runs[bit] = 0;
        }
        for (uint32_t b = 0; b < seen->block_count; b++)
            coverage->blocks.list[coverage->of_steps[seen->first_block + b]].count +=
                runs[0] + runs[1];
        seen->runs[0] = seen->runs[1] = 0;
    }
    return PTD_OK;
}

/* ---- Numbers of code ---- */

/* Numbers mean other code from here on, or entries other things. */
static void forget_code(struct ptd_coverage *coverage)
{
    if (coverage->code_count > 0) {
        memset(coverage->ends, 0, coverage->code_count * sizeof(*coverage->ends));
        if (coverage->seen)
            memset(coverage->seen, 0, coverage->code_count * sizeof(*coverage->seen));
    }
    coverage->code_count = coverage->of_steps_count = 0;
}

/* Arrays whose new elements are 0. */
static bool grow(void **array, size_t room, size_t new_room, size_t element_bytes)
{
    uint8_t *const bigger = reallocarray(*array, new_room, element_bytes);

    if (!bigger)
        return false;
    memset(bigger + room * element_bytes, 0, (new_room - room) * element_bytes);
    *array = bigger;
    return true;
}

/* Room for all numbers that the flow has given, which are of its epoch now. */
static int meet_code(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t epoch)
{
    size_t count, room = coverage->code_room ? coverage->code_room : 1024;

    if (coverage->is_other_flow || coverage->epoch != epoch) {
        const int status = fold(coverage);

        if (status != PTD_OK)
            return status;
        forget_code(coverage);
        coverage->epoch = epoch;
        coverage->is_other_flow = false;
    }
    (void)ptd_flow_insns(flow, &count);
    while (room < count)
        room *= 2;
    if (room > coverage->code_room) {
        if (!grow((void **)&coverage->ends, coverage->code_room, room, sizeof(*coverage->ends)) ||
            (coverage->config.lists &&
             !grow((void **)&coverage->seen, coverage->code_room, room, sizeof(*coverage->seen))))
            return PTD_E_NOMEM;
        coverage->code_room = room;
    }
    coverage->code_count = count;
    return PTD_OK;
}

/* ---- The interface ---- */

static bool is_valid(const struct ptd_coverage_config *config)
{
    if (config->counter > PTD_COVERAGE_SATURATE || config->hash > PTD_COVERAGE_LIBXDC ||
        (config->range_count > 0 && !config->ranges))
        return false;
    return !config->map || (config->map_bytes > 0 && config->map_bytes <= PTD_COVERAGE_MAP_MAX &&
                            (config->map_bytes & (config->map_bytes - 1)) == 0);
}

int ptd_coverage_new(const struct ptd_coverage_config *config, struct ptd_coverage **coverage)
{
    struct ptd_coverage *made;

    if (!is_valid(config))
        return PTD_E_ARG;
    made = calloc(1, sizeof(*made));
    if (!made)
        return PTD_E_NOMEM;
    made->config = *config;
    made->mask = config->map ? (uint32_t)(config->map_bytes - 1) : 0;
    made->is_other_flow = true;
    ptd_entries_init(&made->edges);
    ptd_entries_init(&made->blocks);
    if (config->range_count > 0) {
        made->ranges = calloc(config->range_count, sizeof(*made->ranges));
        if (!made->ranges) {
            ptd_coverage_free(made);
            return PTD_E_NOMEM;
        }
        memcpy(made->ranges, config->ranges, config->range_count * sizeof(*made->ranges));
    }
    made->config.ranges = made->ranges;
    *coverage = made;
    return PTD_OK;
}

void ptd_coverage_free(struct ptd_coverage *coverage)
{
    if (!coverage)
        return;
    ptd_flow_free(coverage->flow);
    ptd_entries_free(&coverage->edges);
    ptd_entries_free(&coverage->blocks);
    free(coverage->of_steps);
    free(coverage->ends);
    free(coverage->seen);
    free(coverage->ranges);
    free(coverage);
}

static int count_block(struct ptd_coverage *coverage, const struct ptd_image *image,
                       const struct ptd_item *block)
{
    uint32_t index;
    int status = PTD_OK;

    coverage->sums.insns += block->insns;
    if (coverage->config.lists) {
        status = find_block(coverage, image, block, &index);
        if (status == PTD_OK && index != ENTRY_NONE)
            coverage->blocks.list[index].count++;
    }
    if (status != PTD_OK || !block->has_to || !ends_in_edge(block))
        return status;
    count_one(coverage, half_from(coverage, block->last_ip, block->cr3), block->to, block->cr3);
    return coverage->config.lists ? add_edge(coverage, block->last_ip, block->to, block->cr3, 1)
                                  : PTD_OK;
}

int ptd_coverage_item(struct ptd_coverage *coverage, const struct ptd_image *image,
                      const struct ptd_item *item)
{
    struct ptd_coverage_sums *const sums = &coverage->sums;

    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        return count_block(coverage, image, item);
    case PTD_ITEM_OVERFLOW:
        sums->overflows++;
        return PTD_OK;
    case PTD_ITEM_ERROR:
        if (sums->errors++ == 0) {
            sums->first_error = item->error;
            sums->error_offset = item->offset;
            sums->error_ip = item->has_from ? item->from : 0;
        }
        sums->lost += item->value;
        return PTD_OK;
    default:
        return PTD_OK;
    }
}

static int add_steps(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                     const struct ptd_run *run)
{
    struct ptd_item block;
    uint32_t from;
    int status = meet_code(coverage, flow, run->epoch);

    if (status == PTD_OK)
        status = count_run(coverage, flow, run, &from);
    if (status != PTD_OK)
        return status;
    status = ptd_step_block(flow, run->steps[run->count - 1], 0, &block);
    if (status != PTD_OK)
        return status;
    count_one(coverage, from, run->to, block.cr3);
    return coverage->seen ? list_run(coverage, run) : PTD_OK;
}

int ptd_coverage_add(void *context, const struct ptd_flow *flow, const struct ptd_run *run)
{
    struct ptd_coverage *const coverage = context;
    const int status = run->count > 0 ? add_steps(coverage, flow, run) : PTD_OK;

    if (status != PTD_OK || !run->has_item)
        return status;
    return ptd_coverage_item(coverage, flow->blocks.image, &run->item);
}

void ptd_coverage_restart(struct ptd_coverage *coverage)
{
    coverage->is_other_flow = true;
}

/* The flow for a trace: that of the trace before, if it has the same image. */
static int begin_trace(struct ptd_coverage *coverage, const struct ptd_image *image,
                       const struct ptd_flow_config *config, const void *bytes, size_t len_bytes)
{
    if (coverage->flow && coverage->image == image) {
        ptd_flow_begin_trace(coverage->flow, bytes, len_bytes, config);
        return PTD_OK;
    }
    ptd_flow_free(coverage->flow);
    coverage->flow = ptd_flow_new(bytes, len_bytes, image, config);
    coverage->image = image;
    coverage->is_other_flow = true;
    return coverage->flow ? PTD_OK : PTD_E_NOMEM;
}

static int count_trace(struct ptd_coverage *coverage)
{
    struct ptd_run run = {.steps = coverage->steps, .room = ROOM, .timing = PTD_TIMING_NONE};
    int status;

    while ((status = ptd_flow_run(coverage->flow, &run)) == PTD_OK) {
        status = ptd_coverage_add(coverage, coverage->flow, &run);
        if (status != PTD_OK)
            return status;
    }
    return status == PTD_END ? PTD_OK : status;
}

/* Both together; the first error is that of the first that has one. */
static struct ptd_coverage_sums sum_up(const struct ptd_coverage_sums *before,
                                       const struct ptd_coverage_sums *trace)
{
    struct ptd_coverage_sums sums = before->errors > 0 ? *before : *trace;

    sums.edges = before->edges + trace->edges;
    sums.insns = before->insns + trace->insns;
    sums.errors = before->errors + trace->errors;
    sums.lost = before->lost + trace->lost;
    sums.overflows = before->overflows + trace->overflows;
    sums.left_out = before->left_out + trace->left_out;
    return sums;
}

int ptd_coverage_trace(struct ptd_coverage *coverage, const struct ptd_image *image,
                       const struct ptd_flow_config *config, const void *bytes, size_t len_bytes,
                       struct ptd_coverage_sums *sums)
{
    const struct ptd_coverage_sums before = coverage->sums;
    int status = begin_trace(coverage, image, config, bytes, len_bytes);

    coverage->sums = (struct ptd_coverage_sums){0};
    if (status == PTD_OK)
        status = count_trace(coverage);
    if (sums && status == PTD_OK)
        *sums = coverage->sums;
    coverage->sums = sum_up(&before, &coverage->sums);
    return status;
}

const struct ptd_coverage_sums *ptd_coverage_sums(const struct ptd_coverage *coverage)
{
    return &coverage->sums;
}

void ptd_coverage_clear(struct ptd_coverage *coverage)
{
    coverage->sums = (struct ptd_coverage_sums){0};
    if (coverage->seen)
        forget_code(coverage); /* it has indices of the lists */
    ptd_entries_clear(&coverage->edges);
    ptd_entries_clear(&coverage->blocks);
}

/* Entries that were counted: blocks are added as soon as their code is known. */
static int list(struct ptd_coverage *coverage, const struct entries *entries,
                const struct ptd_coverage_entry **list, size_t *count)
{
    int status;

    if (!coverage->config.lists)
        return PTD_E_ARG;
    status = fold(coverage);
    if (status != PTD_OK)
        return status;
    *list = entries->list;
    *count = entries->count;
    return PTD_OK;
}

int ptd_coverage_edges(struct ptd_coverage *coverage, const struct ptd_coverage_entry **entries,
                       size_t *count)
{
    return list(coverage, &coverage->edges, entries, count);
}

int ptd_coverage_blocks(struct ptd_coverage *coverage, const struct ptd_coverage_entry **entries,
                        size_t *count)
{
    return list(coverage, &coverage->blocks, entries, count);
}
