/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: build ids by the name of a file. */
#ifndef PTD_PERF_BUILD_ID_H
#define PTD_PERF_BUILD_ID_H

#include "perf/span.h"
#include "ptdec_perf.h"

struct perf_build_id {
    char *name;
    uint8_t bytes[PTD_PERF_BUILD_ID_BYTES];
    uint8_t len_bytes;
};

struct perf_build_ids {
    struct perf_build_id *list;
    size_t count, capacity;
    bool sorted;
};

void ptd_perf_build_ids_free(struct perf_build_ids *ids);
/* The body of a HEADER_BUILD_ID record, or many of them with headers. PTD_OK, _FORMAT, _NOMEM. */
int ptd_perf_build_ids_add(struct perf_build_ids *ids, uint16_t misc, struct span *body);
int ptd_perf_build_ids_add_section(struct perf_build_ids *ids, struct span *section);
/* NULL: there is none. */
const struct perf_build_id *ptd_perf_build_ids_find(struct perf_build_ids *ids, const char *name);

#endif
