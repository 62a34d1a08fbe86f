/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the Linux guest traces: branches of every near kind, recursion, system calls, page faults,
 * and a signal. Linked statically at an address of its own, so that a log of the whole machine can
 * be told apart by addresses. Ends with status 0 if its own check sum is right.
 *
 *   work              all of it
 *   work values       PTWRITE, if it is there
 *   work compute N    N times what needs no help of the system, for measurements
 *   work turns N      the same, each time for a byte of standard input, which it then hands on
 */
#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 2000
#define PAGES 64

#ifndef bit_PTWRITE
#define bit_PTWRITE (1 << 4)
#endif

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    signals += number == SIGUSR1;
}

static uint32_t add(uint32_t a, uint32_t b)
{
    return a + b;
}
static uint32_t twist(uint32_t a, uint32_t b)
{
    return (a << 7 | a >> 25) ^ b;
}
static uint32_t scale(uint32_t a, uint32_t b)
{
    return a * 2654435761u + b;
}

static uint32_t (*const operations[])(uint32_t, uint32_t) = {add, twist, scale};

static unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool sorted(const uint32_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (values[i - 1] > values[i])
            return false;
    }
    return true;
}

/* Each page faults once, then holds what was written. */
static bool touch_pages(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory =
        mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned sum = 0;

    if (memory == MAP_FAILED)
        return false;
    for (size_t i = 0; i < PAGES; i++)
        memset(memory + i * page, (int)i, page / 2);
    for (size_t i = 0; i < PAGES; i++)
        sum += memory[i * page + i];
    return munmap(memory, PAGES * page) == 0 && sum == PAGES * (PAGES - 1) / 2;
}

/* Values for the trace, where CPUID says that there are such. */
static int write_values(void)
{
    unsigned eax, ebx, ecx, edx;

    if (!__get_cpuid_count(0x14, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_PTWRITE))
        return 2;
    for (uint64_t i = 1; i <= 3; i++) {
        const uint64_t wide = i << 40 | i;

        __asm__ volatile("ptwriteq %0" : : "r"(wide));
        __asm__ volatile("ptwritel %0" : : "m"(wide));
    }
    return 0;
}

static uint32_t fill(uint32_t values[COUNT], bool signals_too)
{
    uint32_t value = 1;

    for (size_t i = 0; i < COUNT; i++) {
        value = operations[value % 3](value, (uint32_t)i);
        values[i] = value;
        if (signals_too && i % 500 == 0)
            raise(SIGUSR1);
    }
    return value;
}

static bool compute(uint32_t values[COUNT])
{
    qsort(values, COUNT, sizeof(values[0]), compare);
    return sorted(values, COUNT) && fibonacci(18) == 2584;
}

static int compute_often(uint32_t values[COUNT], const char *times, bool by_turns)
{
    char turn;

    for (unsigned long i = strtoul(times, NULL, 10); i > 0; i--) {
        if (by_turns && read(STDIN_FILENO, &turn, 1) != 1)
            return 1;
        fill(values, false);
        if (!compute(values) || (by_turns && write(STDOUT_FILENO, &turn, 1) != 1))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint32_t values[COUNT];
    uint32_t value;

    if (argc == 2 && strcmp(argv[1], "values") == 0)
        return write_values();
    if (argc == 3 && strcmp(argv[1], "compute") == 0)
        return compute_often(values, argv[2], false);
    if (argc == 3 && strcmp(argv[1], "turns") == 0)
        return compute_often(values, argv[2], true);
    signal(SIGUSR1, on_signal);
    value = fill(values, true);
    if (!compute(values) || !touch_pages() || signals != 4)
        return 1;
    printf("work: done, %08x\n", (unsigned)value);
    return 0;
}
