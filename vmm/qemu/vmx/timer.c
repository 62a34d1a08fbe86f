/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VMX-preemption timer: it counts down once in 32 ticks of the TSC, while the guest runs.
 *
 * QEMU's timers count nanoseconds, and TCG's TSC may be the host's, of unknown rate. So the rate is
 * taken from both clocks since the vCPU began; a timer that is early is set anew, and an exit comes
 * when the TSC says so.
 */
#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "entry.h"
#include "exit.h"
#include "intercept.h"
#include "timer.h"

#define NS_MIN 1000

static uint64_t ticks_left(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const uint64_t now = cpu_get_tsc(env);

    return now < vmx->timer_deadline ? vmx->timer_deadline - now : 0;
}

static void arm(CPUX86State *env)
{
    const struct X86Vmx *vmx = x86_vmx_of(env);
    const int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    const double ns = now - vmx->timer_first_ns, ticks = cpu_get_tsc(env) - vmx->timer_first_tsc;
    const double wait = ticks > 0 && ns > 0 ? ticks_left(env) * (ns / ticks) : NS_MIN;

    timer_mod(vmx->timer, now + MAX(NS_MIN, (int64_t)wait));
}

static void expired(void *opaque)
{
    X86CPU *cpu = opaque;

    if (!cpu->vmx->non_root) {
        return;
    }
    if (ticks_left(&cpu->env)) {
        arm(&cpu->env);
    } else {
        cpu_interrupt(CPU(cpu), CPU_INTERRUPT_VIRQ);
    }
}

void x86_vmx_timer_init(X86CPU *cpu)
{
    cpu->vmx->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, expired, cpu);
    cpu->vmx->timer_first_ns = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    cpu->vmx->timer_first_tsc = cpu_get_tsc(&cpu->env);
}

void x86_vmx_timer_free(X86CPU *cpu)
{
    timer_free(cpu->vmx->timer);
}

bool x86_vmx_timer_is_due(CPUX86State *env)
{
    return x86_vmx_pin(env, VMX_PIN_BASED_VMX_PREEMPTION_TIMER) && !ticks_left(env);
}

void x86_vmx_timer_begin(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    if (!x86_vmx_pin(env, VMX_PIN_BASED_VMX_PREEMPTION_TIMER)) {
        return;
    }
    vmx->timer_deadline = cpu_get_tsc(env) + (vmx->vmcs[VMCS_PREEMPTION_TIMER] << VMX_TIMER_SHIFT);
    if (x86_vmx_timer_is_due(env)) {
        x86_vmx_request(env);
    } else {
        arm(env);
    }
}

void x86_vmx_timer_end(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    if (!x86_vmx_pin(env, VMX_PIN_BASED_VMX_PREEMPTION_TIMER)) {
        return;
    }
    timer_del(vmx->timer);
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_SAVE_VMX_PREEMPTION_TIMER)) {
        vmx->vmcs[VMCS_PREEMPTION_TIMER] = ticks_left(env) >> VMX_TIMER_SHIFT;
    }
}

/* The clocks may be those from before the load still: soon is early enough, and is set anew. */
void x86_vmx_timer_resume(CPUX86State *env)
{
    if (x86_vmx_guest(env) && x86_vmx_pin(env, VMX_PIN_BASED_VMX_PREEMPTION_TIMER)) {
        timer_mod(x86_vmx_of(env)->timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) + NS_MIN);
    }
}
