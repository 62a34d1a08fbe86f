/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared library of crew.c. */
#include "tools.h"

#include <stdlib.h>

#define ALONE __attribute__((noinline))

/* crew.c has another function of this name. */
ALONE static unsigned spread(unsigned value)
{
    return value * 2654435761u ^ value >> 15;
}

unsigned tool_fibonacci(unsigned n)
{
    return n < 2 ? n : tool_fibonacci(n - 1) + tool_fibonacci(n - 2);
}

ALONE unsigned tool_mix(unsigned a, unsigned b)
{
    for (unsigned i = 0; i < (b & 7); i++)
        a = (a << 7 | a >> 25) ^ spread(b + i);
    return a;
}

__attribute__((alias("tool_mix"))) unsigned tool_stir(unsigned a, unsigned b);

unsigned tool_fold(const unsigned *list, size_t count, unsigned (*fold)(unsigned, unsigned))
{
    unsigned sum = 1;

    for (size_t i = 0; i < count; i++)
        sum = fold(sum, list[i]);
    return sum;
}

static int compare(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

void tool_sort(unsigned *list, size_t count)
{
    qsort(list, count, sizeof(*list), compare);
}

/* As hand-written assembly often is: a function without a type and a size, and a label in it. */
__asm__(".text\n"
        ".globl tool_by_label\n"
        "tool_by_label:\n"
        "    mov %edi, %ecx\n"
        "    xor %eax, %eax\n"
        "    jecxz 2f\n"
        "inner_label:\n"
        "    add %ecx, %eax\n"
        "    loop inner_label\n"
        "2:  ret\n");
