/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.data: lists of a file multiplied by other lists of it. */
#include "cases.h"
#include "input.h"

#include <stdlib.h>

#define N(number)   ((uint64_t)(number))
#define KERNEL      0xffffffff81000000u
#define VADDR       0x400000u
#define RECORD_MMAP 1u
#define RECORD_COMM 3u
#define RECORD_FORK 7u
#define MISC_USER   2u
#define MISC_OUT    0x2000u

/* A trace of each of so many threads, each in a buffer of its own. */
static void put_threads(struct input *file, unsigned count, unsigned first)
{
    struct input packets = {0};

    put_psb(&packets);
    put_tsc(&packets, 1000);
    for (unsigned i = 0; i < count; i++)
        perf_trace(file, i, -1, (int32_t)(first + i), &packets);
    free(packets.bytes);
}

static bool make_comms(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = 0; i < size; i++)
        perf_record(&file, RECORD_COMM, 0, "ddsi", N(1 + i), N(1 + i), "name", N(1 + i), N(i));
    put_threads(&file, size, 1000000);
    return put_file(&file, folder, "perf.data");
}

static bool make_forks(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = 0; i < size; i++)
        perf_record(&file, RECORD_FORK, 0, "ddddqi", N(2 + i), N(1 + i), N(2 + i), N(1 + i), N(i),
                    N(1 + i), N(i));
    put_threads(&file, size, 1000000);
    return put_file(&file, folder, "perf.data");
}

static void put_map(struct input *file, unsigned pid, uint64_t start)
{
    perf_record(file, RECORD_MMAP, MISC_USER, "ddqqqsi", N(pid), N(pid), start, N(0x1000), N(0),
                "//anon", N(pid), N(0));
}

static bool make_maps(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = size; i-- > 0;)
        put_map(&file, 1 + i, VADDR);
    put_threads(&file, size, 1000000);
    return put_file(&file, folder, "perf.data");
}

/* All maps are those of the first process, and all others are its children. */
static bool make_children(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = 0; i < size; i++)
        put_map(&file, 1, VADDR + i * 0x1000);
    for (unsigned i = 0; i < size; i++)
        perf_record(&file, RECORD_FORK, 0, "ddddqi", N(2 + i), N(1), N(2 + i), N(1), N(1), N(1),
                    N(1));
    put_threads(&file, size, 2);
    return put_file(&file, folder, "perf.data");
}

static void put_poke(struct input *file, uint64_t i)
{
    perf_record(file, 20, 0, "qwwqi", KERNEL + i * 64, N(0), N(8), N(0x9090909090909090), N(1), i);
}

/* Names of code that the kernel makes, and the code. */
static bool make_pokes(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (uint64_t i = size; i-- > 0;)
        perf_record(&file, 17, 0, "qdwwsi", KERNEL + i * 64, N(64), N(2), N(0), "jit", N(1),
                    N(size - i));
    for (uint64_t i = size; i-- > 0;)
        put_poke(&file, i);
    put_threads(&file, 1, 1);
    return put_file(&file, folder, "perf.data");
}

static bool make_poked_traces(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = 0; i < size; i++)
        put_poke(&file, i);
    put_threads(&file, size, 1);
    return put_file(&file, folder, "perf.data");
}

/* Many traces of one CPU, in each of which all threads had their turn. */
static bool make_switches(const char *folder, unsigned size)
{
    struct input file = {0}, packets = {0};

    put_psb(&packets);
    for (unsigned i = 0; i < 8; i++) { /* each stretch ends late, and the next one begins early */
        put_tsc(&packets, 1);
        put_ip(&packets, OPCODE_PGE, VADDR);
        put_tsc(&packets, 1 << 30);
        put_number(&packets, OPCODE_PGD, 1);
    }
    perf_begin(&file);
    for (unsigned i = 0; i < size; i++)
        perf_record(&file, 14, i & 1 ? MISC_OUT : 0, "i", N(1 + i), N(16 + i));
    for (unsigned i = 0; i < size / 8; i++)
        perf_trace(&file, i, 1, -1, &packets);
    free(packets.bytes);
    return put_file(&file, folder, "perf.data");
}

/* Events and samples by turns. */
static bool make_events(const char *folder, unsigned size)
{
    struct input file = {0};

    perf_begin(&file);
    for (unsigned i = 0; i < size; i++) {
        perf_attr(&file, 1000 + size - i);
        perf_record(&file, 69, 0, "qqqqq", N(1), N(1000 + size - i), N(0), N(1),
                    N(1)); /* ID_INDEX */
        perf_record(&file, 9, MISC_USER, "qddqqqq", N(1000 + i / 2), N(1), N(1), N(i), N(1), N(8),
                    N(0));
    }
    put_threads(&file, size, 1);
    return put_file(&file, folder, "perf.data");
}

#define DECODE                                                                                     \
    {                                                                                              \
        "decode", "--format", "perf", "@perf.data"                                                 \
    }

const struct scaling_case perf_cases[] = {
    {"perf.data: names and traces", 500, true, make_comms, NULL, DECODE},
    {"perf.data: forks and traces", 500, false, make_forks, NULL, DECODE},
    {"perf.data: maps and traces", 500, false, make_maps, NULL, DECODE},
    {"perf.data: maps and children", 700, false, make_children, NULL, DECODE},
    {"perf.data: names of code and patches", 2000, true, make_pokes, NULL, DECODE},
    {"perf.data: patches and traces", 700, false, make_poked_traces, NULL, DECODE},
    {"perf.data: switches and traces", 2000, true, make_switches, NULL, DECODE},
    {"perf.data: events and samples", 1500, false, make_events, NULL, DECODE},
    {"perf.data: names and traces, blocks",
     1000,
     false,
     make_comms,
     NULL,
     {"decode", "--blocks", "@perf.data"}},
    {"perf.data: events and samples, dump",
     1500,
     false,
     make_events,
     NULL,
     {"dump", "--records", "@perf.data"}},
    {0},
};
