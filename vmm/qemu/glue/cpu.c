/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CPU model: property vpt-profile, CPUID, reset, migration.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "migration/vmstate.h"
#include "qemu/error-report.h"
#include "compat.h"
#include "vpt-i386.h"

#define DEFAULT_PROFILE "max"
#define LAST_LEAF       0x15
#define COUNTER_BITS    48

void x86_vpt_expand_features(X86CPU *cpu, Error **errp)
{
    CPUX86State *env = &cpu->env;
    FeatureWordArray *user = &env->user_features;
    const bool asked = (*user)[FEAT_7_0_EBX] & CPUID_7_0_EBX_INTEL_PT;
    struct vpt_caps caps;

    if (!tcg_enabled()) {
        if (cpu->vpt_profile) {
            error_setg(errp, "vpt-profile needs -accel tcg, or -accel kvm,vpt=on");
        }
        return;
    }
    if (cpu->vpt_profile && !asked) {
        env->features[FEAT_7_0_EBX] |= CPUID_7_0_EBX_INTEL_PT;
    } else if (!asked) {
        /* "max" is all that TCG has; a trace unit is only there if somebody wants one. */
        env->features[FEAT_7_0_EBX] &= ~CPUID_7_0_EBX_INTEL_PT;
    } else if (!cpu->vpt_profile && (env->features[FEAT_7_0_EBX] & CPUID_7_0_EBX_INTEL_PT)) {
        cpu->vpt_profile = g_strdup(DEFAULT_PROFILE);
    }
    if (!(env->features[FEAT_7_0_EBX] & CPUID_7_0_EBX_INTEL_PT)) {
        return;
    }
    if (!vpt_profile(cpu->vpt_profile, &caps)) {
        g_autoptr(GString) names = g_string_new(NULL);

        for (size_t i = 0; vpt_profile_name(i); i++) {
            g_string_append_printf(names, " %s", vpt_profile_name(i));
        }
        error_setg(errp, "no vpt-profile '%s'; there are:%s", cpu->vpt_profile, names->str);
        return;
    }
    if (!caps.supported) {
        error_setg(errp, "vpt-profile '%s' has no Intel PT", cpu->vpt_profile);
        return;
    }
    env->cpuid_min_level = MAX(env->cpuid_min_level, LAST_LEAF);
}

void x86_vpt_restrict_caps(X86CPU *cpu, struct vpt_caps *caps)
{
    const CPUX86State *env = &cpu->env;

    caps->maxphyaddr = cpu->phys_bits;
    caps->linear_bits = env->features[FEAT_7_0_ECX] & CPUID_7_0_ECX_LA57 ? 57 : 48;
    caps->crystal_hz = 0; /* TSC runs at whatever rate the host's does */
    caps->leaf14_0_ecx &= ~VPT_CAP_FABRIC;
    caps->xsaves = false;
    caps->tsx = false;
    caps->pebs = false;
    /* Without VMX, SVM stands for it (svm.c). With VMX, the profile says. */
    if (!cpu_has_vmx(&cpu->env)) {
        caps->vmx_misc_pt = env->features[FEAT_8000_0001_ECX] & CPUID_EXT3_SVM;
    }
}

void x86_vpt_realize(X86CPU *cpu, Error **errp)
{
    struct vpt_caps caps;
    struct X86Vpt *vpt = cpu->vpt = g_new0(struct X86Vpt, 1);
    const char *wrong;

    vpt->cpu = cpu;
    for (unsigned i = 0; i < VPT_RET_STACK; i++) {
        vpt->full.ret_stack[i] = VPT_RET_NONE; /* no RET finds its CALL there */
    }
    if (!cpu->vpt_profile || !(cpu->env.features[FEAT_7_0_EBX] & CPUID_7_0_EBX_INTEL_PT)) {
        return;
    }
    vpt_profile(cpu->vpt_profile, &caps);
    x86_vpt_restrict_caps(cpu, &caps);
    if (kvm_enabled() && !x86_vpt_host_limit(&caps, errp)) {
        return;
    }
    wrong = vpt_caps_check(&caps);
    if (wrong || !vpt_init(&vpt->guest, &caps, &x86_vpt_ops, vpt)) {
        error_setg(errp, "vpt-profile '%s' with this CPU: %s", cpu->vpt_profile,
                   wrong ? wrong : "cannot be had");
        return;
    }
    vpt->enabled = true;
}

void x86_vpt_unrealize(X86CPU *cpu)
{
    if (cpu->vpt) {
        x86_vpt_capture_end(cpu);
    }
    g_free(cpu->vpt);
    cpu->vpt = NULL;
}

/* Architectural performance monitoring version 2: a PMI needs somebody who takes it. */
static void perfmon_leaf(const struct vpt_caps *caps, uint32_t *eax, uint32_t *ebx, uint32_t *ecx,
                         uint32_t *edx)
{
    const uint32_t events = 7;

    *eax = 2 | caps->perf_counters << 8 | COUNTER_BITS << 16 | events << 24;
    *ebx = (1u << events) - 1; /* none of the events is counted */
    *ecx = 0;
    *edx = caps->perf_fixed | COUNTER_BITS << 5;
}

void x86_vpt_cpuid(X86CPU *cpu, uint32_t leaf, uint32_t subleaf, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx)
{
    const struct X86Vpt *vpt = cpu->vpt;
    struct vpt_cpuid regs = {*eax, *ebx, *ecx, *edx};

    if (!vpt || !vpt->enabled) {
        return;
    }
    if (leaf == 0xa) {
        perfmon_leaf(&vpt->guest.caps, eax, ebx, ecx, edx);
    } else if (leaf != 0 && vpt_cpuid(&vpt->guest.caps, leaf, subleaf, &regs)) {
        *eax = regs.eax;
        *ebx = regs.ebx;
        *ecx = regs.ecx;
        *edx = regs.edx;
    }
}

void x86_vpt_reset_begin(X86CPU *cpu)
{
    if (cpu->vpt) {
        cpu->vpt->reset_ip = x86_vpt_linear(&cpu->env);
    }
}

void x86_vpt_reset(X86CPU *cpu)
{
    struct X86Vpt *vpt = cpu->vpt;

    if (!vpt) {
        return;
    }
    x86_vpt_vm_reset(cpu);
    if (vpt->in_init) {
        return;
    }
    if (kvm_enabled()) {
        x86_vpt_host_elsewhere(cpu);
    }
    x86_vpt_forget_kernel(cpu);
    x86_vpt_watch_reset(cpu, vpt->reset_ip);
    if (vpt->enabled) {
        vpt_reset(&vpt->guest, VPT_RESET_COLD);
    }
    vpt->asleep = false;
    vpt->smm_traceen = false;
    x86_vpt_sync(&cpu->env);
}

/* ---- Migration ---- */

static int vpt_pre_save(void *opaque)
{
    struct X86Vpt *vpt = opaque;

    vpt->saved_bytes = vpt_save(&vpt->guest, vpt->saved, sizeof(vpt->saved));
    return 0;
}

static int vpt_post_load(void *opaque, int version_id)
{
    struct X86Vpt *vpt = opaque;
    const char *wrong;

    if (vpt->saved_bytes > sizeof(vpt->saved)) {
        return -EINVAL;
    }
    wrong = vpt_restore(&vpt->guest, vpt->saved, vpt->saved_bytes);
    if (wrong) {
        error_report("the state of the processor trace cannot be restored: %s", wrong);
        return -EINVAL;
    }
    return 0;
}

static const VMStateDescription vmstate_vpt = {
    .name = "vpt",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = vpt_pre_save,
    .post_load = vpt_post_load,
    .fields = (VMStateField[]){
        VMSTATE_BOOL(asleep, struct X86Vpt), VMSTATE_BOOL(smm_traceen, struct X86Vpt),
        VMSTATE_UINT32(saved_bytes, struct X86Vpt),
        VMSTATE_UINT8_ARRAY(saved, struct X86Vpt, VPT_SAVE_MAX_BYTES), VMSTATE_END_OF_LIST()}};

static bool vpt_needed(void *opaque)
{
    const X86CPU *cpu = opaque;

    return cpu->vpt && cpu->vpt->enabled;
}

/* hflags travel with the rest of the vCPU; this makes sure that they are those of the models. */
static int vpt_cpu_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;

    if (kvm_enabled()) {
        x86_vpt_host_elsewhere(cpu);
    }
    x86_vpt_sync(&cpu->env);
    return 0;
}

const VMStateDescription vmstate_x86_vpt = {
    .name = "cpu/vpt",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = vpt_needed,
    .post_load = vpt_cpu_post_load,
    .fields = (VMStateField[]){VMSTATE_STRUCT_POINTER(vpt, X86CPU, vmstate_vpt, struct X86Vpt),
                               VMSTATE_END_OF_LIST()}};
