/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/origins.h"
#include "common/list.h"

#include <stdlib.h>
#include <string.h>

static int by_place(const void *left, const void *right)
{
    const struct origin *const a = left, *const b = right;

    if (a->content != b->content)
        return a->content < b->content ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

bool origins_add(struct origins *origins, const struct ptd_file *content, uint64_t from,
                 const char *path)
{
    const char *const last = strrchr(path, '/');
    struct sum *const known = table_at(&origins->known, (uintptr_t)content, from, 0);
    struct origin *grown;
    uint32_t name;

    if (!known || known->count > 0)
        return known;
    name = names_add(&origins->names, last && last[1] ? last + 1 : path);
    grown = list_grow(origins->list, origins->count, &origins->room, sizeof(*grown));
    if (grown)
        origins->list = grown;
    if (name == UINT32_MAX || !grown)
        return false;
    known->count = 1;
    origins->list[origins->count++] =
        (struct origin){.content = (uintptr_t)content, .from = from, .name = name};
    origins->is_sorted = false;
    return true;
}

/* The last one that is not behind this place; NULL: none. */
static const struct origin *find(const struct origins *origins, const struct origin *place)
{
    size_t low = 0, high = origins->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (by_place(&origins->list[middle], place) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &origins->list[low - 1] : NULL;
}

const char *origins_find(struct origins *origins, const struct ptd_file *content, uint64_t address)
{
    const struct origin place = {.content = (uintptr_t)content, .from = address};
    const struct origin *found;

    if (!origins->is_sorted && origins->count > 0)
        qsort(origins->list, origins->count, sizeof(*origins->list), by_place);
    origins->is_sorted = true;
    found = find(origins, &place);
    return found && found->content == place.content ? origins->names.list[found->name] : NULL;
}

void origins_free(struct origins *origins)
{
    free(origins->list);
    table_free(&origins->known);
    names_free(&origins->names);
}
