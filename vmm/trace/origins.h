/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the files that code is from, by what holds its symbols: a file for itself, or for
 * all mapped files of a guest, one behind the other.
 */
#ifndef VMM_ORIGINS_H
#define VMM_ORIGINS_H

#include "common/table.h"
#include "ptdec.h"

struct origin {
    uintptr_t content; /* a struct ptd_file, which is only compared */
    uint64_t from;     /* the first address that is this file's */
    uint32_t name;
};

/* Begins as zeros. */
struct origins {
    struct origin *list;
    size_t count, room;
    bool is_sorted;
    struct table known; /* content and address: the first name that is told of them counts */
    struct names names;
};

/* What content has from an address on is of the file with this path. False: no memory. */
bool origins_add(struct origins *origins, const struct ptd_file *content, uint64_t from,
                 const char *path);
/* The last part of the path; NULL: nobody told it. Valid until the next one is added. */
const char *origins_find(struct origins *origins, const struct ptd_file *content, uint64_t address);
void origins_free(struct origins *origins);

#endif
