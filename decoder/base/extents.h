/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside libptdec: ranges of numbers, each with something that belongs to it, in order of their
 * first number. What a trace or a file says comes in any order and any quantity; so an addition, a
 * removal and a search each take a number of steps that hardly grows with what is there.
 */
#ifndef PTD_EXTENTS_H
#define PTD_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [first, last]: the last number of all can be in one. */
struct extent {
    uint64_t first, last;
    union {
        void *what;
        uint64_t number;
    };
    uint8_t kind; /* the owner's */
};

/* Some that follow each other, so that few are moved to make room for one more. */
struct extent_leaf {
    uint64_t first;
    struct extent *list;
    size_t count, room;
};

/* Begins as zeros. */
struct extents {
    struct extent_leaf *leaves; /* none is empty */
    size_t leaf_count, leaf_room;
};

/* Where one stands, until one is added or removed. */
struct extent_place {
    size_t leaf, at;
};

void ptd_extents_free(struct extents *extents);
/* The first one of all, and its place; NULL: there are none. */
struct extent *ptd_extents_first(const struct extents *extents, struct extent_place *place);
/* The last one that begins at or below a number; NULL: none does. place may be NULL. */
struct extent *ptd_extents_below(const struct extents *extents, uint64_t number,
                                 struct extent_place *place);
/* The one that begins at a number; NULL: there is none. */
struct extent *ptd_extents_at(const struct extents *extents, uint64_t first);
/* The first one that begins above a number, and its place; NULL: none does. */
struct extent *ptd_extents_above(const struct extents *extents, uint64_t number,
                                 struct extent_place *place);
/* The one behind a place, which moves there; NULL: there is none. */
struct extent *ptd_extents_next(const struct extents *extents, struct extent_place *place);
/* None that begins at the same number may be there. False: no memory, and nothing changed. */
bool ptd_extents_add(struct extents *extents, struct extent extent);
/* Removes all that begin in [first, last]. */
void ptd_extents_remove(struct extents *extents, uint64_t first, uint64_t last);
/* Of disjoint ones: takes [first, last] from all of them. False: no memory, and nothing changed. */
bool ptd_extents_cut(struct extents *extents, uint64_t first, uint64_t last);

#endif
