/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compound steps: what several TNT bits in a row led to the last time is remembered, and is one
 * step from then on. A path begins at a node and ends behind so many bits, behind a RET whose CALL
 * is not on the path, or in front of what bulk.c does not take in its loop. CALLs and RETs on the
 * path that belong together leave nothing on the CALL stack but how deep it was.
 *
 * The table holds sets of two entries and is never rearranged, so that threads share it without a
 * lock: an entry is claimed, then written, and its key comes last. It does not change after that.
 * Where the table is grown, entries are copied when they are needed.
 */
#ifndef PTD_COMPOUND_H
#define PTD_COMPOUND_H

#include "flow/node.h"

#define COMPOUND_BITS   12u /* the most that a path takes */
#define COMPOUND_PUSHES 3u  /* the most CALLs that a path leaves on the stack, at any time */
#define COMPOUND_FLAG   2u  /* of a step: it is a compound one */

_Static_assert(COMPOUND_BITS <= PTD_STEP_EDGES, "a bit is an edge");

struct compound {
    uint64_t key;  /* 0: free; 1: somebody is about to write it */
    uint32_t next; /* the node behind it; 0: that of the youngest CALL, which is popped */
    uint32_t step;

    uint8_t bits;       /* that it takes, 1 to COMPOUND_BITS */
    uint8_t rise, fall; /* so much higher was the stack on the way, so much of it is gone */
    uint8_t pushes;     /* what is left: rise - fall */
    uint32_t push[COMPOUND_PUSHES]; /* the nodes to return to */
};

_Static_assert(sizeof(struct compound) == 32, "two are a cache line");

struct compounds_common;

/* What a thread has of it. */
struct compounds {
    struct compound *entries;
    uint32_t mask;    /* of numbers of sets, as far as they are used */
    uint16_t *visits; /* paths that came by once */
    struct compounds_common *common;
};

/* For a trace of so many bytes. NULL: no memory. */
struct compounds *ptd_compounds_new(bool is_long);
/* The same table for another thread. NULL: no memory. */
struct compounds *ptd_compounds_share(const struct compounds *compounds);
void ptd_compounds_free(struct compounds *compounds); /* may be NULL */
void ptd_compounds_empty(struct compounds *compounds);
/* There are more paths than are worth it: single steps are faster. */
bool ptd_compounds_are_full(const struct compounds *compounds);
/*
 * Whether a path is worth an entry, which the first visit is not. If the table was grown, and has
 * the entry in a place of before, it is found from now on, and is worth no other.
 */
bool ptd_compounds_wants(struct compounds *compounds, uint32_t node, uint64_t bits);
/* Adds an entry, whose key does not count, if there is room for it. */
void ptd_compounds_add(struct compounds *compounds, uint32_t node, uint64_t bits,
                       const struct compound *entry);
/* The steps that a compound step stands for; edges has room for PTD_STEP_EDGES. How many. */
unsigned ptd_compound_edges(const struct graph *graph, uint32_t step, uint32_t *edges);

/* Never 0 or 1, whatever the node. */
static inline uint64_t ptd_compound_key(uint32_t node, uint64_t bits)
{
    return (uint64_t)node << 32 | UINT32_C(1) << COMPOUND_BITS | bits >> (64 - COMPOUND_BITS);
}

/* The number of its set, of which the low bits count. */
static inline uint32_t ptd_compound_set(uint32_t node, uint64_t bits)
{
    return (node * 0x9e3779b1u) >> 13 ^ (uint32_t)(bits >> (64 - COMPOUND_BITS));
}

/* Where paths go whose set is full. */
static inline uint32_t ptd_compound_other_set(uint32_t mask, uint32_t set, uint32_t node)
{
    return (set ^ ((node * 0x9e3779b1u) >> 3 | 1)) & mask;
}

/* In one set. NULL: it is not there. */
static inline const struct compound *ptd_compound_in(const struct compound *set, uint64_t key)
{
    if (__builtin_expect(__atomic_load_n(&set[0].key, __ATOMIC_ACQUIRE) == key, 1))
        return &set[0];
    return __atomic_load_n(&set[1].key, __ATOMIC_ACQUIRE) == key ? &set[1] : NULL;
}

/* The entry of a path from a node, by the bits in front. NULL: there is none, or not yet. */
static inline const struct compound *ptd_compound_find(const struct compound *entries,
                                                       uint32_t mask, uint32_t node, uint64_t bits)
{
    const uint64_t key = ptd_compound_key(node, bits);
    const uint32_t set = ptd_compound_set(node, bits) & mask;
    const struct compound *const found = ptd_compound_in(&entries[2 * (size_t)set], key);

    if (__builtin_expect(found != NULL, 1))
        return found;
    return ptd_compound_in(&entries[2 * (size_t)ptd_compound_other_set(mask, set, node)], key);
}

#endif
