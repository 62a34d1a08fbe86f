/* SPDX-License-Identifier: BSD-3-Clause */
/* VMX operation; see play_vmx.h. */
#include "roundtrip/invariants/play_vmx.h"

#include "roundtrip/invariants/play_near.h"
#include "roundtrip/invariants/setup.h"
#include "roundtrip/invariants/truth_vmx.h"

#define NO_VMCS   UINT64_MAX
#define AREA_MOST 6

static uint64_t draw_vmcs(struct run *run)
{
    return 0x100000ull + 0x1000ull * dice_draw(&run->dice, 4);
}

static bool tracing(const struct run *run)
{
    return (run->truth.ctl & VPT_CTL_TRACEEN) != 0;
}

/* CR3_MATCH and the place of output, which an area may load while TraceEn is 0. */
static size_t draw_settings(struct run *run, struct vpt_msr_load *loads, uint64_t *output_base)
{
    const struct vpt_caps *const caps = &run->truth.caps;
    size_t count = 0;

    if ((caps->leaf14_0_ebx & VPT_CAP_CR3FILTER) && dice_one_in(&run->dice, 2))
        loads[count++] =
            (struct vpt_msr_load){VPT_MSR_CR3_MATCH, 0x1000ull * (1 + dice_draw(&run->dice, 3))};
    if ((caps->leaf14_0_ecx & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN)) && dice_one_in(&run->dice, 3)) {
        uint64_t mask_ptrs;

        setup_output_msrs(run, output_base, &mask_ptrs);
        loads[count++] = (struct vpt_msr_load){VPT_MSR_OUTPUT_BASE, *output_base};
        loads[count++] = (struct vpt_msr_load){VPT_MSR_OUTPUT_MASK_PTRS, mask_ptrs};
    }
    return count;
}

/*
 * An MSR-load area that sets or clears TraceEn, now and then: or both, where what it ends began in
 * the same transition. ctl: what RTIT_CTL is when the area is loaded. How many entries there are.
 */
static size_t draw_area(struct run *run, uint64_t ctl, struct vpt_msr_load *loads)
{
    const bool ends = (ctl & VPT_CTL_TRACEEN) != 0;
    uint64_t output_base = run->owner.cpu.output_base;
    size_t count = 0;

    if (!dice_one_in(&run->dice, 3) || !run->truth.caps.vmx_misc_pt)
        return 0;
    if (ends) {
        ctl = dice_one_in(&run->dice, 2) ? ctl & ~VPT_CTL_TRACEEN : 0;
        loads[count++] = (struct vpt_msr_load){VPT_MSR_CTL, ctl};
        if (dice_one_in(&run->dice, 2))
            return count;
    }
    count += draw_settings(run, loads + count, &output_base);
    loads[count++] = (struct vpt_msr_load){0x10, 0}; /* not one of the trace's */
    if (!ends || (!tracing(run) && dice_one_in(&run->dice, 2)))
        loads[count++] = (struct vpt_msr_load){VPT_MSR_CTL, setup_ctl(run, output_base)};
    return count;
}

/* Whether the area ends a trace that the entry begins, and goes on to other settings. */
static bool moves_output(const struct vpt_vm_entry *entry)
{
    return entry->load_count > 1 && (entry->entry & VPT_ENTRY_LOAD_CTL) &&
           (entry->guest_ctl & VPT_CTL_TRACEEN);
}

/* ---- Entry ---------------------------------------------------------------------------------- */

static void draw_controls(struct run *run, struct vpt_vm_entry *entry)
{
    if (!run->truth.caps.vmx_misc_pt)
        return;
    if (dice_one_in(&run->dice, 3))
        entry->secondary |= VPT_SECONDARY_CONCEAL;
    if (dice_one_in(&run->dice, 3))
        entry->entry |= VPT_ENTRY_CONCEAL;
    if (dice_one_in(&run->dice, 3))
        entry->exit |= VPT_EXIT_CONCEAL;
    if (!tracing(run) && !entry->to_root && dice_one_in(&run->dice, 2)) {
        entry->entry |= VPT_ENTRY_LOAD_CTL;
        entry->exit |= VPT_EXIT_CLEAR_CTL;
        entry->ept = dice_one_in(&run->dice, 2);
        entry->secondary |= entry->ept ? VPT_SECONDARY_PT_GPA : 0;
        entry->guest_ctl = setup_ctl(run, run->owner.cpu.output_base);
        if (dice_one_in(&run->dice, 4))
            entry->guest_ctl &= ~VPT_CTL_TRACEEN;
    } else if (dice_one_in(&run->dice, 4)) {
        entry->exit |= VPT_EXIT_CLEAR_CTL;
    }
}

static void play_entry(struct run *run)
{
    struct truth *const truth = &run->truth;
    struct vpt_msr_load loads[AREA_MOST];
    struct vpt_vm_entry entry = {
        .ip = run->ip,
        .next_ip = run->ip + 3,
        .from_smm = run->in_stm,
        .to_root = run->in_stm && dice_one_in(&run->dice, 2),
        .vmcs = run->in_stm ? draw_vmcs(run) : 0,
        .host = truth->ctx,
        .host_ip = play_target(run, &truth->ctx),
        .loads = loads,
    };
    const bool may = setup_may_trace(run);
    enum vpt_entry outcome;

    entry.guest = play_context(run, dice_one_in(&run->dice, 3) ? 3 : 0);
    if (entry.to_root)
        entry.guest.cpl = 0;
    entry.guest.cr3 = 0x1000ull * (1 + dice_draw(&run->dice, 4));
    entry.guest.interrupts = dice_one_in(&run->dice, 2);
    entry.guest_ip = play_target(run, &entry.guest);
    draw_controls(run, &entry);
    entry.load_count =
        draw_area(run, entry.entry & VPT_ENTRY_LOAD_CTL ? entry.guest_ctl : truth->ctl, loads);
    run->moved_output = moves_output(&entry);
    if (dice_one_in(&run->dice, 12))
        entry.outcome = dice_one_in(&run->dice, 2) ? VPT_ENTRY_FAILS_EARLY : VPT_ENTRY_FAILS_LATE;
    run_say(run,
            "VM entry at %llx to %llx: secondary %x entry %x exit %x CTL %llx area %zu%s, CPL %u",
            (unsigned long long)run->ip, (unsigned long long)entry.guest_ip, entry.secondary,
            entry.entry, entry.exit, (unsigned long long)entry.guest_ctl, entry.load_count,
            entry.from_smm ? " from SMM" : "", entry.guest.cpl);
    outcome = vpt_vm_entry(&run->owner.cpu, &entry);
    if (outcome != entry.outcome)
        run_say(run, "  the outcome is %d", outcome);
    entry.outcome = outcome;
    truth_vm_entry(truth, &entry, may);
    run->ip = outcome == VPT_ENTRY_SUCCEEDS      ? entry.guest_ip
              : outcome == VPT_ENTRY_FAILS_EARLY ? entry.next_ip
                                                 : entry.host_ip;
    if (outcome != VPT_ENTRY_SUCCEEDS)
        return;
    run->exit_controls = entry.exit;
    run->host = (struct back){entry.host_ip, entry.host};
    run->in_stm = false;
}

/* ---- Exit ----------------------------------------------------------------------------------- */

/*
 * Whether the MSR-load area of an exit may set TraceEn. A trace whose first page faults has not
 * begun: the exit takes back what it left in IA32_RTIT_STATUS.
 */
static bool may_trace_behind_exit(const struct run *run)
{
    const struct vpt_cpu *const cpu = &run->owner.cpu;
    const bool taken_back = cpu->output_blocked && cpu->untouched && cpu->output_ept;
    const uint64_t status = taken_back ? cpu->start_status : cpu->status;

    return !(status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED));
}

void play_vm_exit(struct run *run)
{
    struct truth *const truth = &run->truth;
    const bool clear = (run->exit_controls & VPT_EXIT_CLEAR_CTL) != 0;
    struct vpt_msr_load loads[AREA_MOST];
    struct vpt_vm_exit exit = {
        .ip = run->ip,
        .exit = run->exit_controls,
        .reason = dice_draw(&run->dice, 64),
        .qualification = dice_bits(&run->dice),
        .by_event = dice_one_in(&run->dice, 2),
        .vector = (uint8_t)dice_draw(&run->dice, 256),
        .loads = loads,
        .host_ip = run->host.ip,
        .host = run->host.ctx,
    };
    bool may;

    if (truth->caps.vmx_misc_pt && dice_one_in(&run->dice, 6)) {
        exit.smm = dice_one_in(&run->dice, 2) ? VPT_SMM_BY_SMI : VPT_SMM_BY_VMCALL;
        exit.by_event = false;
        exit.vmcs = 0x900000;
    }
    exit.load_count = draw_area(run, clear ? 0 : truth->ctl, loads);
    may = may_trace_behind_exit(run);
    run->exit_blocked = vpt_output_blocked(&run->owner.cpu) && run->owner.cpu.untouched;
    run_say(run, "VM exit at %llx to %llx: exit %x area %zu smm %d, CPL %u",
            (unsigned long long)run->ip, (unsigned long long)exit.host_ip, exit.exit,
            exit.load_count, exit.smm, exit.host.cpl);
    if (!vpt_vm_exit(&run->owner.cpu, &exit)) {
        rebuild_violation(&run->rebuilt, "a VM exit with a good MSR-load area aborts");
        return;
    }
    truth_vm_exit(truth, &exit, may);
    run->in_stm = exit.smm != VPT_SMM_NONE;
    run->owner.ept_hole = run->owner.ept_hole && dice_one_in(&run->dice, 2);
    run->owner.granted = 0;
    run->ip = exit.host_ip;
}

/* ---- Others --------------------------------------------------------------------------------- */

static void play_vmxon(struct run *run)
{
    struct truth *const truth = &run->truth;

    run_say(run, "VMXON at %llx", (unsigned long long)run->ip);
    if (!truth->caps.vmx_misc_pt && tracing(run))
        truth_disable(truth, truth->ctl & ~VPT_CTL_TRACEEN, run->ip);
    vpt_vmxon(&run->owner.cpu, run->ip);
    truth->vmx_on = true;
}

static void play_vmclear(struct run *run)
{
    const uint64_t vmcs = draw_vmcs(run);

    run_say(run, "VMCLEAR of %llx", (unsigned long long)vmcs);
    if (run->truth.vmcs == vmcs)
        run->truth.vmcs = NO_VMCS;
    vpt_vmclear(&run->owner.cpu, vmcs);
}

static void play_vmptrld(struct run *run)
{
    const uint64_t vmcs = draw_vmcs(run);

    run_say(run, "VMPTRLD of %llx", (unsigned long long)vmcs);
    truth_vmptrld(&run->truth, vmcs);
    vpt_vmptrld(&run->owner.cpu, vmcs);
}

static void play_vmxoff(struct run *run)
{
    run_say(run, "VMXOFF");
    run->truth.vmx_on = false;
    run->truth.vmcs = NO_VMCS;
    vpt_vmxoff(&run->owner.cpu);
}

void play_vmx(struct run *run)
{
    const uint32_t kind = dice_draw(&run->dice, 32);

    if (run->truth.nonroot)
        play_vm_exit(run);
    else if (!run->truth.vmx_on)
        play_vmxon(run);
    else if (run->truth.vmcs == NO_VMCS || kind < 6)
        play_vmptrld(run);
    else if (kind == 6)
        play_vmclear(run);
    else if (kind == 7 && !run->in_stm)
        play_vmxoff(run);
    else
        play_entry(run);
}
