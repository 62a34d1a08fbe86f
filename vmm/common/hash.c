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

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *const from = bytes;

    hash = hash_more(hash, len);
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t word = 0;

        memcpy(&word, from + at, len - at < sizeof(word) ? len - at : sizeof(word));
        hash = hash_more(hash, word);
    }
    return hash;
}

uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? hash_bytes(hash, text, strlen(text)) : hash_more(hash, UINT64_MAX);
}
