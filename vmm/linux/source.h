/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of a Linux guest comes from: a dump (core.h), or a guest that runs (live.h). */
#ifndef VMM_LINUX_SOURCE_H
#define VMM_LINUX_SOURCE_H

#include "common/reason.h"
#include "linux/look/memory.h"

/* How far a search has come. Begins as zeros. */
struct source_place {
    size_t range;    /* of physical memory, by its number */
    uint64_t offset; /* in it */
};

struct guest_source {
    struct look_memory memory;
    /* Lines of VMCOREINFO that somebody has kept; len_bytes 0: nobody has. */
    const char *lines;
    size_t lines_bytes;
    /*
     * The next page that begins as one with VMCOREINFO does, by its physical address; place goes on
     * behind it. 0; -ENOENT: there is none; or -errno and the reason. The owner is that of memory.
     */
    int (*find)(void *owner, struct source_place *place, uint64_t *paddr, struct reason *why);
    /* Whether a processor takes system calls at this address. NULL: nobody knows. */
    bool (*enters)(void *owner, uint64_t address);
};

#endif
