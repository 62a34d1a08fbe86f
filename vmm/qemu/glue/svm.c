/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SVM as VMX operation (SDM 33.5): VMRUN is a VM entry, #VMEXIT a VM exit, and the address of the
 * VMCB is the VMCS pointer, loaded by the first VMRUN that names it. An exit code is the exit
 * reason, EXITINFO1 the qualification (EXITINFO2, CR2, of an intercepted #PF).
 *
 * The trace of the L1 guest goes on in the L2 guest, as a host's does with a VMM that leaves
 * IA32_RTIT_CTL alone.
 */
#include "qemu/osdep.h"
#include "exec/cpu_ldst.h"
#include "svm.h"
#include "compat.h"
#include "vpt-i386.h"

#define VECTOR_PAGE_FAULT 14

/* In a map, 0 would mean none: with a ratio of 0, the TSC stands still. */
static uint64_t multiplier(uint64_t tsc_ratio)
{
    return tsc_ratio ? tsc_ratio << 16 : 1;
}

/* A capture sees the current VMCB run. */
static void remember(CPUX86State *env)
{
    const struct X86VptVmcb now = {
        .vmcb = env->vm_vmcb,
        .nested_cr3 = env->hflags2 & HF2_NPT_MASK ? env->nested_cr3 : 0,
        .tsc_offset = env->tsc_offset,
        .tsc_multiplier = multiplier(env->amd_tsc_scale_msr),
    };

    x86_vpt_vms_saw(env_archcpu(env)->vpt->vms, &now);
}

/* ---- Entry ---- */

void x86_vpt_vmrun(CPUX86State *env, int insn_bytes)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;

    vpt->vmrun = true;
    vpt->vmrun_ip = x86_vpt_linear(env);
    vpt->vmrun_bytes = insn_bytes;
}

/* Only the guest's own trace can hide that it is one of two. */
static bool conceals(const struct X86Vpt *vpt, const struct vpt_cpu *model)
{
    return vpt->cpu->vpt_conceal && model == &vpt->guest;
}

/* There is VMX operation from the first VMRUN on. */
static void load_vmcs(struct vpt_cpu *model, uint64_t vmcb, uint64_t ip)
{
    if (!model->vmx_on) {
        vpt_vmxon(model, ip);
    }
    if (model->vmcs != vmcb) {
        vpt_vmptrld(model, vmcb);
    }
}

static void enter(struct X86Vpt *vpt, struct vpt_cpu *model, const struct vpt_vm_entry *how)
{
    struct vpt_vm_entry entry = *how;

    if (conceals(vpt, model)) {
        entry.secondary = VPT_SECONDARY_CONCEAL;
        entry.entry = VPT_ENTRY_CONCEAL;
        entry.exit = VPT_EXIT_CONCEAL;
    } else {
        load_vmcs(model, vpt->cpu->env.vm_vmcb, entry.ip);
    }
    vpt_vm_entry(model, &entry);
}

static void tell_entry(CPUX86State *env, struct vpt_vm_entry *entry)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;

    vpt->vmrun = false;
    entry->ip = vpt->vmrun_ip;
    entry->next_ip = vpt->vmrun_ip + vpt->vmrun_bytes;
    if (vpt->enabled) {
        enter(vpt, &vpt->guest, entry);
    }
    if (vpt->watch) {
        enter(vpt, vpt->watch, entry);
    }
    x86_vpt_sync(env);
}

void x86_vpt_vm_entry(CPUX86State *env)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    struct vpt_vm_entry entry = {.guest_ip = x86_vpt_linear(env)};

    vpt->vmrun_ip_guest = entry.guest_ip;
    x86_vpt_context(env, &entry.guest);
    if (vpt->watch) {
        remember(env);
    }
    tell_entry(env, &entry);
}

void x86_vpt_watch_begin_vm(CPUX86State *env, struct vpt_cpu *model)
{
    const struct X86Vpt *vpt = env_archcpu(env)->vpt;
    struct vpt_vm_entry entry = {.guest_ip = x86_vpt_linear(env)};

    if (vpt->vmx && vpt->vmx->begin_amid(env, model)) {
        return;
    }
    if (!(env->hflags & HF_GUEST_MASK)) {
        return;
    }
    remember(env);
    x86_vpt_context(env, &entry.guest);
    enter(env_archcpu(env)->vpt, model, &entry);
}

/* ---- Exit ---- */

static void leave(struct X86Vpt *vpt, struct vpt_cpu *model, const struct vpt_vm_exit *how)
{
    struct vpt_vm_exit exit = *how;

    exit.exit = conceals(vpt, model) ? VPT_EXIT_CONCEAL : 0;
    vpt_vm_exit(model, &exit);
}

/* The vector of an interrupt has not been fetched when it causes an exit: it is 0. */
static void read_exit(CPUX86State *env, struct vpt_vm_exit *exit)
{
    CPUState *cs = env_cpu(env);
    const hwaddr control = env->vm_vmcb + offsetof(struct vmcb, control);
    const uint32_t code = x86_ldl_phys(cs, control + offsetof(struct vmcb_control_area, exit_code));

    exit->reason = code;
    exit->qualification =
        x86_ldq_phys(cs, control + offsetof(struct vmcb_control_area, exit_info_1));
    if (code >= SVM_EXIT_EXCP_BASE && code < SVM_EXIT_EXCP_BASE + 32) {
        exit->by_event = true;
        exit->vector = code - SVM_EXIT_EXCP_BASE;
        if (exit->vector == VECTOR_PAGE_FAULT) {
            exit->qualification =
                x86_ldq_phys(cs, control + offsetof(struct vmcb_control_area, exit_info_2));
        }
    } else if (code == SVM_EXIT_NMI) {
        exit->by_event = true;
        exit->vector = EXCP02_NMI;
    } else if (code == SVM_EXIT_INTR) {
        exit->by_event = true;
    }
}

static void tell_failure(CPUX86State *env)
{
    struct vpt_vm_entry entry = {
        .outcome = VPT_ENTRY_FAILS_LATE,
        .host_ip = x86_vpt_linear(env),
    };

    x86_vpt_context(env, &entry.host);
    tell_entry(env, &entry);
}

void x86_vpt_vm_exit(CPUX86State *env, uint64_t ip)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    struct vpt_vm_exit exit = {.ip = ip, .host_ip = x86_vpt_linear(env)};

    if (vpt->vmrun) { /* VMRUN itself ends in it */
        tell_failure(env);
        return;
    }
    if (vpt->asleep) {
        x86_vpt_wake(vpt);
    }
    x86_vpt_context(env, &exit.host);
    read_exit(env, &exit);
    if (exit.reason == SVM_EXIT_ERR) { /* an event that cannot be injected: nothing ran */
        exit.ip = vpt->vmrun_ip_guest;
    }
    if (vpt->enabled) {
        leave(vpt, &vpt->guest, &exit);
    }
    if (vpt->watch) {
        leave(vpt, vpt->watch, &exit);
    }
    x86_vpt_sync(env);
}

void x86_vpt_vm_reset(X86CPU *cpu)
{
    struct X86Vpt *vpt = cpu->vpt;

    vpt->vmrun = false;
    if (vpt->enabled) {
        vpt_vmxoff(&vpt->guest);
    }
    if (vpt->watch) {
        vpt_vmxoff(vpt->watch);
    }
}
