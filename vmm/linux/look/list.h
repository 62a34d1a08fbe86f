/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks the kernel's circular lists. An element whose way back does not lead to the element before
 * it ends the walk: so a list that runs into itself, or was changed meanwhile, cannot go round.
 */
#ifndef LOOK_LIST_H
#define LOOK_LIST_H

#include "linux/look/layout.h"

#define LOOK_LIST_MAX (1u << 20) /* elements of a list that are believed */

struct look_list {
    const struct look_kernel *kernel;
    uint64_t head, at;
    uint32_t count;
    bool is_broken; /* it ended where it should not */
};

/* head: the address of the struct list_head that is no element. */
void look_list_begin(struct look_list *list, const struct look_kernel *kernel, uint64_t head);
/* The address of the next struct list_head. False: there is none, or see is_broken. */
bool look_list_next(struct look_list *list, uint64_t *element);

#endif
