/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM entry: checks in the architecture's order, the guest's state, the MSR-load area, the event to
 * inject. No check has an effect before all that can fail early have passed.
 */
#include "qemu/osdep.h"
#include "tcg/helper-tcg.h"
#include "compat.h"
#include "entry.h"
#include "exit.h"
#include "intercept.h"
#include "timer.h"
#include "tlb.h"
#include "trace.h"

#define BLOCKING_MOV_SS 2u

/* What exits without an event from outside. */
#define WINDOWS                                                                                    \
    (VMX_CPU_BASED_VIRTUAL_INTR_PENDING | VMX_CPU_BASED_VIRTUAL_NMI_PENDING |                      \
     VMX_CPU_BASED_MONITOR_TRAP_FLAG)

static bool injects_trap(const struct X86Vmx *vmx)
{
    const uint32_t event = vmx->vmcs[VMCS_ENTRY_EVENT];

    return (event & VMX_EVENT_VALID) && (event >> VMX_EVENT_TYPE_SHIFT & 7) == VMX_EVENT_OTHER;
}

/* Without "use TSC offsetting", "use TSC scaling" has no effect. */
void x86_vmx_scale_tsc(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    const bool offset = x86_vmx_guest(env) && x86_vmx_primary(env, VMX_CPU_BASED_USE_TSC_OFFSETING);
    const bool scaled = offset && x86_vmx_secondary(env, VMX_SECONDARY_EXEC_TSC_SCALING);

    env->tsc_offset = offset ? vmcs[VMCS_TSC_OFFSET] : 0;
    env->vmx_tsc_multiplier = scaled ? vmcs[VMCS_TSC_MULTIPLIER] : 0;
}

void x86_vmx_resume_guest(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    vmx->non_root = true;
    env->hflags |= HF_GUEST_MASK;
    if (x86_vmx_secondary(env, VMX_SECONDARY_EXEC_ENABLE_EPT)) {
        env->hflags2 |= HF2_NPT_MASK;
    }
    x86_vmx_scale_tsc(env);
    if (x86_vmx_primary(env, WINDOWS)) {
        x86_vmx_request(env);
    }
}

static void enter_non_root(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);

    vmx->traps = injects_trap(vmx);
    vmx->vectoring = 0;
    vmx->pending_debug = 0;
    x86_vmx_resume_guest(env);
    x86_vmx_tlb_enter(env, true);
    x86_vmx_timer_begin(env);
}

/* ---- The event ---- */

static bool is_contributory(uint32_t vector)
{
    return vector == 0 || vector == EXCP08_DBLE || (vector >= 10 && vector <= 14);
}

static void deliver(CPUX86State *env, uint32_t type, uint32_t vector, uint32_t error,
                    uint32_t length)
{
    X86CPU *cpu = env_archcpu(env);

    switch (type) {
    case VMX_EVENT_NMI:
        env->hflags2 |= HF2_NMI_MASK;
        /* fall through */
    case VMX_EVENT_EXTERNAL:
        do_interrupt_all(cpu, vector, 0, 0, 0, 1);
        break;
    case VMX_EVENT_SOFT_INTERRUPT:
    case VMX_EVENT_SOFT_EXCEPTION:
        do_interrupt_all(cpu, vector, 1, 0, env->eip + length, 0);
        break;
    case VMX_EVENT_PRIVILEGED_SOFT:
        env->eip += length;
        x86_vmx_of(env)->int1 = vector == EXCP01_DB;
        x86_vmx_of(env)->int1_length = length;
        /* fall through */
    default:
        do_interrupt_all(cpu, vector, 0, error, 0, 0);
        break;
    }
}

static void inject(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const uint32_t event = vmx->vmcs[VMCS_ENTRY_EVENT];
    const uint32_t type = event >> VMX_EVENT_TYPE_SHIFT & 7, vector = event & 0xff;
    const uint32_t length = vmx->vmcs[VMCS_ENTRY_EVENT_LENGTH];

    vmx->vectoring = event;
    vmx->vectoring_error = event & VMX_EVENT_ERROR ? vmx->vmcs[VMCS_ENTRY_EVENT_ERROR] : 0;
    vmx->vectoring_length = type >= VMX_EVENT_SOFT_INTERRUPT ? length : 0;
    vmx->injects = true;
    env->hflags &= ~HF_INHIBIT_IRQ_MASK;
    if (type == VMX_EVENT_EXCEPTION && is_contributory(vector)) {
        env->old_exception = vector;
    }
    deliver(env, type, vector, vmx->vectoring_error, length);
    env->old_exception = -1;
}

/* The causes of a debug exception that is to come before the first instruction. */
static uint64_t pending_debug(const struct X86Vmx *vmx)
{
    const uint64_t pending = vmx->vmcs[VMCS_GUEST_PENDING_DEBUG];
    const bool blocked = vmx->vmcs[VMCS_GUEST_INTERRUPTIBILITY] & BLOCKING_MOV_SS;

    if (blocked || !(pending & (VMX_PENDING_BS | VMX_PENDING_BREAKPOINT))) {
        return 0;
    }
    return pending & (VMX_PENDING_BS | DR6_BREAKPOINTS);
}

static void begin(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    CPUState *cs = env_cpu(env);

    if (vmx->traps) {
        x86_vmx_request(env);
    } else if (vmx->vmcs[VMCS_ENTRY_EVENT] & VMX_EVENT_VALID) {
        inject(env);
    } else if (pending_debug(vmx)) {
        x86_vmx_check_debug(env, pending_debug(vmx));
        env->dr[6] |= pending_debug(vmx);
        raise_exception(env, EXCP01_DB);
    } else if (vmx->vmcs[VMCS_GUEST_ACTIVITY] == 1) {
        vmx->halted = true;
        cs->halted = 1;
        cs->exception_index = EXCP_HLT;
        cpu_loop_exit(cs);
    } else if (x86_vmx_primary(env, VMX_CPU_BASED_MONITOR_TRAP_FLAG)) {
        cs->cflags_next_tb = x86_vmx_one_instruction(cs);
    }
}

/* The number of the MSR that cannot be loaded, or 0. */
static uint32_t load_msrs(CPUX86State *env, struct x86_vmx_trace_loads *trace)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    const uint32_t failed =
        x86_vmx_load_msrs(env, vmcs[VMCS_ENTRY_MSR_LOAD], vmcs[VMCS_ENTRY_MSR_LOAD_COUNT], trace);
    const uint32_t traced = x86_vmx_trace_area(env, trace); /* of those before it */

    return traced ? traced : failed;
}

/* Checks and loading, after which nothing fails early. 0: the guest's state is there. */
static uint32_t load(CPUX86State *env, uint64_t *qualification, struct x86_vmx_trace_loads *trace)
{
    if (!x86_vmx_check_guest(env, qualification)) {
        return VMX_EXIT_BAD_GUEST_STATE;
    }
    x86_vmx_tlb_leave(env, false);
    x86_vmx_load_guest(env);
    *qualification = load_msrs(env, trace);
    return *qualification ? VMX_EXIT_BAD_MSR_LOADING : 0;
}

static void tell_success(CPUX86State *env, struct vpt_vm_entry *entry,
                         const struct x86_vmx_trace_loads *trace)
{
    entry->guest_ip = x86_vpt_linear(env);
    x86_vpt_context(env, &entry->guest);
    x86_vmx_tell_entry(env, entry, trace);
}

enum vmx_error x86_vmx_enter(CPUX86State *env, int length)
{
    const uint64_t ip = x86_vpt_linear(env);
    struct vpt_vm_entry entry = {.ip = ip, .next_ip = ip + length};
    struct x86_vmx_trace_loads trace;
    uint64_t qualification;
    uint32_t failure;

    if (!x86_vmx_check_controls(env)) {
        return VMX_ERROR_CONTROLS;
    }
    if (!x86_vmx_check_host(env)) {
        return VMX_ERROR_HOST_STATE;
    }
    failure = load(env, &qualification, &trace);
    if (failure) {
        x86_vmx_entry_failure(env, failure, qualification, &entry);
        return 0;
    }
    x86_vmx_of(env)->launched = true;
    enter_non_root(env);
    tell_success(env, &entry, &trace);
    begin(env);
    return 0;
}
