/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions of a function summed by the source lines that they are from. A file may be named by
 * several texts, which are the same to whoever reads them.
 */
#include "report/annotate-lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_insns(const void *left, const void *right)
{
    const struct annotate_line *const a = left, *const b = right;
    int order;

    if (a->insns != b->insns)
        return a->insns > b->insns ? -1 : 1;
    if (!a->file || !b->file)
        return (a->file == NULL) - (b->file == NULL);
    order = strcmp(a->file, b->file);
    return order ? order : a->line < b->line ? -1 : a->line > b->line;
}

/* Adds what ran of an instruction. False: no memory. */
static bool add(struct table *sums, struct names *files, const struct source_frame *frame,
                uint64_t insns)
{
    const uint32_t file = frame->file ? names_add(files, frame->file) : 0;
    struct sum *sum;

    if (file == UINT32_MAX)
        return false;
    sum = table_at(sums, frame->file ? file + UINT64_C(1) : 0, frame->file ? frame->line : 0, 0);
    if (!sum)
        return false;
    if (sum->count == 0)
        sum->cost = (uintptr_t)frame->file;
    sum->count += insns;
    return true;
}

static bool add_all(const struct annotate *annotate, uint64_t function, struct table *sums)
{
    struct names files = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < annotate->lines.count; i++) {
        const struct sum *const line = &annotate->lines.sums[i];
        struct source_frame frames[FRAMES_MAX] = {{0}};

        if (line->key[0] != function || line->count == 0)
            continue;
        (void)annotate_frames(annotate, &annotate->codes[i], frames);
        ok = add(sums, &files, &frames[0], line->count);
    }
    names_free(&files);
    return ok;
}

int annotate_lines(const struct annotate *annotate, uint64_t function, struct annotate_line **lines,
                   size_t *count)
{
    struct table sums = {0};
    const bool ok = add_all(annotate, function, &sums);

    *count = sums.count;
    *lines = ok ? calloc(sums.count ? sums.count : 1, sizeof(**lines)) : NULL;
    for (size_t i = 0; *lines && i < sums.count; i++)
        (*lines)[i] = (struct annotate_line){.file = (const char *)(uintptr_t)sums.sums[i].cost,
                                             .line = (unsigned)sums.sums[i].key[1],
                                             .insns = sums.sums[i].count};
    if (*lines)
        qsort(*lines, *count, sizeof(**lines), by_insns);
    table_free(&sums);
    return *lines ? 0 : -ENOMEM;
}
