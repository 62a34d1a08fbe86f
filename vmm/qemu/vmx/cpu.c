/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VMX of a vCPU: where it begins and ends, and how it is saved. */
#include "qemu/osdep.h"
#include "migration/vmstate.h"
#include "qemu/error-report.h"
#include "compat.h"
#include "entry.h"
#include "timer.h"
#include "trace.h"

void x86_vmx_realize(X86CPU *cpu)
{
    if (tcg_enabled() && cpu_has_vmx(&cpu->env)) {
        cpu->vmx = g_new0(struct X86Vmx, 1);
        x86_vmx_reset(cpu);
        x86_vmx_timer_init(cpu);
        x86_vmx_trace_realize(cpu);
    }
}

void x86_vmx_unrealize(X86CPU *cpu)
{
    if (cpu->vmx) {
        x86_vmx_timer_free(cpu);
        g_free(cpu->vmx);
        cpu->vmx = NULL;
    }
}

void x86_vmx_reset(X86CPU *cpu)
{
    struct X86Vmx *vmx = cpu->vmx;

    if (vmx) {
        memset(vmx, 0, offsetof(struct X86Vmx, timer));
        vmx->vmxon = VMCS_NONE;
        vmx->current = VMCS_NONE;
    }
}

static const VMStateDescription vmstate_state = {
    .name = "cpu/tcg_vmx/state",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields =
        (VMStateField[]){VMSTATE_BOOL(on, struct X86Vmx), VMSTATE_BOOL(non_root, struct X86Vmx),
                         VMSTATE_BOOL(smm_on, struct X86Vmx),
                         VMSTATE_BOOL(smm_non_root, struct X86Vmx),
                         VMSTATE_BOOL(launched, struct X86Vmx), VMSTATE_BOOL(halted, struct X86Vmx),
                         VMSTATE_BOOL(traps, struct X86Vmx), VMSTATE_UINT64(vmxon, struct X86Vmx),
                         VMSTATE_UINT64(current, struct X86Vmx),
                         VMSTATE_UINT64_ARRAY(vmcs, struct X86Vmx, VMCS_FIELD_COUNT),
                         VMSTATE_UINT32(vectoring, struct X86Vmx),
                         VMSTATE_UINT32(vectoring_error, struct X86Vmx),
                         VMSTATE_UINT32(vectoring_length, struct X86Vmx),
                         VMSTATE_UINT64(timer_deadline, struct X86Vmx), VMSTATE_END_OF_LIST()},
};

static bool is_on(void *opaque)
{
    const X86CPU *cpu = opaque;

    return cpu->vmx && (cpu->vmx->on || cpu->vmx->smm_on);
}

/* There is nothing here to load it into, if it comes from another processor. */
static int before_load(void *opaque)
{
    const X86CPU *cpu = opaque;

    if (!cpu->vmx) {
        error_report("the state is of a processor in VMX operation, and this one has no VMX");
        return -EINVAL;
    }
    return 0;
}

static int loaded(void *opaque, int version)
{
    X86CPU *cpu = opaque;

    x86_vmx_scale_tsc(&cpu->env);
    x86_vmx_timer_resume(&cpu->env);
    return 0;
}

const VMStateDescription vmstate_x86_vmx = {
    .name = "cpu/tcg_vmx",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = is_on,
    .pre_load = before_load,
    .post_load = loaded,
    .fields = (VMStateField[]){VMSTATE_STRUCT_POINTER(vmx, X86CPU, vmstate_state, struct X86Vmx),
                               VMSTATE_END_OF_LIST()},
};
