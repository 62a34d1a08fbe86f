/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and string functions, for the kernel side and for user programs.
 *
 * memset and memcpy are string instructions on purpose: a source that steps sees one instruction
 * many times, and must still say that it retired once. Quadwords first: where supervisor code is
 * interpreted, single bytes take long.
 */
#include "string.h"

#include <stdint.h>

void *memset(void *to, int byte, size_t len)
{
    const uint64_t word = 0x0101010101010101ull * (uint8_t)byte;
    size_t words = len / 8, rest = len % 8;
    void *p = to;

    __asm__ volatile("rep stosq" : "+D"(p), "+c"(words) : "a"(word) : "memory");
    __asm__ volatile("rep stosb" : "+D"(p), "+c"(rest) : "a"(word) : "memory");
    return to;
}

void *memcpy(void *to, const void *from, size_t len)
{
    size_t words = len / 8, rest = len % 8;
    void *p = to;

    __asm__ volatile("rep movsq" : "+D"(p), "+S"(from), "+c"(words) : : "memory");
    __asm__ volatile("rep movsb" : "+D"(p), "+S"(from), "+c"(rest) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t len)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if (t <= f || t >= f + len)
        return memcpy(to, from, len);
    while (len--)
        t[len] = f[len];
    return to;
}

int memcmp(const void *a, const void *b, size_t len)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < len; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

size_t strlen(const char *s)
{
    size_t len = 0;

    while (s[len])
        len++;
    return len;
}

int strncmp(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (a[i] != b[i] || !a[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

void strcopy(char *to, const char *from, size_t size)
{
    size_t i = 0;

    for (; i + 1 < size && from[i]; i++)
        to[i] = from[i];
    to[i] = 0;
}
