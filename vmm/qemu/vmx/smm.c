/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SMIs and RSM as they are without an SMM monitor: the processor leaves VMX operation, remembers
 * which it was, and goes back to it.
 */
#include "qemu/osdep.h"
#include "entry.h"
#include "intercept.h"

void x86_vmx_smi(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    if (!x86_vmx_on(env)) {
        return;
    }
    vmx->smm_on = true;
    vmx->smm_non_root = x86_vmx_guest(env);
    vmx->on = false;
    if (vmx->smm_non_root) {
        vmx->non_root = false;
        env->hflags &= ~HF_GUEST_MASK;
        env->hflags2 &= ~HF2_NPT_MASK;
        x86_vmx_scale_tsc(env);
        cpu_reset_interrupt(env_cpu(env), CPU_INTERRUPT_VIRQ);
    }
}

void x86_vmx_rsm(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    if (!vmx || !vmx->smm_on) {
        return;
    }
    vmx->smm_on = false;
    vmx->on = true;
    if (vmx->smm_non_root) {
        x86_vmx_resume_guest(env);
        x86_vmx_request(env); /* its timer may be due */
    }
}
