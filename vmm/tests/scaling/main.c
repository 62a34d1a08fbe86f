/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether what is linear stays linear, whoever wrote the input: each hostile input comes in two
 * sizes, and the larger one, of twice the size, may take at most 2.5 times as many instructions.
 *
 *   scaling [--all] [NAME]   those that are measured always, or all of them; or those of a name
 */
#include "cases.h"
#include "count.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TENTHS   25u    /* times as many instructions */
#define LEAST_COUNTED 200000 /* else a case measures nothing but the program's start */

static const struct scaling_case *const lists[] = {code_cases, trace_cases, perf_cases};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

struct harness {
    char self[512], vpt[512], folder[64];
    uint64_t start_of_self, start_of_vpt; /* instructions of a program that does nothing */
    unsigned passed, failed, skipped;
};

/* ---- A measurement ---- */

static bool count(const struct harness *harness, const struct scaling_case *each, uint64_t *count)
{
    char texts[CASE_ARGUMENTS][128];
    char *argv[CASE_ARGUMENTS + 3] = {(char *)(uintptr_t)harness->vpt};
    unsigned arguments = 0;

    if (each->run) {
        char *const run[] = {(char *)(uintptr_t)harness->self, "--run",
                             (char *)(uintptr_t)each->name, (char *)(uintptr_t)harness->folder,
                             NULL};

        return count_instructions(run, count);
    }
    for (unsigned i = 0; i < CASE_ARGUMENTS && each->arguments[i]; i++) {
        const bool in_folder = each->arguments[i][0] == '@';

        (void)snprintf(texts[i], sizeof(texts[i]), "%s%s%s", in_folder ? harness->folder : "",
                       in_folder ? "/" : "", each->arguments[i] + in_folder);
        argv[1 + i] = texts[i];
        arguments++;
    }
    argv[1 + arguments] = "--no-sandbox"; /* valgrind needs the rights that it gives up */
    return count_instructions(argv, count);
}

/* Without the start of the program. */
static bool measure(const struct harness *harness, const struct scaling_case *each, unsigned size,
                    uint64_t *net)
{
    const uint64_t start = each->run ? harness->start_of_self : harness->start_of_vpt;
    uint64_t all = 0;

    if (!each->make(harness->folder, size) || !count(harness, each, &all))
        return false;
    *net = all > start ? all - start : 0;
    return true;
}

static void check(struct harness *harness, const struct scaling_case *each)
{
    uint64_t small = 0, large = 0;

    if (!measure(harness, each, each->size, &small) ||
        !measure(harness, each, 2 * each->size, &large)) {
        printf("FAIL: %s: it did not end by itself\n", each->name);
        harness->failed++;
        return;
    }
    const uint64_t tenths = small > 0 ? 10 * large / small : 0;
    const bool ok = small >= LEAST_COUNTED && tenths <= MOST_TENTHS;

    printf("%s: %s: %u and %u: %" PRIu64 ".%" PRIu64 " and %" PRIu64 ".%" PRIu64
           " M instructions, %" PRIu64 ".%" PRIu64 "-fold\n",
           ok ? "PASS" : "FAIL", each->name, each->size, 2 * each->size, small / 1000000,
           small / 100000 % 10, large / 1000000, large / 100000 % 10, tenths / 10, tenths % 10);
    (void)fflush(stdout);
    harness->passed += ok;
    harness->failed += !ok;
}

/* ---- All of them ---- */

static const struct scaling_case *find(const char *name)
{
    for (size_t list = 0; list < LISTS; list++) {
        for (const struct scaling_case *each = lists[list]; each->name; each++) {
            if (strcmp(each->name, name) == 0)
                return each;
        }
    }
    return NULL;
}

static int run_case(const char *name, const char *folder)
{
    const struct scaling_case *const each = find(name);

    return each && each->run && each->run(folder) ? 0 : 127;
}

/* The program stands beside the folder of this one. False: no room for names. */
static bool find_programs(struct harness *harness, const char *self)
{
    const char *const slash = strrchr(self, '/');
    const int folder = slash ? (int)(slash - self) : 1;

    (void)snprintf(harness->folder, sizeof(harness->folder), "/tmp/vpt-scaling-XXXXXX");
    return snprintf(harness->self, sizeof(harness->self), "%s", self) <
               (int)sizeof(harness->self) &&
           snprintf(harness->vpt, sizeof(harness->vpt), "%.*s/../vpt", folder, slash ? self : ".") <
               (int)sizeof(harness->vpt) &&
           mkdtemp(harness->folder);
}

static bool count_starts(struct harness *harness)
{
    char *const self[] = {harness->self, "--run", "nothing", harness->folder, NULL};
    char *const vpt[] = {harness->vpt, "--version", NULL};

    return count_instructions(self, &harness->start_of_self) &&
           count_instructions(vpt, &harness->start_of_vpt);
}

static void check_all(struct harness *harness, bool all, const char *name)
{
    for (size_t list = 0; list < LISTS; list++) {
        for (const struct scaling_case *each = lists[list]; each->name; each++) {
            if (name ? strstr(each->name, name) != NULL : all || each->in_part)
                check(harness, each);
        }
    }
}

static void remove_files(const struct harness *harness)
{
    static const char *const names[] = {"log", "trace", "trace.json", "ips",     "number",
                                        "elf", "map",   "perf.data",  "kallsyms"};
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", harness->folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(harness->folder);
}

int main(int argc, char **argv)
{
    struct harness harness = {0};
    const bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const char *const how = count_how();

    if (argc == 4 && strcmp(argv[1], "--run") == 0)
        return strcmp(argv[2], "nothing") == 0 ? 0 : run_case(argv[2], argv[3]);
    if (!how) {
        puts("SKIP: scaling: neither the processor nor valgrind counts instructions here");
        puts("0 passed, 0 failed, 1 skipped");
        return 0;
    }
    if (!find_programs(&harness, argv[0]) || !count_starts(&harness)) {
        puts("FAIL: scaling: the programs cannot be run");
        harness.failed++;
    } else {
        printf("instructions, %s\n", how);
        check_all(&harness, all, argc > 1 && !all ? argv[1] : NULL);
        remove_files(&harness);
    }
    printf("%u passed, %u failed, %u skipped\n", harness.passed, harness.failed, harness.skipped);
    return harness.failed ? 1 : 0;
}
