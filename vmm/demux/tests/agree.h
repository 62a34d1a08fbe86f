/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace and its code log, decoded by libptdec, by libipt and by perf: the same instructions. */
#ifndef VMM_DEMUX_TESTS_AGREE_H
#define VMM_DEMUX_TESTS_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ran {
    uint64_t ip, cr3;
};

/* What a decoder found. Begins as zeros; .list is to be freed. */
struct decoded {
    struct ran *list;
    size_t count, room;
    uint64_t errors, gaps; /* gaps: overflows */
    char first[128];       /* error, in words */
    bool no_memory;
};

struct agree_trace {
    uint8_t *bytes;
    size_t len_bytes;
    const uint8_t *code; /* a code log, whose code stays as it is */
    size_t code_bytes;
};

void agree_ptdec(const struct agree_trace *trace, struct decoded *decoded);
void agree_libipt(const struct agree_trace *trace, struct decoded *decoded);
/*
 * By perf, of a perf.data that `vpt convert` makes of the trace and its sidecar in a folder. False:
 * it is not asked, and .first says why: there is no perf, or the code is not one thing only.
 */
bool agree_perf(const char *folder, const char *name, struct decoded *decoded);
/* The first instruction that differs; SIZE_MAX: none. */
size_t agree_difference(const struct decoded *a, const struct decoded *b);

#endif
