/* SPDX-License-Identifier: BSD-3-Clause */
/* Fingerprints: products of 128 bits, folded. */
#include "common/hash.h"

#include <string.h>

uint64_t hash_more(uint64_t hash, uint64_t value)
{
    __extension__ typedef unsigned __int128 product;

    const product both = (product)(hash ^ 0x9e3779b97f4a7c15u) * (value ^ 0xc2b2ae3d27d4eb4fu);
    const uint64_t folded = (uint64_t)both ^ (uint64_t)(both >> 64);

    return (folded ^ folded >> 32) * 0xd6e8feb86659fd93u;
}

#define LANES 8u

static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane ^= word;
    return (lane << 27 | lane >> 37) * 0x9fb21c651e98df25u;
}

/*
 * Whole traces are hashed, as fast as they come from memory: each step loses nothing of its lane
 * and its word, and takes one multiplication, and no lane waits for another.
 */
static const uint8_t *hash_lanes(uint64_t *hash, const uint8_t *from, size_t turns)
{
    uint64_t lanes[LANES];

    for (size_t lane = 0; lane < LANES; lane++)
        lanes[lane] = hash_more(*hash, lane);
    for (size_t i = 0; i < turns; i++) {
#pragma GCC unroll 8 /* so that lanes are in registers */
        for (size_t lane = 0; lane < LANES; lane++, from += sizeof(uint64_t)) {
            uint64_t word;

            memcpy(&word, from, sizeof(word));
            lanes[lane] = mix(lanes[lane], word);
        }
    }
    for (size_t lane = 0; lane < LANES; lane++)
        *hash = hash_more(*hash, lanes[lane]);
    return from;
}

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    const uint8_t *const end = from + len;

    hash = hash_more(hash, len);
    if (len >= LANES * sizeof(uint64_t))
        from = hash_lanes(&hash, from, len / (LANES * sizeof(uint64_t)));
    while (from < end) {
        const size_t left = (size_t)(end - from);
        const size_t taken = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
        uint64_t word = 0;

        memcpy(&word, from, taken);
        hash = hash_more(hash, word);
        from += taken;
    }
    return hash;
}

uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? hash_bytes(hash, text, strlen(text)) : hash_more(hash, UINT64_MAX);
}
