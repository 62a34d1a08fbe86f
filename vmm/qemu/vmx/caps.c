/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What VMX is enumerated, and where VMXON is allowed: IA32_FEATURE_CONTROL and the capability MSRs,
 * IA32_ARCH_CAPABILITIES among them. They follow the feature words, in which a bit of a control
 * says that software may set it.
 */
#include "qemu/osdep.h"
#include "timer.h"

#define MISC_CR3_TARGETS (4ull << 16)

/* Controls that are 1 where there is no choice. */
struct controls {
    uint32_t msr, true_msr; /* 0: there is none */
    FeatureWord word;
    uint32_t default1, default1_true;
};

static const struct controls controls[] = {
    {MSR_IA32_VMX_PINBASED_CTLS, MSR_IA32_VMX_TRUE_PINBASED_CTLS, FEAT_VMX_PINBASED_CTLS, 0x16,
     0x16},
    {MSR_IA32_VMX_PROCBASED_CTLS, MSR_IA32_VMX_TRUE_PROCBASED_CTLS, FEAT_VMX_PROCBASED_CTLS,
     0x0401e172, 0x04006172},
    {MSR_IA32_VMX_EXIT_CTLS, MSR_IA32_VMX_TRUE_EXIT_CTLS, FEAT_VMX_EXIT_CTLS, 0x36dff, 0x36dfb},
    {MSR_IA32_VMX_ENTRY_CTLS, MSR_IA32_VMX_TRUE_ENTRY_CTLS, FEAT_VMX_ENTRY_CTLS, 0x11ff, 0x11fb},
    {MSR_IA32_VMX_PROCBASED_CTLS2, 0, FEAT_VMX_SECONDARY_CTLS, 0, 0},
};

/* What may be 1. A 64-bit processor may always have a 64-bit host; that bit has no name. */
static uint32_t optional(CPUX86State *env, const struct controls *of)
{
    const bool wide = env->features[FEAT_8000_0001_EDX] & CPUID_EXT2_LM;
    const bool exits = of->word == FEAT_VMX_EXIT_CTLS;

    return env->features[of->word] | (exits && wide ? VMX_VM_EXIT_HOST_ADDR_SPACE_SIZE : 0);
}

/* The allowed 0-settings, and above them the allowed 1-settings. */
static uint64_t settings(CPUX86State *env, const struct controls *of, bool truly)
{
    const uint32_t may = optional(env, of);
    const uint32_t must = truly ? of->default1 & ~may : of->default1;

    return must | (uint64_t)(may | of->default1) << 32;
}

bool x86_vmx_controls_allowed(CPUX86State *env, uint32_t msr, uint32_t value)
{
    for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
        if (controls[i].msr == msr) {
            const uint64_t allowed = settings(env, &controls[i], true);

            return !((uint32_t)allowed & ~value) && !(value & ~(allowed >> 32));
        }
    }
    return false;
}

static bool read_controls(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    for (size_t i = 0; i < ARRAY_SIZE(controls); i++) {
        const struct controls *of = &controls[i];

        if (msr == of->msr || (of->true_msr && msr == of->true_msr)) {
            *value = settings(env, of, msr == of->true_msr);
            return true;
        }
    }
    return false;
}

static uint64_t cr0_fixed0(CPUX86State *env)
{
    return CR0_PG_MASK | CR0_NE_MASK | CR0_PE_MASK;
}

uint64_t x86_vmx_cr4_fixed1(CPUX86State *env)
{
    return (uint32_t)~cr4_reserved_bits(env);
}

bool x86_vmx_cr0_allowed(CPUX86State *env, uint64_t cr0, bool unrestricted)
{
    const uint64_t free = unrestricted ? CR0_PG_MASK | CR0_PE_MASK : 0;

    return !(cr0_fixed0(env) & ~free & ~cr0) && cr0 <= UINT32_MAX;
}

bool x86_vmx_cr4_allowed(CPUX86State *env, uint64_t cr4)
{
    return (cr4 & CR4_VMXE_MASK) && !(cr4 & ~x86_vmx_cr4_fixed1(env));
}

/* The memory types of EPT structures have no names as features. */
uint64_t x86_vmx_ept_caps(CPUX86State *env)
{
    const bool ept = env->features[FEAT_VMX_SECONDARY_CTLS] & VMX_SECONDARY_EXEC_ENABLE_EPT;

    return env->features[FEAT_VMX_EPT_VPID_CAPS] | (ept ? MSR_VMX_EPT_UC | MSR_VMX_EPT_WB : 0);
}

static bool has_secondary(CPUX86State *env, uint32_t bits)
{
    return env->features[FEAT_VMX_SECONDARY_CTLS] & bits;
}

static bool read_capability(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    switch (msr) {
    case MSR_IA32_VMX_BASIC:
        *value =
            VMCS_REVISION | (uint64_t)VMCS_BYTES << 32 | 6ull << 50 | env->features[FEAT_VMX_BASIC];
        return true;
    case MSR_IA32_VMX_MISC:
        *value = VMX_TIMER_SHIFT | MISC_CR3_TARGETS | env->features[FEAT_VMX_MISC];
        return true;
    case MSR_IA32_VMX_CR0_FIXED0:
        *value = cr0_fixed0(env);
        return true;
    case MSR_IA32_VMX_CR0_FIXED1:
        *value = UINT32_MAX;
        return true;
    case MSR_IA32_VMX_CR4_FIXED0:
        *value = CR4_VMXE_MASK;
        return true;
    case MSR_IA32_VMX_CR4_FIXED1:
        *value = x86_vmx_cr4_fixed1(env);
        return true;
    case MSR_IA32_VMX_VMCS_ENUM:
        *value = vmcs_highest_index(env);
        return true;
    case MSR_IA32_VMX_PROCBASED_CTLS2:
        return (env->features[FEAT_VMX_PROCBASED_CTLS] &
                VMX_CPU_BASED_ACTIVATE_SECONDARY_CONTROLS) &&
               read_controls(env, msr, value);
    case MSR_IA32_VMX_EPT_VPID_CAP:
        *value = x86_vmx_ept_caps(env);
        return has_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT | VMX_SECONDARY_EXEC_ENABLE_VPID);
    case MSR_IA32_VMX_TRUE_PINBASED_CTLS ... MSR_IA32_VMX_TRUE_ENTRY_CTLS:
        return (env->features[FEAT_VMX_BASIC] & MSR_VMX_BASIC_TRUE_CTLS) &&
               read_controls(env, msr, value);
    default:
        return read_controls(env, msr, value);
    }
}

static bool is_capability(uint32_t msr)
{
    return msr >= MSR_IA32_VMX_BASIC && msr <= MSR_IA32_VMX_VMFUNC;
}

static bool has_arch_capabilities(CPUX86State *env)
{
    return env->features[FEAT_7_0_EDX] & CPUID_7_0_EDX_ARCH_CAPABILITIES;
}

enum x86_vmx_msr x86_vmx_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *value)
{
    if (!cpu_has_vmx(env)) {
        return X86_VMX_MSR_OTHER;
    }
    if (msr == MSR_IA32_FEATURE_CONTROL) {
        *value = env->msr_ia32_feature_control;
        return X86_VMX_MSR_DONE;
    }
    if (msr == MSR_IA32_TSC) { /* of which TCG has no RDMSR */
        *value = cpu_visible_tsc(env, cpu_get_tsc(env));
        return X86_VMX_MSR_DONE;
    }
    if (msr == MSR_IA32_ARCH_CAPABILITIES) {
        *value = env->features[FEAT_ARCH_CAPABILITIES];
        return has_arch_capabilities(env) ? X86_VMX_MSR_DONE : X86_VMX_MSR_GP;
    }
    if (!is_capability(msr)) {
        return X86_VMX_MSR_OTHER;
    }
    return read_capability(env, msr, value) ? X86_VMX_MSR_DONE : X86_VMX_MSR_GP;
}

enum x86_vmx_msr x86_vmx_wrmsr(CPUX86State *env, uint32_t msr, uint64_t value)
{
    const uint64_t known = FEATURE_CONTROL_LOCKED | FEATURE_CONTROL_VMXON_ENABLED_OUTSIDE_SMX;

    if (!cpu_has_vmx(env)) {
        return X86_VMX_MSR_OTHER;
    }
    if (msr == MSR_IA32_FEATURE_CONTROL) {
        if ((env->msr_ia32_feature_control & FEATURE_CONTROL_LOCKED) || (value & ~known)) {
            return X86_VMX_MSR_GP;
        }
        env->msr_ia32_feature_control = value;
        return X86_VMX_MSR_DONE;
    }
    return is_capability(msr) || msr == MSR_IA32_ARCH_CAPABILITIES ? X86_VMX_MSR_GP
                                                                   : X86_VMX_MSR_OTHER;
}
