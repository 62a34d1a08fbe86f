/* SPDX-License-Identifier: BSD-3-Clause */
/* VM entries and exits; see truth_vmx.h. */
#include "roundtrip/invariants/truth_vmx.h"

#include "roundtrip/invariants/packets.h"

/* What an MSR-load area makes of RTIT_CTL: the last value of it. False: it is not in there. */
static bool area_ctl(const struct vpt_msr_load *loads, size_t count, uint64_t *ctl)
{
    bool found = false;

    for (size_t i = 0; i < count; i++)
        if (loads[i].msr == VPT_MSR_CTL) {
            *ctl = loads[i].value;
            found = true;
        }
    return found;
}

static bool area_clears(const struct truth *truth, const struct vpt_msr_load *loads, size_t count)
{
    uint64_t ctl;

    return area_ctl(loads, count, &ctl) && (truth->ctl & VPT_CTL_TRACEEN) &&
           !(ctl & VPT_CTL_TRACEEN);
}

/* What is left to do of an area, or of a control, where the transition leads to ip. */
static void load_ctl(struct truth *truth, uint64_t ctl, uint64_t ip, uint8_t cfe, bool may)
{
    if (!(truth->ctl & VPT_CTL_TRACEEN) && (ctl & VPT_CTL_TRACEEN))
        truth_enable(truth, ctl, ip, cfe, may);
    else if (truth->ctl & ~ctl & VPT_CTL_TRACEEN)
        truth_disable(truth, ctl, ip);
    else
        truth->ctl = ctl;
}

static void load_area(struct truth *truth, const struct vpt_msr_load *loads, size_t count,
                      uint64_t ip, uint8_t cfe, bool may)
{
    for (size_t i = 0; i < count; i++) {
        if (loads[i].msr == VPT_MSR_CR3_MATCH)
            truth->cr3_match = loads[i].value;
        if (loads[i].msr != VPT_MSR_CTL)
            continue;
        if ((truth->ctl & VPT_CTL_TRACEEN) && !truth->on.trigger)
            may = false; /* it was stopped, in this very transition perhaps */
        load_ctl(truth, loads[i].value, ip, cfe, may);
    }
}

/* A FUP's address is of no account: there is none (Table 33-50), or it is another event's. */
static void event_without_ip(struct truth *truth, uint8_t type)
{
    truth_event(truth, type, 0, 0, false);
    truth_at(truth, truth->count - 1)->ip = UINT64_MAX;
}

/* ---- VM entry ------------------------------------------------------------------------------- */

static void fail_early(struct truth *truth, const struct vpt_vm_entry *entry)
{
    const bool stop = truth_land(truth, entry->next_ip);

    truth_settle(truth, stop, entry->next_ip, END_TIP);
}

static void fail_late(struct truth *truth, const struct vpt_vm_entry *entry)
{
    const bool clear = (entry->exit & VPT_EXIT_CLEAR_CTL) != 0;

    if (clear)
        truth_disable(truth, 0, entry->ip);
    truth->nonroot = false;
    truth->ctx = entry->host;
    if (clear)
        return;

    const bool stop = truth_land(truth, entry->host_ip);

    truth->pip_due =
        !(entry->exit & VPT_EXIT_CONCEAL) && truth->before.trigger && truth->on.context;
    truth->pip_nr = false;
    truth_settle(truth, stop, entry->host_ip, END_TIP);
}

/* CFE packets of an entry. shared: a FUP with the address of the instruction follows anyhow. */
static void entry_events(struct truth *truth, const struct vpt_vm_entry *entry, bool shared)
{
    const bool context = truth->on.context;

    if ((entry->entry & VPT_ENTRY_CONCEAL) || !(truth->ctl & VPT_CTL_EVENTEN) ||
        (!context && !truth_context_of(truth, &entry->guest)))
        return;
    if (entry->from_smm)
        event_without_ip(truth, CFE_RSM);
    truth_event(truth, CFE_VMENTRY, 0, entry->ip, context && !shared);
}

static void enter(struct truth *truth, const struct vpt_vm_entry *entry)
{
    truth->nonroot = !entry->to_root;
    truth->secondary = entry->secondary;
    if (entry->from_smm)
        truth->vmcs = entry->vmcs;
    truth->ctx = entry->guest;
}

static void enter_traced(struct truth *truth, const struct vpt_vm_entry *entry)
{
    const bool conceal = (entry->entry & VPT_ENTRY_CONCEAL) != 0;
    const bool clears = area_clears(truth, entry->loads, entry->load_count);
    const bool leaves = truth->on.packet && (clears || !truth_context_of(truth, &entry->guest));

    truth->resume_ip = truth_payload(truth, entry->ip);
    entry_events(truth, entry, leaves && !clears);
    if (leaves) /* Table 33-56, cases 8 and 9 */
        truth_want(truth, WANT_FUP, truth_payload(truth, clears ? entry->next_ip : entry->ip),
                   BOUND_TO_TIP, false);
    enter(truth, entry);

    const uint64_t resume_ip = truth->resume_ip;
    const bool stop = truth_land(truth, entry->guest_ip);

    truth->pip_due = !conceal && truth->on.context;
    truth->pip_nr = truth->nonroot;
    truth->vmcs_due = !conceal && entry->from_smm && truth->on.context && truth->caps.vmx_misc_pt;
    if (!clears) {
        truth_settle(truth, stop, entry->guest_ip, END_TIP);
        return;
    }
    truth->resume_ip = resume_ip;
    truth_end(truth, truth->before.packet);
}

void truth_vm_entry(struct truth *truth, const struct vpt_vm_entry *entry, bool may)
{
    const uint8_t cfe = entry->entry & VPT_ENTRY_CONCEAL ? 0 : CFE_VMENTRY;

    if (entry->outcome == VPT_ENTRY_FAILS_EARLY) {
        fail_early(truth, entry);
        return;
    }
    if (entry->outcome == VPT_ENTRY_FAILS_LATE) {
        fail_late(truth, entry);
        return;
    }
    if (truth->on.trigger)
        enter_traced(truth, entry);
    else
        enter(truth, entry);
    if (entry->entry & VPT_ENTRY_LOAD_CTL)
        load_ctl(truth, entry->guest_ctl, entry->guest_ip, cfe, may);
    load_area(truth, entry->loads, entry->load_count, entry->guest_ip, cfe, may);
}

/* ---- VM exit -------------------------------------------------------------------------------- */

static void exit_events(struct truth *truth, const struct vpt_vm_exit *exit)
{
    const bool context = truth->on.context;
    const bool own = context && !truth->on.packet;
    const bool host = !(exit->exit & VPT_EXIT_CLEAR_CTL) && truth_context_of(truth, &exit->host);
    const uint8_t type =
        exit->by_event || exit->smm == VPT_SMM_BY_SMI ? CFE_VMEXIT_INTR : CFE_VMEXIT;

    if (!(truth->ctl & VPT_CTL_EVENTEN) || (exit->exit & VPT_EXIT_CONCEAL) ||
        exit->smm == VPT_SMM_BY_VMCALL || (!context && !host))
        return;
    if (exit->smm == VPT_SMM_BY_SMI)
        truth_event(truth, CFE_SMI, 0, exit->ip, own);
    if (context) {
        truth_want(truth, WANT_EVD, exit->qualification, EVD_VMXQ, false);
        truth_want(truth, WANT_EVD, exit->reason, EVD_VMXR, false);
    }
    truth_event(truth, type, exit->by_event ? exit->vector : 0, exit->ip, own);
}

static void leave(struct truth *truth, const struct vpt_vm_exit *exit)
{
    truth->nonroot = false;
    if (exit->smm != VPT_SMM_NONE)
        truth->vmcs = exit->vmcs;
    truth->ctx = exit->host;
}

static void leave_traced(struct truth *truth, const struct vpt_vm_exit *exit)
{
    const bool conceal = (exit->exit & VPT_EXIT_CONCEAL) != 0;
    const bool by_area = area_clears(truth, exit->loads, exit->load_count);

    truth->resume_ip = truth_payload(truth, exit->ip);
    exit_events(truth, exit);
    if (truth->on.packet)
        truth_want(truth, WANT_FUP, truth_payload(truth, exit->ip), BOUND_TO_TIP, false);
    if (exit->exit & VPT_EXIT_CLEAR_CTL) { /* nothing of the host is seen (Table 33-56, 11) */
        truth_end(truth, truth->before.packet);
        truth->ctl = 0;
        leave(truth, exit);
        return;
    }
    leave(truth, exit);

    const uint64_t resume_ip = truth->resume_ip;
    const bool stop = truth_land(truth, exit->host_ip);

    truth->pip_due = !conceal && truth->on.context;
    truth->pip_nr = false;
    truth->vmcs_due =
        !conceal && exit->smm != VPT_SMM_NONE && truth->on.context && truth->caps.vmx_misc_pt;
    if (!by_area) {
        truth_settle(truth, stop, exit->host_ip, END_TIP);
        return;
    }
    truth->resume_ip = resume_ip;
    truth_end(truth, truth->before.packet);
}

void truth_vm_exit(struct truth *truth, const struct vpt_vm_exit *exit, bool may)
{
    if (truth->on.trigger) {
        leave_traced(truth, exit);
    } else {
        if (exit->exit & VPT_EXIT_CLEAR_CTL)
            truth->ctl = 0;
        leave(truth, exit);
    }
    load_area(truth, exit->loads, exit->load_count, exit->host_ip, 0, may);
}
