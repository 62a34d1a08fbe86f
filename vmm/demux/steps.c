/* SPDX-License-Identifier: BSD-3-Clause */
/* What is told of steps, see steps.h. */
#include "demux/steps.h"

#include <stdlib.h>
#include <string.h>

#define STEP_WORDS    4u /* a step is the number of its code, in words, and in bit 0 a TNT bit */
#define CALLS_MAX     2u
#define ROOM_AT_FIRST 1024u

/* How a step ends. */
enum ending { END_COND, END_RET, END_JMP_INDIRECT, END_CALL_INDIRECT };

/*
 * Of some code, what there is to be told at each step: how many instructions, its ending, how many
 * CALLs on its way, and a tag, which says for whom it was found, and when. A brief XOR the tag that
 * is looked for says in one comparison whether a step is known, and in another whether it is a
 * plain one, which has no CALLs and ends in a conditional branch. 0: never found.
 */
#define INSNS_MAX   0xfffu
#define PLAIN_MAX   INSNS_MAX
#define ENDING_SHR  12
#define CALLS_SHR   14
#define KNOWN_MAX   0xffffu
#define OWNER_SHR   16
#define GENERATIONS 256u /* 0 is none */
#define GEN_SHR     24

static inline unsigned calls_of(uint32_t known)
{
    return known >> CALLS_SHR & 3;
}
static inline enum ending ending_of(uint32_t known)
{
    return known >> ENDING_SHR & 3;
}

/* The rest, which few steps need. */
struct detail {
    uint64_t ip;             /* where it begins */
    uint64_t end;            /* behind its last instruction */
    uint64_t ret[CALLS_MAX]; /* return addresses of the CALLs on its way */
};

struct steps {
    uint32_t generation;
    uint32_t epoch;   /* of the last run: whose numbers these are */
    uint32_t *briefs; /* by number of code */
    struct detail *details;
    size_t room; /* of both */
    /* What is being found. */
    uint32_t code, tag, insns;
    unsigned calls;
    uint8_t last_class; /* enum ptd_insn_class */
    bool is_simple;
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
    if (++steps->generation < GENERATIONS)
        return;
    if (steps->room > 0)
        memset(steps->briefs, 0, steps->room * sizeof(*steps->briefs));
    steps->generation = 1;
}

static uint32_t tag_of(const struct steps *steps, uint8_t owner)
{
    return steps->generation << GEN_SHR | (uint32_t)owner << OWNER_SHR;
}

/* Room for steps of so many numbers of code. False: no memory. */
static bool make_room(struct steps *steps, size_t count)
{
    size_t room = steps->room ? steps->room : ROOM_AT_FIRST;
    uint32_t *briefs;
    struct detail *details;

    if (count <= steps->room)
        return true;
    while (room < count)
        room *= 2;
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

bool steps_begin_run(struct steps *steps, const struct ptd_flow *flow, const struct ptd_run *run)
{
    size_t count = 0;

    if (run->epoch != steps->epoch)
        steps_forget(steps);
    steps->epoch = run->epoch;
    (void)ptd_flow_insns(flow, &count);
    return make_room(steps, count);
}

void steps_begin(struct steps *steps, uint32_t step, uint8_t owner)
{
    steps->code = step / STEP_WORDS;
    steps->tag = tag_of(steps, owner);
    steps->insns = steps->calls = 0;
    steps->detail = (struct detail){0};
    steps->is_simple = true;
}

/* What happens at the end of a block that is not the last one. */
static void pass_end(struct steps *steps)
{
    switch ((enum ptd_insn_class)steps->last_class) {
    case PTD_INSN_CALL_DIRECT:
        if (steps->calls == CALLS_MAX)
            steps->is_simple = false;
        else
            steps->detail.ret[steps->calls++] = steps->detail.end;
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

void steps_block(struct steps *steps, const struct ptd_item *block)
{
    const uint64_t end = tell_block_end(block);

    if (steps->insns == 0)
        steps->detail.ip = block->ip;
    else
        pass_end(steps);
    /* To the instruction behind, a CALL is none, and 16-bit code has more to be told. */
    if (block->mode == PTD_MODE_16 ||
        (block->last_class == PTD_INSN_CALL_DIRECT && block->has_to && block->to == end))
        steps->is_simple = false;
    steps->insns += block->insns;
    steps->last_class = block->last_class;
    steps->detail.end = end;
}

/* Of the last instruction of a step, which is a near branch (step_is_near()). */
static enum ending ending_by(uint8_t last_class)
{
    switch ((enum ptd_insn_class)last_class) {
    case PTD_INSN_RET:
        return END_RET;
    case PTD_INSN_JMP_INDIRECT:
        return END_JMP_INDIRECT;
    case PTD_INSN_CALL_INDIRECT:
        return END_CALL_INDIRECT;
    default:
        return END_COND;
    }
}

/* The same back again. */
static uint8_t class_by(enum ending ending)
{
    static const uint8_t classes[] = {[END_COND] = PTD_INSN_COND,
                                      [END_RET] = PTD_INSN_RET,
                                      [END_JMP_INDIRECT] = PTD_INSN_JMP_INDIRECT,
                                      [END_CALL_INDIRECT] = PTD_INSN_CALL_INDIRECT};

    return classes[ending];
}

void steps_end(struct steps *steps)
{
    if (!steps->is_simple || !step_is_near(steps->last_class) || steps->insns > INSNS_MAX)
        return;
    steps->briefs[steps->code] = steps->tag | steps->calls << CALLS_SHR |
                                 (uint32_t)ending_by(steps->last_class) << ENDING_SHR |
                                 steps->insns;
    steps->details[steps->code] = steps->detail;
}

/* What is known of a step, up to KNOWN_MAX; else it is not known. */
static inline uint32_t look_up(const struct steps *steps, uint32_t step, uint32_t tag)
{
    return steps->briefs[step / STEP_WORDS] ^ tag;
}

bool steps_know(const struct steps *steps, uint32_t step, uint8_t owner, uint64_t *ip)
{
    if (look_up(steps, step, tag_of(steps, owner)) > KNOWN_MAX)
        return false;
    *ip = steps->details[step / STEP_WORDS].ip;
    return true;
}

/* The branch that the step in front of an index ended with, which is not told yet. */
static void leave_open(const struct steps *steps, struct last *last, const struct ptd_run *run,
                       size_t index, enum ending ending)
{
    const uint32_t step = run->steps[index - 1];

    *last = (struct last){.is_open = true,
                          .is_block = true,
                          .last_class = class_by(ending),
                          .taken = step & 1,
                          .end = steps->details[step / STEP_WORDS].end,
                          .has_to = index == run->count,
                          .to = run->to};
}

/*
 * The TNT bits that the processor does not know yet, and a branch that is none; next_ip is the
 * address behind it. Apart from the loop, as all that is rarer. What room there is then.
 */
static __attribute__((noinline)) unsigned tell_target(struct vpt_cpu *cpu, enum ending ending,
                                                      uint64_t target, uint64_t next_ip)
{
    if (ending == END_RET)
        return vpt_branches_ret(cpu, target);
    if (ending == END_JMP_INDIRECT)
        return vpt_branches_jmp(cpu, target);
    return vpt_branches_call(cpu, target, next_ip);
}

/* Whether the step behind a RET begins where that would be a TNT bit; then it is off the stack. */
static inline bool pop_ret(struct vpt_cpu *cpu, const struct detail *next)
{
    const bool compresses = vpt_ret_compresses(cpu, next->ip);

    if (compresses)
        vpt_ret_pop(cpu);
    return compresses;
}

static inline void push_calls(struct vpt_cpu *cpu, uint32_t known, const struct detail *detail)
{
    for (unsigned i = 0; i < calls_of(known); i++)
        vpt_ret_push(cpu, detail->ret[i]);
}

/* Where steps are told, behind one whose branch is open. */
struct place {
    const uint32_t *at, *end;
    uint64_t insns;  /* since the begin */
    uint64_t taken;  /* of END_COND: 1 or 0 */
    uint64_t behind; /* of END_CALL_INDIRECT: the address behind it */
    enum ending ending;
};

/* The step is told up to its own branch. */
static inline void pass_step(struct place *place, struct vpt_cpu *cpu, uint32_t known,
                             const struct detail *detail)
{
    push_calls(cpu, known, detail);
    place->ending = ending_of(known);
    place->behind = detail->end;
    place->insns += known & INSNS_MAX;
    place->taken = *place->at++ & 1;
}

/*
 * Passes plain steps, as many as there are room for TNT bits, behind one that ended in a
 * conditional branch. The TNT with the bits in front of the steps.
 */
static inline uint64_t pass_plain(struct place *place, const uint32_t *briefs, uint32_t tag,
                                  size_t room, uint64_t tnt)
{
    const size_t left = (size_t)(place->end - place->at);
    const uint32_t *at = place->at, *const stop = at + (room < left ? room : left);
    uint64_t taken = place->taken, insns = place->insns;

    for (; at < stop; at++) {
        const uint32_t step = *at;
        const uint64_t plain = briefs[step / STEP_WORDS] ^ tag;

        if (plain > PLAIN_MAX)
            break;
        tnt = tnt + tnt + taken; /* in one instruction, as a shift is not */
        taken = step & 1;
        insns += plain;
    }
    place->at = at;
    place->taken = taken;
    place->insns = insns;
    return tnt;
}

/*
 * As steps_tell(), of a processor that is fast, behind a step whose branch is open: up to a step
 * that is not known, or until the processor is not fast any more. Most steps are told here. The
 * TNT is in a register, and of a plain step behind a conditional branch nothing is loaded but its
 * brief.
 */
static __attribute__((noinline)) bool tell_fast(const struct steps *steps, uint32_t tag,
                                                struct vpt_cpu *cpu, struct place *where)
{
    const uint32_t *const briefs = steps->briefs;
    const struct detail *const details = steps->details, *next;
    struct place place = *where;
    uint64_t tnt = cpu->tnt;
    size_t room = vpt_tnt_room(cpu); /* for TNT bits */

    while (room > 0 && place.at < place.end) {
        uint32_t known;

        if (place.ending == END_COND) {
            const uint32_t *const begin = place.at;

            tnt = pass_plain(&place, briefs, tag, room - 1, tnt);
            room -= (size_t)(place.at - begin);
            if (place.at == place.end)
                break;
        }
        known = briefs[*place.at / STEP_WORDS] ^ tag;
        if (known > KNOWN_MAX)
            break;
        next = &details[*place.at / STEP_WORDS];
        if (place.ending == END_COND) {
            tnt = tnt << 1 | place.taken;
            if (--room == 0) {
                cpu->tnt = tnt;
                room = vpt_branches_told(cpu, next->ip);
                tnt = cpu->tnt;
            }
        } else if (place.ending == END_RET && pop_ret(cpu, next)) {
            place.ending = END_COND;
            place.taken = 1;
            continue;
        } else {
            cpu->tnt = tnt;
            room = tell_target(cpu, place.ending, next->ip, place.behind);
            tnt = cpu->tnt;
        }
        if (room > 0)
            pass_step(&place, cpu, known, next);
    }
    cpu->tnt = tnt;
    vpt_branches_told(cpu, 0); /* where nothing else is due: no address is needed */
    *where = place;
    return room > 0;
}

size_t steps_tell(const struct steps *steps, uint8_t owner, struct vpt_cpu *cpu,
                  const struct ptd_run *run, size_t index, struct last *last, uint64_t *insns)
{
    const uint32_t tag = tag_of(steps, owner);
    uint32_t known;

    while (index < run->count && (known = look_up(steps, run->steps[index], tag)) <= KNOWN_MAX) {
        const struct detail *const detail = &steps->details[run->steps[index] / STEP_WORDS];

        if (last->is_open && vpt_is_fast(cpu)) {
            struct place place = {.at = run->steps + index,
                                  .end = run->steps + run->count,
                                  .taken = last->taken,
                                  .behind = last->end,
                                  .ending = ending_by(last->last_class)};

            last->is_open = tell_fast(steps, tag, cpu, &place);
            *insns += place.insns;
            if (last->is_open && place.at > run->steps + index)
                leave_open(steps, last, run, (size_t)(place.at - run->steps), place.ending);
            index = (size_t)(place.at - run->steps);
            continue;
        }
        if (last->is_open)
            (void)tell_near(cpu, last, detail->ip);
        last->is_open = false;
        if (vpt_wants_branches(cpu) && !vpt_is_fast(cpu))
            break; /* the direct jumps on the way have to be told */
        if (vpt_is_fast(cpu))
            push_calls(cpu, known, detail);
        *insns += known & INSNS_MAX;
        leave_open(steps, last, run, ++index, ending_of(known));
    }
    return index;
}
