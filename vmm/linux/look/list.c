/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's circular lists. */
#include "linux/look/list.h"

void look_list_begin(struct look_list *list, const struct look_kernel *kernel, uint64_t head)
{
    *list = (struct look_list){.kernel = kernel, .head = head, .at = head};
}

bool look_list_next(struct look_list *list, uint64_t *element)
{
    const struct look_layout *const layout = &list->kernel->layout;
    uint64_t next, back;

    if (list->is_broken)
        return false;
    list->is_broken = true;
    if (!look_u64(&list->kernel->space, list->at + layout->list_next, &next) ||
        !look_u64(&list->kernel->space, next + layout->list_prev, &back) || back != list->at ||
        list->count == LOOK_LIST_MAX)
        return false;
    list->is_broken = false;
    if (next == list->head)
        return false;
    list->count++;
    list->at = next;
    *element = next;
    return true;
}
