/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of hot functions. What no symbol names is one function, '?'.
 */
#include "trace/hot.h"

#include <stdlib.h>

uint32_t hot_function(struct hot *hot, const struct ptd_image *image, const struct ptd_item *block)
{
    const char *const name =
        shown_name(hot->shown, ptd_image_symbol(image, block->cr3, block->ip, NULL));

    return names_add(&hot->names, name ? name : "?");
}

bool hot_add(struct hot *hot, uint32_t function, uint32_t process, uint64_t blocks, uint64_t insns)
{
    struct sum *const sum = table_at(&hot->sums, function, process, 0);

    if (!sum)
        return false;
    sum->count += blocks;
    sum->cost += blocks * insns;
    return true;
}

static int by_cost(const void *a, const void *b)
{
    const struct sum *const x = a, *const y = b;

    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->key[0] < y->key[0] ? -1 : 1;
}

void hot_sort(struct hot *hot)
{
    if (hot->sums.count)
        qsort(hot->sums.sums, hot->sums.count, sizeof(struct sum), by_cost);
}

const char *hot_name(const struct hot *hot, const struct sum *sum)
{
    return hot->names.list[sum->key[0]];
}

void hot_free(struct hot *hot)
{
    table_free(&hot->sums);
    names_free(&hot->names);
}
