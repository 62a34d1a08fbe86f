/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM entry, checks of the control fields. A control that has no choice, and one that is not
 * enumerated, is refused by the capability MSRs. Rules: kvm nested_vmx_check_controls().
 */
#include "qemu/osdep.h"
#include "entry.h"
#include "trace.h"

#define CR3_TARGETS_MAX 4

bool x86_vmx_check_all(CPUX86State *env, x86_vmx_check_fn *const *checks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!checks[i](env, x86_vmx_of(env)->vmcs)) {
            return false;
        }
    }
    return true;
}

static bool reserved_bits(CPUX86State *env, const uint64_t *vmcs)
{
    const uint32_t activates = VMX_CPU_BASED_ACTIVATE_SECONDARY_CONTROLS;

    return x86_vmx_controls_allowed(env, MSR_IA32_VMX_PINBASED_CTLS, vmcs[VMCS_PIN_CONTROLS]) &&
           x86_vmx_controls_allowed(env, MSR_IA32_VMX_PROCBASED_CTLS,
                                    vmcs[VMCS_PRIMARY_CONTROLS]) &&
           (!(vmcs[VMCS_PRIMARY_CONTROLS] & activates) ||
            x86_vmx_controls_allowed(env, MSR_IA32_VMX_PROCBASED_CTLS2,
                                     vmcs[VMCS_SECONDARY_CONTROLS])) &&
           x86_vmx_controls_allowed(env, MSR_IA32_VMX_EXIT_CTLS, vmcs[VMCS_EXIT_CONTROLS]) &&
           x86_vmx_controls_allowed(env, MSR_IA32_VMX_ENTRY_CTLS, vmcs[VMCS_ENTRY_CONTROLS]);
}

static bool cr3_targets(CPUX86State *env, const uint64_t *vmcs)
{
    return vmcs[VMCS_CR3_TARGET_COUNT] <= CR3_TARGETS_MAX;
}

static bool bitmaps(CPUX86State *env, const uint64_t *vmcs)
{
    if (x86_vmx_primary(env, VMX_CPU_BASED_USE_IO_BITMAPS) &&
        (!x86_vmx_is_physical(env, vmcs[VMCS_IO_BITMAP_A], TARGET_PAGE_SIZE) ||
         !x86_vmx_is_physical(env, vmcs[VMCS_IO_BITMAP_B], TARGET_PAGE_SIZE))) {
        return false;
    }
    return !x86_vmx_primary(env, VMX_CPU_BASED_USE_MSR_BITMAPS) ||
           x86_vmx_is_physical(env, vmcs[VMCS_MSR_BITMAP], TARGET_PAGE_SIZE);
}

/* "Virtual NMIs" without "NMI exiting", "NMI-window exiting" without "virtual NMIs". */
static bool nmi_controls(CPUX86State *env, const uint64_t *vmcs)
{
    const bool virtual = x86_vmx_pin(env, VMX_PIN_BASED_VIRTUAL_NMIS);

    return (!virtual || x86_vmx_pin(env, VMX_PIN_BASED_NMI_EXITING)) &&
           (virtual || !x86_vmx_primary(env, VMX_CPU_BASED_VIRTUAL_NMI_PENDING));
}

bool x86_vmx_eptp_allowed(CPUX86State *env, uint64_t eptp)
{
    const uint64_t caps = x86_vmx_ept_caps(env);
    const uint64_t type = eptp & 7;
    const bool dirty = eptp & 1 << 6;

    return ((type == 0 && (caps & MSR_VMX_EPT_UC)) || (type == 6 && (caps & MSR_VMX_EPT_WB))) &&
           (eptp >> 3 & 7) == 3 && (!dirty || (caps & MSR_VMX_EPT_AD_BITS)) && !(eptp & 0xf80) &&
           !(eptp >> env_archcpu(env)->phys_bits);
}

static bool translation(CPUX86State *env, const uint64_t *vmcs)
{
    const bool ept = x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT);

    return (!ept || x86_vmx_eptp_allowed(env, vmcs[VMCS_EPT_POINTER])) &&
           (ept || !x86_vmx_secondary(env, VMX_SECONDARY_EXEC_UNRESTRICTED_GUEST)) &&
           (!x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_VPID) || vmcs[VMCS_VPID]);
}

static bool timer(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_pin(env, VMX_PIN_BASED_VMX_PREEMPTION_TIMER) ||
           !x86_vmx_at_exit(env, VMX_VM_EXIT_SAVE_VMX_PREEMPTION_TIMER);
}

/* No rule of KVM's: Bochs has it (cpu/vmx.cc). */
static bool time_scale(CPUX86State *env, const uint64_t *vmcs)
{
    return !x86_vmx_secondary(env, VMX_SECONDARY_EXEC_TSC_SCALING) || vmcs[VMCS_TSC_MULTIPLIER];
}

static bool is_area(CPUX86State *env, uint64_t address, uint64_t count)
{
    return count == 0 || (x86_vmx_is_physical(env, address, 16) &&
                          x86_vmx_is_physical(env, address + count * 16 - 1, 1));
}

static bool msr_areas(CPUX86State *env, const uint64_t *vmcs)
{
    return is_area(env, vmcs[VMCS_EXIT_MSR_STORE], vmcs[VMCS_EXIT_MSR_STORE_COUNT]) &&
           is_area(env, vmcs[VMCS_EXIT_MSR_LOAD], vmcs[VMCS_EXIT_MSR_LOAD_COUNT]) &&
           is_area(env, vmcs[VMCS_ENTRY_MSR_LOAD], vmcs[VMCS_ENTRY_MSR_LOAD_COUNT]);
}

/* ---- The event to inject ---- */

static bool event_vector(CPUX86State *env, uint32_t type, uint32_t vector)
{
    switch (type) {
    case VMX_EVENT_OTHER: /* a pending MTF exit */
        return vector == 0 &&
               (env->features[FEAT_VMX_PROCBASED_CTLS] & VMX_CPU_BASED_MONITOR_TRAP_FLAG);
    case VMX_EVENT_NMI:
        return vector == EXCP02_NMI;
    case VMX_EVENT_EXCEPTION:
        return vector < 32;
    case VMX_EVENT_EXTERNAL:
    case VMX_EVENT_SOFT_INTERRUPT:
    case VMX_EVENT_PRIVILEGED_SOFT:
    case VMX_EVENT_SOFT_EXCEPTION:
        return true;
    default:
        return false;
    }
}

static bool vector_has_error(uint32_t vector)
{
    return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17;
}

static bool event_error(CPUX86State *env, const uint64_t *vmcs, uint32_t type, uint32_t vector)
{
    const bool real = x86_vmx_secondary(env, VMX_SECONDARY_EXEC_UNRESTRICTED_GUEST) &&
                      !(vmcs[VMCS_GUEST_CR0] & CR0_PE_MASK);
    const bool needed = !real && type == VMX_EVENT_EXCEPTION && vector_has_error(vector);

    return needed == !!(vmcs[VMCS_ENTRY_EVENT] & VMX_EVENT_ERROR) &&
           (!needed || !(vmcs[VMCS_ENTRY_EVENT_ERROR] >> 16));
}

static bool event_length(CPUX86State *env, const uint64_t *vmcs, uint32_t type)
{
    const uint64_t length = vmcs[VMCS_ENTRY_EVENT_LENGTH];
    const bool zero = env->features[FEAT_VMX_MISC] & MSR_VMX_MISC_ZERO_LEN_INJECT;

    if (type < VMX_EVENT_SOFT_INTERRUPT || type > VMX_EVENT_SOFT_EXCEPTION) {
        return true;
    }
    return length <= 15 && (length > 0 || zero);
}

static bool injected_event(CPUX86State *env, const uint64_t *vmcs)
{
    const uint32_t event = vmcs[VMCS_ENTRY_EVENT];
    const uint32_t type = event >> VMX_EVENT_TYPE_SHIFT & 7, vector = event & 0xff;

    if (!(event & VMX_EVENT_VALID)) {
        return true;
    }
    return !(event & 0x7ffff000) && event_vector(env, type, vector) &&
           event_error(env, vmcs, type, vector) && event_length(env, vmcs, type);
}

static bool traced(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_trace_controls(env);
}

bool x86_vmx_check_controls(CPUX86State *env)
{
    static x86_vmx_check_fn *const checks[] = {
        reserved_bits, cr3_targets, bitmaps,   nmi_controls,   translation,
        timer,         time_scale,  msr_areas, injected_event, traced};

    return x86_vmx_check_all(env, checks, ARRAY_SIZE(checks));
}
