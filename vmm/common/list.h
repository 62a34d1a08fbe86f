/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists that grow.
 */
#ifndef VMM_LIST_H
#define VMM_LIST_H

#include <stddef.h>
#include <stdlib.h>

/*
 * The list, moved if it has to be, with room for one element more behind count of them: at least
 * twice as much as before. NULL: no memory; the list is as it was.
 */
static inline void *list_grow(void *list, size_t count, size_t *room, size_t element_bytes)
{
    const size_t more = *room ? 2 * *room : 16;
    void *grown;

    if (count < *room)
        return list;
    grown = more > *room ? reallocarray(list, more, element_bytes) : NULL;
    if (grown)
        *room = more;
    return grown;
}

#endif
