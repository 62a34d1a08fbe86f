/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * VMX operation (33.5, 33.6): packets of VM entries and exits under the three conceal controls
 * (Tables 33-52 to 33-54), and what becomes of TraceEn there (Table 33-56, cases 7 to 12).
 *
 * RTIT_CTL changes in two ways: by the controls "load IA32_RTIT_CTL" and "clear IA32_RTIT_CTL", or,
 * on older processors, by the MSR-load areas, which come when the new context is loaded already.
 */
#include "enables.h"
#include "events.h"
#include "msr.h"
#include "output.h"
#include "packets.h"
#include "pt_packets.h"

static bool tracing(const struct vpt_cpu *cpu)
{
    return (cpu->ctl & VPT_CTL_TRACEEN) != 0;
}

/* ---- VMXON to VMCLEAR ---- */

void vpt_vmxon(struct vpt_cpu *cpu, uint64_t ip)
{
    if (!cpu->caps.vmx_misc_pt && tracing(cpu))
        vpt_trace_disable(cpu, cpu->ctl & ~VPT_CTL_TRACEEN, ip);
    cpu->vmx_on = true; /* with no current VMCS: VMXOFF and reset see to that */
}

void vpt_vmxoff(struct vpt_cpu *cpu)
{
    cpu->vmx_on = false;
    cpu->vmx_nonroot = false;
    cpu->vmcs = UINT64_MAX;
}

void vpt_vmptrld(struct vpt_cpu *cpu, uint64_t vmcs)
{
    cpu->vmcs = vmcs;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);
    vpt_emit_vmcs(cpu);
    vpt_end_quietly(cpu);
}

void vpt_vmclear(struct vpt_cpu *cpu, uint64_t vmcs)
{
    if (cpu->vmcs == vmcs)
        cpu->vmcs = UINT64_MAX;
}

/* ---- RTIT_CTL and MSR-load areas ---- */

/* RTIT_CTL by way of a transition that goes on at ip, a value that WRMSR takes; cfe as of
 * vpt_trace_enable(). */
static void load_ctl(struct vpt_cpu *cpu, uint64_t ctl, uint64_t ip, uint8_t cfe)
{
    if (!tracing(cpu) && (ctl & VPT_CTL_TRACEEN))
        vpt_trace_enable(cpu, ctl, ip, cfe);
    else
        vpt_wrmsr(cpu, VPT_MSR_CTL, ctl, ip, ip);
}

/* "Clear IA32_RTIT_CTL", when there are no packets to send any more. */
static void clear_ctl(struct vpt_cpu *cpu)
{
    if (tracing(cpu)) {
        vpt_trace_off(cpu, 0);
    } else {
        cpu->ctl = 0;
        vpt_ctl_loaded(cpu);
    }
}

/* Whether an area that is loaded when RTIT_CTL is ctl raises no #GP (33.2.8.1). */
static bool area_ok(const struct vpt_cpu *cpu, const struct vpt_msr_load *loads, size_t count,
                    uint64_t ctl)
{
    struct vpt_cpu after;

    if (count == 0)
        return true;
    after = *cpu;
    after.ctl = ctl;
    for (size_t i = 0; i < count; i++) {
        const struct vpt_msr_load *load = &loads[i];

        if (!vpt_msr_owned(load->msr))
            continue;
        if (load->msr == VPT_MSR_CTL) {
            if (!vpt_ctl_write_ok(&after, load->value))
                return false;
            after.ctl = load->value;
        } else if (vpt_wrmsr(&after, load->msr, load->value, 0, 0) != VPT_OK) {
            return false;
        }
    }
    return true;
}

/* Whether the area leaves TraceEn 0 where it is 1 now. */
static bool clears_traceen(const struct vpt_cpu *cpu, const struct vpt_msr_load *loads,
                           size_t count)
{
    bool clears = false;

    for (size_t i = 0; i < count; i++)
        if (loads[i].msr == VPT_MSR_CTL)
            clears = !(loads[i].value & VPT_CTL_TRACEEN);
    return clears && tracing(cpu);
}

/*
 * A trace that this VM entry began may have ended in its area, with bytes that wait for their first
 * page. What the area loads behind that is not theirs. That they met a TraceStop stays true: no VM
 * exit comes, behind which it would happen again.
 */
static void forget_waiting(struct vpt_cpu *cpu)
{
    const uint64_t stopped = cpu->status & VPT_STATUS_STOPPED;

    vpt_output_take_back(cpu);
    cpu->status |= stopped;
}

/* An area that area_ok() likes. */
static void load_area(struct vpt_cpu *cpu, const struct vpt_msr_load *loads, size_t count,
                      uint64_t ip, uint8_t cfe)
{
    for (size_t i = 0; i < count; i++) {
        if (!vpt_msr_owned(loads[i].msr))
            continue;
        if (!tracing(cpu))
            forget_waiting(cpu);
        if (loads[i].msr == VPT_MSR_CTL)
            load_ctl(cpu, loads[i].value, ip, cfe);
        else
            vpt_wrmsr(cpu, loads[i].msr, loads[i].value, ip, ip);
    }
}

/* ---- VM entry ---- */

static bool controls_ok(const struct vpt_cpu *cpu, const struct vpt_vm_entry *entry)
{
    const bool load = entry->entry & VPT_ENTRY_LOAD_CTL;
    const bool clear = entry->exit & VPT_EXIT_CLEAR_CTL;

    if (load && tracing(cpu))
        return false;
    if ((entry->secondary & VPT_SECONDARY_PT_GPA) && !(entry->ept && load && clear))
        return false;
    if (cpu->caps.vmx_misc_pt)
        return true;
    return !(entry->secondary & (VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA)) &&
           !(entry->exit & (VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL)) &&
           !(entry->entry & (VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL));
}

/* Table 33-54: VMLAUNCH falls through, as a branch to the next instruction. */
static void fail_early(struct vpt_cpu *cpu, uint64_t next_ip)
{
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool stop = vpt_update_enables(cpu, next_ip);

    vpt_settle(cpu, was, stop, next_ip, VPT_END_TIP);
    vpt_end_event(cpu, next_ip);
}

/*
 * Table 33-54: like a VM exit without the guest's part. Of the packets that a processor may send
 * or not, these are the ones that say where execution goes on.
 */
static void fail_late(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry)
{
    if (entry->exit & VPT_EXIT_CLEAR_CTL) {
        if (tracing(cpu))
            vpt_trace_disable(cpu, 0, entry->ip);
        else
            clear_ctl(cpu);
    }
    cpu->vmx_nonroot = false;
    cpu->ctx = entry->host;
    if (!cpu->trigger_en)
        return;
    vpt_begin_event(cpu);

    const bool was = cpu->packet_en;
    const bool stop = vpt_update_enables(cpu, entry->host_ip);

    if (!(entry->exit & VPT_EXIT_CONCEAL))
        vpt_emit_pip_nr(cpu, false);
    vpt_settle(cpu, was, stop, entry->host_ip, VPT_END_TIP);
    vpt_end_event(cpu, entry->host_ip);
}

static void enter(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry)
{
    cpu->vmx_nonroot = !entry->to_root;
    cpu->vmx_secondary = entry->secondary;
    if (entry->from_smm)
        cpu->vmcs = entry->vmcs;
    cpu->ctx = entry->guest;
}

/* CFE packets of an entry (Table 33-59 case 16; 33.6: a return from SMM is an RSM as well). */
static void entry_events(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry, bool fup_follows)
{
    const bool context = cpu->context_en;

    if (entry->entry & VPT_ENTRY_CONCEAL)
        return;
    if (!context && !vpt_context_allows(cpu, &entry->guest))
        return;
    if (entry->from_smm)
        vpt_control_flow_event(cpu, PT_CFE_RSM, 0, 0, false, false);
    vpt_control_flow_event(cpu, PT_CFE_VMENTRY, 0, entry->ip, context, fup_follows);
}

/* An entry while TriggerEn is 1. clears: the MSR-load area ends tracing. */
static void enter_traced(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry, bool clears)
{
    const bool conceal = entry->entry & VPT_ENTRY_CONCEAL;
    const bool was = cpu->packet_en;
    const bool leaves = was && (clears || !vpt_context_allows(cpu, &entry->guest));

    if (clears)
        vpt_begin_last_event(cpu, entry->ip);
    else
        vpt_begin_event(cpu);
    /* The FUP of a TraceEn that is cleared is the next instruction's (Tables 33-50, 33-56). */
    entry_events(cpu, entry, leaves && !clears);
    if (leaves) /* Table 33-56 cases 8 and 9 */
        vpt_emit_ip(cpu, PT_FUP, clears ? entry->next_ip : entry->ip);
    enter(cpu, entry);

    const bool stop = vpt_update_enables(cpu, entry->guest_ip);

    if (!conceal) {
        if (entry->from_smm)
            vpt_emit_vmcs(cpu);
        vpt_emit_pip_nr(cpu, cpu->vmx_nonroot);
    }
    if (clears) {
        if (was)
            vpt_emit_pgd_suppressed(cpu);
        vpt_trace_off(cpu, cpu->ctl & ~VPT_CTL_TRACEEN);
        return;
    }
    vpt_settle(cpu, was, stop, entry->guest_ip, VPT_END_TIP);
    vpt_end_event(cpu, entry->guest_ip);
}

enum vpt_entry vpt_vm_entry_outcome(const struct vpt_cpu *cpu, const struct vpt_vm_entry *entry)
{
    const bool load = entry->entry & VPT_ENTRY_LOAD_CTL;

    if (entry->outcome == VPT_ENTRY_FAILS_EARLY || !controls_ok(cpu, entry))
        return VPT_ENTRY_FAILS_EARLY;
    if (entry->outcome == VPT_ENTRY_FAILS_LATE || (load && !vpt_ctl_ok(cpu, entry->guest_ctl)) ||
        !area_ok(cpu, entry->loads, entry->load_count, load ? entry->guest_ctl : cpu->ctl))
        return VPT_ENTRY_FAILS_LATE;
    return VPT_ENTRY_SUCCEEDS;
}

enum vpt_entry vpt_vm_entry(struct vpt_cpu *cpu, const struct vpt_vm_entry *entry)
{
    const uint8_t cfe = entry->entry & VPT_ENTRY_CONCEAL ? 0 : PT_CFE_VMENTRY;
    const bool load = entry->entry & VPT_ENTRY_LOAD_CTL;
    const enum vpt_entry outcome = vpt_vm_entry_outcome(cpu, entry);

    if (outcome == VPT_ENTRY_FAILS_EARLY) {
        fail_early(cpu, entry->next_ip);
        return outcome;
    }
    if (outcome == VPT_ENTRY_FAILS_LATE) {
        fail_late(cpu, entry);
        return outcome;
    }
    if (cpu->trigger_en)
        enter_traced(cpu, entry, clears_traceen(cpu, entry->loads, entry->load_count));
    else
        enter(cpu, entry);
    if (load)
        load_ctl(cpu, entry->guest_ctl, entry->guest_ip, cfe);
    load_area(cpu, entry->loads, entry->load_count, entry->guest_ip, cfe);
    return outcome;
}

/* ---- VM exit ---- */

/* CFE and EVD packets of an exit (Table 33-59 cases 13 to 15; 33.6). */
static void exit_events(struct vpt_cpu *cpu, const struct vpt_vm_exit *exit)
{
    const bool context = cpu->context_en;
    const bool host = !(exit->exit & VPT_EXIT_CLEAR_CTL) && vpt_context_allows(cpu, &exit->host);
    const uint8_t type =
        exit->by_event || exit->smm == VPT_SMM_BY_SMI ? PT_CFE_VMEXIT_INTR : PT_CFE_VMEXIT;

    if (!(cpu->ctl & VPT_CTL_EVENTEN) || (exit->exit & VPT_EXIT_CONCEAL) ||
        exit->smm == VPT_SMM_BY_VMCALL)
        return;
    if (!context && !host)
        return;
    if (exit->smm == VPT_SMM_BY_SMI)
        vpt_control_flow_event(cpu, PT_CFE_SMI, 0, exit->ip, context, cpu->packet_en);
    if (context) {
        vpt_emit_evd(cpu, PT_EVD_VMXQ, exit->qualification);
        vpt_emit_evd(cpu, PT_EVD_VMXR, exit->reason);
    }
    vpt_control_flow_event(cpu, type, exit->by_event ? exit->vector : 0, exit->ip, context,
                           cpu->packet_en);
}

static void leave(struct vpt_cpu *cpu, const struct vpt_vm_exit *exit)
{
    cpu->vmx_nonroot = false;
    if (exit->smm != VPT_SMM_NONE)
        cpu->vmcs = exit->vmcs;
    cpu->ctx = exit->host;
}

static void leave_traced(struct vpt_cpu *cpu, const struct vpt_vm_exit *exit)
{
    const bool conceal = exit->exit & VPT_EXIT_CONCEAL;
    const bool by_control = exit->exit & VPT_EXIT_CLEAR_CTL;
    const bool by_area = clears_traceen(cpu, exit->loads, exit->load_count);
    const bool was = cpu->packet_en;

    if (by_control || by_area)
        vpt_begin_last_event(cpu, exit->ip);
    else
        vpt_begin_event(cpu);
    exit_events(cpu, exit);
    if (was)
        vpt_emit_ip(cpu, PT_FUP, exit->ip);
    if (by_control) { /* nothing of the host is seen (Table 33-56 case 11) */
        if (was)
            vpt_emit_pgd_suppressed(cpu);
        vpt_output_take_back(cpu);
        vpt_trace_off(cpu, 0);
        leave(cpu, exit);
        return;
    }
    leave(cpu, exit);

    const bool stop = vpt_update_enables(cpu, exit->host_ip);

    if (!conceal) {
        if (exit->smm != VPT_SMM_NONE)
            vpt_emit_vmcs(cpu);
        vpt_emit_pip_nr(cpu, false);
    }
    if (by_area) {
        if (was)
            vpt_emit_pgd_suppressed(cpu);
        vpt_trace_off(cpu, cpu->ctl & ~VPT_CTL_TRACEEN);
        return;
    }
    vpt_settle(cpu, was, stop, exit->host_ip, VPT_END_TIP);
    vpt_end_event(cpu, exit->host_ip);
}

bool vpt_vm_exit(struct vpt_cpu *cpu, const struct vpt_vm_exit *exit)
{
    const bool clear = exit->exit & VPT_EXIT_CLEAR_CTL;

    if (!area_ok(cpu, exit->loads, exit->load_count, clear ? 0 : cpu->ctl)) {
        vpt_vmx_abort(cpu, exit->ip);
        return false;
    }
    if (cpu->trigger_en) {
        leave_traced(cpu, exit);
    } else {
        vpt_output_take_back(cpu);
        if (clear)
            clear_ctl(cpu);
        leave(cpu, exit);
    }
    load_area(cpu, exit->loads, exit->load_count, exit->host_ip, 0);
    return true;
}

void vpt_vmx_abort(struct vpt_cpu *cpu, uint64_t ip)
{
    if (cpu->trigger_en) {
        vpt_begin_last_event(cpu, ip);
        if (cpu->packet_en)
            vpt_emit_ip(cpu, PT_FUP, ip);
    }
    vpt_flush(cpu);
    vpt_clear_trigger(cpu);
    cpu->vmx_nonroot = false;
}
