/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: the events of a file, and which of them an id means. */
#ifndef PTD_PERF_EVENT_H
#define PTD_PERF_EVENT_H

#include "base/extents.h"
#include "perf/span.h"
#include "ptdec_perf.h"

struct perf_events {
    struct ptd_perf_event *list;
    size_t count, capacity;
    struct extents ids; /* the number is that of the event */
    uint64_t id_count;  /* how many the file told, again and again too */
};

void ptd_perf_events_free(struct perf_events *events);
/* Adds a perf_event_attr of attr_bytes. PTD_OK, PTD_E_FORMAT (too short), PTD_E_NOMEM. */
int ptd_perf_events_add(struct perf_events *events, const uint8_t *attr, size_t attr_bytes);
/* An id of the event that was added last. False: no memory. */
bool ptd_perf_events_add_id(struct perf_events *events, uint64_t id);
/* The index of the event of an id, 0 if there is none. */
uint32_t ptd_perf_events_of_id(struct perf_events *events, uint64_t id);
/* Names, from the feature EVENT_DESC: they come in the order of the events. False: malformed. */
bool ptd_perf_events_name(struct perf_events *events, struct span *description);

#endif
