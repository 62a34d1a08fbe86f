/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of edges or blocks, and a table to find them by. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "whole/entries.h"

#define FIRST_ROOM ((size_t)1 << ROOM_LOG2(12))

void ptd_entries_init(struct entries *entries)
{
    *entries = (struct entries){.key = ptd_hash_key_new()};
}

void ptd_entries_free(struct entries *entries)
{
    free(entries->list);
    free(entries->slots);
}

void ptd_entries_clear(struct entries *entries)
{
    if (entries->count > 0)
        memset(entries->slots, 0, entries->room * sizeof(*entries->slots));
    entries->count = 0;
}

/* Where the entry is, or would be. */
static uint32_t *slot_of(const struct entries *entries, uint64_t from, uint64_t to, uint64_t cr3)
{
    uint64_t at = hash_pair(&entries->key, hash_pair(&entries->key, from, to), cr3);

    for (;; at++) {
        uint32_t *const slot = &entries->slots[at & (entries->room - 1)];
        const struct ptd_coverage_entry *entry;

        if (*slot == 0)
            return slot;
        entry = &entries->list[*slot - 1];
        if (entry->from == from && entry->to == to && entry->cr3 == cr3)
            return slot;
    }
}

static bool make_room(struct entries *entries)
{
    const size_t room = entries->room ? 2 * entries->room : FIRST_ROOM;
    struct ptd_coverage_entry *const list =
        reallocarray(entries->list, room / 2, sizeof(*entries->list));
    uint32_t *slots;

    if (!list)
        return false;
    entries->list = list;
    slots = calloc(room, sizeof(*slots));
    if (!slots)
        return false;
    free(entries->slots);
    entries->slots = slots;
    entries->room = room;
    for (uint32_t i = 0; i < entries->count; i++)
        *slot_of(entries, list[i].from, list[i].to, list[i].cr3) = i + 1;
    return true;
}

int ptd_entries_find(struct entries *entries, uint64_t from, uint64_t to, uint64_t cr3,
                     uint32_t *index)
{
    const uint32_t known = entries->room > 0 ? *slot_of(entries, from, to, cr3) : 0;

    if (known) {
        *index = known - 1;
        return PTD_OK;
    }
    if (entries->count == PTD_COVERAGE_ENTRIES_MAX) {
        *index = ENTRY_NONE;
        return PTD_OK;
    }
    if (entries->count == entries->room / 2 && !make_room(entries))
        return PTD_E_NOMEM;
    entries->list[entries->count] = (struct ptd_coverage_entry){.from = from, .to = to, .cr3 = cr3};
    *index = entries->count++;
    *slot_of(entries, from, to, cr3) = *index + 1;
    return PTD_OK;
}
