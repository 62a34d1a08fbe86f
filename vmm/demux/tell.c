/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow to model, see tell.h. */
#include "demux/tell.h"

static enum told transfer(struct vpt_cpu *cpu, enum vpt_transfer_type type, uint64_t from,
                          const struct vpt_context *after, uint64_t ip)
{
    const struct vpt_transfer transfer = {.type = type, .ip = from, .target = ip, .after = *after};

    vpt_transfer(cpu, &transfer);
    return TOLD_CONTEXT;
}

/* The last instruction of a block. */
static enum told tell_branch(struct vpt_cpu *cpu, const struct last *last,
                             const struct vpt_context *after, uint64_t ip)
{
    if (tell_near(cpu, last, ip))
        return TOLD_SAME;
    switch ((enum ptd_insn_class)last->last_class) {
    case PTD_INSN_FAR:
    case PTD_INSN_VMENTRY:
        return transfer(cpu, VPT_FAR_BRANCH, last->last_ip, after, ip);
    case PTD_INSN_IRET:
        return transfer(cpu, VPT_IRET, last->last_ip, after, ip);
    case PTD_INSN_MOV_CR3:
        if (!last->has_cr3)
            return TOLD_SAME;
        vpt_mov_cr3(cpu, after->cr3, ip);
        return TOLD_CR3;
    default:
        return TOLD_SAME;
    }
}

static void tell_transaction(struct vpt_cpu *cpu, const struct last *last, uint64_t ip)
{
    if (!last->has_tsx)
        return;
    if (last->tsx & 1)
        vpt_tx_begin(cpu, ip);
    else
        vpt_tx_commit(cpu, ip);
}

enum told tell_last(struct vpt_cpu *cpu, const struct last *last, const struct vpt_context *after,
                    uint64_t ip)
{
    enum told told;

    if (last->is_block) {
        told = tell_branch(cpu, last, after, ip);
    } else if (last->has_tsx && last->tsx & 2) {
        vpt_tx_abort(cpu, last->from, ip);
        return TOLD_SAME;
    } else {
        told = transfer(cpu, VPT_INTERRUPT, last->from, after, ip);
    }
    tell_transaction(cpu, last, ip);
    return told;
}
