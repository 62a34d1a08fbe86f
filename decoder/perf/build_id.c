/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Build ids by the name of a file: what `perf record` finds in the files that were mapped, and
 * writes behind the records (feature BUILD_ID) or into a pipe (HEADER_BUILD_ID).
 */
#include <string.h>
#include <stdlib.h>

#include "perf/build_id.h"
#include "base/array.h"
#include "perf/layout.h"
#include "perf/span.h"
#include "ptdec_perf.h"

#define MISC_HAS_SIZE 0x8000u /* the id says how long it is */
#define ID_FIELD      24u     /* the id, its size, zeros */

void ptd_perf_build_ids_free(struct perf_build_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        free(ids->list[i].name);
    free(ids->list);
    *ids = (struct perf_build_ids){0};
}

int ptd_perf_build_ids_add(struct perf_build_ids *ids, uint16_t misc, struct span *body)
{
    struct perf_build_id id = {.len_bytes = PTD_PERF_BUILD_ID_BYTES};
    const uint8_t *field;
    const char *name;

    (void)take32(body); /* pid: the kernel's or -1 */
    field = span_take(body, ID_FIELD);
    name = take_string(body);
    if (body->missing)
        return PTD_E_FORMAT;
    if (misc & MISC_HAS_SIZE && field[PTD_PERF_BUILD_ID_BYTES] < PTD_PERF_BUILD_ID_BYTES)
        id.len_bytes = field[PTD_PERF_BUILD_ID_BYTES];
    memcpy(id.bytes, field, PTD_PERF_BUILD_ID_BYTES);
    if (!array_grow((void **)&ids->list, &ids->capacity, ids->count, sizeof(id)))
        return PTD_E_NOMEM;
    id.name = strdup(name);
    if (!id.name)
        return PTD_E_NOMEM;
    ids->list[ids->count++] = id;
    ids->sorted = false;
    return PTD_OK;
}

int ptd_perf_build_ids_add_section(struct perf_build_ids *ids, struct span *section)
{
    while (span_left(section) >= PERF_RECORD_HEADER) {
        const uint8_t *const at = section->pos;
        const size_t size = (size_t)little_endian(at + 6, 2);
        struct span body;
        int error;

        if (size < PERF_RECORD_HEADER || !span_take(section, size))
            return PTD_E_FORMAT;
        body = (struct span){.pos = at + PERF_RECORD_HEADER, .end = at + size};
        error = ptd_perf_build_ids_add(ids, (uint16_t)little_endian(at + 4, 2), &body);
        if (error)
            return error;
    }
    return PTD_OK;
}

static int compare_names(const void *left, const void *right)
{
    const struct perf_build_id *const a = left, *const b = right;

    return strcmp(a->name, b->name);
}

static int compare_with_name(const void *name, const void *id)
{
    return strcmp(name, ((const struct perf_build_id *)id)->name);
}

const struct perf_build_id *ptd_perf_build_ids_find(struct perf_build_ids *ids, const char *name)
{
    if (ids->count == 0)
        return NULL;
    if (!ids->sorted)
        qsort(ids->list, ids->count, sizeof(*ids->list), compare_names);
    ids->sorted = true;
    return bsearch(name, ids->list, ids->count, sizeof(*ids->list), compare_with_name);
}
