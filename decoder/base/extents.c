/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two levels of sorted arrays: a list of leaves, each of LEAF_ROOM extents at most. An addition
 * moves half a leaf; the list of leaves is moved once in LEAF_ROOM / 2 additions only, which is
 * nothing up to millions of them. Both levels are searched as one sorted array would be.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/extents.h"

#define LEAF_ROOM 128u

void ptd_extents_free(struct extents *extents)
{
    for (size_t i = 0; i < extents->leaf_count; i++)
        free(extents->leaves[i].list);
    free(extents->leaves);
    *extents = (struct extents){0};
}

/* ---- Searches ---- */

/*
 * How many of count elements in order begin at or below a number: where each begins is its first
 * member. Names are looked up for each line that is shown, so nothing here is a branch that a
 * processor would have to guess.
 */
static inline size_t search(const void *elements, size_t element_bytes, size_t count,
                            uint64_t number)
{
    const unsigned char *base = elements; /* all before it begin at or below the number */
    uint64_t first = 0;

    if (count == 0)
        return 0;
    for (size_t left = count; left > 1;) {
        const size_t half = left / 2;

        memcpy(&first, base + half * element_bytes, sizeof(first));
        base += first <= number ? half * element_bytes : 0;
        left -= half;
    }
    memcpy(&first, base, sizeof(first));
    return (size_t)(base - (const unsigned char *)elements) / element_bytes + (first <= number);
}

/* How many leaves begin at or below a number. */
static size_t leaves_below(const struct extents *extents, uint64_t number)
{
    static_assert(offsetof(struct extent_leaf, first) == 0, "where it begins comes first");
    return search(extents->leaves, sizeof(*extents->leaves), extents->leaf_count, number);
}

/* How many of a leaf begin at or below a number. */
static size_t count_below(const struct extent_leaf *leaf, uint64_t number)
{
    static_assert(offsetof(struct extent, first) == 0, "where it begins comes first");
    return search(leaf->list, sizeof(*leaf->list), leaf->count, number);
}

struct extent *ptd_extents_first(const struct extents *extents, struct extent_place *place)
{
    *place = (struct extent_place){0, 0};
    return extents->leaf_count ? extents->leaves[0].list : NULL;
}

struct extent *ptd_extents_below(const struct extents *extents, uint64_t number,
                                 struct extent_place *place)
{
    const size_t leaves = leaves_below(extents, number);

    if (leaves == 0)
        return NULL;

    const struct extent_leaf *const leaf = &extents->leaves[leaves - 1];
    const size_t at = count_below(leaf, number) - 1; /* the first one of the leaf does */

    if (place)
        *place = (struct extent_place){leaves - 1, at};
    return &leaf->list[at];
}

struct extent *ptd_extents_at(const struct extents *extents, uint64_t first)
{
    struct extent *const extent = ptd_extents_below(extents, first, NULL);

    return extent && extent->first == first ? extent : NULL;
}

struct extent *ptd_extents_next(const struct extents *extents, struct extent_place *place)
{
    if (++place->at == extents->leaves[place->leaf].count) {
        place->leaf++;
        place->at = 0;
    }
    return place->leaf < extents->leaf_count ? &extents->leaves[place->leaf].list[place->at] : NULL;
}

struct extent *ptd_extents_above(const struct extents *extents, uint64_t number,
                                 struct extent_place *place)
{
    if (ptd_extents_below(extents, number, place))
        return ptd_extents_next(extents, place);
    return ptd_extents_first(extents, place);
}

/* ---- Changes ---- */

/*
 * Room for one more behind count elements. False: no memory; nothing changed. (array_grow() is the
 * same, but what the image stands on includes nothing: it would be one floor more for all above.)
 */
static bool make_room(void **elements, size_t *room, size_t count, size_t element_bytes)
{
    const size_t new_room = *room ? *room * 2 : 8;
    void *bigger;

    if (count < *room)
        return true;
    bigger = reallocarray(*elements, new_room, element_bytes);
    if (!bigger)
        return false;
    *elements = bigger;
    *room = new_room;
    return true;
}

/* An empty leaf at an index, with room for so many. NULL: no memory. */
static struct extent_leaf *insert_leaf(struct extents *extents, size_t index, size_t room)
{
    struct extent_leaf *leaf;
    struct extent *list;

    if (!make_room((void **)&extents->leaves, &extents->leaf_room, extents->leaf_count,
                   sizeof(*extents->leaves)))
        return NULL;
    list = calloc(room, sizeof(*list));
    if (!list)
        return NULL;
    leaf = &extents->leaves[index];
    memmove(leaf + 1, leaf, (extents->leaf_count - index) * sizeof(*leaf));
    *leaf = (struct extent_leaf){.list = list, .room = room};
    extents->leaf_count++;
    return leaf;
}

/* Moves the upper half of a full leaf into one behind it. */
static bool split(struct extents *extents, size_t index)
{
    struct extent_leaf *const upper = insert_leaf(extents, index + 1, LEAF_ROOM);
    struct extent_leaf *const lower = &extents->leaves[index];
    const size_t half = LEAF_ROOM / 2;

    if (!upper)
        return false;
    memcpy(upper->list, lower->list + half, (LEAF_ROOM - half) * sizeof(*lower->list));
    upper->count = LEAF_ROOM - half;
    upper->first = upper->list[0].first;
    lower->count = half;
    return true;
}

/* The leaf for what begins at a number, with room for one more. NULL: no memory. */
static struct extent_leaf *leaf_for(struct extents *extents, uint64_t first)
{
    size_t leaves = leaves_below(extents, first);
    struct extent_leaf *leaf;

    if (extents->leaf_count == 0)
        return insert_leaf(extents, 0, 8);
    leaf = &extents->leaves[leaves > 0 ? leaves - 1 : 0];
    if (leaf->count < LEAF_ROOM)
        return make_room((void **)&leaf->list, &leaf->room, leaf->count, sizeof(*leaf->list))
                   ? leaf
                   : NULL;
    /* What comes in order fills its leaves. */
    if (leaves == extents->leaf_count && leaf->list[LEAF_ROOM - 1].first < first)
        return insert_leaf(extents, leaves, LEAF_ROOM);
    if (!split(extents, leaves > 0 ? leaves - 1 : 0))
        return NULL;
    leaves = leaves_below(extents, first);
    return &extents->leaves[leaves > 0 ? leaves - 1 : 0];
}

bool ptd_extents_add(struct extents *extents, struct extent extent)
{
    struct extent_leaf *const leaf = leaf_for(extents, extent.first);

    if (!leaf)
        return false;

    const size_t at = count_below(leaf, extent.first);

    memmove(leaf->list + at + 1, leaf->list + at, (leaf->count - at) * sizeof(extent));
    leaf->list[at] = extent;
    leaf->count++;
    leaf->first = leaf->list[0].first;
    return true;
}

/* Closes the gap where leaves from begin to end were. */
static void drop_leaves(struct extents *extents, size_t begin, size_t end)
{
    memmove(extents->leaves + begin, extents->leaves + end,
            (extents->leaf_count - end) * sizeof(*extents->leaves));
    extents->leaf_count -= end - begin;
}

void ptd_extents_remove(struct extents *extents, uint64_t first, uint64_t last)
{
    size_t index = first > 0 ? leaves_below(extents, first - 1) : 0;
    size_t end;

    if (extents->leaf_count == 0)
        return;
    index -= index > 0; /* the leaf before may have some of them */
    for (end = index; end < extents->leaf_count && extents->leaves[end].first <= last; end++) {
        struct extent_leaf *const leaf = &extents->leaves[end];
        const size_t begin = first > 0 ? count_below(leaf, first - 1) : 0;
        const size_t behind = count_below(leaf, last);

        for (size_t from = behind, to = begin; from < leaf->count; from++, to++)
            leaf->list[to] = leaf->list[from];
        leaf->count -= behind - begin;
        if (leaf->count > 0)
            leaf->first = leaf->list[0].first;
    }
    /* Those in between are empty; the outer two may be. */
    size_t kept = index;

    for (size_t i = index; i < end; i++) {
        if (extents->leaves[i].count > 0)
            extents->leaves[kept++] = extents->leaves[i];
        else
            free(extents->leaves[i].list);
    }
    if (kept < end)
        drop_leaves(extents, kept, end);
}

bool ptd_extents_cut(struct extents *extents, uint64_t first, uint64_t last)
{
    const struct extent *const at_end = ptd_extents_below(extents, last, NULL);
    struct extent *left;

    if (at_end && at_end->last > last) {
        struct extent right = *at_end;

        right.first = last + 1;
        if (!ptd_extents_add(extents, right))
            return false;
    }
    left = ptd_extents_below(extents, first, NULL);
    if (left && left->first < first && left->last >= first)
        left->last = first - 1;
    ptd_extents_remove(extents, first, last);
    return true;
}
