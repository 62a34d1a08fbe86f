/* SPDX-License-Identifier: BSD-3-Clause */
/* What happened: enables (33.2.6), wants, and the events that are not of VMX; see truth.h. */
#include "roundtrip/invariants/truth.h"

#include "roundtrip/invariants/packets.h"

#define PAGE_FAULT 14

void truth_begin(struct truth *truth)
{
    truth->before = truth->on;
    truth->view_before = truth_view(truth);
    truth->ctl_before = truth->ctl;
    truth->ctl_enabled = 0;
    truth->pip_due = truth->vmcs_due = false;
    truth->ends = truth->enables_trace = false;
    truth->of_event = 0;
}

/* ---- Wants ---------------------------------------------------------------------------------- */

struct want *truth_at(struct truth *truth, unsigned index)
{
    return &truth->wants[(truth->first + index) % WANTS];
}

struct want *truth_want(struct truth *truth, enum want_kind kind, uint64_t value, uint64_t extra,
                        bool flag)
{
    struct want *want;

    if (truth->count == WANTS) {
        truth->too_many = true;
        truth->count--;
    }
    want = truth_at(truth, truth->count++);
    *want = (struct want){.kind = kind, .value = value, .extra = extra, .flag = flag};
    truth->of_event++;
    return want;
}

void truth_drop(struct truth *truth, unsigned index)
{
    for (; index > 0; index--)
        *truth_at(truth, index) = *truth_at(truth, index - 1);
    truth->first = (truth->first + 1) % WANTS;
    truth->count--;
    if (truth->of_event > truth->count)
        truth->of_event = truth->count;
}

void truth_lost(struct truth *truth)
{
    const unsigned old = truth->count - truth->of_event;

    truth->first = (truth->first + old) % WANTS;
    truth->count = truth->of_event;
    for (unsigned i = 0; i < truth->count; i++)
        truth_at(truth, i)->optional = true;
    truth_forget_calls(truth);
}

static struct want *want_ip(struct truth *truth, enum want_kind kind, uint64_t ip)
{
    return truth_want(truth, kind, truth_payload(truth, ip), 0, kind == WANT_PGD);
}

static void want_fup(struct truth *truth, uint64_t ip, enum bound bound)
{
    truth_want(truth, WANT_FUP, truth_payload(truth, ip), bound, false);
}

/* ---- State ---------------------------------------------------------------------------------- */

void truth_forget_calls(struct truth *truth)
{
    truth->call_count = 0;
}

uint64_t truth_payload(const struct truth *truth, uint64_t ip)
{
    const uint64_t shown = truth->caps.leaf14_0_ecx & VPT_CAP_LIP ? ip : ip - truth->ctx.cs_base;

    return truth->ctx.exec_mode == VPT_EXEC_64 ? shown : shown & UINT32_MAX;
}

bool truth_shows_nonroot(const struct truth *truth)
{
    return truth->nonroot && !(truth->secondary & VPT_SECONDARY_CONCEAL);
}

struct view truth_view(const struct truth *truth)
{
    const struct vpt_context *const ctx = &truth->ctx;
    const bool shows_if = (truth->caps.leaf14_0_ebx & VPT_CAP_EVENT) && ctx->interrupts;

    return (struct view){
        .mode =
            (uint8_t)((ctx->exec_mode == VPT_EXEC_64 ? MODE_CSL : 0) |
                      (ctx->exec_mode == VPT_EXEC_32 ? MODE_CSD : 0) | (shows_if ? MODE_IF : 0)),
        .nr = truth_shows_nonroot(truth),
        .in_tx = truth->in_tx,
        .cr3 = ctx->cr3 & (ctx->pae ? ~0x1full : ~0xfffull) & 0xfffffffffffffull,
        .vmcs = truth->vmcs >> 12 & 0xffffffffffull,
    };
}

/* ContextEn (33.2.6.3). */
bool truth_context_of(const struct truth *truth, const struct vpt_context *ctx)
{
    const uint64_t mask = ctx->pae ? ~0x1full : ~0xfffull;

    if (ctx->cpl == 0 ? !(truth->ctl & VPT_CTL_OS) : !(truth->ctl & VPT_CTL_USER))
        return false;
    if (ctx->enclave)
        return false;
    return !(truth->ctl & VPT_CTL_CR3FILTER) || (ctx->cr3 & mask) == (truth->cr3_match & mask);
}

/* Whether ip is in a range of this kind; *any: there is one (33.2.5.3). */
static bool in_range(const struct truth *truth, unsigned kind, uint64_t ip, bool *any)
{
    const uint64_t payload = truth_payload(truth, ip);
    bool found = false;

    *any = false;
    for (unsigned n = 0; n < VPT_MAX_RANGES; n++) {
        if ((truth->ctl >> (VPT_CTL_ADDR_CFG_SHR + 4 * n) & 0xf) != kind)
            continue;
        *any = true;
        found |= payload >= truth->addr[n][0] && payload <= truth->addr[n][1];
    }
    return found;
}

/* Execution goes on at ip by a branch or an event. True: that is where tracing stops. */
bool truth_land(struct truth *truth, uint64_t ip)
{
    struct enables *const on = &truth->on;
    bool any, stop = false;

    if (!on->trigger)
        return false;
    on->context = truth_context_of(truth, &truth->ctx);
    if (on->context) {
        on->filter = in_range(truth, VPT_ADDR_CFG_FILTER, ip, &any) || !any;
        stop = in_range(truth, VPT_ADDR_CFG_TRACESTOP, ip, &any);
        on->filter = on->filter && !stop;
    }
    on->packet =
        on->context && on->filter && !truth->wait_for_sipi && (truth->ctl & VPT_CTL_BRANCHEN) != 0;
    if (on->packet != truth->before.packet)
        truth_forget_calls(truth);
    truth->resume_ip = truth_payload(truth, ip);
    return stop;
}

void truth_cut(struct truth *truth)
{
    truth->on.trigger = false;
    truth->on.packet = false;
    truth->count = truth->of_event = 0;
    truth_forget_calls(truth);
}

static void want_stop(struct truth *truth)
{
    truth_want(truth, WANT_STOP, 0, 0, false);
    truth->on.trigger = false;
    truth->on.packet = false;
    truth_forget_calls(truth);
}

/* What became of PacketEn in an operation that went on at ip (Table 33-56). */
void truth_settle(struct truth *truth, bool stop, uint64_t ip, enum end end)
{
    const bool was = truth->before.packet;

    if (was && truth->on.packet) {
        if (end == END_TIP)
            want_ip(truth, WANT_TIP, ip);
    } else if (was) {
        struct want *const pgd = want_ip(truth, WANT_PGD, ip);

        pgd->flag = truth->on.context && end != END_COND;
        pgd->either = end == END_NONE && truth->on.context;
    } else if (truth->on.packet) {
        want_ip(truth, WANT_PGE, ip);
    }
    if (stop)
        want_stop(truth);
}

/* ---- Near branches -------------------------------------------------------------------------- */

static void push(struct truth *truth, uint64_t next_ip)
{
    truth->calls[truth->call_top++ % 64] = next_ip;
    truth->call_count += truth->call_count < 64;
}

/* Whether ranges were looked at, and PacketEn stays 1. */
static bool near(struct truth *truth, uint64_t ip, enum end end)
{
    const bool stop = truth_land(truth, ip);

    truth_settle(truth, stop, ip, end);
    return truth->before.packet && truth->on.packet;
}

void truth_cond(struct truth *truth, uint64_t next_ip, bool taken)
{
    const bool bits = !(truth->ctl & VPT_CTL_DISTNT);

    truth->resume_ip = truth_payload(truth, next_ip);
    if (taken ? near(truth, next_ip, END_COND) : truth->on.packet)
        if (bits)
            truth_want(truth, WANT_BIT, taken, 0, false);
}

void truth_jmp(struct truth *truth, uint64_t target, bool indirect)
{
    near(truth, target, indirect ? END_TIP : END_DIRECT);
}

void truth_call(struct truth *truth, uint64_t target, uint64_t next_ip, bool indirect)
{
    if (near(truth, target, indirect ? END_TIP : END_DIRECT) && (indirect || target != next_ip))
        push(truth, next_ip);
}

void truth_ret(struct truth *truth, uint64_t target)
{
    const bool match = truth->call_count > 0 && truth->calls[(truth->call_top - 1) % 64] == target;
    const bool may = match && truth->before.packet && !(truth->ctl & VPT_CTL_DISRETC);
    const bool stop = truth_land(truth, target);

    if (truth->call_count > 0) {
        truth->call_top--;
        truth->call_count--;
    }
    if (!truth->before.packet || !truth->on.packet) {
        truth_settle(truth, stop, target, END_TIP);
        return;
    }
    /* With DisTNT, a compressed RET leaves no trace (33.3.9). */
    truth_want(truth, WANT_RET, truth_payload(truth, target), 0, may)->optional =
        may && (truth->ctl & VPT_CTL_DISTNT);
}

/* ---- Event Trace (Tables 33-49 to 33-51, 33-59) --------------------------------------------- */

void truth_event(struct truth *truth, uint8_t type, uint8_t vector, uint64_t ip, bool own_fup)
{
    truth_want(truth, WANT_CFE, type, vector, own_fup)->ip = truth_payload(truth, ip);
    if (own_fup)
        want_fup(truth, ip, BOUND_TO_CFE);
}

/* ---- Far transfers -------------------------------------------------------------------------- */

/* CFE types by enum vpt_transfer_type (Table 33-50), and who has a FUP (Table 33-23). */
static const struct {
    uint8_t cfe;
    bool vector, fup;
} transfers[] = {
    [VPT_FAR_BRANCH] = {0, false, false},
    [VPT_IRET] = {CFE_IRET, false, false},
    [VPT_SOFT_INTERRUPT] = {CFE_INTR, true, true},
    [VPT_FAULT] = {CFE_INTR, true, true},
    [VPT_TRAP] = {CFE_INTR, true, true},
    [VPT_INTERRUPT] = {CFE_INTR, true, true},
    [VPT_ENCLAVE] = {0, false, true},
    [VPT_UINTR] = {CFE_UINTR, true, true},
    [VPT_UIRET] = {CFE_UIRET, false, false},
    [VPT_INIT] = {CFE_INIT, false, true},
    [VPT_INIT_WAIT] = {CFE_INIT, false, true},
    [VPT_SIPI] = {CFE_SIPI, true, false},
};

static void transfer_event(struct truth *truth, const struct vpt_transfer *transfer, bool fup)
{
    const uint8_t type = transfers[transfer->type].cfe;
    const uint8_t vector = transfers[transfer->type].vector ? transfer->vector : 0;
    const bool page_fault = transfer->type == VPT_FAULT && vector == PAGE_FAULT;
    const bool after = truth_context_of(truth, &transfer->after);

    if (!type || !(truth->ctl & VPT_CTL_EVENTEN) || !truth->on.trigger)
        return;
    if (!truth->on.context && (page_fault || !after))
        return;
    if (page_fault)
        truth_want(truth, WANT_EVD, transfer->cr2, EVD_PFA, false);
    truth_event(truth, type, vector, transfer->ip,
                truth->on.context && !fup && transfer->type != VPT_SIPI);
}

/* A processor that waits for SIPI executes nothing; its PacketEn is 0 (Table 33-55, 23 and 24). */
static void wait_for_sipi(struct truth *truth, uint64_t ip)
{
    truth->wait_for_sipi = true;
    if (!truth->on.trigger)
        return;
    truth->on.context = truth_context_of(truth, &truth->ctx);
    truth->on.packet = false;
    if (truth->before.packet)
        want_ip(truth, WANT_PGD, ip)->either = true;
    truth_forget_calls(truth);
}

void truth_transfer(struct truth *truth, const struct vpt_transfer *transfer)
{
    const bool cr3_changes = truth->ctx.cr3 != transfer->after.cr3;
    const bool fup = truth->on.packet && transfers[transfer->type].fup;

    transfer_event(truth, transfer, fup);
    if (fup)
        want_fup(truth, transfer->ip, BOUND_TO_TIP);
    truth->ctx = transfer->after;
    if (transfer->type == VPT_INIT_WAIT) {
        wait_for_sipi(truth, transfer->target);
    } else {
        truth->wait_for_sipi = false;

        const bool stop = truth_land(truth, transfer->target);

        truth_settle(truth, stop, transfer->target, END_TIP);
    }
    truth->pip_due = cr3_changes && truth->before.trigger && truth->on.context;
    truth->pip_nr = truth_shows_nonroot(truth);
}

/* ---- Others --------------------------------------------------------------------------------- */

void truth_mov_cr3(struct truth *truth, uint64_t cr3, uint64_t next_ip)
{
    truth->ctx.cr3 = cr3;

    const bool stop = truth_land(truth, next_ip);

    truth->pip_due = truth->before.trigger && truth->on.context;
    truth->pip_nr = truth_shows_nonroot(truth);
    truth_settle(truth, stop, next_ip, END_NONE);
}

void truth_interrupt_flag(struct truth *truth, bool interrupts, uint64_t ip)
{
    const bool traced = truth->on.trigger && truth->on.context && truth->on.filter;

    if (truth->ctx.interrupts == interrupts)
        return;
    truth->ctx.interrupts = interrupts;
    if (traced && (truth->ctl & VPT_CTL_EVENTEN))
        want_fup(truth, ip, BOUND_TO_MODE);
}

void truth_ptwrite(struct truth *truth, uint64_t value, uint8_t size_bytes, uint64_t ip)
{
    const bool fup = (truth->ctl & VPT_CTL_FUPONPTW) != 0;

    if (!(truth->ctl & VPT_CTL_PTWEN) || !truth->on.trigger || !truth->on.context ||
        !truth->on.filter)
        return;
    truth_want(truth, WANT_PTW, size_bytes == 8 ? value : (uint32_t)value, size_bytes, fup);
    if (fup)
        want_fup(truth, ip, BOUND_TO_PTW);
}

static void want_tsx(struct truth *truth, uint64_t value, uint64_t ip)
{
    if (truth->on.trigger && truth->on.context && (truth->ctl & VPT_CTL_BRANCHEN)) {
        truth_want(truth, WANT_TSX, value, 0, false);
        if (truth->on.packet)
            want_fup(truth, ip, BOUND_TO_TSX);
    }
}

void truth_tx(struct truth *truth, bool in_tx, uint64_t ip)
{
    truth->in_tx = in_tx;
    want_tsx(truth, in_tx, ip);
}

void truth_tx_abort(struct truth *truth, uint64_t ip, uint64_t target)
{
    truth->in_tx = false;
    want_tsx(truth, 2, ip);

    const bool stop = truth_land(truth, target);

    truth_settle(truth, stop, target, END_TIP);
}

static void want_exstop(struct truth *truth, uint64_t ip)
{
    truth_want(truth, WANT_EXSTOP, 0, 0, truth->on.context);
    if (truth->on.context)
        want_fup(truth, ip, BOUND_TO_EXSTOP);
}

void truth_power_entry(struct truth *truth, const struct vpt_power_entry *entry)
{
    const bool deeper = truth->asleep;

    truth->asleep = true;
    if (!truth->on.trigger || !(truth->ctl & VPT_CTL_PWREVTEN))
        return;
    if (entry->mwait && truth->on.context && !deeper)
        truth_want(truth, WANT_MWAIT, entry->hints, entry->ext, false);
    truth_want(truth, WANT_PWRE, entry->state, 0, entry->hw);
    if (!deeper)
        want_exstop(truth, entry->ip);
}

void truth_power_exit(struct truth *truth, const struct vpt_power_exit *wake)
{
    truth->asleep = false;
    if (truth->on.trigger && (truth->ctl & VPT_CTL_PWREVTEN))
        truth_want(truth, WANT_PWRX,
                   (uint64_t)wake->last_core_state << 4 | wake->deepest_core_state, wake->reason,
                   false);
}

void truth_exec_stop(struct truth *truth, uint64_t ip)
{
    if (truth->on.trigger && (truth->ctl & VPT_CTL_PWREVTEN))
        want_exstop(truth, ip);
}

void truth_pebs(struct truth *truth, const struct vpt_block *blocks, size_t count, uint64_t ip)
{
    if (!truth->on.trigger || !truth->caps.pebs)
        return;
    for (size_t i = 0; i < count; i++) {
        truth_want(truth, WANT_BBP, blocks[i].type, 0, blocks[i].four_byte_items);
        for (size_t n = 0; n < blocks[i].count; n++) {
            const struct vpt_block_item *const item = &blocks[i].items[n];

            truth_want(truth, WANT_BIP,
                       blocks[i].four_byte_items ? (uint32_t)item->value : item->value, item->id,
                       false);
        }
    }
    truth_want(truth, WANT_BEP, 0, 0, truth->on.context);
    if (truth->on.context)
        want_fup(truth, ip, BOUND_TO_BLOCK);
}

void truth_shutdown(struct truth *truth, uint64_t ip)
{
    if (truth->on.trigger && truth->on.context && (truth->ctl & VPT_CTL_EVENTEN))
        truth_event(truth, CFE_SHUTDOWN, 0, ip, true);
}

void truth_vmptrld(struct truth *truth, uint64_t vmcs)
{
    truth->vmcs = vmcs;
    truth->vmcs_due = truth->on.trigger && truth->on.context && truth->caps.vmx_misc_pt;
}

/* ---- TraceEn -------------------------------------------------------------------------------- */

void truth_enable(struct truth *truth, uint64_t ctl, uint64_t next_ip, uint8_t cfe, bool may)
{
    bool any;

    truth->ctl = ctl;
    truth->ctl_enabled |= ctl;
    truth->enables_trace = true;
    truth_forget_calls(truth);
    if (!may)
        return;
    truth->on = (struct enables){.trigger = true};
    in_range(truth, VPT_ADDR_CFG_FILTER, 0, &any);
    truth->on.filter = !any; /* 33.2.6.5 */
    truth->before.packet = false;

    const bool stop = truth_land(truth, next_ip);

    if (cfe && truth->on.context && (ctl & VPT_CTL_EVENTEN))
        truth_event(truth, cfe, 0, next_ip, false);
    truth_settle(truth, stop, next_ip, END_NONE);
}

void truth_end(struct truth *truth, bool was)
{
    if (was)
        truth_want(truth, WANT_PGD, 0, 0, false);
    truth->ends = true;
    truth->end_ip = truth->resume_ip;
    truth->ctl &= ~VPT_CTL_TRACEEN;
    truth->on.trigger = truth->on.packet = false;
    truth_forget_calls(truth);
}

void truth_disable(struct truth *truth, uint64_t ctl, uint64_t ip)
{
    truth->resume_ip = truth_payload(truth, ip);
    if (truth->on.packet)
        want_fup(truth, ip, BOUND_TO_TIP);
    truth_end(truth, truth->on.packet);
    truth->ctl = ctl;
}

void truth_pause(struct truth *truth)
{
    if (truth->on.trigger)
        truth->ends = true; /* it waits for memory, as every end does */
    truth->end_ip = truth->resume_ip;
    truth_forget_calls(truth);
}

void truth_smi(struct truth *truth, uint64_t ip)
{
    if (truth->on.trigger && truth->on.context && (truth->ctl & VPT_CTL_EVENTEN))
        truth_event(truth, CFE_SMI, 0, ip, !truth->on.packet);
    truth_disable(truth, truth->ctl & ~VPT_CTL_TRACEEN, ip);
}
