/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VM entry, checks of the host-state area. Rules: kvm nested_vmx_check_host_state(). */
#include "qemu/osdep.h"
#include "entry.h"

static bool control_registers(CPUX86State *env, const uint64_t *vmcs)
{
    return x86_vmx_cr0_allowed(env, vmcs[VMCS_HOST_CR0], false) &&
           x86_vmx_cr4_allowed(env, vmcs[VMCS_HOST_CR4]) &&
           x86_vmx_is_physical(env, vmcs[VMCS_HOST_CR3], 1);
}

static bool msrs(CPUX86State *env, const uint64_t *vmcs)
{
    const bool wide = x86_vmx_at_exit(env, VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE);

    return x86_vmx_is_canonical(env, vmcs[VMCS_HOST_SYSENTER_ESP]) &&
           x86_vmx_is_canonical(env, vmcs[VMCS_HOST_SYSENTER_EIP]) &&
           (!x86_vmx_at_exit(env, VMX_VM_EXIT_LOAD_IA32_PAT) ||
            x86_vmx_is_pat(vmcs[VMCS_HOST_PAT])) &&
           (!x86_vmx_at_exit(env, VMX_VM_EXIT_LOAD_IA32_EFER) ||
            x86_vmx_is_efer(env, vmcs[VMCS_HOST_EFER], wide, true));
}

/* TI and RPL are 0 in all of them; CS and TR are not null, nor SS of a 32-bit host. */
static bool selectors(CPUX86State *env, const uint64_t *vmcs)
{
    for (int i = VMCS_HOST_ES_SELECTOR; i <= VMCS_HOST_TR_SELECTOR; i++) {
        if (vmcs[i] & 7) {
            return false;
        }
    }
    return vmcs[VMCS_HOST_CS_SELECTOR] && vmcs[VMCS_HOST_TR_SELECTOR] &&
           (vmcs[VMCS_HOST_SS_SELECTOR] || x86_vmx_at_exit(env, VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE));
}

static bool bases(CPUX86State *env, const uint64_t *vmcs)
{
    for (int i = VMCS_HOST_FS_BASE; i <= VMCS_HOST_IDTR_BASE; i++) {
        if (!x86_vmx_is_canonical(env, vmcs[i])) {
            return false;
        }
    }
    return true;
}

static bool address_space(CPUX86State *env, const uint64_t *vmcs)
{
    const bool wide = x86_vmx_at_exit(env, VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE);

    if (wide != !!(env->efer & MSR_EFER_LMA)) {
        return false;
    }
    if (wide) {
        return (vmcs[VMCS_HOST_CR4] & CR4_PAE_MASK) &&
               x86_vmx_is_canonical(env, vmcs[VMCS_HOST_RIP]);
    }
    return !x86_vmx_at_entry(env, VMX_VM_ENTRY_IA32E_MODE) &&
           !(vmcs[VMCS_HOST_CR4] & CR4_PCIDE_MASK) && !(vmcs[VMCS_HOST_RIP] >> 32);
}

bool x86_vmx_check_host(CPUX86State *env)
{
    static x86_vmx_check_fn *const checks[] = {control_registers, msrs, selectors, bases,
                                               address_space};

    return x86_vmx_check_all(env, checks, ARRAY_SIZE(checks));
}
