/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMX operation, told to the models of virtual PT: the transitions of SDM 33.5 as they are. The
 * trace of the L1 guest goes on in the L2 guest, as a host's does with a VMM that
 * leaves IA32_RTIT_CTL alone.
 */
#include "qemu/osdep.h"
#include "trace.h"
#include "vmx.h"

#define TSC_RATIO_ONE (1ull << 32)

/* The models that are there, at most two. */
static size_t models(struct X86Vpt *vpt, struct vpt_cpu *found[2])
{
    size_t count = 0;

    if (vpt->enabled) {
        found[count++] = &vpt->guest;
    }
    if (vpt->watch) {
        found[count++] = vpt->watch;
    }
    return count;
}

/* ---- Instructions ---- */

void x86_vmx_tell_vmxon(CPUX86State *env)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    struct vpt_cpu *found[2];

    for (size_t i = models(vpt, found); i > 0; i--) {
        vpt_vmxon(found[i - 1], x86_vpt_linear(env));
    }
    x86_vpt_sync(env);
}

void x86_vmx_tell_vmxoff(CPUX86State *env)
{
    struct vpt_cpu *found[2];

    for (size_t i = models(env_archcpu(env)->vpt, found); i > 0; i--) {
        vpt_vmxoff(found[i - 1]);
    }
    x86_vpt_sync(env);
}

void x86_vmx_tell_vmptrld(CPUX86State *env, uint64_t vmcs)
{
    struct vpt_cpu *found[2];

    for (size_t i = models(env_archcpu(env)->vpt, found); i > 0; i--) {
        vpt_vmptrld(found[i - 1], vmcs);
    }
}

void x86_vmx_tell_vmclear(CPUX86State *env, uint64_t vmcs)
{
    struct vpt_cpu *found[2];

    for (size_t i = models(env_archcpu(env)->vpt, found); i > 0; i--) {
        vpt_vmclear(found[i - 1], vmcs);
    }
}

/* ---- Transitions ---- */

/* A capture sees the VM of the current VMCS run. */
static void remember(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const struct X86VptVmcb now = {
        .vmcb = vmx->current,
        .nested_cr3 = env->hflags2 & HF2_NPT_MASK ? vmx->vmcs[VMCS_EPT_POINTER] : 0,
        .tsc_offset = env->tsc_offset,
        .tsc_ratio = TSC_RATIO_ONE,
    };

    x86_vpt_vms_saw(env_archcpu(env)->vpt->vms, &now);
}

/* A capture may have begun later than VMX operation. */
static void catch_up(struct vpt_cpu *model, uint64_t vmcs, uint64_t ip)
{
    if (!model->vmx_on) {
        vpt_vmxon(model, ip);
    }
    if (model->vmcs != vmcs) {
        vpt_vmptrld(model, vmcs);
    }
}

void x86_vmx_tell_entry(CPUX86State *env, struct vpt_vm_entry *entry)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const struct X86Vmx *vmx = x86_vmx_of(env);
    struct vpt_cpu *found[2];

    entry->secondary = vmx->vmcs[VMCS_SECONDARY_CONTROLS];
    entry->entry = vmx->vmcs[VMCS_ENTRY_CONTROLS];
    entry->exit = vmx->vmcs[VMCS_EXIT_CONTROLS];
    entry->ept = env->hflags2 & HF2_NPT_MASK;
    for (size_t i = models(vpt, found); i > 0; i--) {
        catch_up(found[i - 1], vmx->current, entry->ip);
        vpt_vm_entry(found[i - 1], entry);
    }
    if (vpt->watch && entry->outcome == VPT_ENTRY_SUCCEEDS) {
        remember(env);
    }
    x86_vpt_sync(env);
}

void x86_vmx_tell_exit(CPUX86State *env, uint64_t ip)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const struct X86Vmx *vmx = x86_vmx_of(env);
    struct vpt_vm_exit exit = {
        .ip = ip,
        .exit = vmx->vmcs[VMCS_EXIT_CONTROLS],
        .reason = vmx->vmcs[VMCS_EXIT_REASON],
        .qualification = vmx->vmcs[VMCS_EXIT_QUALIFICATION],
        .by_event = vmx->vmcs[VMCS_EXIT_REASON] <= VMX_EXIT_EXTERNAL_INTERRUPT,
        .vector = vmx->vmcs[VMCS_EXIT_EVENT] & 0xff,
        .host_ip = x86_vpt_linear(env),
    };
    struct vpt_cpu *found[2];

    if (vpt->asleep) {
        x86_vpt_wake(vpt);
    }
    x86_vpt_context(env, &exit.host);
    for (size_t i = models(vpt, found); i > 0; i--) {
        vpt_vm_exit(found[i - 1], &exit);
    }
    x86_vpt_sync(env);
}

/* A capture begins while the guest of the current VMCS runs. False: it does not. */
static bool begin_amid_guest(CPUX86State *env, struct vpt_cpu *model)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    struct vpt_vm_entry entry = {
        .secondary = vmx->vmcs[VMCS_SECONDARY_CONTROLS],
        .entry = vmx->vmcs[VMCS_ENTRY_CONTROLS],
        .exit = vmx->vmcs[VMCS_EXIT_CONTROLS],
        .guest_ip = x86_vpt_linear(env),
    };

    if (!x86_vmx_guest(env)) {
        return false;
    }
    remember(env);
    x86_vpt_context(env, &entry.guest);
    catch_up(model, vmx->current, entry.guest_ip);
    vpt_vm_entry(model, &entry);
    return true;
}

void x86_vmx_trace_realize(X86CPU *cpu)
{
    cpu->vpt->begin_amid_vmx = begin_amid_guest;
}
