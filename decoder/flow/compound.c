/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "flow/compound.h"

/*
 * How many entries there is room for, at first and at most: 2 MiB. A quarter of that is used, so
 * that most entries stand where they are best; it is about what the caches of a core hold. Entries
 * that have to come from further away take longer than the single steps that they stand for.
 */
#define FIRST_ENTRIES (1u << ROOM_LOG2(10))
#define MOST_ENTRIES  (1u << ROOM_LOG2(17))
#define USED_LOG2     2u /* of entries, so much less is used */
#define VISITS        (1u << ROOM_LOG2(14))
#define PLACES        (2 * COMPOUND_LINE) /* that an entry may have */
#define CLAIMED       1u                  /* a key */

/*
 * Compound steps are taken while they are worth it, which each thread asks after each window: a
 * path that is not known costs as much as some known ones save. Otherwise steps are single ones for
 * a while, a longer one each time, so that a trace of ever new paths loses little. Each window that
 * was worth it shortens the next such while.
 */
#define WINDOW       (1u << ROOM_LOG2(14)) /* steps */
#define STEPS_A_MISS 32u                   /* the least that is worth it */
#define FIRST_PAUSE  (1u << ROOM_LOG2(17)) /* single steps */
#define PAUSE_LOG2   2u                    /* of how many times as long the next pause is */
/*
 * Of many short traces of the same code, a trial sees but a part, whose paths are known from then
 * on. So the next trial comes soon.
 */
#define SHORT_FAILURES 2u
#define LONG_FAILURES  16u

struct compounds_common {
    unsigned users;
    uint32_t count;            /* of entries that were added */
    uint32_t first_mask, mask; /* of places */
};

static const size_t table_bytes = MOST_ENTRIES * sizeof(struct compound);

/* ---- Memory ---- */

/* What those who share it have in common. False: no memory. */
static bool open_table(struct compounds *compounds, uint32_t entries)
{
    struct compounds_common *const common = calloc(1, sizeof(*common));

    compounds->common = common;
    compounds->entries =
        common ? ptd_pages_new(table_bytes, entries == MOST_ENTRIES ? table_bytes : 0) : NULL;
    if (!compounds->entries) {
        free(common);
        return false;
    }
    common->users = 1;
    common->mask = common->first_mask = compounds->mask = (entries - 1) << COMPOUND_LOG2;
    return true;
}

/* Nothing moves when it grows: there is room for all, and memory where something was written. */
struct compounds *ptd_compounds_new(bool is_long)
{
    struct compounds *const compounds = calloc(1, sizeof(*compounds));

    if (!compounds)
        return NULL;
    compounds->most_failures = is_long ? LONG_FAILURES : SHORT_FAILURES;
    compounds->visits = calloc(VISITS, sizeof(*compounds->visits));
    if (compounds->visits && open_table(compounds, is_long ? MOST_ENTRIES : FIRST_ENTRIES))
        return compounds;
    free(compounds->visits);
    free(compounds);
    return NULL;
}

struct compounds *ptd_compounds_share(const struct compounds *compounds)
{
    struct compounds *const other = calloc(1, sizeof(*other));

    if (!other)
        return NULL;
    *other = *compounds;
    other->trial = (struct trial){0};
    other->visits = calloc(VISITS, sizeof(*other->visits));
    if (!other->visits) {
        free(other);
        return NULL;
    }
    (void)__atomic_add_fetch(&compounds->common->users, 1, __ATOMIC_RELAXED);
    return other;
}

void ptd_compounds_free(struct compounds *compounds)
{
    if (!compounds)
        return;
    if (__atomic_sub_fetch(&compounds->common->users, 1, __ATOMIC_ACQ_REL) == 0) {
        ptd_pages_free(compounds->entries, table_bytes);
        free(compounds->common);
    }
    free(compounds->visits);
    free(compounds);
}

void ptd_compounds_empty(struct compounds *compounds)
{
    struct compounds_common *const common = compounds->common;

    if (common->count > 0)
        memset(compounds->entries, 0, (size_t)common->mask + sizeof(struct compound));
    common->count = 0;
    common->mask = compounds->mask = common->first_mask;
    compounds->trial = (struct trial){0};
}

static bool table_is_full(const struct compounds *compounds)
{
    return __atomic_load_n(&compounds->common->count, __ATOMIC_RELAXED) > MOST_ENTRIES >> USED_LOG2;
}

/* ---- Whether they are worth it ---- */

bool ptd_compounds_are_worth_it(const struct compounds *compounds)
{
    return compounds->trial.pause == 0;
}

static void judge_window(struct trial *trial, unsigned most_failures)
{
    if (!trial->is_judged) {
        trial->is_judged = true;
    } else if (trial->misses > trial->steps / STEPS_A_MISS) {
        trial->pause = (uint64_t)FIRST_PAUSE << PAUSE_LOG2 * trial->failures;
        trial->failures += trial->failures < most_failures;
        trial->is_judged = false;
    } else if (trial->failures > 0) {
        trial->failures--;
    }
}

void ptd_compounds_judge(struct compounds *compounds, size_t steps, size_t misses)
{
    struct trial *const trial = &compounds->trial;

    if (trial->pause > 0) {
        trial->pause -= steps < trial->pause ? steps : trial->pause;
        return;
    }
    trial->steps += steps;
    trial->misses += misses;
    if (trial->steps < WINDOW)
        return;
    judge_window(trial, compounds->most_failures);
    trial->steps = trial->misses = 0;
}

/* ---- Entries ---- */

/* One of the places that an entry may have: those of a line, the best first; then of another. */
static struct compound *place_of(const struct compound *entries, uint32_t mask, uint32_t at,
                                 uint64_t bits, uint32_t index)
{
    const uint32_t line = index < COMPOUND_LINE ? 0 : (at * 0x9e3779b1u) >> 12 | 1;
    const uint32_t from_best = line * COMPOUND_LINE + index % COMPOUND_LINE;
    const uint32_t place = ptd_compound_place(at, bits) ^ from_best << COMPOUND_LOG2;

    return (struct compound *)((uint8_t *)entries + (place & mask));
}

/* It is in the other line only if the first one was full. */
const struct compound *ptd_compound_find(const struct compound *entries, uint32_t mask, uint32_t at,
                                         uint64_t bits)
{
    const uint32_t key = ptd_compound_key(at, bits);
    bool is_full = true;

    for (uint32_t i = 0; i < PLACES && (i != COMPOUND_LINE || is_full); i++) {
        const struct compound *const entry = place_of(entries, mask, at, bits, i);
        const uint32_t has = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);

        if (has == key)
            return entry;
        is_full = is_full && has != 0;
    }
    return NULL;
}

/* A free place for an entry, which nobody else takes from now on. NULL: there is none. */
static struct compound *claim(const struct compounds *compounds, uint32_t at, uint64_t bits)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        struct compound *const entry = place_of(compounds->entries, compounds->mask, at, bits, i);
        uint32_t key = 0;

        if (__atomic_compare_exchange_n(&entry->key, &key, CLAIMED, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return entry;
    }
    return NULL;
}

static bool has_room(const struct compounds *compounds, uint32_t at, uint64_t bits)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (__atomic_load_n(&place_of(compounds->entries, compounds->mask, at, bits, i)->key,
                            __ATOMIC_RELAXED) == 0)
            return true;
    return false;
}

/* False: there is no room. */
static bool put(struct compounds *compounds, uint32_t at, uint64_t bits,
                const struct compound *from)
{
    struct compound *const entry = claim(compounds, at, bits);

    if (!entry)
        return false;
    entry->to = from->to;
    entry->more = from->more;
    __atomic_store_n(&entry->key, ptd_compound_key(at, bits), __ATOMIC_RELEASE);
    return true;
}

/* In a place of before the table was grown; NULL: it is not there. */
static const struct compound *find_old(const struct compounds *compounds, uint32_t at,
                                       uint64_t bits)
{
    const struct compound *old = NULL;

    for (uint32_t mask = compounds->mask; mask > compounds->common->first_mask && !old;) {
        mask = mask >> 1 & -(uint32_t)sizeof(struct compound);
        old = ptd_compound_find(compounds->entries, mask, at, bits);
    }
    return old;
}

/* Whether it came by before, as far as that is remembered; it is from now on. */
static bool visit(struct compounds *compounds, uint32_t at, uint64_t bits)
{
    const uint64_t hash = ptd_compound_key(at, bits) * 0x9e3779b97f4a7c15u;
    uint16_t *const place = &compounds->visits[hash >> 32 & (VISITS - 1)];
    const uint16_t tag = (uint16_t)(hash >> 48 | 1);

    if (*place == tag)
        return true;
    *place = tag;
    return false;
}

bool ptd_compounds_wants(struct compounds *compounds, uint32_t node, uint64_t bits)
{
    const uint32_t at = node << COMPOUND_NEXT_SHL;
    const struct compound *old;

    if (!visit(compounds, at, bits))
        return false;
    compounds->mask = __atomic_load_n(&compounds->common->mask, __ATOMIC_RELAXED);
    if (ptd_compound_find(compounds->entries, compounds->mask, at, bits) ||
        !has_room(compounds, at, bits))
        return false;
    old = find_old(compounds, at, bits);
    if (old)
        (void)put(compounds, at, bits, old);
    return !old && !table_is_full(compounds);
}

void ptd_compounds_add(struct compounds *compounds, uint32_t node, uint64_t bits,
                       const struct compound *entry)
{
    struct compounds_common *const common = compounds->common;
    const uint32_t most = (MOST_ENTRIES - 1) << COMPOUND_LOG2;
    uint32_t count;

    if (!put(compounds, node << COMPOUND_NEXT_SHL, bits, entry))
        return;
    count = __atomic_add_fetch(&common->count, 1, __ATOMIC_RELAXED);
    if (count > compounds->mask >> (COMPOUND_LOG2 + USED_LOG2) && compounds->mask < most) {
        compounds->mask = compounds->mask << 1 | 1u << COMPOUND_LOG2;
        __atomic_store_n(&common->mask, compounds->mask, __ATOMIC_RELAXED);
    }
}

/* ---- What a step stands for ---- */

unsigned ptd_compound_edges(const struct graph *graph, uint32_t step, uint32_t *edges)
{
    const struct node *const compound = ptd_node(graph, ptd_step_node(step));
    uint32_t id = compound->next[0], stack[COMPOUND_BITS];
    unsigned depth = 0;

    for (unsigned i = 0; i < compound->parts; i++) {
        const struct node *const node = ptd_node(graph, id);
        const unsigned bit = compound->next[1] >> (31 - i) & 1;

        if (node->pops) {
            edges[i] = ptd_node_step(id, 0);
            id = depth > 0 ? stack[--depth] : 0;
        } else {
            if (node->calls)
                stack[depth++] = node->ret;
            edges[i] = ptd_node_step(id, bit);
            id = ptd_node_next(node, bit);
        }
    }
    return compound->parts;
}
