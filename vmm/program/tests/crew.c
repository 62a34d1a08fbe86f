/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program for vpt trace: threads that share work, or a crash where memory is none (crew ADDRESS),
 * with functions whose names a report must have.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3
#define ROUNDS  20000

__attribute__((noinline)) static uint64_t stir(uint64_t value)
{
    return (value ^ value >> 7) * 2654435761u + 1;
}

__attribute__((noinline)) static void *haul(void *from)
{
    uint64_t value = (uint64_t)(uintptr_t)from;

    for (int i = 0; i < ROUNDS; i++)
        value = stir(value);
    return (void *)(uintptr_t)value;
}

__attribute__((noinline)) static int founder(volatile int *nowhere)
{
    uint64_t value = 0;

    for (int i = 0; i < ROUNDS; i++)
        value = stir(value);
    return *nowhere + (int)value;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0;

    if (argc > 1)
        return founder((volatile int *)(uintptr_t)strtoull(argv[1], NULL, 0));
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, haul, (void *)(i + 1)) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;

        (void)pthread_join(threads[i], &result);
        sum += (uint64_t)(uintptr_t)result;
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 42;
}
