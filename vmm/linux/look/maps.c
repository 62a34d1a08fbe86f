/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of a process, in a maple tree since Linux 6.1 and in a red-black tree before. Each
 * question is a walk from the root, one node a level, so that nothing is kept while a guest runs
 * on.
 */
#include "linux/look/maps.h"

#include <string.h>

#define LEVELS_MAX   64u   /* of a tree that are believed; a maple tree has far fewer */
#define STEPS_MAX    4096u /* empty ranges between two mappings */
#define SLOTS_MAX    16u
#define MAP_EXEC     4u /* VM_EXEC */
#define NODE_ADDRESS (~UINT64_C(0xff))
#define NODE_TYPE(n) ((n) >> 3 & 0xf)
#define IS_ROOT(n)   (((n)&3) == 2 && (n) > 4096)
#define PAGE_SHIFT   12u
#define LAST_ADDRESS UINT64_MAX

enum { MAPLE_LEAF = 1, MAPLE_RANGE = 2, MAPLE_ARANGE = 3 };

static bool read_map(const struct look_kernel *kernel, uint64_t address, struct look_map *map)
{
    const struct look_layout *const layout = &kernel->layout;
    const struct look_space *const space = &kernel->space;
    uint64_t flags, page;

    if (!look_u64(space, address + layout->map_start, &map->start) ||
        !look_u64(space, address + layout->map_end, &map->end) ||
        !look_u64(space, address + layout->map_flags, &flags) ||
        !look_u64(space, address + layout->map_page, &page) ||
        !look_u64(space, address + layout->map_file, &map->file))
        return false;
    map->offset = page << PAGE_SHIFT;
    map->is_executable = (flags & MAP_EXEC) != 0;
    return map->start < map->end;
}

/* ---- The maple tree ---- */

/* A node as it was copied: slot i holds what is from pivots[i - 1] + 1 up to pivots[i]. */
struct maple {
    uint64_t pivots[SLOTS_MAX], slots[SLOTS_MAX];
    unsigned slot_count;
    bool is_leaf;
};

static bool read_maple(const struct look_kernel *kernel, uint64_t node, struct maple *maple)
{
    const struct look_layout *const layout = &kernel->layout;
    const bool is_arange = NODE_TYPE(node) == MAPLE_ARANGE;
    const uint64_t address = node & NODE_ADDRESS;
    const uint64_t count = is_arange ? layout->arange_slot_count : layout->range_slot_count;

    if (NODE_TYPE(node) < MAPLE_LEAF || NODE_TYPE(node) > MAPLE_ARANGE || count < 2 ||
        count > SLOTS_MAX)
        return false;
    maple->slot_count = (unsigned)count;
    maple->is_leaf = NODE_TYPE(node) == MAPLE_LEAF;
    return look_read(&kernel->space,
                     address + (is_arange ? layout->arange_pivots : layout->range_pivots),
                     maple->pivots, 8 * (count - 1)) &&
           look_read(&kernel->space,
                     address + (is_arange ? layout->arange_slots : layout->range_slots),
                     maple->slots, 8 * count);
}

/* What a slot of the tree holds for vaddr, and the last address that it holds it for. */
static bool maple_at(const struct look_kernel *kernel, uint64_t tree, uint64_t vaddr,
                     uint64_t *entry, uint64_t *last)
{
    uint64_t node;

    *last = LAST_ADDRESS;
    if (!look_u64(&kernel->space, tree + kernel->layout.maple_root, &node) ||
        (node != 0 && !IS_ROOT(node)))
        return false;
    for (unsigned level = 0; level < LEVELS_MAX && node != 0; level++) {
        struct maple maple;
        unsigned i = 0;

        if (!read_maple(kernel, node, &maple))
            return false;
        /* A pivot of 0 behind the first, or one beyond the node, ends the node. */
        while (i < maple.slot_count - 1 && maple.pivots[i] < vaddr && (i == 0 || maple.pivots[i]))
            i++;
        if (i < maple.slot_count - 1 && maple.pivots[i] >= vaddr && maple.pivots[i] < *last)
            *last = maple.pivots[i];
        if (maple.is_leaf) {
            *entry = maple.slots[i];
            return true;
        }
        node = maple.slots[i];
    }
    *entry = 0;
    return node == 0; /* a tree without mappings */
}

static bool maple_map(const struct look_kernel *kernel, uint64_t tree, uint64_t vaddr,
                      struct look_map *map)
{
    for (unsigned i = 0; i < STEPS_MAX; i++) {
        uint64_t entry, last;

        if (!maple_at(kernel, tree, vaddr, &entry, &last))
            return false;
        /* Where it is neither empty nor the mark of something that is about to be put there. */
        if (entry > 4096 && (entry & 3) == 0)
            return read_map(kernel, entry, map) && map->end > vaddr;
        if (last == LAST_ADDRESS)
            return false;
        vaddr = last + 1;
    }
    return false;
}

/* ---- The red-black tree ---- */

static bool rb_map(const struct look_kernel *kernel, uint64_t root, uint64_t vaddr,
                   struct look_map *found)
{
    const struct look_layout *const layout = &kernel->layout;
    bool is_found = false;
    uint64_t node;

    if (!look_u64(&kernel->space, root + layout->rb_root, &node))
        return false;
    for (unsigned level = 0; level < LEVELS_MAX && node; level++) {
        struct look_map map;
        bool is_left;

        if (!read_map(kernel, node - layout->map_rb, &map))
            return false;
        is_left = map.end > vaddr;
        if (is_left) {
            *found = map;
            is_found = true;
        }
        if (!look_u64(&kernel->space, node + (is_left ? layout->rb_left : layout->rb_right), &node))
            return false;
    }
    return is_found && !node;
}

bool look_map(const struct look_kernel *kernel, uint64_t mm, uint64_t vaddr, struct look_map *map)
{
    if (kernel->layout.mm_tree != LOOK_NONE)
        return maple_map(kernel, mm + kernel->layout.mm_tree, vaddr, map);
    return rb_map(kernel, mm + kernel->layout.mm_rb, vaddr, map);
}
