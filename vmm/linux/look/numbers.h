/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers of a lay-out by their names, for whoever hands one over: they are checked one by one,
 * and a walk is begun only if all that it needs is there.
 */
#ifndef LOOK_NUMBERS_H
#define LOOK_NUMBERS_H

#include "linux/look/layout.h"

#define LOOK_OFFSET_MAX (1u << 24) /* that is believed of a member */

/* What a number is needed for. */
enum look_part {
    LOOK_TASKS, /* the task that runs, and its page tables */
    LOOK_MAPS,  /* what is mapped, and the names of files */
    LOOK_PAGES, /* what files hold */
    LOOK_OTHERS /* not every kernel has it, or nothing of the above needs it */
};

struct look_number {
    const char *name; /* NULL behind the last one */
    size_t offset;    /* in struct look_layout, of a uint64_t */
    uint8_t part;     /* enum look_part */
    bool is_address;  /* of a variable; else the offset of a member, or a count */
};

extern const struct look_number look_numbers[];

/* Where a number stands. */
uint64_t *look_number_in(struct look_layout *layout, const struct look_number *number);
/* NULL: there is none of that name. */
const struct look_number *look_number_find(const char *name);
/* Whether it may be such a number. */
bool look_number_is_good(const struct look_number *number, uint64_t value);
/* Whether all is there that a part needs. */
bool look_has(const struct look_layout *layout, enum look_part part);

#endif
