/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "flow/compound.h"

/*
 * Sets of two entries, at first and at most: 2 MiB, about what caches hold. Entries that have to
 * come from further away take longer than the single steps that they stand for. So a trace that has
 * more paths than half of the entries goes on in single steps.
 */
#define FIRST_SETS (1u << ROOM_LOG2(9))
#define MOST_SETS  (1u << ROOM_LOG2(15))
#define VISITS     (1u << ROOM_LOG2(14))
#define PLACES     4u /* that an entry may have */
#define CLAIMED    1u /* a key */

struct compounds_common {
    unsigned users;
    uint32_t count;            /* of entries that were added */
    uint32_t first_mask, mask; /* of sets */
};

static const size_t table_bytes = MOST_SETS * 2 * sizeof(struct compound);

/* ---- Memory ---- */

/* What those who share it have in common. False: no memory. */
static bool open_table(struct compounds *compounds, uint32_t sets)
{
    struct compounds_common *const common = calloc(1, sizeof(*common));

    compounds->common = common;
    compounds->entries =
        common ? ptd_pages_new(table_bytes, sets == MOST_SETS ? table_bytes : 0) : NULL;
    if (!compounds->entries) {
        free(common);
        return false;
    }
    common->users = 1;
    common->mask = common->first_mask = compounds->mask = sets - 1;
    return true;
}

/* Nothing moves when it grows: there is room for all, and memory where something was written. */
struct compounds *ptd_compounds_new(bool is_long)
{
    struct compounds *const compounds = calloc(1, sizeof(*compounds));

    if (!compounds)
        return NULL;
    compounds->visits = calloc(VISITS, sizeof(*compounds->visits));
    if (compounds->visits && open_table(compounds, is_long ? MOST_SETS : FIRST_SETS))
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
        memset(compounds->entries, 0, ((size_t)common->mask + 1) * 2 * sizeof(struct compound));
    common->count = 0;
    common->mask = compounds->mask = common->first_mask;
}

bool ptd_compounds_are_full(const struct compounds *compounds)
{
    return __atomic_load_n(&compounds->common->count, __ATOMIC_RELAXED) > MOST_SETS;
}

/* ---- Entries ---- */

/* One of the places that an entry may have. */
static struct compound *place_of(const struct compounds *compounds, uint32_t node, uint64_t bits,
                                 uint32_t index)
{
    const uint32_t first = ptd_compound_set(node, bits) & compounds->mask;
    const uint32_t set = index < 2 ? first : ptd_compound_other_set(compounds->mask, first, node);

    return &compounds->entries[2 * (size_t)set + index % 2];
}

/* A free place for an entry, which nobody else takes from now on. NULL: there is none. */
static struct compound *claim(const struct compounds *compounds, uint32_t node, uint64_t bits)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        struct compound *const entry = place_of(compounds, node, bits, i);
        uint64_t key = 0;

        if (__atomic_compare_exchange_n(&entry->key, &key, CLAIMED, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return entry;
    }
    return NULL;
}

static bool has_room(const struct compounds *compounds, uint32_t node, uint64_t bits)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (__atomic_load_n(&place_of(compounds, node, bits, i)->key, __ATOMIC_RELAXED) == 0)
            return true;
    return false;
}

/* False: there is no room. */
static bool put(struct compounds *compounds, uint32_t node, uint64_t bits,
                const struct compound *from)
{
    struct compound *const entry = claim(compounds, node, bits);

    if (!entry)
        return false;
    entry->next = from->next;
    entry->step = from->step;
    entry->bits = from->bits;
    entry->rise = from->rise;
    entry->fall = from->fall;
    entry->pushes = from->pushes;
    memcpy(entry->push, from->push, sizeof(entry->push));
    __atomic_store_n(&entry->key, ptd_compound_key(node, bits), __ATOMIC_RELEASE);
    return true;
}

/* In a place of before the table was grown; NULL: it is not there. */
static const struct compound *find_old(const struct compounds *compounds, uint32_t node,
                                       uint64_t bits)
{
    const struct compound *old = NULL;

    for (uint32_t mask = compounds->mask; mask > compounds->common->first_mask && !old;) {
        mask >>= 1;
        old = ptd_compound_find(compounds->entries, mask, node, bits);
    }
    return old;
}

/* Whether it came by before, as far as that is remembered; it is from now on. */
static bool visit(struct compounds *compounds, uint32_t node, uint64_t bits)
{
    const uint64_t hash = ptd_compound_key(node, bits) * 0x9e3779b97f4a7c15u;
    uint16_t *const place = &compounds->visits[hash >> 32 & (VISITS - 1)];
    const uint16_t tag = (uint16_t)(hash >> 48 | 1);

    if (*place == tag)
        return true;
    *place = tag;
    return false;
}

bool ptd_compounds_wants(struct compounds *compounds, uint32_t node, uint64_t bits)
{
    const struct compound *old;

    if (!visit(compounds, node, bits) || ptd_compounds_are_full(compounds))
        return false;
    compounds->mask = __atomic_load_n(&compounds->common->mask, __ATOMIC_RELAXED);
    if (ptd_compound_find(compounds->entries, compounds->mask, node, bits) ||
        !has_room(compounds, node, bits))
        return false;
    old = find_old(compounds, node, bits);
    if (old)
        (void)put(compounds, node, bits, old);
    return !old;
}

void ptd_compounds_add(struct compounds *compounds, uint32_t node, uint64_t bits,
                       const struct compound *entry)
{
    struct compounds_common *const common = compounds->common;
    uint32_t count;

    if (!put(compounds, node, bits, entry))
        return;
    count = __atomic_add_fetch(&common->count, 1, __ATOMIC_RELAXED);
    if (count > compounds->mask && compounds->mask < MOST_SETS - 1) {
        compounds->mask = 2 * compounds->mask + 1;
        __atomic_store_n(&common->mask, compounds->mask, __ATOMIC_RELAXED);
    }
}

/* ---- What a step stands for ---- */

unsigned ptd_compound_edges(const struct graph *graph, uint32_t step, uint32_t *edges)
{
    const struct node *const compound = ptd_node(graph, step);
    uint32_t id = compound->next[0], stack[COMPOUND_BITS];
    unsigned depth = 0;

    for (unsigned i = 0; i < compound->parts; i++) {
        const struct node *const node = ptd_node(graph, id);
        const unsigned bit = compound->next[1] >> (31 - i) & 1;

        if (node->pops) {
            edges[i] = id;
            id = depth > 0 ? stack[--depth] : 0;
        } else {
            if (node->calls)
                stack[depth++] = node->ret;
            edges[i] = id | bit;
            id = ptd_node_next(node, bit);
        }
    }
    return compound->parts;
}
