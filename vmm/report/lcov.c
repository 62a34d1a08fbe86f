/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of sources from counts of instructions. A line ran as often as that of its instructions
 * that ran most often: a block of it, the condition of a loop. Where a function was compiled into
 * others, or exists several times, its lines ran as often as in all of these together.
 */
#include "report/lcov.h"
#include "common/escape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables of one writing. */
struct lcov {
    const struct annotate *annotate;
    bool *is_run;           /* by function: something of it was counted */
    struct names files;     /* texts of several files may be the same */
    struct table copies;    /* key: function and version, place in sources; count: of the line */
    struct table lines;     /* key: file, line; count: how often it ran */
    struct table functions; /* key: file, name; count: how often it was called; cost: its line */
};

static int free_all(struct lcov *lcov, int error)
{
    free(lcov->is_run);
    names_free(&lcov->files);
    table_free(&lcov->copies);
    table_free(&lcov->lines);
    table_free(&lcov->functions);
    return error;
}

/* ---- Lines ---- */

/* Another process, or the options, may have had other functions. False: no memory. */
static bool find_run(struct lcov *lcov)
{
    const struct table *const insns = &lcov->annotate->lines;

    lcov->is_run = calloc(lcov->annotate->function_count + 1, sizeof(*lcov->is_run));
    for (size_t i = 0; lcov->is_run && i < insns->count; i++) {
        if (insns->sums[i].count > 0)
            lcov->is_run[insns->sums[i].key[0]] = true;
    }
    return lcov->is_run;
}

/* The most that an instruction of each copy of a line ran. False: no memory. */
static bool find_copies(struct lcov *lcov)
{
    const struct annotate *const annotate = lcov->annotate;

    for (size_t i = 0; i < annotate->lines.count; i++) {
        const struct sum *const insn = &annotate->lines.sums[i];
        const uint64_t copy = insn->key[0] * ANNOTATE_VERSIONS_MAX + insn->key[2];
        struct sum *line;

        if (!lcov->is_run[insn->key[0]] || annotate->codes[i].frame == 0)
            continue;
        line = table_at(&lcov->copies, copy, annotate->codes[i].frame, 0);
        if (!line)
            return false;
        if (insn->count > line->count)
            line->count = insn->count;
        line->cost = i;
    }
    return true;
}

/* All copies together. False: no memory. */
static bool find_lines(struct lcov *lcov)
{
    struct source_frame frames[FRAMES_MAX];

    for (size_t i = 0; i < lcov->copies.count; i++) {
        const struct sum *const copy = &lcov->copies.sums[i];
        struct sum *line;
        uint32_t file;

        if (annotate_frames(lcov->annotate, &lcov->annotate->codes[copy->cost], frames) == 0 ||
            !frames[0].file || frames[0].line == 0)
            continue;
        file = names_add(&lcov->files, frames[0].file);
        line = file == UINT32_MAX ? NULL : table_at(&lcov->lines, file, frames[0].line, 0);
        if (!line)
            return false;
        line->count += copy->count;
    }
    return true;
}

/* ---- Functions ---- */

/* How often the first instruction ran, in all versions. */
static uint64_t calls_of(const struct annotate *annotate, uint64_t function)
{
    const struct sum *insn;
    uint64_t calls = 0;

    for (uint64_t version = 0; (insn = table_find(&annotate->lines, function, 0, version));
         version++)
        calls += insn->count;
    return calls;
}

static bool find_function(struct lcov *lcov, size_t number)
{
    const struct annotate *const annotate = lcov->annotate;
    const struct annotate_function *const function = &annotate->functions[number];
    struct source_frame frames[FRAMES_MAX];
    struct sum *sum;
    uint32_t file;
    size_t count;

    if (!lcov->is_run[number] || function->line_count == 0)
        return true;
    count = annotate_frames(annotate, &annotate->codes[function->first_line], frames);
    if (count == 0 || !frames[count - 1].file || frames[count - 1].line == 0)
        return true;
    file = names_add(&lcov->files, frames[count - 1].file);
    sum = file == UINT32_MAX ? NULL : table_at(&lcov->functions, file, function->name, 0);
    if (!sum)
        return false;
    sum->count += calls_of(annotate, number);
    sum->cost = frames[count - 1].line;
    return true;
}

static bool find_functions(struct lcov *lcov)
{
    for (size_t i = 0; i < lcov->annotate->function_count; i++) {
        if (!find_function(lcov, i))
            return false;
    }
    return true;
}

/* ---- Writing ---- */

/* By file, then by the other half of the key. Files are in the order in which they were found. */
static int compare(const void *a, const void *b)
{
    const struct sum *const one = a, *const other = b;

    if (one->key[0] != other->key[0])
        return one->key[0] < other->key[0] ? -1 : 1;
    return one->key[1] < other->key[1] ? -1 : one->key[1] > other->key[1];
}

static void sort(struct table *table)
{
    if (table->count > 0)
        qsort(table->sums, table->count, sizeof(*table->sums), compare);
}

/* How many of them have run, from first on, as long as they are of the file; *behind the last. */
static size_t hits(const struct table *table, size_t first, uint64_t file, size_t *behind)
{
    size_t found = 0;

    for (*behind = first; *behind < table->count && table->sums[*behind].key[0] == file; ++*behind)
        found += table->sums[*behind].count > 0;
    return found;
}

/* The functions of a file, from *next on. */
static void write_functions(const struct lcov *lcov, uint64_t file, size_t *next)
{
    const size_t first = *next, found = hits(&lcov->functions, first, file, next);
    struct escaped room;

    for (size_t i = first; i < *next; i++) {
        const struct sum *const function = &lcov->functions.sums[i];

        printf("FN:%llu,%s\n", (unsigned long long)function->cost,
               escaped(lcov->annotate->seen.list[function->key[1]], &room));
    }
    for (size_t i = first; i < *next; i++) {
        const struct sum *const function = &lcov->functions.sums[i];

        printf("FNDA:%llu,%s\n", (unsigned long long)function->count,
               escaped(lcov->annotate->seen.list[function->key[1]], &room));
    }
    printf("FNF:%zu\nFNH:%zu\n", *next - first, found);
}

static void write_lines(const struct lcov *lcov, uint64_t file, size_t *next)
{
    const size_t first = *next, found = hits(&lcov->lines, first, file, next);

    for (size_t i = first; i < *next; i++)
        printf("DA:%llu,%llu\n", (unsigned long long)lcov->lines.sums[i].key[1],
               (unsigned long long)lcov->lines.sums[i].count);
    printf("LF:%zu\nLH:%zu\n", *next - first, found);
}

int lcov_write(const struct annotate *annotate, size_t *lines)
{
    struct lcov lcov = {.annotate = annotate};
    size_t next_line = 0, next_function = 0;
    struct escaped room;

    if (!find_run(&lcov) || !find_copies(&lcov) || !find_lines(&lcov) || !find_functions(&lcov))
        return free_all(&lcov, -ENOMEM);
    sort(&lcov.lines);
    sort(&lcov.functions);
    *lines = lcov.lines.count;
    for (size_t file = 0; file < lcov.files.count; file++) {
        printf("TN:\nSF:%s\n", escaped(lcov.files.list[file], &room));
        write_functions(&lcov, file, &next_function);
        write_lines(&lcov, file, &next_line);
        printf("end_of_record\n");
    }
    return free_all(&lcov, 0);
}
