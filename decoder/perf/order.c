/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks for an entry among those of a key, by halving. */
#include "perf/order.h"

size_t ptd_perf_order_begin(const struct perf_order *order, uint64_t key, uint64_t time)
{
    size_t low = 0, high = order->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct perf_entry *const entry = &order->list[middle];

        if (entry->key < key || (entry->key == key && entry->time < time))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct perf_entry *ptd_perf_order_last(const struct perf_order *order, uint64_t key,
                                             uint64_t time)
{
    size_t behind;

    if (time < UINT64_MAX)
        behind = ptd_perf_order_begin(order, key, time + 1);
    else
        behind = ptd_perf_order_begin(order, key + 1, 0);
    return behind > 0 && order->list[behind - 1].key == key ? &order->list[behind - 1] : NULL;
}
