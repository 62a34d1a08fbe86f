/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzzers of the model share: what they draw from, and how they fail.
 */
#ifndef VPT_FUZZ_INPUT_H
#define VPT_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct input {
    const uint8_t *bytes;
    size_t left;
};

/* Behind the end of an input there are zeros. */
static inline uint8_t byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->bytes++;
}

static inline uint64_t number(struct input *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)byte(in) << (8 * i);
    return value;
}

#endif
