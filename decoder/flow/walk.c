/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of the flow decoder that walks over code: binds TNT bits, TIPs and events to
 * instructions (SDM 33.4.1, 33.4.2.1-33.4.2.8), and keeps the CALL stack (33.4.2.2).
 */
#include "flow/walk.h"

/* ---- Items ---- */

static struct ptd_item *push_block(struct ptd_flow *flow, const struct block *block, bool taken)
{
    struct ptd_item *const item =
        ptd_flow_push(flow, PTD_ITEM_BLOCK, ptd_packets_offset(&flow->packets));

    item->ip = block->ip;
    item->last_ip = block->last_ip;
    item->insns = block->insns;
    item->last_class = block->last_class;
    item->last_bytes = ptd_block_last_bytes(block);
    item->taken = taken;
    flow->state.at_mov_cr3 = false;
    flow->state.walked += block->insns;
    return item;
}

static void mismatch(struct ptd_flow *flow, const struct block *block)
{
    ptd_flow_lose(flow, PTD_E_MISMATCH, block->last_ip);
}

static void go(struct ptd_flow *flow, const struct block *block, bool taken, uint64_t ip)
{
    struct ptd_item *const item = push_block(flow, block, taken);

    item->has_to = true;
    item->to = ip;
    flow->state.ip = ip;
}

/* TIP.PGD in place of what this instruction would have sent. */
static void leave(struct ptd_flow *flow, const struct block *block, bool taken, bool has_to,
                  uint64_t to)
{
    struct ptd_item *const item = push_block(flow, block, taken);

    item->has_to = has_to;
    item->to = has_to ? to : 0;
    ptd_flow_leave(flow, has_to, to);
}

/* ---- Events at an IP ---- */

static bool binds_to_ip(const struct ptd_flow *flow)
{
    const uint8_t kind = flow->state.bind.kind;

    return flow->state.tnt_count == 0 && flow->state.bind.ready &&
           (kind == BIND_ASYNC || kind == BIND_MARK || kind == BIND_PSB);
}

/* SKD022: the VM entry at this IP has executed, and cleared TraceEn. */
static bool leave_at_vm_entry(struct ptd_flow *flow)
{
    const struct block *block;

    if (!flow_has(flow, PTD_SKD022) || flow->state.bind.kind != BIND_ASYNC ||
        ptd_blocks_get(&flow->blocks, flow->state.cr3, (enum ptd_mode)flow->state.mode,
                       flow->state.ip, &block) != PTD_OK ||
        block->insns != 1 || block->last_class != PTD_INSN_VMENTRY)
        return false;
    flow->state.bind.kind = BIND_PGD;
    leave(flow, block, false, flow->state.bind.has_to, flow->state.bind.to);
    return true;
}

/* The walk counts instructions up to the one that a TRIG packet belongs to. */
static bool binds_to_count(const struct ptd_flow *flow)
{
    return flow->state.bind.kind == BIND_TRIG;
}

static uint64_t left_to_count(const struct ptd_flow *flow)
{
    return flow->state.bind.packet.trig.icnt - flow->state.walked;
}

static void bind_trig(struct ptd_flow *flow)
{
    ptd_flow_push_packet(flow, &flow->state.bind.packet, &flow->state.ip);
    flow_know_ip(&flow->state); /* the next one counts from here */
    ptd_flow_settle(flow);
    ptd_flow_reset_loop(flow);
}

/* The walk has come to the IP of an event. */
static void bind_to_ip(struct ptd_flow *flow)
{
    struct bind *const bind = &flow->state.bind;

    flow_know_ip(&flow->state);
    if (bind->kind == BIND_MARK && bind->packet.type == PTD_TRIG && bind->has_packet) {
        bind->kind = BIND_TRIG;
        return;
    }
    if (bind->kind == BIND_MARK) {
        if (bind->has_packet)
            ptd_flow_push_packet(flow, &bind->packet, &bind->ip);
        ptd_flow_settle(flow);
        ptd_flow_reset_loop(flow);
        return;
    }
    if (bind->end != END_TIP) {
        if (bind->end == END_PGD && leave_at_vm_entry(flow))
            return;
        ptd_flow_leave(flow, bind->end == END_PGD && bind->has_to, bind->to);
        return;
    }

    struct ptd_item *const item = ptd_flow_push(flow, PTD_ITEM_ASYNC, bind->offset);

    item->has_from = item->has_to = true;
    item->from = bind->ip;
    item->to = bind->to;
    flow->state.ip = bind->to;
    ptd_flow_settle(flow);
    ptd_flow_reset_loop(flow);
}

/* ---- Instructions ---- */

static bool binds_pgd(const struct ptd_flow *flow)
{
    return flow->state.tnt_count == 0 && flow->state.bind.kind == BIND_PGD;
}

/*
 * PGD has no payload where a conditional branch leaves the IP filter (33.4.2.5): a branch that was
 * taken. Should there be one, it says which way.
 */
static void leave_at_cond(struct ptd_flow *flow, const struct block *block)
{
    const struct bind *const bind = &flow->state.bind;

    if (!bind->has_to || bind->to == block->target)
        leave(flow, block, true, true, block->target);
    else if (bind->to == block->next_ip)
        leave(flow, block, false, true, block->next_ip);
    else
        mismatch(flow, block);
}

static void walk_cond(struct ptd_flow *flow, const struct block *block)
{
    if (binds_pgd(flow)) {
        leave_at_cond(flow, block);
        return;
    }
    if (flow->state.tnt_count == 0) {
        mismatch(flow, block);
        return;
    }

    const bool taken = flow->state.tnt_bits >> --flow->state.tnt_count & 1;

    go(flow, block, taken, taken ? block->target : block->next_ip);
    flow_know_ip(&flow->state);
    ptd_flow_reset_loop(flow);
}

static bool is_filtered_out(const struct ptd_flow *flow, uint64_t ip)
{
    const struct ptd_flow_config *const config = &flow->config;

    for (unsigned i = 0; i < config->filters; i++) {
        if (ip >= config->filter[i].first && ip <= config->filter[i].last)
            return false;
    }
    return config->filters > 0;
}

/* TIP.PGD says where a direct branch leaves the IP filter; with SKL014 it may not. */
static bool leaves_at_direct(const struct ptd_flow *flow, const struct block *block)
{
    if (!binds_pgd(flow))
        return false;
    if (flow->state.bind.has_to)
        return flow->state.bind.to == block->target;
    return flow_has(flow, PTD_SKL014) && is_filtered_out(flow, block->target);
}

static void walk_direct(struct ptd_flow *flow, const struct block *block)
{
    if (leaves_at_direct(flow, block)) {
        leave(flow, block, false, true, block->target);
        return;
    }
    /* 33.4.2.2: a CALL to the next instruction is there to learn the IP; no RET belongs to it. */
    if (block->last_class == PTD_INSN_CALL_DIRECT && block->target != block->next_ip)
        call_stack_push_ip(&flow->calls, block->next_ip);
    go(flow, block, false, block->target);
}

/* A transfer whose target stands in a TIP. */
static void walk_indirect(struct ptd_flow *flow, const struct block *block)
{
    if (flow->state.bind.kind == BIND_NONE && flow->state.tnt_count > 0) {
        flow->state.phase = FLOW_DEFERRED; /* read on to the TIP, then come back */
        ptd_flow_reset_loop(flow);
        return;
    }
    if (binds_pgd(flow)) {
        leave(flow, block, false, flow->state.bind.has_to, flow->state.bind.to);
        return;
    }
    if (flow->state.bind.kind != BIND_TIP) {
        mismatch(flow, block);
        return;
    }
    if (block->last_class == PTD_INSN_CALL_INDIRECT)
        call_stack_push_ip(&flow->calls, block->next_ip);
    go(flow, block, false, flow->state.bind.to);
    flow_know_ip(&flow->state);
    ptd_flow_settle(flow);
    ptd_flow_reset_loop(flow);
}

static void walk_ret(struct ptd_flow *flow, const struct block *block)
{
    uint64_t target;

    if (flow->state.tnt_count == 0) {
        (void)call_stack_pop_ip(&flow->calls, flow->graph, &target); /* every RET pops */
        walk_indirect(flow, block);
        return;
    }
    if (!(flow->state.tnt_bits >> --flow->state.tnt_count & 1)) {
        mismatch(flow, block);
        return;
    }
    if (!call_stack_pop_ip(&flow->calls, flow->graph, &target)) {
        ptd_flow_lose(flow, PTD_E_RETSTACK, block->last_ip);
        return;
    }
    go(flow, block, false, ptd_return_to(target, flow->state.mode));
    flow_know_ip(&flow->state);
    ptd_flow_reset_loop(flow);
}

/* A far transfer: PIP, VMCS and MODE.Exec in front of its TIP belong to it (Table 33-14). */
static void walk_far(struct ptd_flow *flow, const struct block *block)
{
    struct bind *const bind = &flow->state.bind;

    if (bind->kind == BIND_PIP || bind->kind == BIND_VMCS) {
        bind->kind = BIND_NONE;
        bind->ready = false;
        ptd_flow_reset_loop(flow);
        return;
    }
    walk_indirect(flow, block);
}

/* One that clears TraceEn has its next instruction's IP in the FUP (Table 33-56 case 9). */
static void walk_vm_entry(struct ptd_flow *flow, const struct block *block)
{
    struct bind *const bind = &flow->state.bind;

    if (binds_to_ip(flow) && bind->kind == BIND_ASYNC && bind->end == END_PGD &&
        bind->ip == block->next_ip) {
        bind->kind = BIND_PGD;
        leave(flow, block, false, bind->has_to, bind->to);
        return;
    }
    walk_far(flow, block);
}

static void walk_mov_cr3(struct ptd_flow *flow, const struct block *block)
{
    const struct bind *const bind = &flow->state.bind;

    if (binds_pgd(flow) && (!bind->has_to || bind->to == block->next_ip)) {
        leave(flow, block, false, bind->has_to, bind->to);
        return;
    }
    go(flow, block, false, block->next_ip);
    if (bind->kind != BIND_PIP)
        return; /* PIP depends on RTIT_CTL.OS, or was filtered */
    ptd_flow_settle(flow);
    flow->state.at_mov_cr3 = true;
    ptd_flow_reset_loop(flow);
}

static void walk_vmptrld(struct ptd_flow *flow, const struct block *block)
{
    go(flow, block, false, block->next_ip);
    if (flow->state.bind.kind != BIND_VMCS)
        return; /* it failed */
    ptd_flow_settle(flow);
    ptd_flow_reset_loop(flow);
}

static void walk_ptwrite(struct ptd_flow *flow, const struct block *block)
{
    const struct bind *const bind = &flow->state.bind;

    if (bind->kind != BIND_PTW) {
        go(flow, block, false, block->next_ip); /* PTWEn is 0 */
        return;
    }
    if (bind->has_ip && bind->ip != block->last_ip) {
        mismatch(flow, block);
        return;
    }
    go(flow, block, false, block->next_ip);
    if (bind->has_ip)
        flow->state.walked = 1; /* the FUP named the PTWRITE itself */
    ptd_flow_push_packet(flow, &bind->packet, &block->last_ip);
    ptd_flow_settle(flow);
    ptd_flow_reset_loop(flow);
}

static void walk_block(struct ptd_flow *flow, const struct block *block)
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
        walk_far(flow, block);
        break;
    case PTD_INSN_VMENTRY:
        walk_vm_entry(flow, block);
        break;
    case PTD_INSN_INT:
        /* Its FUP would have stopped the walk in front of it (Table 33-23). */
        if (block->optional)
            go(flow, block, false, block->next_ip);
        else
            mismatch(flow, block);
        break;
    case PTD_INSN_MOV_CR3:
        walk_mov_cr3(flow, block);
        break;
    case PTD_INSN_VMPTRLD:
        walk_vmptrld(flow, block);
        break;
    case PTD_INSN_PTWRITE:
        walk_ptwrite(flow, block);
        break;
    case PTD_INSN_MOV_CR0:
    case PTD_INSN_OTHER:
        go(flow, block, false, block->next_ip);
        break;
    }
}

/* Whether the count ends in the middle of a block; then walks as far. */
static bool walk_count(struct ptd_flow *flow, const struct block *block)
{
    struct block part;

    if (left_to_count(flow) >= block->insns ||
        ptd_blocks_first(&flow->blocks, block, (uint32_t)left_to_count(flow), &part) != PTD_OK)
        return false;
    go(flow, &part, false, part.next_ip);
    return true;
}

/* Whether an event stands in the middle of a block; then walks up to it. */
static bool walk_part(struct ptd_flow *flow, const struct block *block)
{
    const uint64_t stop_ip = flow->state.bind.ip;
    struct block part;

    if (!binds_to_ip(flow) || stop_ip - block->ip > block->last_ip - block->ip)
        return false;
    if (ptd_blocks_cut(&flow->blocks, block, stop_ip, &part) != PTD_OK)
        return false; /* between instructions of this walk; maybe not of a later one */
    go(flow, &part, false, stop_ip);
    return true;
}

/*
 * BDM64: a transaction aborted behind a branch whose target was told wrong, so that the walk does
 * not lead to the abort.
 */
static bool aborts_elsewhere(const struct ptd_flow *flow)
{
    return flow_has(flow, PTD_BDM64) && binds_to_ip(flow) && flow->state.bind.kind == BIND_ASYNC &&
           flow->state.bind.has_tsx && (flow->state.bind.tsx & 2);
}

/* Whether the walk can go on behind a block without a packet. */
static bool needs_no_packet(const struct block *block)
{
    return block->last_class == PTD_INSN_OTHER || block->last_class == PTD_INSN_JMP_DIRECT ||
           block->last_class == PTD_INSN_CALL_DIRECT;
}

void ptd_flow_walk(struct ptd_flow *flow)
{
    const bool counts = binds_to_count(flow);
    const struct block *block;

    if (binds_to_ip(flow) && flow->state.ip == flow->state.bind.ip) {
        bind_to_ip(flow);
        return;
    }
    if (counts && left_to_count(flow) == 0) {
        bind_trig(flow);
        return;
    }
    /* A MOV CR3 that lets a TraceStop range act: PIP, then TIP.PGD with the next IP. */
    if (flow->state.at_mov_cr3 && binds_pgd(flow) && flow->state.bind.has_to &&
        flow->state.bind.to == flow->state.ip) {
        ptd_flow_leave(flow, true, flow->state.bind.to);
        return;
    }

    const int status = ptd_blocks_get(&flow->blocks, flow->state.cr3,
                                      (enum ptd_mode)flow->state.mode, flow->state.ip, &block);

    if (status == PTD_OK && (counts ? walk_count(flow, block) : walk_part(flow, block)))
        return;
    if (aborts_elsewhere(flow) && (status != PTD_OK || !needs_no_packet(block))) {
        flow->state.ip = flow->state.bind.ip;
        bind_to_ip(flow);
        return;
    }
    if (status != PTD_OK) {
        ptd_flow_lose(flow, status, flow->state.ip);
        return;
    }
    /* Code may well go round while instructions are counted: the count comes to an end. */
    if (!counts && loop_is_endless(&flow->state.loop, flow->state.ip)) {
        ptd_flow_lose(flow, PTD_E_LOOP, flow->state.ip);
        return;
    }
    walk_block(flow, block);
}
