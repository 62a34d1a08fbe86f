/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/random.h>
#include <time.h>

#include "base/hash.h"

struct hash_key ptd_hash_key_new(void)
{
    struct hash_key key;
    struct timespec now = {0};

    if (getrandom(&key, sizeof(key), GRND_NONBLOCK) == (ssize_t)sizeof(key))
        return key;
    /* At boot, or where a filter forbids it: where things lie, and when, is not easily known. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    key.a = (uintptr_t)&key * 0x9e3779b97f4a7c15u ^ (uint64_t)now.tv_nsec;
    key.b = (uintptr_t)&ptd_hash_key_new * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)now.tv_nsec << 32;
    return key;
}
