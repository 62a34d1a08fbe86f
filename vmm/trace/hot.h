/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hot functions: how many instructions and blocks of a trace ran in which function.
 */
#ifndef VMM_TRACE_HOT_H
#define VMM_TRACE_HOT_H

#include "common/table.h"
#include "ptdec.h"
#include "symbols/demangle.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as zeros. */
struct hot {
    struct shown_names *shown; /* how names are shown; NULL: as they are */
    struct names names;
    struct table sums; /* key: number of a name, process; count: blocks; cost: instructions */
};

/* The number of the function that a block is in; UINT32_MAX: no memory. */
uint32_t hot_function(struct hot *hot, const struct ptd_image *image, const struct ptd_item *block);
/* So many blocks of so many instructions each ran in a function. False: no memory. */
bool hot_add(struct hot *hot, uint32_t function, uint32_t process, uint64_t blocks, uint64_t insns);
/* The hottest first, of equals the one that was seen first; nothing is added any more. */
void hot_sort(struct hot *hot);
/* The name of the function of a sum. */
const char *hot_name(const struct hot *hot, const struct sum *sum);
void hot_free(struct hot *hot);

#endif
