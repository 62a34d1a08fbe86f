/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the model is told of steps (ptd_flow_run()): it is a property of their code, so it is found
 * once. Of most steps, four bytes are looked at.
 */
#ifndef VMM_DEMUX_STEPS_H
#define VMM_DEMUX_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "demux/tell.h"
#include "ptdec.h"

struct steps;

struct steps *steps_new(void); /* NULL: no memory */
void steps_free(struct steps *steps);
/* Nothing that was found holds any more. */
void steps_forget(struct steps *steps);

/* A run comes, before anything is asked of its steps. False: no memory. */
bool steps_begin_run(struct steps *steps, const struct ptd_flow *flow, const struct ptd_run *run);
/* Begins to find out about the code of a step, whose blocks follow. */
void steps_begin(struct steps *steps, uint32_t step, uint8_t owner);
/* The next block of it. */
void steps_block(struct steps *steps, const struct ptd_item *block);
/* There are no more: what was found can be asked for, if it is simple enough. */
void steps_end(struct steps *steps);
/* Whether a last instruction of a step is a near branch. Others are told as blocks. */
static inline bool step_is_near(uint8_t last_class)
{
    return last_class == PTD_INSN_COND || last_class == PTD_INSN_RET ||
           last_class == PTD_INSN_JMP_INDIRECT || last_class == PTD_INSN_CALL_INDIRECT;
}
/* Whether a step is known, and where it begins. */
bool steps_know(const struct steps *steps, uint32_t step, uint8_t owner, uint64_t *ip);
/*
 * Tells a processor steps of a run from an index on, as far as they are known. In front of them was
 * a near branch, the one in *last if it is open; so is behind them, in *last, but for its address,
 * which no near branch needs. The first step that was not told; *insns grows by what ran.
 */
size_t steps_tell(const struct steps *steps, uint8_t owner, struct vpt_cpu *cpu,
                  const struct ptd_run *run, size_t index, struct last *last, uint64_t *insns);

#endif
