/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose code changes while it runs: three functions stand in files, are mapped to one
 * address in turn, and each is called there. perf tells of each map by MMAP2, and of the files.
 *
 *   remap FOLDER     writes the files, runs, ends with status 0 if every function gave its result
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE  ((void *)0x55800000u)
#define BYTES  4096u
#define ROUNDS 12u

typedef uint32_t (*function)(uint32_t);

/* Each moves as a whole: it calls nothing and refers to no data. */
#define MOVABLE(name) __attribute__((noinline, section(name)))

MOVABLE("code_count") static uint32_t count_bits(uint32_t value)
{
    uint32_t count = 0;

    for (; value; value >>= 1) {
        if (value & 1)
            count++;
    }
    return count;
}

MOVABLE("code_collatz") static uint32_t collatz(uint32_t value)
{
    uint32_t steps = 0;

    for (value &= 0xffff; value > 1; steps++) {
        if (value & 1)
            value = 3 * value + 1;
        else
            value >>= 1;
    }
    return steps;
}

MOVABLE("code_gcd") static uint32_t gcd_with_5040(uint32_t value)
{
    uint32_t other = 5040;

    while (value != other && value) {
        if (value > other)
            value -= other * (value / other > 1 ? value / other - 1 : 1);
        else
            other -= value;
        if (other == 0)
            break;
    }
    return other ? other : value;
}

extern const uint8_t __start_code_count[], __stop_code_count[];
extern const uint8_t __start_code_collatz[], __stop_code_collatz[];
extern const uint8_t __start_code_gcd[], __stop_code_gcd[];

static const struct movable {
    const char *file;
    function original;
    const uint8_t *from, *to;
} movables[] = {
    {"count", count_bits, __start_code_count, __stop_code_count},
    {"collatz", collatz, __start_code_collatz, __stop_code_collatz},
    {"gcd", gcd_with_5040, __start_code_gcd, __stop_code_gcd},
};

#define MOVABLES (sizeof(movables) / sizeof(movables[0]))

static int open_code(const char *folder, const struct movable *movable)
{
    static const uint8_t rest[BYTES];
    char path[256];
    const size_t len = (size_t)(movable->to - movable->from);
    int file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, movable->file);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0755);
    if (file < 0 || len > BYTES || write(file, movable->from, len) != (ssize_t)len ||
        write(file, rest, BYTES - len) != (ssize_t)(BYTES - len))
        return -1;
    return file;
}

int main(int argc, char **argv)
{
    int files[MOVABLES];
    uint32_t value = 1;

    if (argc != 2)
        return 2;
    for (size_t i = 0; i < MOVABLES; i++) {
        files[i] = open_code(argv[1], &movables[i]);
        if (files[i] < 0)
            return 2;
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct movable *const movable = &movables[(round + round / 4) % MOVABLES];
        const uintptr_t offset = (uintptr_t)movable->original - (uintptr_t)movable->from;
        const int file = files[movable - movables];

        if (mmap(PLACE, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) != PLACE)
            return 2;
        for (uint32_t i = 0; i < 5; i++) {
            value = value * 1664525u + 1013904223u;
            if (((function)((uintptr_t)PLACE + offset))(value) != movable->original(value))
                return 1;
        }
    }
    printf("remap: done, %08x\n", (unsigned)value);
    return 0;
}
