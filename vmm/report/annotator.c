/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the sums of steps and those of instructions: a block is counted for whoever ran it.
 */
#include "report/annotator.h"
#include "report/group.h"

#define ELSEWHERE 0u /* of both that are told */

_Static_assert(ANNOTATE_ELSEWHERE == ELSEWHERE && DRCOV_ELSEWHERE == ELSEWHERE, "one for both");

/* The number of a block in an address space, which the sums call row. */
static uint32_t cell_of(struct annotator *annotator, uint32_t block, uint64_t space, uint32_t row)
{
    const struct sum *cell;

    if (annotator->cells.count >= SUMS_ROWS_MAX &&
        !table_find(&annotator->cells, block, space, row)) {
        if (annotator->blocks)
            annotator->blocks->is_cut = true;
        annotator->lines.is_cut = true;
        block = ELSEWHERE;
        space = PTD_ANY_CR3;
    }
    cell = table_at(&annotator->cells, block, space, row);
    return cell ? (uint32_t)(cell - annotator->cells.sums) : UINT32_MAX;
}

static uint32_t see(void *owner, const struct ptd_item *block)
{
    struct annotator *const annotator = owner;
    const struct out_thread *const thread = annotator->report.sums.thread;
    uint32_t number, row = 0;

    annotator->lines.shown = thread->shown;
    number = annotator->blocks ? drcov_see(annotator->blocks, thread->image, block)
                               : annotate_see(&annotator->lines, thread->image, block);
    if (number != UINT32_MAX && annotator->has_sums) {
        row = sums_sink.see(&annotator->report.sums, block);
        if (row == UINT32_MAX)
            number = row;
    }
    return number == UINT32_MAX ? number : cell_of(annotator, number, block->cr3, row);
}

static bool add_to_sums(struct annotator *annotator, uint64_t row, const struct tally_block *block,
                        bool taken, uint64_t count, uint64_t time)
{
    struct tally_block there = *block;

    there.id = (uint32_t)row;
    return sums_sink.add(&annotator->report.sums, &there, taken, count, time);
}

static bool add(void *owner, const struct tally_block *block, bool taken, uint64_t count,
                uint64_t time)
{
    struct annotator *const annotator = owner;
    struct sum *const cell = &annotator->cells.sums[block->id];
    struct sums *const sums = &annotator->report.sums;

    if (annotator->has_sums && !add_to_sums(annotator, cell->key[2], block, taken, count, time))
        return false;
    if (cell->cost != sums->generation) { /* names may have changed */
        const uint32_t who = sums_who(sums, cell->key[1]);

        if (who == UINT32_MAX)
            return false;
        cell->count = is_wanted_who(&annotator->report, annotator->wanted, who);
        cell->cost = sums->generation;
    }
    if (!cell->count)
        return true;
    annotator->insns += count * block->insns;
    if (annotator->blocks)
        drcov_add(annotator->blocks, (uint32_t)cell->key[0], count);
    else
        annotate_add(&annotator->lines, (uint32_t)cell->key[0], block->last_class, taken, count);
    return true;
}

static const struct tally_sink sink = {.see = see, .add = add};

bool annotator_begin(struct annotator *annotator, const char *function,
                     const struct report_options *wanted)
{
    *annotator = (struct annotator){.wanted = wanted};
    annotate_begin(&annotator->lines, function);
    annotator->report.tally = tally_new(&sink, annotator);
    return annotator->report.tally;
}

bool annotator_begin_report(struct annotator *annotator, const struct report_options *wanted)
{
    if (!annotator_begin(annotator, NULL, wanted))
        return false;
    annotator->has_sums = true;
    report_shows(&annotator->report, wanted);
    return true;
}

void annotator_free(struct annotator *annotator)
{
    report_free(&annotator->report);
    annotate_free(&annotator->lines);
    table_free(&annotator->cells);
}
