/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: the lists of a session by who they are about; keys are 32 bits of a thread and so on.
 */
#ifndef PTD_PERF_ORDER_H
#define PTD_PERF_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct perf_entry {
    uint64_t key; /* first: what it is sorted by */
    uint64_t time;
    size_t at; /* in the list of the session; of pids the process */
};

/* Those of one key are in order of time. */
struct perf_order {
    struct perf_entry *list;
    size_t count, room;
};

/* The index of the first entry of a key at or behind a time, if it is one of that key. */
size_t ptd_perf_order_begin(const struct perf_order *order, uint64_t key, uint64_t time);
/* The last entry of a key up to a time; NULL: there is none. */
const struct perf_entry *ptd_perf_order_last(const struct perf_order *order, uint64_t key,
                                             uint64_t time);

#endif
