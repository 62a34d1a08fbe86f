/* SPDX-License-Identifier: BSD-3-Clause */
/* What is told of steps, see steps.h. */
#include "demux/steps.h"

#include <stdlib.h>
#include <string.h>

#define STEP_WORDS    4u /* a step is the number of its code, in words, and in bit 0 a TNT bit */
#define CALLS_MAX     2u
#define ROOM_AT_FIRST 1024u
#define OWNER_BITS    8u

/* Of some code, what there is to be told at each step. */
struct brief {
    uint32_t tag; /* when it was found, and for whom; 0: never */
    uint16_t insns;
    uint8_t calls;
    uint8_t last_class; /* enum ptd_insn_class */
};

/* The rest, which few steps need. */
struct detail {
    uint64_t ip;             /* where it begins */
    uint64_t end;            /* behind its last instruction */
    uint64_t ret[CALLS_MAX]; /* return addresses of the CALLs on its way */
};

struct steps {
    uint32_t generation;  /* 1 to 2^24 - 1 */
    struct brief *briefs; /* by number of code */
    struct detail *details;
    size_t room; /* of both */
    /* What is being found. */
    uint32_t code, insns;
    bool is_simple;
    struct brief brief;
    struct detail detail;
};

struct steps *steps_new(void)
{
    struct steps *const steps = calloc(1, sizeof(*steps));

    if (steps)
        steps->generation = 1;
    return steps;
}

void steps_free(struct steps *steps)
{
    if (!steps)
        return;
    free(steps->briefs);
    free(steps->details);
    free(steps);
}

void steps_forget(struct steps *steps)
{
    if (++steps->generation < 1u << (32 - OWNER_BITS))
        return;
    if (steps->room > 0)
        memset(steps->briefs, 0, steps->room * sizeof(*steps->briefs));
    steps->generation = 1;
}

static uint32_t tag_of(const struct steps *steps, uint8_t owner)
{
    return steps->generation << OWNER_BITS | owner;
}

/* Room for code up to a number. False: no memory. */
static bool make_room(struct steps *steps, uint32_t code)
{
    size_t room = steps->room ? steps->room : ROOM_AT_FIRST;
    struct brief *briefs;
    struct detail *details;

    while (room <= code)
        room *= 2;
    if (room == steps->room)
        return true;
    briefs = reallocarray(steps->briefs, room, sizeof(*briefs));
    if (!briefs)
        return false;
    steps->briefs = briefs;
    details = reallocarray(steps->details, room, sizeof(*details));
    if (!details)
        return false;
    steps->details = details;
    memset(briefs + steps->room, 0, (room - steps->room) * sizeof(*briefs));
    steps->room = room;
    return true;
}

void steps_begin(struct steps *steps, uint32_t step, uint8_t owner)
{
    steps->code = step / STEP_WORDS;
    steps->insns = 0;
    steps->brief = (struct brief){.tag = tag_of(steps, owner)};
    steps->detail = (struct detail){0};
    steps->is_simple = make_room(steps, steps->code);
}

/* What happens at the end of a block that is not the last one. */
static void pass_end(struct steps *steps)
{
    switch ((enum ptd_insn_class)steps->brief.last_class) {
    case PTD_INSN_CALL_DIRECT:
        if (steps->brief.calls == CALLS_MAX)
            steps->is_simple = false;
        else
            steps->detail.ret[steps->brief.calls++] = steps->detail.end;
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
    if (steps->insns == 0)
        steps->detail.ip = block->ip;
    else
        pass_end(steps);
    /* To the instruction behind, a CALL is none, and 16-bit code has more to be told. */
    if (block->mode == PTD_MODE_16 ||
        (block->last_class == PTD_INSN_CALL_DIRECT && block->has_to && block->to == end))
        steps->is_simple = false;
    steps->insns += block->insns;
    steps->brief.last_class = block->last_class;
    steps->detail.end = end;
}

void steps_end(struct steps *steps)
{
    if (!steps->is_simple || !step_is_near(steps->brief.last_class) || steps->insns > UINT16_MAX)
        return;
    steps->brief.insns = (uint16_t)steps->insns;
    steps->briefs[steps->code] = steps->brief;
    steps->details[steps->code] = steps->detail;
}

/* The code of a step. NULL: it is not known. */
static inline const struct brief *find(const struct steps *steps, uint32_t step, uint32_t tag)
{
    const uint32_t code = step / STEP_WORDS;

    return code < steps->room && steps->briefs[code].tag == tag ? &steps->briefs[code] : NULL;
}

static inline void tell_calls(struct vpt_cpu *cpu, const struct brief *brief,
                              const struct detail *detail)
{
    for (unsigned i = 0; i < brief->calls; i++)
        vpt_call_direct(cpu, 0, detail->ret[i]);
}

bool steps_know(const struct steps *steps, uint32_t step, uint8_t owner, uint64_t *ip)
{
    if (!find(steps, step, tag_of(steps, owner)))
        return false;
    *ip = steps->details[step / STEP_WORDS].ip;
    return true;
}

/* The branch that the step in front of an index ended with, which is not told yet. */
static void leave_open(struct last *last, const struct ptd_run *run, size_t index,
                       const struct brief *brief, const struct detail *detail)
{
    last->is_open = true;
    last->last_class = brief->last_class;
    last->taken = run->steps[index - 1] & 1;
    last->end = detail->end;
    last->has_to = index == run->count;
    last->to = run->to;
}

/*
 * As steps_tell(), of a processor that is fast, behind a conditional branch: up to a step that ends
 * in another branch, or until the processor is not fast any more. Most steps are told here, so the
 * bits of the TNT are in a register.
 */
static size_t tell_conds(const struct steps *steps, uint32_t tag, struct vpt_cpu *cpu,
                         const struct ptd_run *run, size_t index, struct last *last,
                         uint64_t *insns)
{
    const uint32_t *const all = run->steps;
    const struct brief *brief = NULL, *next;
    const struct detail *detail = NULL;
    uint64_t tnt = cpu->tnt, sum = 0;
    bool taken = last->taken, told = false;

    while (index < run->count && (next = find(steps, all[index], tag))) {
        tnt = tnt << 1 | taken;
        if (tnt >= cpu->tnt_full) {
            cpu->tnt = tnt;
            vpt_branch_told(cpu, steps->details[all[index] / STEP_WORDS].ip);
            tnt = cpu->tnt;
            told = !vpt_is_fast(cpu);
            if (told)
                break;
        }
        brief = next;
        detail = &steps->details[all[index] / STEP_WORDS];
        tell_calls(cpu, brief, detail);
        sum += brief->insns;
        taken = all[index++] & 1;
        if (brief->last_class != PTD_INSN_COND)
            break;
    }
    cpu->tnt = tnt;
    *insns += sum;
    if (brief)
        leave_open(last, run, index, brief, detail);
    if (told)
        last->is_open = false;
    return index;
}

size_t steps_tell(const struct steps *steps, uint8_t owner, struct vpt_cpu *cpu,
                  const struct ptd_run *run, size_t index, struct last *last, uint64_t *insns)
{
    const uint32_t tag = tag_of(steps, owner);
    const struct brief *brief;

    while (index < run->count && (brief = find(steps, run->steps[index], tag))) {
        const struct detail *const detail = &steps->details[run->steps[index] / STEP_WORDS];

        if (last->is_open && last->last_class == PTD_INSN_COND && vpt_is_fast(cpu)) {
            index = tell_conds(steps, tag, cpu, run, index, last, insns);
            continue;
        }
        if (last->is_open)
            (void)tell_near(cpu, last, detail->ip);
        last->is_open = false;
        if (vpt_wants_branches(cpu) && !vpt_is_fast(cpu))
            break; /* the direct jumps on the way have to be told */
        tell_calls(cpu, brief, detail);
        *insns += brief->insns;
        leave_open(last, run, ++index, brief, detail);
    }
    return index;
}
