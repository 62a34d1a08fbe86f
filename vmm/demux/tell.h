/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a flow says of one guest, told to the model of its processor. What happened at the end of a
 * block is told when it is known where the guest goes on, and in which address space and mode.
 */
#ifndef VMM_DEMUX_TELL_H
#define VMM_DEMUX_TELL_H

#include "ptdec.h"
#include "vpt.h"

/* What happened last, and what packets said behind it. */
struct last {
    bool is_open, is_block; /* not a block: an event, or the end of tracing */
    bool has_cr3, has_tsx, taken, has_from, has_to;
    uint8_t last_class; /* of a block, as in its item */
    uint64_t last_ip, from, to;
    uint64_t end; /* of a guest's block: the address behind its last instruction */
    uint64_t tsx;
};

/* The address behind the last instruction of a block. */
static inline uint64_t tell_block_end(const struct ptd_item *block)
{
    return block->last_ip + block->last_bytes;
}

static inline struct last last_block(const struct ptd_item *block)
{
    return (struct last){.is_open = true,
                         .is_block = true,
                         .taken = block->taken,
                         .has_to = block->has_to,
                         .last_class = block->last_class,
                         .last_ip = block->last_ip,
                         .to = block->to,
                         .end = tell_block_end(block)};
}

/* An event, before anything that it led to. */
static inline struct last last_event(const struct ptd_item *item)
{
    return (struct last){.is_open = true,
                         .has_from = true,
                         .from = item->from,
                         .has_to = item->has_to,
                         .to = item->to};
}

/* The near branch that a block ended with. False: its last instruction is another one. */
static inline bool tell_near(struct vpt_cpu *cpu, const struct last *block, uint64_t ip)
{
    switch ((enum ptd_insn_class)block->last_class) {
    case PTD_INSN_COND:
        vpt_cond_branch(cpu, ip, block->taken);
        return true;
    case PTD_INSN_JMP_DIRECT:
        vpt_jmp_direct(cpu, ip);
        return true;
    case PTD_INSN_CALL_DIRECT:
        vpt_call_direct(cpu, ip, block->end);
        return true;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(cpu, ip);
        return true;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(cpu, ip, block->end);
        return true;
    case PTD_INSN_RET:
        vpt_ret(cpu, ip);
        return true;
    default:
        return false;
    }
}

/* enum ptd_mode to enum vpt_exec_mode. */
static inline uint8_t tell_exec_mode(uint8_t mode)
{
    return mode == PTD_MODE_64 ? VPT_EXEC_64 : mode == PTD_MODE_32 ? VPT_EXEC_32 : VPT_EXEC_16;
}

/* What of the processor's state is another one by it. */
enum told { TOLD_SAME, TOLD_CR3, TOLD_CONTEXT };

/* What happened last, in a guest that goes on at an address in this state. */
enum told tell_last(struct vpt_cpu *cpu, const struct last *last, const struct vpt_context *after,
                    uint64_t ip);

#endif
