/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coverage (ptdec_coverage.h). What a step says by itself is only counted, by its number: that is
 * all that a conditional branch costs. Once in a trace, or when somebody asks, these counts are
 * spread into the map, the sums and the lists, which gives the same as one by one. A step that ends
 * in a RET or an indirect branch needs the next one. An edge's place in the map is made of two
 * halves, one of each end, that are found out once for each piece of code.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "flow/flow.h"
#include "ptdec_coverage.h"
#include "whole/entries.h"

#define ROOM (4u << 10) /* steps at a time: they stay in the nearest cache */
#define SOME 512u       /* of those, which are gone over twice */

/* Halves of places. The rest is the place, as far as it is this end's. */
#define HALF_COUNTS (UINT32_C(1) << 31) /* this end counts; an edge needs both */
#define HALF_FLAG   PTD_COVERAGE_MAP_MAX
#define TO_PENDING  HALF_FLAG /* the code is in coverage->pending */
#define FROM_PLAIN  HALF_FLAG /* that, and it ends in a conditional branch: counting is all */

_Static_assert(PTD_COVERAGE_MAP_MAX < HALF_COUNTS, "places and flags are apart");

/*
 * What is counted of code, and what it is as the end and the begin of edges. Its words are found by
 * step.
 */
struct code {
    uint32_t runs[2]; /* by bit 0 of steps; since they were spread */
    uint32_t to, from;
};

#define CODE_WORDS 4u
/* Of so many steps no count overflows, also if all that they stand for is the same code. */
#define PENDING_MOST (UINT32_MAX / PTD_STEP_EDGES)
#define FROM_WORD    3u

_Static_assert(sizeof(struct code) == CODE_WORDS * sizeof(uint32_t), "steps are numbers of words");
_Static_assert(offsetof(struct code, from) == FROM_WORD * sizeof(uint32_t), "the last word");

/* The same code, when its counts are spread. */
struct known {
    uint32_t insns;      /* 0: the code was not looked at yet */
    bool is_cond;        /* it ends in a conditional branch; */
    bool is_plain;       /* so does a compound step, too */
    uint8_t path_steps;  /* of a compound step: of how many it is made, from first_path on */
    uint32_t first_path; /* in coverage->paths */
    uint32_t place[2];   /* of a conditional branch's edges, by bit, with HALF_COUNTS */
};

/* One of the steps that a compound one is made of. */
struct path_step {
    uint32_t step;
    uint32_t place; /* of its edge; of the last, only if it is a conditional branch */
    uint32_t edge;  /* for lists, if the next is not where a conditional branch goes: that edge */
};

/* For lists, of the same code. */
struct seen {
    uint64_t runs[2];                  /* by bit 0 of steps; since the lists were made */
    uint32_t first_block, block_count; /* in coverage->of_steps */
    /* Where it went last if it does not end in a conditional branch, and that edge. */
    uint32_t next, edge;
    uint64_t ip, from; /* the first and the last instruction */
    uint64_t to[2];    /* of a conditional branch, by bit */
    uint64_t cr3;
};

struct ptd_coverage {
    struct ptd_coverage_config config;
    struct ptd_coverage_range *ranges;
    uint32_t mask; /* of places */
    uint8_t none;  /* stands for the map if there is none */
    struct ptd_coverage_sums sums;

    /* By number of code. */
    struct code *codes;
    struct known *known;
    struct seen *seen; /* NULL: no lists */
    uint32_t *pending; /* numbers of code whose counts are to be spread, or were at last */
    size_t code_room;  /* of each of these */
    size_t code_count; /* of the first three that may be in use */
    size_t pending_count;
    uint32_t pending_steps; /* at most so high is a count */
    uint32_t epoch;         /* that they are of */
    bool is_other_flow;     /* nothing that is known of numbers holds */
    uint32_t *of_steps;     /* indices of blocks, one piece of code behind the other */
    size_t of_steps_count, of_steps_room;
    struct path_step *paths; /* one compound step behind the other */
    size_t path_count, path_room;
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

/* Counts so often. The same as one by one, with other edges of the same place in between. */
static uint8_t raise(uint8_t byte, uint32_t count, enum ptd_coverage_counter counter)
{
    const uint64_t sum = (uint64_t)byte + count;

    if (sum <= UINT8_MAX || counter == PTD_COVERAGE_WRAP)
        return (uint8_t)sum;
    return counter == PTD_COVERAGE_SATURATE ? UINT8_MAX : (uint8_t)((sum - 1) % UINT8_MAX + 1);
}

/* An edge's place in the map, with HALF_COUNTS. */
static inline uint32_t place_of(const struct ptd_coverage *coverage, uint32_t from, uint32_t to)
{
    return ((from ^ to) & coverage->mask) | (from & to & HALF_COUNTS);
}

/*
 * Where edges are counted. A byte that is written may be anything, so that all else would be loaded
 * anew for each edge, were it not apart.
 */
struct counters {
    uint8_t *map;
    uint32_t mask;
    enum ptd_coverage_counter counter;
    uint64_t edges; /* how many were */
};

static inline struct counters counters_of(struct ptd_coverage *coverage)
{
    uint8_t *const map = coverage->config.map;

    return (struct counters){.map = map ? map : &coverage->none,
                             .mask = map ? coverage->mask : 0,
                             .counter = (enum ptd_coverage_counter)coverage->config.counter};
}

/* The edge of a place, which was taken so often. */
static inline void count_place(struct counters *counters, uint32_t place, uint32_t count)
{
    uint8_t *const byte = &counters->map[place & counters->mask];

    if (!(place & HALF_COUNTS))
        return;
    *byte = raise(*byte, count, counters->counter);
    counters->edges += count;
}

/* An edge that was taken so often. */
static inline void count_edge(struct ptd_coverage *coverage, uint32_t from, uint32_t to,
                              uint32_t count)
{
    struct counters counters = counters_of(coverage);

    count_place(&counters, place_of(coverage, from, to), count);
    coverage->sums.edges += counters.edges;
}

/* A compound step that ran so often. */
static void spread_path(struct ptd_coverage *coverage, const struct known *known, uint32_t count,
                        struct counters *counters)
{
    const struct path_step *const first = &coverage->paths[known->first_path];
    const struct path_step *const end = first + known->path_steps;

    for (const struct path_step *step = first; step < end; step++)
        count_place(counters, step->place, count);
    coverage->sums.insns += (uint64_t)known->insns * count;
}

/* The same for lists: what its steps are by themselves is added to what is pending. */
static void spread_for_lists(struct ptd_coverage *coverage, const struct known *known,
                             uint32_t count, struct counters *counters)
{
    const struct path_step *const steps = &coverage->paths[known->first_path];

    for (unsigned i = 0; i < known->path_steps; i++) {
        const uint32_t number = steps[i].step / CODE_WORDS;
        struct code *const code = &coverage->codes[number];

        if (!(code->to & TO_PENDING)) {
            coverage->pending[coverage->pending_count++] = number;
            code->to |= TO_PENDING;
        }
        code->runs[steps[i].step & 1] += count;
        if (coverage->known[number].is_cond || !(steps[i].place & HALF_COUNTS))
            continue;
        count_place(counters, steps[i].place, count);
        if (steps[i].edge == ENTRY_NONE)
            coverage->sums.left_out += count;
        else
            coverage->edges.list[steps[i].edge].count += count;
    }
}

static void spread_code(struct ptd_coverage *coverage, uint32_t number, struct counters *counters)
{
    const struct code *const code = &coverage->codes[number];
    const struct known *const known = &coverage->known[number];

    for (unsigned bit = 0; bit < 2; bit++) {
        if (known->is_cond)
            count_place(counters, known->place[bit], code->runs[bit]);
        if (coverage->seen)
            coverage->seen[number].runs[bit] += code->runs[bit];
        coverage->sums.insns += (uint64_t)known->insns * code->runs[bit];
    }
}

/*
 * Spreads what was counted by number. Without lists, what ran stays pending, since the next trace
 * is likely to run it as well.
 */
static void spread(struct ptd_coverage *coverage)
{
    const size_t met = coverage->pending_count; /* for lists, paths add to it */
    struct counters counters = counters_of(coverage);
    size_t kept = 0;

    if (coverage->pending_steps == 0)
        return;
    for (size_t i = 0; coverage->seen && i < met; i++) {
        const uint32_t number = coverage->pending[i];
        const struct known *const known = &coverage->known[number];

        if (known->path_steps > 0)
            spread_for_lists(coverage, known, coverage->codes[number].runs[0], &counters);
    }
    for (size_t i = 0; i < coverage->pending_count; i++) {
        const uint32_t number = coverage->pending[i];
        const struct known *const known = &coverage->known[number];
        struct code *const code = &coverage->codes[number];

        if (!coverage->seen && code->runs[0] + code->runs[1] > 0) {
            coverage->pending[kept++] = number;
        } else {
            code->to &= ~TO_PENDING;
            code->from &= ~FROM_PLAIN;
        }
        if (known->path_steps == 0)
            spread_code(coverage, number, &counters);
        else if (!coverage->seen)
            spread_path(coverage, known, code->runs[0], &counters);
        code->runs[0] = code->runs[1] = 0;
    }
    coverage->pending_count = kept;
    coverage->pending_steps = 0;
    coverage->sums.edges += counters.edges;
}

/* Drops it. */
static void spread_nowhere(struct ptd_coverage *coverage)
{
    uint8_t *const map = coverage->config.map;

    coverage->config.map = NULL;
    spread(coverage);
    coverage->config.map = map;
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

/* *index of a block, or ENTRY_NONE: it does not count, or the list is full. */
static int find_block(struct ptd_coverage *coverage, const struct ptd_item *block, uint32_t *index)
{
    *index = ENTRY_NONE;
    if (!in_ranges(coverage, block->ip, block->cr3))
        return PTD_OK;

    const int status = ptd_entries_find(&coverage->blocks, block->ip,
                                        block->last_ip + block->last_bytes, block->cr3, index);

    if (status == PTD_OK && *index == ENTRY_NONE)
        coverage->sums.left_out++;
    return status;
}

static int learn_block(struct ptd_coverage *coverage, const struct ptd_item *block)
{
    uint32_t index;
    const int status = find_block(coverage, block, &index);

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
        status = learn_block(coverage, &block);
        *last = block;
    }
    seen->block_count = (uint32_t)(coverage->of_steps_count - seen->first_block);
    return status;
}

static int learn_for_lists(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                           uint32_t step)
{
    struct seen *const seen = &coverage->seen[step / CODE_WORDS];
    struct ptd_item last = {0};
    const int status = learn_blocks(coverage, flow, step, seen, &last);

    seen->from = last.last_ip;
    seen->cr3 = last.cr3;
    seen->next = UINT32_MAX;
    return status;
}

/* Code that ends in a conditional branch: where that goes. last: as it was not taken. */
static void learn_branch(struct ptd_coverage *coverage, uint32_t number,
                         const struct ptd_item *last, const struct ptd_item *taken)
{
    const uint64_t ips[2] = {last->to, taken->to};
    const uint32_t from = coverage->codes[number].from;

    for (unsigned bit = 0; bit < 2; bit++) {
        const uint32_t to = half_to(coverage, ips[bit], last->cr3);

        coverage->known[number].place[bit] = place_of(coverage, from, to);
        if (coverage->seen)
            coverage->seen[number].to[bit] = ips[bit];
    }
}

/* Code that was not looked at before. */
static int learn(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t number)
{
    const uint32_t step = number * CODE_WORDS;
    struct code *const code = &coverage->codes[number];
    struct known *const known = &coverage->known[number];
    struct ptd_item first, block, last;
    size_t blocks = 1;

    if (ptd_step_block(flow, step, 0, &first) != PTD_OK)
        return PTD_E_ARG;
    last = first;
    for (; ptd_step_block(flow, step, blocks, &block) == PTD_OK; blocks++)
        last = block;
    code->to = half_to(coverage, first.ip, first.cr3);
    code->from = ends_in_edge(&last) ? half_from(coverage, last.last_ip, last.cr3) : 0;
    if (coverage->seen) {
        const int status = learn_for_lists(coverage, flow, step);

        if (status != PTD_OK)
            return status;
        coverage->seen[number].ip = first.ip;
    }
    known->is_cond = known->is_plain = last.last_class == PTD_INSN_COND;
    if (known->is_cond && ptd_step_block(flow, step | 1, blocks - 1, &block) == PTD_OK)
        learn_branch(coverage, number, &last, &block);
    known->insns = ptd_flow_insns(flow, NULL)[number];
    return PTD_OK;
}

static inline bool is_pending(const struct ptd_coverage *coverage, uint32_t number)
{
    return coverage->codes[number].to & TO_PENDING;
}

/* A step of a path is not the last: whereto it led, unless a conditional branch tells it. */
static int learn_path_edge(struct ptd_coverage *coverage, struct path_step *step, uint32_t to)
{
    const struct seen *const seen = coverage->seen;
    const uint32_t from = step->step / CODE_WORDS;

    if (coverage->known[from].is_cond)
        return PTD_OK;
    step->place = place_of(coverage, coverage->codes[from].from, coverage->codes[to].to);
    if (!seen || !(step->place & HALF_COUNTS))
        return PTD_OK;
    return ptd_entries_find(&coverage->edges, seen[from].from, seen[to].ip, seen[from].cr3,
                            &step->edge);
}

/* One more step of a path: the code of edge. */
static int learn_path_step(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                           uint32_t edge)
{
    const uint32_t number = edge / CODE_WORDS;
    const struct known *const known = &coverage->known[number];

    if (!array_grow((void **)&coverage->paths, &coverage->path_room, coverage->path_count,
                    sizeof(*coverage->paths)))
        return PTD_E_NOMEM;
    if (known->insns == 0) {
        const int status = learn(coverage, flow, number);

        if (status != PTD_OK)
            return status;
    }
    coverage->paths[coverage->path_count++] = (struct path_step){
        .step = edge, .place = known->is_cond ? known->place[edge & 1] : 0, .edge = ENTRY_NONE};
    return PTD_OK;
}

/* A compound step begins as its first step does, and ends as its last. */
static int learn_compound(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                          uint32_t number)
{
    struct known *const known = &coverage->known[number];
    uint32_t edges[PTD_STEP_EDGES];
    const int count = ptd_step_edges(flow, number * CODE_WORDS | PTD_STEP_COMPOUND, edges);
    uint32_t first, last;
    int status = count > 0 ? PTD_OK : PTD_E_ARG;

    known->first_path = (uint32_t)coverage->path_count;
    for (int i = 0; status == PTD_OK && i < count; i++) {
        status = learn_path_step(coverage, flow, edges[i]);
        if (status == PTD_OK && i > 0)
            status = learn_path_edge(coverage, &coverage->paths[coverage->path_count - 2],
                                     edges[i] / CODE_WORDS);
    }
    if (status != PTD_OK)
        return status;
    first = edges[0] / CODE_WORDS;
    last = edges[count - 1] / CODE_WORDS;
    coverage->codes[number].to = coverage->codes[first].to & ~TO_PENDING;
    coverage->codes[number].from = coverage->codes[last].from & ~FROM_PLAIN;
    if (coverage->seen) {
        coverage->seen[number] = (struct seen){.next = UINT32_MAX,
                                               .ip = coverage->seen[first].ip,
                                               .from = coverage->seen[last].from,
                                               .cr3 = coverage->seen[last].cr3};
    }
    known->path_steps = (uint8_t)count;
    known->is_plain = coverage->known[last].is_plain;
    known->insns = ptd_flow_insns(flow, NULL)[number];
    return PTD_OK;
}

/* A step whose counts will have to be spread. */
static int await(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t step)
{
    const uint32_t number = step / CODE_WORDS;
    struct code *const code = &coverage->codes[number];

    if (coverage->known[number].insns == 0) {
        const int status = step & PTD_STEP_COMPOUND ? learn_compound(coverage, flow, number)
                                                    : learn(coverage, flow, number);

        if (status != PTD_OK)
            return status;
    }
    coverage->pending[coverage->pending_count++] = number;
    code->to |= TO_PENDING;
    if (coverage->known[number].is_plain)
        code->from |= FROM_PLAIN;
    return PTD_OK;
}

/* A step whose counts will be spread, from now on or already. */
static inline int note(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t step)
{
    return is_pending(coverage, step / CODE_WORDS) ? PTD_OK : await(coverage, flow, step);
}

/* The same for lists: where it went is seldom another place than the time before. */
static int list_pair(struct ptd_coverage *coverage, uint32_t from, uint32_t to)
{
    struct seen *const seen = &coverage->seen[from];

    if (!(coverage->codes[from].from & coverage->codes[to].to & HALF_COUNTS))
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

/* Code that does not end in a conditional branch led to a step. */
static inline int count_pair(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                             uint32_t from, uint32_t step)
{
    const uint32_t to = step / CODE_WORDS;
    const int status = note(coverage, flow, step);

    if (status != PTD_OK)
        return status;
    count_edge(coverage, coverage->codes[from].from, coverage->codes[to].to, 1);
    return coverage->seen ? list_pair(coverage, from, to) : PTD_OK;
}

/* It led to an address, behind which the run ends. */
static int count_last(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t from,
                      uint64_t to)
{
    struct ptd_item block;
    const int status = ptd_step_block(flow, from * CODE_WORDS, 0, &block);

    if (status != PTD_OK)
        return status;
    count_edge(coverage, coverage->codes[from].from, half_to(coverage, to, block.cr3), 1);
    if (!coverage->seen || !(coverage->codes[from].from & HALF_COUNTS))
        return PTD_OK;
    return add_edge(coverage, coverage->seen[from].from, to, block.cr3, 1);
}

/* A step that may need the next one. */
static int count_other(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                       const struct ptd_run *run, size_t i)
{
    const uint32_t step = run->steps[i], number = step / CODE_WORDS;
    const int status = note(coverage, flow, step);

    if (status != PTD_OK)
        return status;
    if (coverage->codes[number].from & FROM_PLAIN)
        return PTD_OK;
    return i + 1 < run->count ? count_pair(coverage, flow, number, run->steps[i + 1])
                              : count_last(coverage, flow, number, run->to);
}

/*
 * Steps of a run from first to end. Which of them are not plain no processor foresees, so that they
 * are put aside without a branch.
 */
static int count_steps(struct ptd_coverage *coverage, const struct ptd_flow *flow,
                       const struct ptd_run *run, size_t first, size_t end)
{
    uint32_t *const words = coverage->codes->runs;
    uint16_t others[SOME] = {0};
    int status = PTD_OK;

    while (first < end) {
        const size_t next = end - first > SOME ? first + SOME : end;
        size_t count = 0;

        for (size_t i = first; i < next; i++) {
            const uint32_t step = run->steps[i];

            words[step & ~PTD_STEP_COMPOUND]++;
            others[count] = (uint16_t)(i - first);
            count += !(words[step | FROM_WORD] & FROM_PLAIN);
        }
        for (size_t i = 0; status == PTD_OK && i < count; i++)
            status = count_other(coverage, flow, run, first + others[i]);
        if (status != PTD_OK)
            return status;
        first = next;
    }
    return PTD_OK;
}

/* What steps were counted becomes entries. */
static int fold(struct ptd_coverage *coverage)
{
    spread(coverage);
    for (size_t i = 0; coverage->seen && i < coverage->code_count; i++) {
        struct seen *const seen = &coverage->seen[i];
        const uint64_t runs[2] = {seen->runs[0], seen->runs[1]};

        if (runs[0] + runs[1] == 0)
            continue;
        for (unsigned bit = 0; coverage->known[i].is_cond && bit < 2; bit++) {
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
        memset(coverage->codes, 0, coverage->code_count * sizeof(*coverage->codes));
        memset(coverage->known, 0, coverage->code_count * sizeof(*coverage->known));
        if (coverage->seen)
            memset(coverage->seen, 0, coverage->code_count * sizeof(*coverage->seen));
    }
    coverage->code_count = coverage->of_steps_count = coverage->path_count = 0;
    coverage->pending_count = coverage->pending_steps = 0;
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

/* Room for so many numbers of code, at least. */
static int make_room(struct ptd_coverage *coverage, size_t count)
{
    const size_t had = coverage->code_room;
    size_t room = had ? had : 1024;

    while (room < count)
        room *= 2;
    if (room == had)
        return PTD_OK;
    if (!grow((void **)&coverage->codes, had, room, sizeof(*coverage->codes)) ||
        !grow((void **)&coverage->known, had, room, sizeof(*coverage->known)) ||
        !grow((void **)&coverage->pending, had, room, sizeof(*coverage->pending)) ||
        (coverage->config.lists &&
         !grow((void **)&coverage->seen, had, room, sizeof(*coverage->seen))))
        return PTD_E_NOMEM;
    coverage->code_room = room;
    return PTD_OK;
}

/* Room for all numbers that the flow has given, which are of its epoch now. */
static int meet_code(struct ptd_coverage *coverage, const struct ptd_flow *flow, uint32_t epoch)
{
    size_t count;
    int status;

    if (coverage->is_other_flow || coverage->epoch != epoch) {
        status = fold(coverage);
        if (status != PTD_OK)
            return status;
        forget_code(coverage);
        coverage->epoch = epoch;
        coverage->is_other_flow = false;
    }
    (void)ptd_flow_insns(flow, &count);
    status = make_room(coverage, count);
    if (status == PTD_OK)
        coverage->code_count = count;
    return status;
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
    free(coverage->paths);
    free(coverage->codes);
    free(coverage->known);
    free(coverage->pending);
    free(coverage->seen);
    free(coverage->ranges);
    free(coverage);
}

static int count_block(struct ptd_coverage *coverage, const struct ptd_item *block)
{
    uint32_t index;
    int status = PTD_OK;

    coverage->sums.insns += block->insns;
    if (coverage->config.lists) {
        status = find_block(coverage, block, &index);
        if (status == PTD_OK && index != ENTRY_NONE)
            coverage->blocks.list[index].count++;
    }
    if (status != PTD_OK || !block->has_to || !ends_in_edge(block))
        return status;
    count_edge(coverage, half_from(coverage, block->last_ip, block->cr3),
               half_to(coverage, block->to, block->cr3), 1);
    return coverage->config.lists ? add_edge(coverage, block->last_ip, block->to, block->cr3, 1)
                                  : PTD_OK;
}

int ptd_coverage_item(struct ptd_coverage *coverage, const struct ptd_image *image,
                      const struct ptd_item *item)
{
    struct ptd_coverage_sums *const sums = &coverage->sums;

    (void)image;
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        return count_block(coverage, item);
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
    int status = meet_code(coverage, flow, run->epoch);

    for (size_t i = 0; status == PTD_OK && i < run->count;) {
        const size_t left = run->count - i, most = PENDING_MOST - coverage->pending_steps;
        const size_t count = left < most ? left : most;

        coverage->pending_steps += (uint32_t)count;
        status = count_steps(coverage, flow, run, i, i + count);
        i += count;
        if (coverage->pending_steps == PENDING_MOST)
            spread(coverage);
    }
    return status;
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
    struct ptd_flow_config with_compounds = {.mode = PTD_MODE_64};

    if (config)
        with_compounds = *config;
    with_compounds.compounds = true;
    if (coverage->flow && coverage->image == image) {
        ptd_flow_begin_trace(coverage->flow, bytes, len_bytes, &with_compounds);
        return PTD_OK;
    }
    ptd_flow_free(coverage->flow);
    coverage->flow = ptd_flow_new(bytes, len_bytes, image, &with_compounds);
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
            break;
    }
    spread(coverage);
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
    struct ptd_coverage_sums before;
    int status = begin_trace(coverage, image, config, bytes, len_bytes);

    spread(coverage);
    before = coverage->sums;
    coverage->sums = (struct ptd_coverage_sums){0};
    if (status == PTD_OK)
        status = count_trace(coverage);
    if (sums && status == PTD_OK)
        *sums = coverage->sums;
    coverage->sums = sum_up(&before, &coverage->sums);
    return status;
}

const struct ptd_coverage_sums *ptd_coverage_sums(struct ptd_coverage *coverage)
{
    spread(coverage);
    return &coverage->sums;
}

void ptd_coverage_clear(struct ptd_coverage *coverage)
{
    spread_nowhere(coverage);
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
