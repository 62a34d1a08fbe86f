/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of steps. Lists keep the work in proportion to the steps, however many of them the code
 * has: those that ran since the last time that was told, those that the sink has to be told of,
 * those that were seen, and blocks that were no part of a step.
 */
#include "report/tally.h"
#include "common/hash.h"
#include "common/list.h"

#include <stdlib.h>
#include <string.h>

/* A longer time than this, minutes on any processor, is not that of what ran. */
#define LONGEST (UINT64_C(1) << 40)
/* Sums of times are handed on before they could grow too large: after so many ticks. */
#define FLUSH_TICKS (UINT64_C(1) << 44)

#define LOOSE_ROOM 4096u /* a power of two */

/* A step, in one outcome. */
struct step {
    uint64_t pending; /* how often it ran since the last time */
    uint64_t count;   /* before, not handed on yet */
    uint64_t time;    /* of count: of each instruction */
    uint64_t rest;    /* of its last block, besides */
    uint32_t first_block;
    uint32_t insns; /* 0: it was not seen in this epoch */
};

/* A block that is no part of a step. */
struct loose {
    struct tally_block block;
    bool taken;
    uint64_t pending;
};

struct list {
    uint32_t *steps; /* numbers */
    size_t count, room;
};

struct tally {
    const struct tally_sink *sink;
    void *owner;

    struct step *steps; /* by number of code, and whether the branch was taken */
    size_t step_room;
    struct tally_block *blocks;
    size_t block_count, block_room;
    struct list pending, counted, seen;
    uint32_t last; /* of those that are pending: the number of the step that ran last */
    uint32_t epoch;
    struct loose loose[LOOSE_ROOM];
    size_t loose_count;
    uint16_t loose_at[LOOSE_ROOM]; /* where a block may stand in loose, by its id */

    bool is_muted;   /* tally_mute() */
    bool is_off;     /* tracing is */
    bool is_awaited; /* a CYC packet came: what runs next did so in front of it */
    uint64_t insns;
    uint64_t batch; /* instructions since the last time */
    uint64_t now, cycles;
    uint64_t due;                   /* ticks that those have to share */
    uint64_t since_flush, untraced; /* ticks */
};

struct tally *tally_new(const struct tally_sink *sink, void *owner)
{
    struct tally *const tally = calloc(1, sizeof(*tally));

    if (tally) {
        tally->sink = sink;
        tally->owner = owner;
        tally_restart(tally);
    }
    return tally;
}

void tally_free(struct tally *tally)
{
    if (!tally)
        return;
    free(tally->steps);
    free(tally->blocks);
    free(tally->pending.steps);
    free(tally->counted.steps);
    free(tally->seen.steps);
    free(tally);
}

static bool push(struct list *list, uint32_t step)
{
    uint32_t *const grown = list_grow(list->steps, list->count, &list->room, sizeof(*grown));

    if (!grown)
        return false;
    list->steps = grown;
    list->steps[list->count++] = step;
    return true;
}

/* ---- Time ---- */

/* What an interval gives to each instruction, and what division leaves over, in parts of a tick. */
struct share {
    uint64_t rate, rest;
};

static struct share share_out(uint64_t ticks, uint64_t insns)
{
    const uint64_t time = ticks << TALLY_FRACTION;

    return (struct share){time / insns, time % insns};
}

/* Its share to a loose block, and to the last one of all the rest, so that nothing is lost. */
static bool settle_loose(struct tally *tally, const struct loose *loose, const struct share *share,
                         bool is_last)
{
    const struct tally_sink *const sink = tally->sink;

    return sink->add(tally->owner, &loose->block, loose->taken, loose->pending,
                     loose->pending * loose->block.insns * share->rate) &&
           (!is_last || share->rest == 0 ||
            sink->add(tally->owner, &loose->block, loose->taken, 0, share->rest));
}

/*
 * What is pending shares so many ticks. What division leaves over goes to the step that ran last,
 * whose last block is the same whether it is a compound step or not.
 */
static bool settle(struct tally *tally, uint64_t ticks)
{
    struct share share;

    if (tally->batch == 0)
        return true;
    share = share_out(ticks, tally->batch);
    tally->since_flush += ticks;
    for (size_t i = 0; i < tally->loose_count; i++) {
        const struct loose *const loose = &tally->loose[i];
        const bool is_last = i + 1 == tally->loose_count && tally->pending.count == 0;

        if (!settle_loose(tally, loose, &share, is_last))
            return false;
    }
    for (size_t i = 0; i < tally->pending.count; i++) {
        struct step *const step = &tally->steps[tally->pending.steps[i]];

        if (step->count == 0 && !push(&tally->counted, tally->pending.steps[i]))
            return false;
        step->time += step->pending * share.rate;
        step->rest += tally->pending.steps[i] == tally->last ? share.rest : 0;
        step->count += step->pending;
        step->pending = 0;
    }
    tally->loose_count = tally->pending.count = 0;
    tally->batch = 0;
    return true;
}

/* What ran takes the time that is due; where nothing did, what runs next will. */
static bool settle_due(struct tally *tally)
{
    const uint64_t due = tally->due;

    tally->is_awaited = false;
    if (tally->batch == 0)
        return true;
    tally->due = 0;
    return settle(tally, due) && (tally->since_flush < FLUSH_TICKS || tally_flush(tally));
}

/* Nothing new is told by a time. */
static bool tells_nothing(const struct tally *tally, uint64_t tsc, uint64_t cycles)
{
    if (tsc == PTD_TIME_UNKNOWN)
        return true;
    return tally->now != PTD_TIME_UNKNOWN && tsc <= tally->now && cycles == tally->cycles;
}

/* The time goes on, by no more than something can have taken. */
static bool is_usual(const struct tally *tally, uint64_t tsc)
{
    return tally->now != PTD_TIME_UNKNOWN && tsc > tally->now &&
           tsc - tally->now < LONGEST - tally->due;
}

bool tally_time(struct tally *tally, uint64_t tsc, uint64_t cycles)
{
    const bool is_first = tally->now == PTD_TIME_UNKNOWN, is_of_cyc = cycles != tally->cycles;
    const uint64_t passed = is_first || tsc <= tally->now ? 0 : tsc - tally->now;

    if (tells_nothing(tally, tsc, cycles))
        return true;
    tally->now = is_first ? tsc : tally->now + passed;
    tally->cycles = cycles;
    if (tally->is_awaited && is_of_cyc && !settle_due(tally))
        return false;
    if (passed >= LONGEST || tally->due + passed >= LONGEST ||
        (tally->is_off && (tally->batch == 0 || is_of_cyc)))
        tally->untraced += tally->is_muted ? 0 : passed;
    else
        tally->due += passed;
    tally->is_awaited = tally->is_awaited || (is_of_cyc && !tally->is_off);
    return tally->is_awaited || settle_due(tally);
}

uint64_t tally_now(const struct tally *tally)
{
    return tally->now;
}

uint64_t tally_insns(const struct tally *tally)
{
    return tally->insns;
}

uint64_t tally_untraced(const struct tally *tally)
{
    return tally->untraced;
}

void tally_forget(struct tally *tally)
{
    for (size_t i = 0; i < tally->seen.count; i++)
        tally->steps[tally->seen.steps[i]] = (struct step){0};
    tally->seen.count = 0;
    tally->block_count = 0;
}

void tally_restart(struct tally *tally)
{
    tally_forget(tally);
    tally->is_off = true;
    tally->is_awaited = false;
    tally->now = PTD_TIME_UNKNOWN;
    tally->cycles = 0;
    tally->due = 0;
}

/* ---- Handing on ---- */

/* A step's time, by the instructions of its blocks. */
static bool hand_on(struct tally *tally, uint32_t number)
{
    struct step *const step = &tally->steps[number];
    const struct tally_block *block = &tally->blocks[step->first_block];

    for (;; block++) {
        if (!tally->sink->add(tally->owner, block, block->taken, step->count,
                              step->time * block->insns))
            return false;
        if (block->is_last)
            break;
    }
    if (step->rest > 0 && !tally->sink->add(tally->owner, block, block->taken, 0, step->rest))
        return false;
    step->count = step->time = step->rest = 0;
    return true;
}

static bool hand_on_all(struct tally *tally)
{
    for (size_t i = 0; i < tally->counted.count; i++) {
        if (!hand_on(tally, tally->counted.steps[i]))
            return false;
    }
    tally->counted.count = 0;
    tally->since_flush = 0;
    return true;
}

bool tally_flush(struct tally *tally)
{
    const uint64_t due = tally->batch > 0 ? tally->due : 0;

    tally->due -= due;
    tally->is_awaited = false;
    return settle(tally, due) && hand_on_all(tally);
}

/* Where nothing has told a time yet, what ran waits for none. */
bool tally_mute(struct tally *tally, bool is_muted)
{
    tally->is_muted = is_muted;
    return (tally->now != PTD_TIME_UNKNOWN || settle(tally, 0)) && hand_on_all(tally);
}

static uint64_t add_block(const struct tally *tally, uint64_t hash, const struct tally_block *block)
{
    return hash_more(hash_more(hash, tally->sink->fingerprint(tally->owner, block->id)),
                     (uint64_t)block->insns << 8 | block->last_class);
}

static uint64_t add_step(const struct tally *tally, uint64_t hash, uint32_t number)
{
    const struct step *const step = &tally->steps[number];
    const struct tally_block *block = &tally->blocks[step->first_block];

    hash = hash_more(hash, step->pending << 1 | (number & 1));
    for (; !block->is_last; block++)
        hash = add_block(tally, hash, block);
    return add_block(tally, hash, block);
}

uint64_t tally_fingerprint(const struct tally *tally)
{
    uint64_t hash = (uint64_t)tally->is_off << 1 | tally->is_awaited;

    hash = hash_more(hash_more(hash, tally->now), tally->cycles);
    if (tally->now == PTD_TIME_UNKNOWN)
        return hash;
    hash = hash_more(hash_more(hash, tally->due), tally->batch);
    for (size_t i = 0; i < tally->loose_count; i++) {
        const struct loose *const loose = &tally->loose[i];

        hash = hash_more(hash, loose->pending << 1 | loose->taken);
        hash = add_block(tally, hash, &loose->block);
    }
    for (size_t i = 0; i < tally->pending.count; i++) {
        const uint32_t number = tally->pending.steps[i];

        hash = hash_more(add_step(tally, hash, number), number == tally->last);
    }
    return hash;
}

static bool begin_epoch(struct tally *tally, uint32_t epoch)
{
    if (!tally_flush(tally))
        return false;
    tally_forget(tally); /* numbers of code mean other code from here on */
    tally->epoch = epoch;
    return true;
}

/* ---- Counting ---- */

static struct tally_block *new_block(struct tally *tally)
{
    struct tally_block *const grown =
        list_grow(tally->blocks, tally->block_count, &tally->block_room, sizeof(*grown));

    if (!grown)
        return NULL;
    tally->blocks = grown;
    return &tally->blocks[tally->block_count++];
}

static bool see(struct tally *tally, const struct ptd_item *item, struct tally_block *block)
{
    *block = (struct tally_block){.id = tally->sink->see(tally->owner, item),
                                  .insns = item->insns,
                                  .last_class = item->last_class,
                                  .taken = item->taken,
                                  .is_last = true};
    return block->id != UINT32_MAX;
}

static uint32_t number_of(uint32_t step)
{
    return (step >> 2) * 2 + (step & 1);
}

static bool see_step(struct tally *tally, const struct ptd_flow *flow, uint32_t number,
                     struct step *step)
{
    struct ptd_item item;

    if (!push(&tally->seen, number_of(number)))
        return false;
    step->first_block = (uint32_t)tally->block_count;
    for (size_t i = 0; ptd_step_block(flow, number, i, &item) == PTD_OK; i++) {
        struct tally_block *const block = new_block(tally);

        if (!block || !see(tally, &item, block))
            return false;
        if (i > 0)
            block[-1].is_last = false;
        step->insns += block->insns;
    }
    return true;
}

/* Room for all steps that there can be by now. */
static bool grow_steps(struct tally *tally, const struct ptd_flow *flow)
{
    size_t codes, room = tally->step_room;
    struct step *grown;

    (void)ptd_flow_insns(flow, &codes);
    if (2 * codes <= room)
        return true;
    while (room < 2 * codes)
        room = room ? 2 * room : 1024;
    grown = reallocarray(tally->steps, room, sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + tally->step_room, 0, (room - tally->step_room) * sizeof(*grown));
    tally->steps = grown;
    tally->step_room = room;
    return true;
}

static bool count_all(struct tally *tally, const struct ptd_flow *flow, const uint32_t *numbers,
                      size_t count)
{
    uint32_t number = tally->last;
    uint64_t insns = 0;

    for (size_t i = 0; i < count; i++) {
        struct step *step;

        number = number_of(numbers[i]);
        step = &tally->steps[number];

        if (step->insns == 0 && !see_step(tally, flow, numbers[i], step))
            return false;
        if (step->pending++ == 0 && !push(&tally->pending, number))
            return false;
        insns += step->insns;
    }
    tally->last = number;
    tally->batch += insns;
    tally->insns += insns;
    tally->is_off = tally->is_off && count == 0;
    return true;
}

/* ---- Steps whose time is known ---- */

/* The instructions of steps, all of which are seen then. False: no memory. */
static bool add_up(struct tally *tally, const struct ptd_flow *flow, const uint32_t *steps,
                   size_t count, uint64_t *insns)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        struct step *const step = &tally->steps[number_of(steps[i])];

        if (step->insns == 0 && !see_step(tally, flow, steps[i], step))
            return false;
        sum += step->insns;
    }
    *insns = sum;
    return true;
}

static bool give(struct tally *tally, const uint32_t *steps, size_t count, uint64_t rate)
{
    for (size_t i = 0; i < count; i++) {
        struct step *const step = &tally->steps[number_of(steps[i])];

        if (step->count++ == 0 && !push(&tally->counted, number_of(steps[i])))
            return false;
        step->time += rate;
    }
    return true;
}

/*
 * What count_all() and settle_due() do where nothing else waits for a time, without a list of what
 * does: first it is known how much there is to share, then each step gets its share.
 */
static bool count_due(struct tally *tally, const struct ptd_flow *flow, const uint32_t *steps,
                      size_t count)
{
    const uint64_t due = tally->due;
    struct share share;
    uint64_t insns;

    if (!add_up(tally, flow, steps, count, &insns))
        return false;
    share = share_out(due, insns);
    if (!give(tally, steps, count, share.rate))
        return false;
    tally->steps[number_of(steps[count - 1])].rest += share.rest;
    tally->insns += insns;
    tally->is_off = tally->is_awaited = false;
    tally->due = 0;
    tally->since_flush += due;
    return tally->since_flush < FLUSH_TICKS || tally_flush(tally);
}

/* ---- Runs ---- */

/* Those of a run that are not counted yet: from one on, up to where the last mark stood. */
struct uncounted {
    const uint32_t *steps; /* of the run */
    size_t from, to;
};

static bool count_them(struct tally *tally, const struct ptd_flow *flow, struct uncounted *left)
{
    const size_t from = left->from;

    left->from = left->to;
    return count_all(tally, flow, left->steps + from, left->to - from);
}

/*
 * Of a TNT packet, the first branch is what its CYC packet is about (SDM 33.3.6.2): the first of
 * what the step behind the mark stands for.
 */
static bool count_awaited(struct tally *tally, const struct ptd_flow *flow, struct uncounted *left)
{
    const uint32_t step = left->steps[left->to];
    uint32_t edges[PTD_STEP_EDGES];
    size_t from;
    int count;

    if (tally->batch == 0 && !(step & PTD_STEP_COMPOUND)) {
        from = left->from;
        left->from = ++left->to;
        return count_due(tally, flow, left->steps + from, left->to - from);
    }
    if (!count_them(tally, flow, left))
        return false;
    left->from = ++left->to;
    count = ptd_step_edges(flow, step, edges);
    return count > 0 && count_all(tally, flow, edges, 1) && settle_due(tally) &&
           count_all(tally, flow, edges + 1, (size_t)count - 1);
}

/* The time at a mark. What is left waits for another one, or gets what is due. */
static bool pass_point(struct tally *tally, const struct ptd_flow *flow, struct uncounted *left,
                       const struct ptd_time_point *point)
{
    const bool is_of_cyc = point->cycles != tally->cycles;
    const size_t count = left->to - left->from;

    if (tells_nothing(tally, point->tsc, point->cycles))
        return true;
    if (is_of_cyc != tally->is_awaited) { /* what runs next, and is awaited, settles all */
        tally->is_off = tally->is_off && count == 0;
        return tally_time(tally, point->tsc, point->cycles);
    }
    if (count > 0 && !is_of_cyc && tally->batch == 0 && is_usual(tally, point->tsc)) {
        tally->due += point->tsc - tally->now;
        tally->now = point->tsc;
        left->from = left->to;
        return count_due(tally, flow, left->steps + left->to - count, count);
    }
    return count_them(tally, flow, left) && tally_time(tally, point->tsc, point->cycles);
}

/* There is room for the steps of a run, and their numbers mean its code. */
static bool begin_run(struct tally *tally, const struct ptd_flow *flow, const struct ptd_run *run)
{
    if (run->count == 0)
        return true;
    return (run->epoch == tally->epoch || begin_epoch(tally, run->epoch)) &&
           grow_steps(tally, flow);
}

bool tally_steps(struct tally *tally, const struct ptd_flow *flow, const struct ptd_run *run,
                 const struct ptd_time_point *points)
{
    const size_t marks = points ? run->mark_count : 0;
    struct uncounted left = {.steps = run->steps};

    if (!begin_run(tally, flow, run))
        return false;
    for (size_t i = 0; i <= marks; i++) {
        const size_t next = i < marks ? run->marks[i].step : run->count;

        if (tally->is_awaited && next > left.to && !count_awaited(tally, flow, &left))
            return false;
        left.to = next;
        if (i < marks && !pass_point(tally, flow, &left, &points[i]))
            return false;
    }
    return count_them(tally, flow, &left);
}

/* Among those that wait for a time; where there is no room, they get it too soon. */
static bool put_loose(struct tally *tally, uint64_t ip, const struct tally_block *block, bool taken)
{
    uint16_t *const at = &tally->loose_at[ip & (LOOSE_ROOM - 1)];
    struct loose *loose = &tally->loose[*at];

    if (*at < tally->loose_count && loose->block.id == block->id &&
        loose->block.insns == block->insns && loose->block.last_class == block->last_class &&
        loose->taken == taken) {
        loose->pending++;
        return true;
    }
    if (tally->loose_count == LOOSE_ROOM && !settle(tally, 0))
        return false;
    *at = (uint16_t)tally->loose_count;
    tally->loose[tally->loose_count++] =
        (struct loose){.block = *block, .taken = taken, .pending = 1};
    return true;
}

static bool count_block(struct tally *tally, const struct ptd_item *item)
{
    struct tally_block block;

    if (!see(tally, item, &block) || !put_loose(tally, item->ip, &block, item->taken))
        return false;
    tally->insns += block.insns;
    tally->batch += block.insns;
    tally->is_off = false;
    return !tally->is_awaited || settle_due(tally);
}

bool tally_item(struct tally *tally, const struct ptd_item *item)
{
    switch (item->type) {
    case PTD_ITEM_BLOCK:
        return count_block(tally, item);
    case PTD_ITEM_ENABLED:
        tally->is_off = false;
        break;
    case PTD_ITEM_DISABLED:
        tally->is_off = true;
        return settle_due(tally);
    case PTD_ITEM_PSB:
    case PTD_ITEM_OVERFLOW:
    case PTD_ITEM_ERROR:
        tally->is_off = !item->has_to;
        break;
    default:
        break;
    }
    return true;
}
