/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compound steps: what several TNT bits in a row led to the last time is remembered, and is one
 * step from then on. A path begins at a node and ends behind so many bits, behind a RET whose CALL
 * is not on the path, or in front of what bulk.c does not take in its loop. CALLs and RETs on the
 * path that belong together leave nothing on the CALL stack but how deep it was.
 *
 * The table is never rearranged, so that threads share it without a lock: an entry is claimed, then
 * written, and its key comes last. It does not change after that. Where the table is grown, entries
 * are copied when they are needed.
 */
#ifndef PTD_COMPOUND_H
#define PTD_COMPOUND_H

#include "flow/node.h"

#define COMPOUND_BITS   12u /* the most that a path takes */
#define COMPOUND_PUSHES 2u  /* the most CALLs that a path leaves on the stack, at any time */
#define COMPOUND_FLAG   2u  /* of a step: it is a compound one */
#define COMPOUND_LOG2   4u  /* of the bytes of an entry */
#define COMPOUND_LINE   4u  /* entries of a cache line */

_Static_assert(COMPOUND_BITS <= PTD_STEP_EDGES, "a bit is an edge");

/* It has 16 bytes, since what most traces wait for is a line of the cache with the next entry. */
struct compound {
    uint32_t key; /* 0: free; 1: somebody is about to write it */
    /*
     * From bit 0 on: how many bits it takes, 1 to COMPOUND_BITS; how much higher the CALL stack was
     * on the way; how many entries it leaves there; the node behind it, or 0: that of the youngest
     * CALL of before, which is popped.
     */
    uint32_t to;
    uint64_t more; /* from bit 0 on: the indices of the nodes that those return to; the step */
};

#define COMPOUND_TAKES     63u /* a shift of 64 bits looks at no more */
#define COMPOUND_RISE_SHR  6u
#define COMPOUND_LEFT_SHR  8u
#define COMPOUND_STACK     (3u << COMPOUND_RISE_SHR | 3u << COMPOUND_LEFT_SHR)
#define COMPOUND_NEXT_SHL  8u /* of a node's number, whose low bits are 0 */
#define COMPOUND_NEXT      (~0u << COMPOUND_BITS)
#define COMPOUND_NODE_BITS 19u /* of an index of nodes */
#define COMPOUND_NODE      ((UINT64_C(1) << COMPOUND_NODE_BITS) - 1)
#define COMPOUND_STEP_SHR  (COMPOUND_PUSHES * COMPOUND_NODE_BITS)

_Static_assert(sizeof(struct compound) == 1u << COMPOUND_LOG2, "four are a cache line");
_Static_assert(NODE_BYTES << COMPOUND_NEXT_SHL == 1u << COMPOUND_BITS,
               "a node where it stands in .to leaves the low bits of a key to the path");
_Static_assert(COMPOUND_NODE_BITS + COMPOUND_BITS < 32, "a key has a node and bits");

struct compounds_common;

/* Whether compound steps are worth it. */
struct trial {
    uint64_t steps, misses; /* of this window: all, and paths that were not known */
    uint64_t pause;         /* so many steps are single ones; then comes the next trial */
    unsigned failures;      /* that no window made good since */
    bool is_judged;         /* a trial's first window, which fills the table, is not */
};

/* What a thread has of it. */
struct compounds {
    struct compound *entries;
    uint32_t mask;    /* of offsets of entries, as far as they are used */
    uint16_t *visits; /* paths that came by once */
    struct compounds_common *common;
    struct trial trial;
    unsigned most_failures; /* that make the next pause longer */
};

/* For a trace of so many bytes. NULL: no memory. */
struct compounds *ptd_compounds_new(bool is_long);
/* The same table for another thread. NULL: no memory. */
struct compounds *ptd_compounds_share(const struct compounds *compounds);
void ptd_compounds_free(struct compounds *compounds); /* may be NULL */
void ptd_compounds_empty(struct compounds *compounds);
/* Whether the next steps may be compound ones. Not while single steps are faster. */
bool ptd_compounds_are_worth_it(const struct compounds *compounds);
/* So many steps were taken since then; so many paths were not known. */
void ptd_compounds_judge(struct compounds *compounds, size_t steps, size_t misses);
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

/* A node is told as it stands in .to of an entry. Never 0 or 1, whatever the node. */
static inline uint32_t ptd_compound_key(uint32_t at, uint64_t bits)
{
    return 1u << 31 | at | (uint32_t)(bits >> (64 - COMPOUND_BITS));
}

/*
 * Where its entry is best, as an offset in bytes, of which the low bits count. There is no
 * multiplication, for which every step would wait.
 */
static inline uint32_t ptd_compound_place(uint32_t at, uint64_t bits)
{
    return at >> (COMPOUND_BITS - COMPOUND_LOG2) ^ at << 1 ^
           (uint32_t)(bits >> (64 - COMPOUND_BITS - COMPOUND_LOG2));
}

static inline const struct compound *ptd_compound_best(const struct compound *entries,
                                                       uint32_t mask, uint32_t at, uint64_t bits)
{
    const uint32_t place = ptd_compound_place(at, bits) & mask;

    return (const struct compound *)((const uint8_t *)entries + place);
}

/* The entry of a path from a node, by the bits in front. NULL: there is none, or not yet. */
const struct compound *ptd_compound_find(const struct compound *entries, uint32_t mask, uint32_t at,
                                         uint64_t bits);

#endif
