/* SPDX-License-Identifier: BSD-3-Clause */
/* What is told of steps, see steps.h. */
#include "demux/steps.h"

#include <stdlib.h>
#include <string.h>

struct steps *steps_new(void)
{
    struct steps *const steps = calloc(1, sizeof(*steps));

    if (steps)
        steps->generation = 1;
    return steps;
}

void steps_free(struct steps *steps)
{
    free(steps);
}

void steps_forget(struct steps *steps)
{
    if (++steps->generation == 0) {
        memset(steps->all, 0, sizeof(steps->all));
        steps->generation = 1;
    }
}

void steps_begin(struct steps *steps, uint32_t step, uint8_t owner)
{
    steps->next = (struct step){.code = step >> 2, .generation = steps->generation, .owner = owner};
    steps->is_simple = true;
}

/* What happens at the end of a block that is not the last one. */
static void pass_end(struct steps *steps)
{
    switch ((enum ptd_insn_class)steps->next.last_class) {
    case PTD_INSN_CALL_DIRECT:
        if (steps->next.calls == STEP_CALLS_MAX)
            steps->is_simple = false;
        else
            steps->next.ret[steps->next.calls++] = steps->next.end;
        break;
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_VMENTRY:
        steps->is_simple = false;
        break;
    default:
        break;
    }
}

void steps_block(struct steps *steps, const struct ptd_item *block, uint64_t end)
{
    struct step *const next = &steps->next;

    if (next->insns == 0)
        next->ip = block->ip;
    else
        pass_end(steps);
    /* To the instruction behind, a CALL is none, and 16-bit code has more to be told. */
    if (block->mode == PTD_MODE_16 ||
        (block->last_class == PTD_INSN_CALL_DIRECT && block->has_to && block->to == end))
        steps->is_simple = false;
    next->insns += block->insns;
    next->last_class = block->last_class;
    next->end = end;
}

void steps_end(struct steps *steps)
{
    if (steps->is_simple && step_is_near(steps->next.last_class))
        steps->all[steps->next.code % STEPS_ROOM] = steps->next;
}

size_t steps_tell(const struct steps *steps, uint8_t owner, struct vpt_cpu *cpu,
                  const struct ptd_run *run, size_t index, struct last *last, uint64_t *insns)
{
    for (; index + 1 < run->count; index++) {
        const struct step *const step = steps_find(steps, run->steps[index], owner);

        if (!step)
            break;
        (void)tell_near(cpu, last, step->ip);
        last->is_open = false;
        if (vpt_wants_branches(cpu) && !vpt_is_fast(cpu))
            break; /* the direct jumps on the way have to be told */
        for (unsigned i = 0; i < step->calls; i++)
            vpt_call_direct(cpu, 0, step->ret[i]);
        *insns += step->insns;
        last->is_open = true;
        last->last_class = step->last_class;
        last->taken = run->steps[index] & 1;
        last->end = step->end;
    }
    return index;
}
