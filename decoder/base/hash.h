/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside libptdec: hashes of numbers that a trace or a file chooses. Each table has a key that
 * nobody can know, so that nobody can write a file whose entries all fall on one place.
 */
#ifndef PTD_HASH_H
#define PTD_HASH_H

#include <stdint.h>

struct hash_key {
    uint64_t a, b;
};

/* Random numbers. */
struct hash_key ptd_hash_key_new(void);

/*
 * All bits of the product of two numbers that are not known. Products of numbers in a row are in a
 * row too, which tables with open addressing bear badly: they are scattered by one that is known.
 */
static inline uint64_t hash_pair(const struct hash_key *key, uint64_t x, uint64_t y)
{
    __extension__ typedef unsigned __int128 product;

    const product both = (product)(x ^ key->a) * (y ^ key->b);

    uint64_t hash = (uint64_t)both ^ (uint64_t)(both >> 64);

    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

/*
 * The place, of 2^log2, of a number in a table that remembers what came of late. One number pushes
 * out another there and nothing is searched, so no key is needed.
 */
static inline uint64_t hash_slot(uint64_t value, unsigned log2)
{
    return value * 0x9e3779b97f4a7c15u >> (64 - log2);
}

/*
 * A number more into a fingerprint, which begins as 0. It is no secret: files keep fingerprints,
 * and who forges one cheats nobody but whoever trusts that file.
 */
static inline uint64_t hash_more(uint64_t hash, uint64_t value)
{
    const struct hash_key known = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu};

    return hash_pair(&known, hash, value);
}

#endif
