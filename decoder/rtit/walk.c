/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of the RTIT flow decoder that walks over code and binds packets to instructions (RTIT
 * v1.05, 2.2, Table 1, Table 19).
 *
 * FUP.FAR and FUP.PGD hold the address behind the instruction, if it was one that sent them, and
 * the address of the next instruction, if it was an event or the end of a range. A walk that comes
 * to that address first takes the latter; should code go from there straight back to a far transfer
 * that ends there, no packet tells the two apart.
 */
#include "rtit/walk.h"

/* ---- Items ---- */

static void unbind(struct ptd_rtit_flow *flow)
{
    flow->bind = (struct rtit_bind){.kind = RTIT_BIND_NONE};
    loop_reset(&flow->loop, flow->ip);
}

/* The block ran; execution goes on at ip. */
static void go(struct ptd_rtit_flow *flow, const struct block *block, bool jumped, uint64_t ip)
{
    struct ptd_item *const item =
        ptd_rtit_push(flow, PTD_ITEM_BLOCK, ptd_rtit_packets_offset(&flow->packets));

    item->ip = block->ip;
    item->last_ip = block->last_ip;
    item->insns = block->insns;
    item->last_class = block->last_class;
    item->last_bytes = ptd_block_last_bytes(block);
    item->taken = jumped && block->last_class == PTD_INSN_COND;
    flow->ip = ip;
    flow->jumped = jumped;
}

/* The same for a near branch that was taken: it may leave the ranges of the filter (2.4.3). */
static void jump(struct ptd_rtit_flow *flow, const struct block *block, uint64_t ip)
{
    const struct ptd_rtit_config *const config = &flow->config;

    go(flow, block, true, ip);
    flow->outside = config->filters > 0 && !ptd_rtit_in_ranges(config->filter, config->filters, ip);
    flow->leave_lip = block->next_ip;
}

static void disable(struct ptd_rtit_flow *flow, const uint64_t *from, const uint64_t *to)
{
    struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_DISABLED, flow->bind.offset);

    if (from) {
        item->has_from = true;
        item->from = *from;
    }
    if (to) {
        item->has_to = true;
        item->to = *to;
    }
    flow->state = RTIT_DISABLED;
    flow->outside = false;
    unbind(flow);
}

static void stop(struct ptd_rtit_flow *flow, bool known)
{
    struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_STOP, flow->bind.offset);

    item->has_to = known;
    item->to = known ? flow->ip : 0;
    flow->state = RTIT_DISABLED;
    unbind(flow);
}

/* The walk cannot go on. Of TraceStop, this only means that its place cannot be told. */
static void give_up(struct ptd_rtit_flow *flow, int error)
{
    if (flow->tnt_count == 0 && flow->bind.kind == RTIT_BIND_STOP)
        stop(flow, false);
    else
        ptd_rtit_fail(flow, error,
                      flow->bind.kind ? flow->bind.offset
                                      : ptd_rtit_packets_offset(&flow->packets));
}

/* ---- Places ---- */

/* Whether TraceStop happens in front of the next instruction; or anywhere, for all we know. */
static bool is_stop(const struct ptd_rtit_flow *flow)
{
    const struct ptd_rtit_config *const config = &flow->config;

    if (config->stops == 0 ||
        (flow->jumped && ptd_rtit_in_ranges(config->stop, config->stops, flow->ip)))
        return true;
    for (unsigned i = 0; i < config->stops; i++) {
        if (flow->ip == config->stop[i].base)
            return true;
    }
    return false;
}

/* Whether what is bound happens in front of the next instruction. */
static bool is_here(const struct ptd_rtit_flow *flow)
{
    switch (flow->bind.kind) {
    case RTIT_BIND_FAR:
    case RTIT_BIND_PGD:
        return flow->ip == flow->bind.lip;
    case RTIT_BIND_STOP:
        return is_stop(flow);
    default:
        return false;
    }
}

/* Whether it may happen within a block, behind its first instruction: then in front of *lip. */
static bool is_within(const struct ptd_rtit_flow *flow, const struct block *block, uint64_t *lip)
{
    const struct ptd_rtit_config *const config = &flow->config;
    uint64_t len = block->last_ip - block->ip;
    bool found = false;

    switch (flow->bind.kind) {
    case RTIT_BIND_FAR:
    case RTIT_BIND_PGD:
        *lip = flow->bind.lip;
        return *lip - block->ip <= len;
    case RTIT_BIND_STOP:
        for (unsigned i = 0; i < config->stops; i++) {
            if (config->stop[i].base - block->ip > len)
                continue;
            *lip = config->stop[i].base; /* the nearest one */
            len = *lip - block->ip;
            found = true;
        }
        return found;
    default:
        return false;
    }
}

/* An interrupt, an exception, the end of a range, a context that is not traced; or TraceStop. */
static void happen(struct ptd_rtit_flow *flow)
{
    const struct rtit_bind bind = flow->bind;

    if (bind.kind == RTIT_BIND_STOP) {
        stop(flow, flow->config.stops > 0);
        return;
    }
    if (bind.kind == RTIT_BIND_PGD) {
        disable(flow, &bind.lip, bind.has_to ? &bind.to : NULL);
        return;
    }

    struct ptd_item *const item = ptd_rtit_push(flow, PTD_ITEM_ASYNC, bind.offset);

    item->has_from = true;
    item->from = bind.lip;
    item->has_to = bind.has_to;
    item->to = bind.to;
    unbind(flow);
    if (bind.has_to)
        ptd_rtit_arrive(flow, bind.to);
    else
        flow->state = RTIT_LOST; /* an overflow took the TIP */
}

/* Walks up to the place in a block where it happens. False: it does not, or no instruction begins
 * there: the place may be of a later walk. */
static bool walk_part(struct ptd_rtit_flow *flow, const struct block *block)
{
    struct block part;
    uint64_t lip;

    if (!is_within(flow, block, &lip) || ptd_blocks_cut(&flow->blocks, block, lip, &part) != PTD_OK)
        return false;
    go(flow, &part, false, lip);
    return true;
}

/* A branch led out of the filter's ranges. */
static void walk_out(struct ptd_rtit_flow *flow)
{
    if (flow->tnt_count > 0 || flow->bind.kind != RTIT_BIND_PGD ||
        flow->bind.lip != flow->leave_lip)
        give_up(flow, PTD_E_MISMATCH);
    else
        disable(flow, NULL, &flow->ip);
}

/* ---- Instructions ---- */

static void walk_cond(struct ptd_rtit_flow *flow, const struct block *block)
{
    if (flow->tnt_count == 0)
        give_up(flow, PTD_E_MISMATCH);
    else if (flow->tnt_bits >> --flow->tnt_count & 1)
        jump(flow, block, block->target);
    else
        go(flow, block, false, block->next_ip);
    loop_reset(&flow->loop, flow->ip);
}

static void note_call(struct ptd_rtit_flow *flow, const struct block *block)
{
    flow->last_call = block->next_ip;
    flow->has_call = true;
}

static void walk_direct(struct ptd_rtit_flow *flow, const struct block *block)
{
    if (block->last_class == PTD_INSN_CALL_DIRECT)
        note_call(flow, block);
    jump(flow, block, block->target);
}

static void walk_indirect(struct ptd_rtit_flow *flow, const struct block *block)
{
    if (flow->tnt_count > 0 || flow->bind.kind != RTIT_BIND_TIP) {
        give_up(flow, PTD_E_MISMATCH);
        return;
    }
    if (block->last_class == PTD_INSN_CALL_INDIRECT)
        note_call(flow, block);
    jump(flow, block, flow->bind.to);
    unbind(flow);
}

/* A RET to where the last CALL left from is a TNT bit (4.2.3.2). */
static void walk_ret(struct ptd_rtit_flow *flow, const struct block *block)
{
    if (flow->tnt_count == 0) {
        walk_indirect(flow, block);
        return;
    }
    if (!(flow->tnt_bits >> --flow->tnt_count & 1)) {
        give_up(flow, PTD_E_MISMATCH);
        return;
    }
    if (!flow->has_call) {
        give_up(flow, PTD_E_RETSTACK);
        return;
    }
    jump(flow, block, flow->last_call);
    loop_reset(&flow->loop, flow->ip);
}

/*
 * The LIP of a FUP that a far transfer sends is behind it, or with erratum E1 inside it. INTO may
 * do nothing.
 */
static void walk_far(struct ptd_rtit_flow *flow, const struct block *block)
{
    const struct rtit_bind bind = flow->bind;
    const bool binds = flow->tnt_count == 0 &&
                       (bind.kind == RTIT_BIND_FAR || bind.kind == RTIT_BIND_PGD) &&
                       bind.lip - block->last_ip - 1 < block->next_ip - block->last_ip;

    if (!binds) {
        if (block->optional)
            go(flow, block, false, block->next_ip);
        else
            give_up(flow, PTD_E_MISMATCH);
        return;
    }
    go(flow, block, true, bind.to);
    if (bind.kind == RTIT_BIND_PGD) {
        disable(flow, NULL, bind.has_to ? &bind.to : NULL);
        return;
    }
    unbind(flow);
    if (!bind.has_to)
        flow->state = RTIT_LOST;
}

/* MOV CR3, or a MOV CR0 that changes CR0.PG (4.2.10). */
static void walk_paging(struct ptd_rtit_flow *flow, const struct block *block)
{
    const struct rtit_bind bind = flow->bind;

    go(flow, block, false, block->next_ip);
    if (flow->tnt_count > 0 || bind.kind != RTIT_BIND_PIP ||
        (block->last_class == PTD_INSN_MOV_CR0 && bind.paging == flow->paging))
        return;
    unbind(flow);
    ptd_rtit_set_paging(flow, bind.offset, bind.cr3, bind.paging);
}

static void walk_block(struct ptd_rtit_flow *flow, const struct block *block)
{
    switch ((enum ptd_insn_class)block->last_class) {
    case PTD_INSN_COND:
        walk_cond(flow, block);
        break;
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        walk_direct(flow, block);
        break;
    case PTD_INSN_RET:
        walk_ret(flow, block);
        break;
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_INDIRECT:
        walk_indirect(flow, block);
        break;
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_INT:
    case PTD_INSN_VMENTRY:
        walk_far(flow, block);
        break;
    case PTD_INSN_MOV_CR0:
    case PTD_INSN_MOV_CR3:
        walk_paging(flow, block);
        break;
    case PTD_INSN_VMPTRLD:
    case PTD_INSN_PTWRITE:
    case PTD_INSN_OTHER:
        go(flow, block, false, block->next_ip);
        break;
    }
}

void ptd_rtit_walk(struct ptd_rtit_flow *flow)
{
    const bool binds = flow->tnt_count == 0;
    const struct block *block;
    int status;

    if (flow->outside) {
        walk_out(flow);
        return;
    }
    if (binds && is_here(flow)) {
        happen(flow);
        return;
    }
    status = ptd_blocks_get(&flow->blocks, flow->cr3, flow->config.mode, flow->ip, &block);
    if (status != PTD_OK) {
        give_up(flow, status);
        return;
    }
    if (binds && walk_part(flow, block))
        return;
    if (loop_is_endless(&flow->loop, flow->ip))
        give_up(flow, PTD_E_LOOP);
    else
        walk_block(flow, block);
}
