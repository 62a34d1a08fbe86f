/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CALL stack behind RET compression (33.4.2.2).
 *
 * A RET that does not go where the stack says empties the stack. The specification lets a
 * processor compress less than it could, and this choice keeps decoders of every kind in step:
 * those that pop on each RET, as 33.4.2.2 has it, and those that pop on compressed RETs only.
 */
#include "internal.h"

bool vpt_ret_matches(struct vpt_cpu *cpu, uint64_t target)
{
    if (cpu->ret_count == 0)
        return false;
    cpu->ret_top = (uint8_t)((cpu->ret_top + VPT_RET_STACK - 1) % VPT_RET_STACK);
    cpu->ret_count--;
    if (cpu->ret_stack[cpu->ret_top] == target)
        return true;
    vpt_ret_clear(cpu);
    return false;
}
