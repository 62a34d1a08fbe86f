/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the model is told of steps (ptd_flow_run()): it is a property of their code, so it is found
 * once. Room for it is bounded; a step that has none is found again.
 */
#ifndef VMM_DEMUX_STEPS_H
#define VMM_DEMUX_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "demux/tell.h"
#include "ptdec.h"

#define STEP_CALLS_MAX 2u

struct step {
    uint64_t ip;                  /* where it begins */
    uint64_t end;                 /* behind its last instruction */
    uint64_t ret[STEP_CALLS_MAX]; /* return addresses of the CALLs on its way */
    uint32_t code;                /* the number of its code */
    uint32_t generation;          /* when this was found; 0: never */
    uint32_t insns;
    uint8_t calls;
    uint8_t last_class; /* enum ptd_insn_class */
    uint8_t owner;
};

struct steps;

struct steps *steps_new(void); /* NULL: no memory */
void steps_free(struct steps *steps);
/* Nothing that was found holds any more. */
void steps_forget(struct steps *steps);

/* Begins to find out about the code of a step, whose blocks follow. */
void steps_begin(struct steps *steps, uint32_t step, uint8_t owner);
/* The next block of it, and the address behind it. */
void steps_block(struct steps *steps, const struct ptd_item *block, uint64_t end);
/* There are no more: what was found can be asked for, if it is simple enough. */
void steps_end(struct steps *steps);
/* Whether a last instruction of a step is a near branch. Others are told as blocks. */
static inline bool step_is_near(uint8_t last_class)
{
    return last_class == PTD_INSN_COND || last_class == PTD_INSN_RET ||
           last_class == PTD_INSN_JMP_INDIRECT || last_class == PTD_INSN_CALL_INDIRECT;
}
/*
 * Tells a processor steps of a run from an index on, as far as they are known, behind a near branch
 * in *last: all but the last one of the run. The first that was not told; *insns grows by what ran.
 */
size_t steps_tell(const struct steps *steps, uint8_t owner, struct vpt_cpu *cpu,
                  const struct ptd_run *run, size_t index, struct last *last, uint64_t *insns);
/* NULL: it is not known. */
static inline const struct step *steps_find(const struct steps *steps, uint32_t step,
                                            uint8_t owner);

/* ---- Private ---- */

#define STEPS_ROOM (1u << 17)

struct steps {
    uint32_t generation;
    bool is_simple;
    struct step next; /* being found */
    struct step all[STEPS_ROOM];
};

static inline const struct step *steps_find(const struct steps *steps, uint32_t step, uint8_t owner)
{
    const struct step *const found = &steps->all[(step >> 2) % STEPS_ROOM];

    return found->code == step >> 2 && found->generation == steps->generation &&
                   found->owner == owner
               ? found
               : NULL;
}

#endif
