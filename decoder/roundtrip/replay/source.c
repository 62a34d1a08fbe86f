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

#include "source.h"

#define INSN_BYTES 15u
#define BAD_OFFSET UINT64_MAX

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
    uint64_t ip;          /* that runs next, while tracing */
    uint64_t sent_psb;    /* the model sent this PSB by itself; BAD_OFFSET: none */
    uint64_t held_cycles; /* of a CYC in front of a TSC */
    uint64_t told_end;    /* timing packets in front of this offset were told */
    bool psb_due;         /* tracing begins with a PSB+ */
    bool is_away;         /* the model is where ContextEn is 0 */
    bool psb_away;        /* the last PSB+ came there, and nothing was traced since */
    bool mode_due;        /* a PSB+ without MODE.Exec came, and nothing was traced since */
    bool pip_due;         /* a PIP belongs to what begins tracing */
    bool cr3_known;       /* a PSB+ that belongs to what begins tracing has told CR3 */
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
    const struct vpt_transfer transfer = {.type = type, .ip = ip, .target = target, .after = after};

    source->is_away = false;
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

/* CR3 became another one where ContextEn was 0. */
static void change_cr3_unseen(struct source *source, uint64_t cr3)
{
    if (cr3 == source->context.cr3)
        return;
    if (!source->is_away)
        go_away(source, VPT_FAR_BRANCH, RIG_ELSEWHERE);
    source->context.cr3 = cr3;
    vpt_mov_cr3(&source->rig.cpu, cr3, RIG_ELSEWHERE);
}

/* ---- Pieces ---- */

static void feed(struct source *source, uint64_t offset)
{
    size_t len_bytes;
    const uint8_t *const bytes = rig_take(&source->rig, &len_bytes);

    if (len_bytes > 0)
        tally_ours(&source->result->tally, bytes, len_bytes);
    tally_theirs(&source->result->tally, offset);
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
    if (plus->has_pip && !vpt_packet_en(&rig->cpu) && vpt_trigger_en(&rig->cpu))
        change_cr3_unseen(source, plus->cr3);
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
    return plus->has_fup || (source->replay->user_only ? plus->has_tsx : plus->has_pip);
}

/* A PSB+ comes while PacketEn is 0: the model is where the hardware is, as far as that shows. */
static void follow_context(struct source *source, const struct psb_plus *plus)
{
    const bool tells = !source->replay->user_only || source->replay->rig.caps.tsx;

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

/* A fresh processor, whose trace begins at this PSB. */
static void begin_piece(struct source *source, const struct psb_plus *plus, const uint64_t *ip)
{
    const struct replay *const replay = source->replay;
    size_t unused;

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
    source->sent_psb = BAD_OFFSET;
    source->psb_due = source->is_away = source->psb_away = source->pip_due = false;
    source->result->pieces++;
    tally_begin(&source->result->tally, plus->offset);
    see_psb(source, plus);
    rig_set_vmx(&source->rig, plus->nr || replay->nonroot, plus->has_vmcs, plus->vmcs,
                &source->context);
    if (!ip) {
        enable_at_psb(source, plus);
        return;
    }
    /* In the middle: tracing began some time before, of which nothing is compared. */
    rig_enable(&source->rig, &source->context, *ip, false);
    if (plus->in_tx)
        vpt_tx_begin(&source->rig.cpu, *ip);
    (void)rig_take(&source->rig, &unused);
    see_psb(source, plus);
    vpt_psb(&source->rig.cpu, *ip);
}

/* ---- Operations ---- */

static uint64_t behind(const struct source *source, const struct ptd_item *block)
{
    const uint8_t *bytes;
    struct ptd_insn insn;
    size_t len_bytes;

    if (ptd_image_find(source->replay->image, block->cr3, block->last_ip, &bytes, &len_bytes) !=
            PTD_OK ||
        ptd_insn_decode((enum ptd_mode)block->mode, block->last_ip, bytes,
                        len_bytes < INSN_BYTES ? len_bytes : INSN_BYTES, &insn) != PTD_OK)
        return block->last_ip + 1; /* it crosses two pieces of code; no RET will match */
    return block->last_ip + insn.size_bytes;
}

/* FUP and TIP.PGD: an event that leaves what is traced, or the end of tracing. */
static void tell_leaving(struct source *source, const struct ptd_item *end)
{
    struct pause pause;

    survey_pause(source->packets, end->offset, &pause);
    if (end->has_to)
        transfer(source, VPT_INTERRUPT, end->from, end->to, source->context);
    else if (source->replay->user_only || source->replay->kernel_only || pause.has_ovf ||
             (!pause.has_cbr && !pause.has_psb))
        go_away(source, VPT_INTERRUPT, end->from);
    else
        rig_disable(&source->rig, end->from);
}

static void tell_exit(struct source *source, const struct ptd_item *end)
{
    const struct vpt_vm_exit exit = {.ip = end->from, .host_ip = end->to, .host = source->context};

    (void)vpt_vm_exit(&source->rig.cpu, &exit);
}

static void tell_async(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const end = &pending->end;

    if (pending->has_tsx && (pending->tsx & 2))
        vpt_tx_abort(&source->rig.cpu, end->from, end->to);
    else if (pending->has_cr3 && !pending->nr && vpt_nonroot(&source->rig.cpu))
        tell_exit(source, end);
    else
        transfer(source, VPT_INTERRUPT, end->from, end->to, source->context);
}

static void tell_far(struct source *source, const struct pending *pending)
{
    const struct ptd_item *const block = &pending->block;
    const struct vpt_vm_entry entry = {.ip = block->last_ip,
                                       .next_ip = behind(source, block),
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
        vpt_call_direct(cpu, block->to, behind(source, block));
        break;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(cpu, block->to);
        break;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(cpu, block->to, behind(source, block));
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
        if (pending->has_cr3)
            vpt_mov_cr3(cpu, pending->cr3, block->to);
        break;
    case PTD_INSN_VMPTRLD:
        if (pending->has_vmcs)
            vpt_vmptrld(cpu, pending->vmcs);
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
        tell_leaving(source, &pending.end);
    else if (pending.end.has_to) /* a TraceStop range or a filter began to act */
        transfer(source, VPT_FAR_BRANCH, source->ip, pending.end.to, source->context);
    else
        go_away(source, VPT_FAR_BRANCH, source->ip);
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
        survey_cr3(source->packets, item->offset, &cr3))
        source->context.cr3 = cr3;
    rig_enable(&source->rig, &source->context, item->to, source->psb_due);
    source->is_away = false;
}

/* What is traced is entered, or comes to run again. */
static void come_back(struct source *source, const struct ptd_item *item)
{
    struct vpt_cpu *const cpu = &source->rig.cpu;
    uint64_t cr3;

    if (source->is_away && source->pip_due) {
        vpt_mov_cr3(cpu, ~source->context.cr3 & 0xfffff000, RIG_ELSEWHERE); /* any other */
    } else if (!source->replay->user_only && !source->cr3_known &&
               survey_cr3(source->packets, item->offset, &cr3)) {
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
    see_psb(source, &plus);
    if (!vpt_trigger_en(&source->rig.cpu)) {
        rig_set_vmx(&source->rig, plus.nr || source->replay->nonroot, plus.has_vmcs, plus.vmcs,
                    &source->context);
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

static void take_overflow(struct source *source, const struct ptd_item *item)
{
    struct psb_plus plus = {.offset = 0};

    source->tracing = item->has_to;
    source->ip = item->to;
    if (!source->is_live)
        return;
    vpt_flush_branches(&source->rig.cpu); /* the hardware's TNT was there, or they were not known */
    vpt_overflow(&source->rig.cpu);
    source->sent_psb = survey_overflow(source->packets, item->offset);
    if (source->sent_psb) {
        survey_psb(source->packets, source->sent_psb, &plus);
        see_psb(source, &plus);
    }
    if (item->has_to)
        transfer(source, VPT_FAR_BRANCH, RIG_ELSEWHERE, item->to, source->context);
    else if (is_filtered(source) && (!source->sent_psb || shows_context(source, &plus)))
        transfer(source, VPT_FAR_BRANCH, RIG_ELSEWHERE, outside(source), source->context);
    else
        go_away(source, VPT_FAR_BRANCH, RIG_ELSEWHERE);
}

/*
 * Whether tracing was off, where nothing is traced, and is on again at a TSC or CBR: a MODE.Exec
 * that says nothing new and follows no PSB shows it.
 */
static bool was_off(const struct source *source, uint64_t offset)
{
    struct pause pause;

    if (source->tracing || source->mode_due || !vpt_trigger_en(&source->rig.cpu))
        return false;
    survey_pause(source->packets, offset, &pause);
    return pause.has_mode && exec_mode(pause.mode) == source->context.exec_mode;
}

/* A frequency changed; or tracing is on again. */
static void change_ratio(struct source *source, uint8_t ratio, bool on_again)
{
    const struct vpt_context none = untraced(source);
    struct vpt_cpu *const cpu = &source->rig.cpu;

    if (!on_again && vpt_trigger_en(cpu)) {
        vpt_set_core_ratio(cpu, ratio);
        return;
    }
    vpt_note_core_ratio(cpu, ratio);
    if (!on_again)
        return;
    rig_enable(&source->rig, &none, RIG_ELSEWHERE, false);
    source->is_away = true;
}

static void take_cbr(struct source *source, const struct ptd_item *item)
{
    const bool on_again = was_off(source, item->offset);

    if (item->offset < source->told_end)
        return;
    if (on_again)
        rig_disable(&source->rig, RIG_ELSEWHERE);
    change_ratio(source, (uint8_t)item->value, on_again);
}

static void take_tsc(struct source *source, const struct ptd_item *item)
{
    const bool on_again = was_off(source, item->offset);
    struct time_group group;

    survey_time(source->packets, item->offset, &group);
    if (on_again && group.has_cbr)
        rig_disable(&source->rig, RIG_ELSEWHERE); /* before the clocks go on */
    rig_see_tsc(&source->rig, item->value, source->held_cycles);
    source->held_cycles = 0;
    if (group.has_tma)
        rig_see_tma(&source->rig, group.ctc, group.fast);
    if (!group.has_cbr)
        return;
    change_ratio(source, group.cbr, on_again);
    source->told_end = group.end;
}

static void take_packet(struct source *source, const struct ptd_packet *packet)
{
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
        break;
    }
}

/* A PIP of its own: a MOV CR3 outside of the filter, or a part of what begins tracing. */
static void take_cr3(struct source *source, const struct ptd_item *item)
{
    if (!source->tracing && is_filtered(source))
        stay_outside(source);
    source->context.cr3 = item->value;
    source->pip_due = !source->tracing && !is_filtered(source);
    if (source->pip_due)
        return;
    vpt_mov_cr3(&source->rig.cpu, item->value, source->tracing ? source->ip : outside(source));
}

static void take_state(struct source *source, const struct ptd_item *item)
{
    struct vpt_cpu *const cpu = &source->rig.cpu;

    switch ((enum ptd_item_type)item->type) {
    case PTD_ITEM_CR3:
        take_cr3(source, item);
        break;
    case PTD_ITEM_VMCS:
        vpt_vmptrld(cpu, item->value);
        break;
    case PTD_ITEM_MODE:
        source->context.exec_mode = exec_mode((uint8_t)item->value);
        source->context.interrupts = survey_interrupts(source->packets, item->offset);
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
        take_packet(source, &item->packet);
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
        (void)snprintf(result->first_gap, sizeof(result->first_gap), "at %#" PRIx64 ": %s",
                       item->offset, ptd_strerror(item->error));
    result->lost_bytes += item->value;
    end_piece(source, item->offset, END_GAP);
    source->tracing = false;
}

static void take(struct source *source, const struct ptd_item *item)
{
    if (joins(source, item))
        return;
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
            if (source->is_live && source->rig.len_bytes > sizeof(source->rig.page)) {
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
