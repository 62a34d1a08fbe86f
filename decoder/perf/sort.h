/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: a list in order. */
#ifndef PTD_PERF_SORT_H
#define PTD_PERF_SORT_H

#include <stdbool.h>
#include <stddef.h>

/* A stable order by the 64-bit key that stands first. False: no memory. */
bool ptd_perf_sort(void *list, size_t count, size_t element_bytes);

#endif
