/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of up to 8 bytes as packets and saved processors have them: the lowest byte first.
 */
#ifndef VPT_LITTLE_ENDIAN_H
#define VPT_LITTLE_ENDIAN_H

#include <stdint.h>
#include <string.h>

/* Gives n back. */
static inline uint32_t vpt_put_le(uint8_t *bytes, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return n;
}

/* All eight bytes; one store, where the compiler knows that it is. */
static inline void vpt_put_le64(uint8_t *bytes, uint64_t value)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(bytes, &value, sizeof(value));
}

static inline uint64_t vpt_get_le(const uint8_t *bytes, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

#endif
