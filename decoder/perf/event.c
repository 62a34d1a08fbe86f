/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events (struct perf_event_attr) of a perf.data, their names and their ids.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/event.h"
#include "base/array.h"
#include "base/extents.h"
#include "perf/span.h"
#include "ptdec_perf.h"

void ptd_perf_events_free(struct perf_events *events)
{
    free(events->list);
    ptd_extents_free(&events->ids);
    *events = (struct perf_events){0};
}

int ptd_perf_events_add(struct perf_events *events, const uint8_t *attr, size_t attr_bytes)
{
    struct span span = {.pos = attr, .end = attr + attr_bytes};
    struct ptd_perf_event event = {0};

    event.type = take32(&span);
    (void)take32(&span); /* size */
    event.config = take64(&span);
    (void)take64(&span); /* period */
    event.sample_type = take64(&span);
    event.read_format = take64(&span);
    event.flags = take64(&span);
    (void)take64(&span); /* wakeup, bp_type */
    event.config1 = take64(&span);
    if (span.missing)
        return PTD_E_FORMAT;
    /* Old ones end anywhere behind this. */
    event.config2 = take64(&span);
    event.branch_sample_type = take64(&span);
    event.sample_regs_user = take64(&span);
    (void)take64(&span); /* sample_stack_user, clockid */
    event.sample_regs_intr = take64(&span);
    (void)snprintf(event.name, sizeof(event.name), "type %" PRIu32 " config %#" PRIx64, event.type,
                   event.config);
    if (!array_grow((void **)&events->list, &events->capacity, events->count, sizeof(event)))
        return PTD_E_NOMEM;
    events->list[events->count++] = event;
    return PTD_OK;
}

bool ptd_perf_events_add_id(struct perf_events *events, uint64_t id)
{
    events->id_count++;
    return ptd_extents_at(&events->ids, id) ||
           ptd_extents_add(&events->ids, (struct extent){.first = id, .number = events->count - 1});
}

uint32_t ptd_perf_events_of_id(struct perf_events *events, uint64_t id)
{
    const struct extent *const found = ptd_extents_at(&events->ids, id);

    return found ? (uint32_t)found->number : 0;
}

bool ptd_perf_events_name(struct perf_events *events, struct span *description)
{
    const uint32_t count = take32(description), attr_bytes = take32(description);

    for (uint32_t i = 0; i < count && !description->missing; i++) {
        uint32_t ids, len;
        const uint8_t *name;

        (void)span_take(description, attr_bytes);
        ids = take32(description);
        len = take32(description);
        name = span_take(description, len);
        (void)span_take(description, (size_t)ids * 8);
        if (description->missing || !name)
            return false;
        if (i < events->count && len > 0) {
            (void)snprintf(events->list[i].name, sizeof(events->list[i].name), "%.*s",
                           (int)(len < 63 ? len : 63), (const char *)name);
        }
    }
    return !description->missing;
}
