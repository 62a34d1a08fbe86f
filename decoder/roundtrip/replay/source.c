/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From items of the decoder to events of the model, see source.h.
 *
 * An operation is told when all of it is known: a far transfer's new CR3 and mode are items behind
 * its block. PSBs and overflows are placed where the hardware has them, by the owner's hand, and
 * clocks show what the hardware's packets say. A piece begins at a PSB with a fresh processor, in
 * the state that its PSB+ tells.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "source.h"

#define BAD_OFFSET UINT64_MAX
#define FEED_BYTES (64u << 10) /* of the hardware's, at the latest */

/* An operation whose state is still to come. */
struct pending {
    bool is_open;
    bool has_block;
    struct ptd_item block;
    bool has_end; /* ASYNC or DISABLED: */
    struct ptd_item end;
    bool has_cr3, nr, has_mode, has_vmcs, has_tsx;
    uint64_t cr3, vmcs, tsx, mode_offset;
    uint8_t mode;
};

struct source {
    const struct replay *replay;
    struct replay_result *result;
    struct ptd_packets packets; /* a reader that looks ahead */
    struct rig rig;
    bool is_live;               /* there is a piece, and a processor for it */
    bool tracing;               /* PacketEn of the hardware */
    struct vpt_context context; /* where the hardware traces */
    struct pending pending;
    uint64_t vmcs;        /* BAD_OFFSET: none was told */
    uint64_t ip;          /* that runs next, while tracing */
    uint64_t sent_psb;    /* the model sent this PSB by itself; BAD_OFFSET: none */
    uint64_t held_cycles; /* of a CYC in front of a TSC */
    uint64_t told_end;    /* timing packets in front of this offset were told */
    bool psb_due;         /* tracing begins with a PSB+ */
    bool is_away;         /* the model is where ContextEn is 0 */
    bool psb_away;        /* the last PSB+ came there, and nothing was traced since */
    bool mode_due;        /* a PSB+ without MODE.Exec came, and nothing was traced since */
    bool pip_due;         /* a PIP belongs to what begins tracing; */
    bool pip_nr;          /*   of the last PIP that binds to nothing: its NR */
    bool cr3_known;       /* a PSB+ that belongs to what begins tracing has told CR3 */
    struct aside aside;
    struct ahead ahead;
    uint64_t fed; /* the hardware's packets in front of this offset were handed on */
    int error;
};

/* ---- Contexts ---- */

/* The context in which nothing is traced: ContextEn is 0. */
static struct vpt_context untraced(const struct source *source)
{
    struct vpt_context context = source->context;

    if (source->replay->user_only)
        context.cpl = 0;
    else if (source->replay->kernel_only)
        context.cpl = 3;
    else
        context.enclave = true; /* as good as any other reason, a CR3 filter for instance */
    return context;
}

static uint8_t exec_mode(uint8_t mode)
{
    return mode == PTD_MODE_64 ? VPT_EXEC_64 : mode == PTD_MODE_32 ? VPT_EXEC_32 : VPT_EXEC_16;
}

static bool is_filtered(const struct source *source)
{
    return source->replay->flow.filters > 0;
}

/* An address outside of every filter; any, if they leave none. */
static uint64_t outside(const struct source *source)
{
    const struct ptd_flow_config *const flow = &source->replay->flow;
    uint64_t ip = RIG_ELSEWHERE;

    /* Behind one filter it may be in another: each is left once at most. */
    for (unsigned tries = 0; tries < flow->filters; tries++)
        for (unsigned i = 0; i < flow->filters; i++)
            if (ip >= flow->filter[i].first && ip <= flow->filter[i].last)
                ip = flow->filter[i].last + 1;
    return ip;
}

/* ---- Moves ---- */

static void transfer(struct source *source, enum vpt_transfer_type type, uint64_t ip,
                     uint64_t target, struct vpt_context after)
{
    struct vpt_transfer transfer = {.type = type, .ip = ip, .target = target, .after = after};

    source->is_away = false;
    aside_name(&source->aside, &transfer);
    vpt_transfer(&source->rig.cpu, &transfer);
}

/* To where ContextEn is 0. */
static void go_away(struct source *source, enum vpt_transfer_type type, uint64_t ip)
{
    transfer(source, type, ip, RIG_ELSEWHERE, untraced(source));
    source->is_away = true;
}

/* To where ContextEn is 1 and FilterEn is 0, which gives no packet. */
static void stay_outside(struct source *source)
{
    if (!source->is_away)
        return;
    vpt_mov_cr3(&source->rig.cpu, source->context.cr3, RIG_ELSEWHERE); /* nobody sees it */
    transfer(source, VPT_FAR_BRANCH, RIG_ELSEWHERE, outside(source), source->context);
}

/* To where ContextEn is 0, without a packet: PacketEn is 0 already. */
static void hide(struct source *source)
{
    if (!source->is_away)
        go_away(source, VPT_FAR_BRANCH, RIG_ELSEWHERE);
}

/* CR3 became another one where ContextEn was 0. */
static void change_cr3_unseen(struct source *source, uint64_t cr3)
{
    if (cr3 == source->context.cr3)
        return;
    hide(source);
    source->context.cr3 = cr3;
    vpt_mov_cr3(&source->rig.cpu, cr3, RIG_ELSEWHERE);
}

static void load_vmcs(struct source *source, uint64_t vmcs)
{
    source->vmcs = vmcs;
    rig_load_vmcs(&source->rig, vmcs);
}

/* The same of all that a PSB+ tells, VM entries and exits included. */
static void change_unseen(struct source *source, const struct psb_plus *plus)
{
    const struct vpt_context none = untraced(source);
    const bool nr = plus->nr || source->replay->nonroot;

    if (plus->has_pip)
        change_cr3_unseen(source, plus->cr3);
    if (plus->has_pip && nr != vpt_nonroot(&source->rig.cpu)) {
        hide(source);
        rig_switch(&source->rig, nr, RIG_ELSEWHERE, &none);
    }
    if (plus->has_vmcs && plus->vmcs != source->vmcs) {
        hide(source);
        load_vmcs(source, plus->vmcs);
    }
}

/* ---- Pieces ---- */

static void feed(struct source *source, uint64_t offset)
{
    size_t len_bytes;
    const uint8_t *const bytes = rig_take(&source->rig, &len_bytes);

    if (len_bytes > 0)
        tally_ours(&source->result->tally, bytes, len_bytes);
    tally_theirs(&source->result->tally, offset);
    source->fed = offset;
    if (source->rig.no_memory || source->result->tally.no_memory)
        source->error = PTD_E_NOMEM;
}

enum piece_end {
    END_GAP,
    END_TRACE,
    END_LOST, /* the model is not where the hardware is: all that is there is to be compared */
};

/* The piece ends in front of an offset of the hardware's trace. */
static void end_piece(struct source *source, uint64_t offset, enum piece_end end)
{
    source->pending.is_open = false;
    if (!source->is_live)
        return;
    if (end != END_GAP)
        vpt_flush_branches(&source->rig.cpu);
    feed(source, offset);
    tally_end(&source->result->tally, end == END_LOST);
    rig_close(&source->rig);
    source->is_live = false;
}

static void see_psb(struct source *source, const struct psb_plus *plus)
{
    struct rig *const rig = &source->rig;

    rig_see_cyc(rig, plus->cycles);
    if (plus->has_tsc)
        rig_see_tsc(rig, plus->tsc, plus->tsc_cycles);
    if (plus->has_tma)
        rig_see_tma(rig, plus->ctc, plus->fast);
    if (plus->has_cbr)
        vpt_note_core_ratio(&rig->cpu, plus->cbr);
    if (!vpt_packet_en(&rig->cpu) && vpt_trigger_en(&rig->cpu))
        change_unseen(source, plus);
    else if (plus->has_pip)
        source->context.cr3 = plus->cr3;
    if (plus->has_mode) {
        source->context.exec_mode = exec_mode(plus->mode);
        source->context.interrupts = plus->interrupts;
        vpt_interrupt_flag(&rig->cpu, plus->interrupts, source->ip);
    }
}

/* Whether a PSB+ says that ContextEn is 1. With OS it has a PIP then. */
static bool shows_context(const struct source *source, const struct psb_plus *plus)
{
    return plus->has_fup || plus->has_vmcs ||
           (source->replay->user_only ? plus->has_tsx : plus->has_pip);
}

/* A PSB+ comes while PacketEn is 0: the model is where the hardware is, as far as that shows. */
static void follow_context(struct source *source, const struct psb_plus *plus)
{
    const bool tells =
        !source->replay->user_only || source->replay->rig.caps.tsx || source->vmcs != BAD_OFFSET;

    if (!is_filtered(source) || !tells)
        return;
    if (!shows_context(source, plus) && !source->is_away)
        go_away(source, VPT_FAR_BRANCH, RIG_ELSEWHERE);
    else if (shows_context(source, plus))
        stay_outside(source);
}

/* Tracing begins at a PSB of the hardware, in which its PacketEn is 0. */
static void enable_at_psb(struct source *source, const struct psb_plus *plus)
{
    const struct vpt_context none = untraced(source);

    source->is_away = source->psb_away = !shows_context(source, plus);
    if (source->is_away)
        rig_enable(&source->rig, &none, RIG_ELSEWHERE, true);
    else if (plus->has_fup || !is_filtered(source) ||
             (plus->pge_at_once && !source->replay->rig.caps.choices.psb_at_enable))
        source->psb_due = true; /* it is a part of what the TIP.PGE tells */
    else
        rig_enable(&source->rig, &source->context, outside(source), true);
}

/* VMX operation as a PSB+ says, while TraceEn is 0. */
static void set_vmx(struct source *source, const struct psb_plus *plus)
{
    const bool nr =
        plus->has_pip ? plus->nr : survey_nr(source->packets, &source->ahead, plus->offset);

    if (plus->has_vmcs)
        source->vmcs = plus->vmcs;
    else if (source->vmcs == BAD_OFFSET)
        (void)survey_vmcs(source->packets, &source->ahead, plus->offset, &source->vmcs);
    rig_set_vmx(&source->rig, nr || source->replay->nonroot, source->vmcs != BAD_OFFSET,
                source->vmcs, &source->context);
}

/*
 * The piece begins in the middle, where ip is next: tracing began some time before, of which
 * nothing is compared.
 */
static void join_trace(struct source *source, const struct psb_plus *plus, uint64_t ip)
{
    const struct vpt_context none = untraced(source);
    size_t unused;

    rig_enable(&source->rig, source->is_away ? &none : &source->context, ip, false);
    if (plus->in_tx)
        vpt_tx_begin(&source->rig.cpu, ip);
    (void)rig_take(&source->rig, &unused);
    see_psb(source, plus);
    vpt_psb(&source->rig.cpu, ip);
}

/* Whether a PSB+ comes while PacketEn is 0 and TraceEn was 1 already: cycles have passed since. */
static bool is_in_pause(const struct source *source, const struct psb_plus *plus)
{
    return plus->cycles + plus->tsc_cycles > 0 && !plus->has_fup &&
           (is_filtered(source) || !shows_context(source, plus));
}

static void join_pause(struct source *source, const struct psb_plus *plus)
{
    source->is_away = source->psb_away = !shows_context(source, plus);
    join_trace(source, plus, source->is_away ? RIG_ELSEWHERE : outside(source));
}

/* A fresh processor, whose trace begins at this PSB. */
static void begin_piece(struct source *source, const struct psb_plus *plus, const uint64_t *ip)
{
    const struct replay *const replay = source->replay;

    source->context = (struct vpt_context){.cr3 = replay->flow.cr3,
                                           .cpl = replay->user_only ? 3 : 0,
                                           .exec_mode = exec_mode((uint8_t)replay->flow.mode),
                                           .pae = true,
                                           .interrupts = true};
    if (!rig_open(&source->rig, &replay->rig, replay->base + plus->offset)) {
        source->error = PTD_E_ARG;
        return;
    }
    source->is_live = true;
    source->sent_psb = source->vmcs = BAD_OFFSET;
    source->psb_due = source->is_away = source->psb_away = source->pip_due = false;
    aside_forget(&source->aside);
    source->result->pieces++;
    tally_begin(&source->result->tally, plus->offset);
    source->fed = plus->offset;
    see_psb(source, plus);
    set_vmx(source, plus);
    if (ip)
        join_trace(source, plus, *ip);
    else if (is_in_pause(source, plus))
        join_pause(source, plus);
    else
        enable_at_psb(source, plus);
}

/* ---- Operations ---- */

static uint64_t behind(const struct ptd_item *block)
{
    return block->last_ip + block->last_bytes;
}

static void tell_exit(struct source *source, const struct ptd_item *end)
{
    struct vpt_vm_exit exit = {.ip = end->from, .host_ip = end->to, .host = source->context};

    if (!end->has_to)
        exit.host_ip = outside(source);
    aside_name_exit(&source->aside, &exit);
    (void)vpt_vm_exit(&source->rig.cpu, &exit);
}

static bool is_exit(const struct source *source, const struct pending *pending)
{
    return pending->has_cr3 && !pending->nr && vpt_nonroot(&source->rig.cpu);
}

/* Whether FUP and TIP.PGD without an IP are the end of tracing, and no event. */
static bool ends_tracing(struct source *source, uint64_t offset)
{
    struct pause pause;

    if (source->replay->rig.ctl & VPT_CTL_EVENTEN)
        return !source->aside.cfe.is_open;
    if (source->replay->user_only || source->replay->kernel_only)
        return false;
    survey_pause(source->packets, &source->ahead, offset, &pause);
    return !pause.has_ovf && (pause.has_cbr || pause.has_psb);
}

/* FUP and TIP.PGD: an event that leaves what is traced, or the end of tracing. */
static void tell_leaving(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const end = &pending->end;

    if (is_exit(source, pending))
        tell_exit(source, end);
    else if (end->has_to)
        transfer(source, VPT_INTERRUPT, end->from, end->to, source->context);
    else if (ends_tracing(source, end->offset))
        rig_disable(&source->rig, end->from);
    else
        go_away(source, VPT_INTERRUPT, end->from);
}

static void tell_async(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const end = &pending->end;

    if (pending->has_tsx && (pending->tsx & 2))
        vpt_tx_abort(&source->rig.cpu, end->from, end->to);
    else if (is_exit(source, pending))
        tell_exit(source, end);
    else
        transfer(source, VPT_INTERRUPT, end->from, end->to, source->context);
}

static void tell_far(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const block = &pending->block;
    const struct vpt_vm_entry entry = {.ip = block->last_ip,
                                       .next_ip = behind(block),
                                       .guest_ip = block->to,
                                       .guest = source->context};

    if (pending->has_end && !block->has_to)
        go_away(source, VPT_FAR_BRANCH, block->last_ip);
    else if (pending->has_cr3 && pending->nr && !vpt_nonroot(&source->rig.cpu))
        (void)vpt_vm_entry(&source->rig.cpu, &entry);
    else
        transfer(source, block->last_class == PTD_INSN_IRET ? VPT_IRET : VPT_FAR_BRANCH,
                 block->last_ip, block->to, source->context);
}

/* A block, as the event that its last instruction is. */
static void tell_block(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const block = &pending->block;
    struct vpt_cpu *const cpu = &source->rig.cpu;

    switch ((enum ptd_insn_class)block->last_class) {
    case PTD_INSN_COND:
        vpt_cond_branch(cpu, block->to, block->taken);
        break;
    case PTD_INSN_JMP_DIRECT:
        vpt_jmp_direct(cpu, block->to);
        break;
    case PTD_INSN_CALL_DIRECT:
        vpt_call_direct(cpu, block->to, behind(block));
        break;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(cpu, block->to);
        break;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(cpu, block->to, behind(block));
        break;
    case PTD_INSN_RET:
        vpt_ret(cpu, block->to);
        break;
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_VMENTRY:
        tell_far(source, pending);
        break;
    case PTD_INSN_MOV_CR3:
        if (pending->has_end && !block->has_to) /* to a process that the CR3 filter leaves out */
            go_away(source, VPT_FAR_BRANCH, block->last_ip);
        else if (pending->has_cr3)
            vpt_mov_cr3(cpu, pending->cr3, block->to);
        break;
    case PTD_INSN_VMPTRLD:
        if (pending->has_vmcs)
            load_vmcs(source, pending->vmcs);
        break;
    default:
        break;
    }
}

static void settle(struct source *source)
{
    const struct pending pending = source->pending;

    source->pending.is_open = false;
    if (!pending.is_open || !source->is_live)
        return;
    if (pending.has_cr3)
        source->context.cr3 = pending.cr3;
    if (pending.has_mode) {
        source->context.exec_mode = exec_mode(pending.mode);
        source->context.interrupts = survey_interrupts(source->packets, pending.mode_offset);
    }
    if (pending.has_block)
        tell_block(source, &pending);
    else if (pending.end.type == PTD_ITEM_ASYNC)
        tell_async(source, &pending);
    else if (pending.end.has_from)
        tell_leaving(source, &pending);
    else if (pending.end.has_to) /* a TraceStop range or a filter began to act */
        transfer(source, VPT_FAR_BRANCH, source->ip, pending.end.to, source->context);
    else
        go_away(source, VPT_FAR_BRANCH, source->ip);
}

/* Whether what waits can change modes. Else MODE.Exec tells of STI and the like behind it. */
static bool changes_mode(const struct pending *pending)
{
    switch ((enum ptd_insn_class)pending->block.last_class) {
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_INT:
    case PTD_INSN_VMENTRY:
    case PTD_INSN_MOV_CR0:
        return true;
    default:
        return !pending->has_block;
    }
}

/* An item that belongs to the operation that waits. */
static bool joins(struct source *source, const struct ptd_item *item)
{
    struct pending *const pending = &source->pending;

    /* State of an operation has the offset of its first packet, or one in front of its last. */
    if (!pending->is_open || item->in_psb ||
        item->offset >= (pending->has_end ? pending->end.offset + 1 : pending->block.offset))
        return false;
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        pending->has_cr3 = true;
        pending->cr3 = item->value;
        pending->nr = item->nr;
        return true;
    case PTD_ITEM_MODE:
        if (!changes_mode(pending))
            return false;
        pending->has_mode = true;
        pending->mode = (uint8_t)item->value;
        pending->mode_offset = item->offset;
        return true;
    case PTD_ITEM_VMCS:
        pending->has_vmcs = true;
        pending->vmcs = item->value;
        return true;
    case PTD_ITEM_TSX:
        pending->has_tsx = true;
        pending->tsx = item->value;
        return pending->has_end;
    case PTD_ITEM_DISABLED:
        if (item->has_from || !pending->has_block)
            return false;
        pending->has_end = true;
        pending->end = *item;
        source->tracing = false;
        return true;
    default:
        return false;
    }
}

/* ---- Items ---- */

static void take_block(struct source *source, const struct ptd_item *item)
{
    source->result->insns += item->insns;
    source->ip = item->to;
    source->pending = (struct pending){.is_open = true, .has_block = true, .block = *item};
}

static void take_end(struct source *source, const struct ptd_item *item)
{
    source->tracing = item->type == PTD_ITEM_ASYNC;
    source->ip = item->to;
    source->pending = (struct pending){.is_open = true, .has_end = true, .end = *item};
}

/* Tracing is enabled where it begins at once. */
static void enable(struct source *source, const struct ptd_item *item)
{
    uint64_t cr3;

    if (!source->psb_due && !source->replay->user_only &&
        survey_cr3(source->packets, &source->ahead, item->offset, &cr3))
        source->context.cr3 = cr3;
    rig_enable(&source->rig, &source->context, item->to, source->psb_due);
    source->is_away = false;
}

/* A PIP that binds to nothing comes from a VM entry or exit. */
static bool changes_world(const struct source *source)
{
    return !source->replay->nonroot && source->pip_nr != vpt_nonroot(&source->rig.cpu);
}

/* What is traced is entered, or comes to run again. */
static void come_back(struct source *source, const struct ptd_item *item)
{
    struct vpt_cpu *const cpu = &source->rig.cpu;
    uint64_t cr3;

    if (source->pip_due && changes_world(source)) {
        rig_switch(&source->rig, source->pip_nr, item->to, &source->context);
        source->is_away = false;
        return;
    }
    if (source->is_away && source->pip_due) {
        vpt_mov_cr3(cpu, ~source->context.cr3 & 0xfffff000, RIG_ELSEWHERE); /* any other */
    } else if (!source->replay->user_only && !source->cr3_known &&
               survey_cr3(source->packets, &source->ahead, item->offset, &cr3)) {
        change_cr3_unseen(source, cr3);
    }
    transfer(source, VPT_FAR_BRANCH, RIG_ELSEWHERE, item->to, source->context);
}

static void take_enabled(struct source *source, const struct ptd_item *item)
{
    source->tracing = true;
    source->ip = item->to;
    if (!source->is_live)
        return;
    if (vpt_trigger_en(&source->rig.cpu))
        come_back(source, item);
    else
        enable(source, item);
    source->psb_due = source->psb_away = source->pip_due = source->mode_due = false;
    source->cr3_known = false;
}

/* The model sent a PSB for this one of the hardware: all before it belongs together. */
static void meet_at_psb(struct source *source, uint64_t offset)
{
    feed(source, offset);
    tally_at_psb(&source->result->tally);
}

static void take_psb(struct source *source, const struct ptd_item *item)
{
    struct psb_plus plus;

    survey_psb(source->packets, item->offset, &plus);
    source->tracing = item->has_to;
    source->mode_due = !item->has_to;
    source->ip = item->to;
    if (source->is_live && item->has_to != vpt_packet_en(&source->rig.cpu) &&
        (item->has_to || vpt_trigger_en(&source->rig.cpu))) {
        tally_note(&source->result->tally, "PacketEn at a PSB", item->has_to ? "1" : "0");
        end_piece(source, item->offset, END_LOST);
    }
    if (!source->is_live) {
        begin_piece(source, &plus, item->has_to ? &item->to : NULL);
        return;
    }
    if (item->offset == source->sent_psb) {
        source->sent_psb = BAD_OFFSET;
        return;
    }
    if (!item->has_to && plus.has_tma && rig_skips_mtc(&source->rig, plus.ctc) &&
        vpt_trigger_en(&source->rig.cpu))
        rig_disable(&source->rig, RIG_ELSEWHERE); /* and now it is on again */
    see_psb(source, &plus);
    if (!vpt_trigger_en(&source->rig.cpu)) {
        set_vmx(source, &plus);
        enable_at_psb(source, &plus);
        return;
    }
    if (!item->has_to && (plus.has_fup || (!is_filtered(source) && shows_context(source, &plus)))) {
        source->cr3_known = plus.has_pip;
        if (!source->replay->rig.caps.choices.psb_twice || !source->psb_away) {
            rig_disable(&source->rig, RIG_ELSEWHERE); /* unseen, and enabled again here */
            source->psb_due = true;
        }
        return; /* it comes with the TIP.PGE */
    }
    if (!item->has_to)
        follow_context(source, &plus);
    source->psb_away = source->is_away;
    vpt_psb(&source->rig.cpu, item->to);
    meet_at_psb(source, item->offset);
}

/* Where execution goes on, perhaps in another world than the one that overflowed. */
static void end_overflow(struct source *source, const struct ptd_item *item,
                         const struct psb_plus *plus)
{
    struct vpt_context after = source->context;
    uint64_t to = item->to;

    source->is_away =
        !item->has_to && (!is_filtered(source) || (plus && !shows_context(source, plus)));
    if (source->is_away) {
        to = RIG_ELSEWHERE;
        after = untraced(source);
    } else if (!item->has_to) {
        to = outside(source);
    }
    source->psb_away = plus && source->is_away;
    if (plus && plus->has_vmcs && plus->vmcs != source->vmcs)
        load_vmcs(source, plus->vmcs);
    if (plus && plus->has_pip &&
        (plus->nr || source->replay->nonroot) != vpt_nonroot(&source->rig.cpu)) {
        rig_switch(&source->rig, !vpt_nonroot(&source->rig.cpu), to, &after);
        return;
    }

    const bool is_away = source->is_away;

    transfer(source, VPT_FAR_BRANCH, RIG_ELSEWHERE, to, after);
    source->is_away = is_away;
}

static void take_overflow(struct source *source, const struct ptd_item *item)
{
    struct psb_plus plus = {.offset = 0};

    source->tracing = item->has_to;
    source->ip = item->to;
    if (!source->is_live)
        return;
    aside_forget(&source->aside);
    vpt_flush_branches(&source->rig.cpu); /* the hardware's TNT was there, or they were not known */
    vpt_overflow(&source->rig.cpu);
    source->sent_psb = survey_overflow(source->packets, item->offset);
    if (source->sent_psb) {
        survey_psb(source->packets, source->sent_psb, &plus);
        see_psb(source, &plus);
    }
    end_overflow(source, item, source->sent_psb ? &plus : NULL);
}

/*
 * Whether tracing was off, where nothing is traced, and is on again at a TSC or CBR: a MODE.Exec
 * that says nothing new and follows no PSB shows it.
 */
static bool was_off(struct source *source, uint64_t offset)
{
    struct pause pause;

    if (source->tracing || source->mode_due || !vpt_trigger_en(&source->rig.cpu))
        return false;
    survey_pause(source->packets, &source->ahead, offset, &pause);
    return pause.has_mode && exec_mode(pause.mode) == source->context.exec_mode &&
           (pause.interrupts == source->context.interrupts ||
            !(source->replay->rig.ctl & VPT_CTL_EVENTEN));
}

/*
 * A frequency changed; or tracing is on again, and does not begin at once; or what begins tells the
 * ratio, as PWRX does too.
 */
static void take_ratio(struct source *source, const struct time_group *group, bool on_again)
{
    const struct vpt_context none = untraced(source);
    struct vpt_cpu *const cpu = &source->rig.cpu;

    if (group->wakes) {
        source->aside.wake_ratio = group->cbr;
    } else if (!on_again && vpt_trigger_en(cpu)) {
        vpt_set_core_ratio(cpu, group->cbr);
    } else {
        vpt_note_core_ratio(cpu, group->cbr);
        if (!on_again && group->begins)
            return;
        rig_enable(&source->rig, &none, RIG_ELSEWHERE, false);
        source->is_away = true;
    }
}

static void take_cbr(struct source *source, const struct ptd_item *item)
{
    struct time_group group;

    if (item->offset < source->told_end)
        return;
    survey_time(source->packets, item->offset, &group);

    const bool on_again = !group.wakes && was_off(source, item->offset);

    if (on_again)
        rig_disable(&source->rig, RIG_ELSEWHERE);
    take_ratio(source, &group, on_again);
}

static void take_tsc(struct source *source, const struct ptd_item *item)
{
    struct time_group group;

    survey_time(source->packets, item->offset, &group);

    const bool on_again = group.has_cbr && !group.wakes && was_off(source, item->offset);

    if (on_again)
        rig_disable(&source->rig, RIG_ELSEWHERE); /* before the clocks go on */
    rig_see_tsc(&source->rig, item->value, source->held_cycles);
    source->held_cycles = 0;
    if (group.has_tma)
        rig_see_tma(&source->rig, group.ctc, group.fast);
    if (!group.has_cbr)
        return;
    take_ratio(source, &group, on_again);
    source->told_end = group.end;
}

/* A packet that tells neither time nor where the program is. */
static void take_aside(struct source *source, const struct ptd_item *item)
{
    const struct ptd_packet *const packet = &item->packet;

    if (!source->tracing && is_filtered(source) &&
        (packet->type == PTD_EXSTOP || packet->type == PTD_BEP)) {
        if (item->has_from) /* ContextEn is 1 */
            stay_outside(source);
        else
            hide(source);
    }
    if (!source->tracing && aside_unseen(&source->aside, packet))
        transfer(source, VPT_INTERRUPT, source->ip, outside(source), source->context);
    aside_take(&source->aside, &source->rig, &source->packets, item, source->ip);
}

static void take_packet(struct source *source, const struct ptd_item *item)
{
    const struct ptd_packet *const packet = &item->packet;

    if (packet->offset < source->told_end)
        return;
    switch ((enum ptd_packet_type)packet->type) {
    case PTD_CYC:
        if (survey_tsc_follows(source->packets, packet->offset))
            source->held_cycles = packet->cyc;
        else
            rig_see_cyc(&source->rig, packet->cyc);
        break;
    case PTD_MTC:
        rig_see_mtc(&source->rig, packet->mtc);
        vpt_time(&source->rig.cpu);
        break;
    case PTD_MNT:
        vpt_maintenance(&source->rig.cpu, packet->mnt);
        break;
    default:
        take_aside(source, item);
        break;
    }
}

/* A PIP of its own: a MOV CR3 outside of the filter, or a part of what begins tracing. */
static void take_cr3(struct source *source, const struct ptd_item *item)
{
    struct vpt_cpu *const cpu = &source->rig.cpu;

    if (!source->tracing && is_filtered(source))
        stay_outside(source);
    source->context.cr3 = item->value;
    source->pip_due = !source->tracing && !is_filtered(source);
    source->pip_nr = item->nr;
    if (source->pip_due)
        return;
    if (!source->tracing && changes_world(source))
        rig_switch(&source->rig, item->nr, outside(source), &source->context);
    else
        vpt_mov_cr3(cpu, item->value, source->tracing ? source->ip : outside(source));
}

static void take_state(struct source *source, const struct ptd_item *item)
{
    struct vpt_cpu *const cpu = &source->rig.cpu;

    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        take_cr3(source, item);
        break;
    case PTD_ITEM_VMCS:
        if (!source->tracing && is_filtered(source))
            stay_outside(source);
        load_vmcs(source, item->value);
        break;
    case PTD_ITEM_MODE:
        source->context.exec_mode = exec_mode((uint8_t)item->value);
        source->context.interrupts = survey_interrupts(source->packets, item->offset);
        if (source->tracing)
            vpt_interrupt_flag(cpu, source->context.interrupts, source->ip);
        break;
    case PTD_ITEM_TSX:
        if (item->value & 1)
            vpt_tx_begin(cpu, source->ip);
        else
            vpt_tx_commit(cpu, source->ip);
        break;
    default:
        break;
    }
}

/* Everything that the model has to be there for. */
static void take_live(struct source *source, const struct ptd_item *item)
{
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_TSC:
        take_tsc(source, item);
        break;
    case PTD_ITEM_CBR:
        take_cbr(source, item);
        break;
    case PTD_ITEM_PACKET:
        take_packet(source, item);
        break;
    case PTD_ITEM_PTWRITE:
        vpt_ptwrite(&source->rig.cpu, item->value, item->packet.ptw.payload_bytes,
                    item->has_from ? item->from : source->ip);
        break;
    default:
        take_state(source, item);
        break;
    }
}

static void take_error(struct source *source, const struct ptd_item *item)
{
    struct replay_result *const result = source->result;

    if (result->gaps++ == 0)
        survey_error(item, result->first_gap, sizeof(result->first_gap));
    result->lost_bytes += item->value;
    end_piece(source, item->offset, END_GAP);
    source->tracing = false;
}

/* An error that shows that packets in front of it were damaged, or are not of this code. */
static bool is_doubtful(const struct ptd_item *item)
{
    return item->type == PTD_ITEM_ERROR && item->error != PTD_E_NOMAP &&
           item->error != PTD_E_RETSTACK && item->error != PTD_E_TRUNCATED;
}

static void take(struct source *source, const struct ptd_item *item)
{
    if (joins(source, item))
        return;
    if (is_doubtful(item))
        source->pending.is_open = false; /* what led there may be wrong already */
    settle(source);
    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_BLOCK:
        take_block(source, item);
        break;
    case PTD_ITEM_ASYNC:
    case PTD_ITEM_DISABLED:
        take_end(source, item);
        break;
    case PTD_ITEM_ENABLED:
        take_enabled(source, item);
        break;
    case PTD_ITEM_PSB:
        take_psb(source, item);
        break;
    case PTD_ITEM_OVERFLOW:
        take_overflow(source, item);
        break;
    case PTD_ITEM_ERROR:
        take_error(source, item);
        break;
    default:
        if (source->is_live && !item->in_psb)
            take_live(source, item);
        break;
    }
}

/* ---- A whole trace ---- */

int replay_run(const struct replay *replay, struct replay_result *result)
{
    struct source *const source = calloc(1, sizeof(*source));
    struct ptd_flow *const flow =
        ptd_flow_new(replay->bytes, replay->len_bytes, replay->image, &replay->flow);
    struct ptd_item item;
    int error = PTD_E_NOMEM;

    memset(result, 0, sizeof(*result));
    tally_open(&result->tally, replay->bytes, replay->len_bytes, replay->flow.errata);
    if (source && flow) {
        source->replay = replay;
        source->result = result;
        ptd_packets_init(&source->packets, replay->bytes, replay->len_bytes);
        ptd_packets_set_errata(&source->packets, replay->flow.errata);
        while (source->error == PTD_OK && ptd_flow_next(flow, &item) == PTD_OK) {
            take(source, &item);
            if (source->is_live && (source->rig.len_bytes > sizeof(source->rig.page) ||
                                    item.offset > source->fed + FEED_BYTES)) {
                feed(source, item.offset);
                tally_trim(&result->tally);
            }
        }
        settle(source);
        end_piece(source, replay->len_bytes, END_TRACE);
        error = source->error;
    }
    ptd_flow_free(flow);
    free(source);
    return error;
}
