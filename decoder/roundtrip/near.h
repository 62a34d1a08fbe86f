/* SPDX-License-Identifier: BSD-3-Clause */
/* A near branch that ran, told to the model. */
#ifndef PTD_ROUNDTRIP_NEAR_H
#define PTD_ROUNDTRIP_NEAR_H

#include "ptdec.h"
#include "vpt.h"

/* It led to ip. False: it is no near branch. */
static inline bool tell_near(struct vpt_cpu *cpu, const struct ptd_insn *insn, uint64_t ip)
{
    const uint64_t next_ip = insn->ip + insn->size_bytes;

    switch ((enum ptd_insn_class)insn->iclass) {
    case PTD_INSN_COND:
        vpt_cond_branch(cpu, ip, ip != next_ip);
        return true;
    case PTD_INSN_JMP_DIRECT:
        vpt_jmp_direct(cpu, ip);
        return true;
    case PTD_INSN_CALL_DIRECT:
        vpt_call_direct(cpu, ip, next_ip);
        return true;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(cpu, ip);
        return true;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(cpu, ip, next_ip);
        return true;
    case PTD_INSN_RET:
        vpt_ret(cpu, ip);
        return true;
    default:
        return false;
    }
}

#endif
