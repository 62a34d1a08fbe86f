/* SPDX-License-Identifier: BSD-3-Clause */
/* Far transfers, CPL 0, RTIT_CTL, SMM and resets; see play_far.h. */
#include "roundtrip/invariants/play_far.h"

#include "roundtrip/invariants/packets.h"
#include "roundtrip/invariants/play_near.h"
#include "roundtrip/invariants/setup.h"

static void play_transfer(struct run *run, enum vpt_transfer_type type, uint64_t target,
                          const struct vpt_context *after)
{
    static const char *const names[] = {
        "far branch",
        "IRET",
        "INT n",
        "fault",
        "trap",
        "interrupt",
        "enclave",
        "UINTR",
        "UIRET",
        "INIT",
        "INIT to wait for SIPI",
        "SIPI",
    };
    const struct vpt_transfer transfer = {
        .type = type,
        .vector = (uint8_t)(dice_one_in(&run->dice, 4) ? 14 : dice_draw(&run->dice, 256)),
        .ip = run->ip,
        .target = target,
        .cr2 = dice_bits(&run->dice),
        .after = *after,
    };

    run_say(run, "%s at %llx, on at %llx: CPL %u, mode %u, IF %d, CR3 %llx%s", names[type],
            (unsigned long long)run->ip, (unsigned long long)target, after->cpl, after->exec_mode,
            after->interrupts, (unsigned long long)after->cr3, after->enclave ? ", enclave" : "");
    truth_transfer(&run->truth, &transfer);
    vpt_transfer(&run->owner.cpu, &transfer);
    run->ip = target;
}

/* ---- INIT, SIPI ----------------------------------------------------------------------------- */

/* As after INIT: real mode at the reset vector. */
static struct vpt_context reset_context(void)
{
    return (struct vpt_context){.cs_base = 0xffff0000u, .exec_mode = VPT_EXEC_16};
}

static void play_init(struct run *run)
{
    const struct vpt_context ctx = reset_context();
    const bool waits = dice_one_in(&run->dice, 2);

    run->shutdown = false;
    run->depth = 0;
    play_transfer(run, waits ? VPT_INIT_WAIT : VPT_INIT, 0xfffffff0u, &ctx);
}

static void play_sipi(struct run *run)
{
    struct vpt_context ctx = reset_context();

    ctx.cs_base = 0x10000;
    play_transfer(run, VPT_SIPI, ctx.cs_base, &ctx);
}

/* ---- Interrupts and the like ---------------------------------------------------------------- */

static void up(struct run *run, enum vpt_transfer_type type)
{
    struct vpt_context after = play_context(run, 0);

    after.interrupts = after.interrupts && dice_one_in(&run->dice, 4);
    if (after.exec_mode != VPT_EXEC_64 && dice_one_in(&run->dice, 8)) /* a task switch */
        after.cr3 = 0x1000ull * (1 + dice_draw(&run->dice, 3));
    play_transfer(run, type, play_target(run, &after), &after);
}

static void down(struct run *run, enum vpt_transfer_type type)
{
    struct vpt_context after = play_context(run, dice_one_in(&run->dice, 3) ? 0 : 3);

    after.interrupts = dice_one_in(&run->dice, 2);
    play_transfer(run, type, play_target(run, &after), &after);
}

/* User interrupts stay at CPL 3, and so does what enters an enclave or leaves it. */
static void aside(struct run *run, enum vpt_transfer_type type)
{
    struct vpt_context after = run->truth.ctx;

    if (type == VPT_ENCLAVE)
        after.enclave = !after.enclave;
    play_transfer(run, type, play_target(run, &after), &after);
}

static void play_user(struct run *run)
{
    switch (dice_draw(&run->dice, 6)) {
    case 0:
        aside(run, VPT_UINTR);
        break;
    case 1:
        aside(run, VPT_UIRET);
        break;
    case 2:
        aside(run, VPT_ENCLAVE);
        break;
    default:
        up(run, dice_one_in(&run->dice, 2) ? VPT_FAR_BRANCH : VPT_SOFT_INTERRUPT);
        break;
    }
}

void play_far(struct run *run)
{
    static const enum vpt_transfer_type events[] = {VPT_FAULT, VPT_TRAP, VPT_INTERRUPT};
    const enum vpt_transfer_type event = events[dice_draw(&run->dice, 3)];

    if (run->truth.wait_for_sipi)
        play_sipi(run);
    else if (run->shutdown)
        play_init(run);
    else if (run->truth.ctx.enclave)
        dice_one_in(&run->dice, 2) ? aside(run, VPT_ENCLAVE) : up(run, event);
    else if (dice_one_in(&run->dice, 2))
        up(run, event);
    else if (run->truth.ctx.cpl == 0)
        down(run, dice_one_in(&run->dice, 2) ? VPT_IRET : VPT_FAR_BRANCH);
    else
        play_user(run);
}

/* ---- CPL 0 ---------------------------------------------------------------------------------- */

static void play_acm(struct run *run)
{
    run_say(run, "an authenticated code module runs");
    truth_pause(&run->truth);
    vpt_acm_begin(&run->owner.cpu);
    vpt_acm_end(&run->owner.cpu, run->ip);
}

void play_privileged(struct run *run)
{
    struct vpt_cpu *const cpu = &run->owner.cpu;
    struct truth *const truth = &run->truth;
    const uint64_t next_ip = run->ip + 3;

    switch (dice_draw(&run->dice, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: {
        const uint64_t cr3 = 0x1000ull * (1 + dice_draw(&run->dice, 3)) + dice_draw(&run->dice, 2);

        run_say(run, "MOV CR3 of %llx at %llx", (unsigned long long)cr3,
                (unsigned long long)run->ip);
        truth_mov_cr3(truth, cr3, next_ip);
        vpt_mov_cr3(cpu, cr3, next_ip);
        run->ip = next_ip;
        break;
    }
    case 4:
        if (!truth->vmx_on && !run->in_smm) {
            play_init(run);
            break;
        }
        /* fall through */
    case 5:
        if (dice_one_in(&run->dice, 16) && !truth->vmx_on && !run->in_smm) {
            run->shutdown = true;
            run_say(run, "shutdown at %llx", (unsigned long long)run->ip);
            truth_shutdown(truth, run->ip);
            vpt_shutdown(cpu, run->ip);
            break;
        }
        /* fall through */
    case 6:
        if (!truth->nonroot) { /* GETSEC is a VM exit */
            play_acm(run);
            break;
        }
        /* fall through */
    default:
        run_say(run, "RFLAGS.IF becomes %d at %llx", !truth->ctx.interrupts,
                (unsigned long long)run->ip);
        truth_interrupt_flag(truth, !truth->ctx.interrupts, run->ip);
        vpt_interrupt_flag(cpu, truth->ctx.interrupts, run->ip);
        break;
    }
}

/* ---- RTIT_CTL ------------------------------------------------------------------------------- */

static void write_ctl(struct run *run, uint64_t ctl)
{
    const bool may = setup_may_trace(run);
    const uint64_t next_ip = run->ip + 2;
    struct truth *const truth = &run->truth;

    run_say(run, "RTIT_CTL := %llx at %llx", (unsigned long long)ctl, (unsigned long long)run->ip);
    if (vpt_wrmsr(&run->owner.cpu, VPT_MSR_CTL, ctl, run->ip, next_ip) == VPT_OK) {
        if (truth->ctl & VPT_CTL_TRACEEN)
            truth_disable(truth, ctl, run->ip);
        else if (ctl & VPT_CTL_TRACEEN)
            truth_enable(truth, ctl, next_ip, 0, may);
        else
            truth->ctl = ctl;
    }
    run->ip = next_ip;
}

/* What no processor takes: nothing may come of it. */
static void refused(struct run *run)
{
    const uint64_t ctl = run->truth.ctl ^ (1ull << (57 + dice_draw(&run->dice, 7)));

    run_say(run, "RTIT_CTL := %llx, in vain", (unsigned long long)ctl);
    if (vpt_wrmsr(&run->owner.cpu, VPT_MSR_CTL, ctl, run->ip, run->ip + 2) == VPT_OK)
        rebuild_violation(&run->rebuilt, "RTIT_CTL takes a reserved bit");
    if ((run->truth.ctl & VPT_CTL_TRACEEN) &&
        vpt_wrmsr(&run->owner.cpu, VPT_MSR_CTL, run->truth.ctl ^ VPT_CTL_DISRETC, run->ip,
                  run->ip + 2) == VPT_OK)
        rebuild_violation(&run->rebuilt, "RTIT_CTL changes while TraceEn is 1");
}

static void clear_status(struct run *run)
{
    const uint64_t kept = VPT_STATUS_PENDPSB | VPT_STATUS_PENDTOPAPMI | VPT_STATUS_BYTECNT_MASK;
    uint64_t status = run->owner.cpu.status & kept;

    if (dice_one_in(&run->dice, 2))
        status &= ~VPT_STATUS_BYTECNT_MASK;
    if (dice_one_in(&run->dice, 32))
        status |= VPT_STATUS_STOPPED;
    vpt_wrmsr(&run->owner.cpu, VPT_MSR_STATUS, status, run->ip, run->ip);
    run->status_before = run->owner.cpu.status;
}

static void save(struct run *run)
{
    struct truth *const truth = &run->truth;

    run_say(run, "XSAVES at %llx", (unsigned long long)run->ip);
    if (truth->ctl & VPT_CTL_TRACEEN)
        truth_disable(truth, truth->ctl & ~VPT_CTL_TRACEEN, run->ip);
    vpt_xsaves(&run->owner.cpu, &run->area, run->ip);
    run->area_saved = true;
}

static void restore(struct run *run)
{
    const struct vpt_xsave_area *const area = &run->area;
    struct truth *const truth = &run->truth;
    const uint64_t next_ip = run->ip + 4;
    const bool may = !(area->status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED));

    run_say(run, "XRSTORS at %llx: RTIT_CTL := %llx", (unsigned long long)run->ip,
            (unsigned long long)area->ctl);
    run->status_before = area->status;
    if (vpt_xrstors(&run->owner.cpu, area, run->ip, next_ip) != VPT_OK)
        return;
    truth->cr3_match = area->cr3_match;
    for (unsigned n = 0; n < 2; n++) {
        truth->addr[n][0] = area->addr[n][0];
        truth->addr[n][1] = area->addr[n][1];
    }
    if (area->ctl & VPT_CTL_TRACEEN)
        truth_enable(truth, area->ctl, next_ip, 0, may);
    else
        truth->ctl = area->ctl;
    run->ip = next_ip;
}

void play_tracing(struct run *run)
{
    const bool tracing = (run->truth.ctl & VPT_CTL_TRACEEN) != 0;

    if (dice_one_in(&run->dice, 8)) {
        refused(run);
    } else if (run->truth.caps.xsaves && !run->area_saved && dice_one_in(&run->dice, 6)) {
        save(run);
    } else if (run->area_saved && !tracing && !run->in_smm) {
        restore(run);
        run->area_saved = false;
    } else if (tracing) {
        write_ctl(run, run->truth.ctl & ~VPT_CTL_TRACEEN);
    } else if (run->truth.vmx_on && !run->truth.caps.vmx_misc_pt) {
        play_near(run);
    } else {
        if (dice_one_in(&run->dice, 2))
            setup_output(run);
        if (dice_one_in(&run->dice, 2))
            setup_filters(run);
        clear_status(run);
        write_ctl(run, setup_ctl(run, run->owner.cpu.output_base));
    }
}

/* ---- SMM ------------------------------------------------------------------------------------ */

void play_smi(struct run *run)
{
    struct truth *const truth = &run->truth;

    if (run->in_stm)
        return;
    run_say(run, "SMI at %llx", (unsigned long long)run->ip);
    run->smm = (struct back){run->ip, truth->ctx};
    run->smm_traceen = (truth->ctl & VPT_CTL_TRACEEN) != 0;
    if (run->smm_traceen)
        truth_smi(truth, run->ip);
    if (vpt_smi(&run->owner.cpu, run->ip) != run->smm_traceen)
        rebuild_violation(&run->rebuilt, "SMI keeps another TraceEn");
    run->in_smm = true;
    run->smm_vmx_on = truth->vmx_on; /* VMX operation is left until RSM */
    run->smm_nonroot = truth->nonroot;
    truth->vmx_on = truth->nonroot = false;
    truth->ctx = (struct vpt_context){.cs_base = 0x30000, .cr3 = truth->ctx.cr3};
    run->ip = 0x38000;
}

void play_rsm(struct run *run)
{
    struct truth *const truth = &run->truth;
    const bool may = setup_may_trace(run);

    if (truth->ctl & VPT_CTL_TRACEEN) { /* the handler ends its own trace first */
        write_ctl(run, truth->ctl & ~VPT_CTL_TRACEEN);
        return;
    }
    run_say(run, "RSM to %llx, TraceEn %d", (unsigned long long)run->smm.ip, run->smm_traceen);
    if (!vpt_rsm(&run->owner.cpu, run->smm_traceen, run->smm.ip, &run->smm.ctx)) {
        run->smm_traceen = false;
        return;
    }
    truth->ctx = run->smm.ctx;
    truth->vmx_on = run->smm_vmx_on;
    truth->nonroot = run->smm_nonroot;
    if (run->smm_traceen)
        truth_enable(truth, truth->ctl | VPT_CTL_TRACEEN, run->smm.ip, CFE_RSM, may);
    run->in_smm = false;
    run->ip = run->smm.ip;
}

/* ---- Reset ---------------------------------------------------------------------------------- */

void play_reset(struct run *run)
{
    struct truth *const truth = &run->truth;
    const bool warm = dice_one_in(&run->dice, 2);
    const bool keeps = warm && (truth->caps.leaf14_0_ebx & VPT_CAP_IPFILTER);

    run_say(run, "%s reset", warm ? "warm" : "cold");
    vpt_reset(&run->owner.cpu, warm ? VPT_RESET_WARM : VPT_RESET_COLD);
    truth_cut(truth);
    truth->on = (struct enables){0};
    truth->ctl = keeps ? truth->ctl & ~VPT_CTL_TRACEEN : 0;
    if (!keeps) {
        for (unsigned n = 0; n < VPT_MAX_RANGES; n++)
            truth->addr[n][0] = truth->addr[n][1] = 0;
        truth->cr3_match = 0;
    }
    truth->ctx = reset_context();
    truth->vmx_on = truth->nonroot = truth->in_tx = truth->asleep = truth->wait_for_sipi = false;
    truth->secondary = 0;
    truth->vmcs = UINT64_MAX;
    run->in_smm = run->in_stm = run->shutdown = run->area_saved = false;
    run->owner.ept_hole = false;
    run->depth = 0;
    run->ip = 0xfffffff0u;
    run->reset = true;
}
