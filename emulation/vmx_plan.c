/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a VMM sets the VMX controls for a use of the trace, on the processor that it has (33.5.1,
 * 33.5.2), from the capability MSRs.
 */
#include "vpt.h"

#define MISC_PT (1ull << 14) /* IA32_VMX_MISC: tracing in VMX operation */

static bool may_be_1(uint64_t capability, uint32_t control)
{
    return (capability >> 32 & control) == control;
}

static bool may_be_0(uint64_t capability, uint32_t control)
{
    return (capability & control) == 0;
}

/* A VMM that runs in a guest may find controls fixed to 1. */
static const char *clearable(const struct vpt_vmx_caps *caps, const struct vpt_vmx_plan *plan)
{
    if (!may_be_0(caps->secondary, plan->secondary_clear) ||
        !may_be_0(caps->exit, plan->exit_clear) || !may_be_0(caps->entry, plan->entry_clear))
        return "a control that the use needs to be 0 is always 1";
    return NULL;
}

/* Host and guests in one trace: everything is shown, and RTIT_CTL stays as it is. */
static const char *plan_host_wide(const struct vpt_vmx_caps *caps, struct vpt_vmx_plan *plan)
{
    plan->secondary_clear = VPT_SECONDARY_CONCEAL | VPT_SECONDARY_PT_GPA;
    plan->exit_clear = VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    plan->entry_clear = VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
    if (!may_be_0(caps->secondary, VPT_SECONDARY_CONCEAL) ||
        !may_be_0(caps->exit, VPT_EXIT_CONCEAL) || !may_be_0(caps->entry, VPT_ENTRY_CONCEAL))
        return "VMX is always concealed from the trace";
    return clearable(caps, plan);
}

/* The guest traces itself: nothing of VMX is shown, RTIT_CTL is the guest's own. */
static const char *plan_guest_only(const struct vpt_vmx_caps *caps, struct vpt_vmx_plan *plan)
{
    const bool controls =
        may_be_1(caps->entry, VPT_ENTRY_LOAD_CTL) && may_be_1(caps->exit, VPT_EXIT_CLEAR_CTL);

    plan->guest_sees_pt = true;
    plan->secondary_set = VPT_SECONDARY_CONCEAL;
    plan->exit_set = VPT_EXIT_CONCEAL;
    plan->entry_set = VPT_ENTRY_CONCEAL;
    if (!may_be_1(caps->secondary, VPT_SECONDARY_CONCEAL) ||
        !may_be_1(caps->exit, VPT_EXIT_CONCEAL) || !may_be_1(caps->entry, VPT_ENTRY_CONCEAL))
        return "VMX cannot be concealed from the trace";
    if (controls) {
        plan->entry_set |= VPT_ENTRY_LOAD_CTL;
        plan->exit_set |= VPT_EXIT_CLEAR_CTL;
    } else {
        plan->entry_clear = VPT_ENTRY_LOAD_CTL;
        plan->exit_clear = VPT_EXIT_CLEAR_CTL;
        plan->msr_lists = true;
    }
    if (controls && may_be_1(caps->secondary, VPT_SECONDARY_PT_GPA)) {
        plan->secondary_set |= VPT_SECONDARY_PT_GPA;
    } else {
        plan->secondary_clear = VPT_SECONDARY_PT_GPA;
        plan->shadow_topa = true;
    }
    return clearable(caps, plan);
}

/*
 * Tracing pauses in guests. "Load IA32_RTIT_CTL" does not help: it needs TraceEn to be 0 before the
 * entry. The MSR-load areas come after the new context is loaded, whose PIP must not be sent.
 */
static const char *plan_host_only(const struct vpt_vmx_caps *caps, struct vpt_vmx_plan *plan)
{
    plan->msr_lists = true;
    plan->secondary_clear = VPT_SECONDARY_PT_GPA;
    plan->exit_clear = VPT_EXIT_CLEAR_CTL;
    plan->entry_clear = VPT_ENTRY_LOAD_CTL;
    if (may_be_1(caps->exit, VPT_EXIT_CONCEAL) && may_be_1(caps->entry, VPT_ENTRY_CONCEAL)) {
        plan->exit_set = VPT_EXIT_CONCEAL;
        plan->entry_set = VPT_ENTRY_CONCEAL;
    }
    return clearable(caps, plan);
}

const char *vpt_vmx_plan(const struct vpt_vmx_caps *caps, enum vpt_vmx_use use,
                         struct vpt_vmx_plan *plan)
{
    *plan = (struct vpt_vmx_plan){0};
    if (!(caps->misc & MISC_PT))
        return "the processor does not trace in VMX operation (IA32_VMX_MISC[14] is 0)";
    switch (use) {
    case VPT_USE_HOST_WIDE:
        return plan_host_wide(caps, plan);
    case VPT_USE_GUEST_ONLY:
        return plan_guest_only(caps, plan);
    case VPT_USE_HOST_ONLY:
        return plan_host_only(caps, plan);
    }
    return "no such use of the trace";
}
