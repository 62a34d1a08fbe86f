/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libptdec: arrays that grow, and numbers in little-endian bytes. */
#ifndef PTD_ARRAY_H
#define PTD_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * What tables have room for at first, as a power of two. Fuzzers begin with less: an execution
 * costs a fraction, and tables grow.
 */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ROOM_LOG2(log2) ((log2) / 2)
#else
#define ROOM_LOG2(log2) (log2)
#endif

/* Room for one more element behind count of them. False: no memory; nothing changed. */
static inline bool array_grow(void **array, size_t *room, size_t count, size_t element_bytes)
{
    if (count < *room)
        return true;

    const size_t new_room = *room ? *room * 2 : 8;
    void *const bigger = reallocarray(*array, new_room, element_bytes);

    if (!bigger)
        return false;
    *array = bigger;
    *room = new_room;
    return true;
}

/* count: at most 8. */
static inline uint64_t little_endian(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

#endif
