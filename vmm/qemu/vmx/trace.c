/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMX operation, told to the models of virtual PT: the transitions of SDM 33.5, with the controls
 * of Table 33-52. All rules are the models'. The guest's own trace follows the controls of the
 * VMCS; a capture from outside goes on whatever they say, and shows all.
 */
#include "qemu/osdep.h"
#include "compat.h"
#include "entry.h"
#include "exit.h"
#include "intercept.h"
#include "trace.h"

#define MISC_PT (1u << 14)

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

/* ---- What a capture knows ---- */

/* A capture sees the VM of the current VMCS run. */
static void remember(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const struct X86VptVmcb now = {
        .vmcb = vmx->current,
        .nested_cr3 = env->hflags2 & HF2_NPT_MASK ? vmx->vmcs[VMCS_EPT_POINTER] : 0,
        .tsc_offset = env->tsc_offset,
        .tsc_multiplier =
            env->vmx_tsc_multiplier ? env->vmx_tsc_multiplier : X86_VPT_TSC_MULTIPLIER_ONE,
    };

    x86_vpt_vms_saw(env_archcpu(env)->vpt->vms, &now);
}

/* ---- Checks of VM entry ---- */

static struct vpt_vm_entry with_controls(CPUX86State *env, const struct vpt_vm_entry *of)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    struct vpt_vm_entry entry = *of;

    entry.secondary = x86_vmx_secondary(env, UINT32_MAX) ? vmcs[VMCS_SECONDARY_CONTROLS] : 0;
    entry.entry = vmcs[VMCS_ENTRY_CONTROLS];
    entry.exit = vmcs[VMCS_EXIT_CONTROLS];
    entry.ept = x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT);
    entry.guest_ctl = vmcs[VMCS_GUEST_RTIT_CTL];
    return entry;
}

static enum vpt_entry outcome(CPUX86State *env, const struct vpt_msr_load *loads, size_t count)
{
    const struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const struct vpt_vm_entry bare = {.loads = loads, .load_count = count};
    const struct vpt_vm_entry entry = with_controls(env, &bare);

    return vpt->enabled ? vpt_vm_entry_outcome(&vpt->guest, &entry) : VPT_ENTRY_SUCCEEDS;
}

bool x86_vmx_trace_controls(CPUX86State *env)
{
    return outcome(env, NULL, 0) != VPT_ENTRY_FAILS_EARLY;
}

bool x86_vmx_trace_guest(CPUX86State *env)
{
    return outcome(env, NULL, 0) == VPT_ENTRY_SUCCEEDS;
}

uint32_t x86_vmx_trace_area(CPUX86State *env, const struct x86_vmx_trace_loads *loads)
{
    size_t good = 0;

    if (!loads->count || outcome(env, loads->load, loads->count) == VPT_ENTRY_SUCCEEDS) {
        return 0;
    }
    while (outcome(env, loads->load, good + 1) == VPT_ENTRY_SUCCEEDS) {
        good++;
    }
    return loads->number[good];
}

/* ---- Transitions ---- */

void x86_vmx_tell_entry_refused(CPUX86State *env, int length)
{
    const uint64_t ip = x86_vpt_linear(env);
    const struct vpt_vm_entry entry = {
        .ip = ip,
        .next_ip = ip + length,
        .outcome = VPT_ENTRY_FAILS_EARLY,
    };
    struct vpt_cpu *found[2];

    for (size_t i = models(env_archcpu(env)->vpt, found); i > 0; i--) {
        vpt_vm_entry(found[i - 1], &entry);
    }
    x86_vpt_sync(env);
}

void x86_vmx_tell_entry(CPUX86State *env, struct vpt_vm_entry *entry,
                        const struct x86_vmx_trace_loads *loads)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;

    if (vpt->watch) {
        vpt_vm_entry(vpt->watch, entry);
        if (entry->outcome == VPT_ENTRY_SUCCEEDS) {
            remember(env);
        }
    }
    if (vpt->enabled) {
        struct vpt_vm_entry own = with_controls(env, entry);

        own.loads = loads ? loads->load : NULL;
        own.load_count = loads ? loads->count : 0;
        vpt_vm_entry(&vpt->guest, &own);
    }
    x86_vpt_sync(env);
}

bool x86_vmx_trace_load(CPUX86State *env, const struct x86_vmx_trace_loads *loads)
{
    struct vpt_cpu *model = &env_archcpu(env)->vpt->guest;
    const uint64_t ip = x86_vpt_linear(env);
    bool good = true;

    for (uint32_t i = 0; good && i < loads->count; i++) {
        const struct vpt_msr_load *load = &loads->load[i];

        good = vpt_wrmsr(model, load->msr, load->value, ip, ip) == VPT_OK;
    }
    x86_vpt_sync(env);
    return good;
}

bool x86_vmx_tell_exit(CPUX86State *env, uint64_t ip, const struct x86_vmx_trace_loads *loads)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    struct vpt_vm_exit exit = {
        .ip = ip,
        .reason = vmcs[VMCS_EXIT_REASON],
        .qualification = vmcs[VMCS_EXIT_QUALIFICATION],
        .by_event = vmcs[VMCS_EXIT_REASON] <= VMX_EXIT_EXTERNAL_INTERRUPT,
        .vector = vmcs[VMCS_EXIT_EVENT] & 0xff,
        .host_ip = x86_vpt_linear(env),
    };
    bool good = true;

    if (vpt->asleep) {
        x86_vpt_wake(vpt);
    }
    x86_vpt_context(env, &exit.host);
    if (vpt->watch) {
        vpt_vm_exit(vpt->watch, &exit);
    }
    if (vpt->enabled) {
        exit.exit = vmcs[VMCS_EXIT_CONTROLS];
        exit.loads = loads->load;
        exit.load_count = loads->count;
        good = vpt_vm_exit(&vpt->guest, &exit);
    }
    x86_vpt_sync(env);
    return good;
}

void x86_vmx_tell_abort(CPUX86State *env, uint64_t ip)
{
    struct vpt_cpu *found[2];

    for (size_t i = models(env_archcpu(env)->vpt, found); i > 0; i--) {
        vpt_vmx_abort(found[i - 1], ip);
    }
    x86_vpt_sync(env);
}

static bool begin_amid(CPUX86State *env, struct vpt_cpu *model)
{
    struct vpt_vm_entry entry = {.guest_ip = x86_vpt_linear(env)};

    if (!x86_vmx_on(env)) {
        return false;
    }
    vpt_vmxon(model, entry.guest_ip);
    vpt_vmptrld(model, x86_vmx_of(env)->current);
    if (x86_vmx_guest(env)) {
        remember(env);
        x86_vpt_context(env, &entry.guest);
        vpt_vm_entry(model, &entry);
    }
    return true;
}

/* ---- MSRs ---- */

bool x86_vmx_trace_owns(CPUX86State *env, uint64_t msr)
{
    return env_archcpu(env)->vpt->enabled && msr <= UINT32_MAX && vpt_msr_owned(msr);
}

uint64_t x86_vmx_trace_ctl(CPUX86State *env)
{
    struct X86Vpt *vpt = env_archcpu(env)->vpt;
    uint64_t ctl = 0;

    if (vpt->enabled) {
        vpt_rdmsr(&vpt->guest, VPT_MSR_CTL, &ctl);
    }
    return ctl;
}

/* ---- Output through EPT ---- */

static bool walk(CPUX86State *env, uint64_t address, enum vpt_access access, struct x86_ept *to)
{
    return x86_ept_walk(env, address, access == VPT_WRITE_OUTPUT ? MMU_DATA_STORE : MMU_DATA_LOAD,
                        to);
}

/* No exit comes of it here: the model says when output cannot wait any longer. */
static bool by_ept(CPUX86State *env, uint64_t *address, enum vpt_access access)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const struct x86_vmx_exit exit = vmx->exit;
    struct x86_ept ept;
    const bool found = walk(env, *address, access, &ept);

    if (found) {
        *address = ept.physical;
    }
    vmx->exit = exit;
    return found;
}

/* The exit comes between blocks; the one that runs is the last. */
static void output_waits(CPUX86State *env)
{
    if (x86_vmx_guest(env)) {
        x86_vmx_request(env);
        x86_vmx_end_chain(env_cpu(env));
    }
}

bool x86_vmx_trace_waits(CPUX86State *env)
{
    struct vpt_cpu *model = &env_archcpu(env)->vpt->guest;

    if (likely(!vpt_output_blocked(model))) {
        return false;
    }
    vpt_flush(model); /* another processor may have changed the tables */
    return vpt_output_blocked(model);
}

void x86_vmx_exit_trace(CPUX86State *env)
{
    struct vpt_cpu *model = &env_archcpu(env)->vpt->guest;
    struct x86_vmx_exit exit = {0};
    struct x86_ept ept;
    const enum vpt_access access = vpt_output_fault(model, &exit.physical);

    x86_vmx_of(env)->exit.reason = VMX_EXIT_EPT_VIOLATION;
    x86_vmx_of(env)->exit.qualification = 0;
    walk(env, exit.physical, access, &ept);
    exit.reason = x86_vmx_of(env)->exit.reason;
    exit.qualification = x86_vmx_of(env)->exit.qualification;
    if (exit.reason == VMX_EXIT_EPT_VIOLATION) {
        exit.qualification |= VPT_EPT_ASYNCHRONOUS;
    }
    x86_vmx_exit(env, &exit, 0);
}

/* ---- The feature ---- */

static void enumerate(CPUX86State *env)
{
    const bool ept = env->features[FEAT_VMX_SECONDARY_CTLS] & VMX_SECONDARY_EXEC_ENABLE_EPT;

    env->features[FEAT_VMX_MISC] |= MISC_PT;
    env->features[FEAT_VMX_SECONDARY_CTLS] |=
        VPT_SECONDARY_CONCEAL | (ept ? VPT_SECONDARY_PT_GPA : 0);
    env->features[FEAT_VMX_EXIT_CTLS] |= VPT_EXIT_CONCEAL | VPT_EXIT_CLEAR_CTL;
    env->features[FEAT_VMX_ENTRY_CTLS] |= VPT_ENTRY_CONCEAL | VPT_ENTRY_LOAD_CTL;
}

static const struct X86VptVmx asked = {
    .begin_amid = begin_amid,
    .by_ept = by_ept,
    .output_waits = output_waits,
};

void x86_vmx_trace_realize(X86CPU *cpu)
{
    cpu->vpt->vmx = &asked;
    if (cpu->vpt->enabled && cpu->vpt->guest.caps.vmx_misc_pt) {
        enumerate(&cpu->env);
    }
}
