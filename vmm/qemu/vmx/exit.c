/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM exits, all of them: exit information, the guest's state into the VMCS, the host's out of it.
 *
 * Whoever finds that the guest must exit leaves the block (x86_vmx_exit()); the transition itself
 * happens in the loop of the vCPU (x86_vmx_do_exit()), between instructions.
 */
#include "qemu/osdep.h"
#include "tcg/helper-tcg.h"
#include "compat.h"
#include "entry.h"
#include "exit.h"
#include "insn.h"
#include "timer.h"
#include "tlb.h"
#include "trace.h"

#define ABORT_STORE 1
#define ABORT_LOAD  4

void x86_vmx_exit(CPUX86State *env, const struct x86_vmx_exit *exit, uintptr_t retaddr)
{
    CPUState *cs = env_cpu(env);

    cpu_restore_state(cs, retaddr);
    x86_vmx_of(env)->exit = *exit;
    x86_vmx_of(env)->int1 = false;
    cs->exception_index = EXCP_VMEXIT;
    env->old_exception = -1;
    cpu_loop_exit(cs);
}

void x86_vmx_exit_by(CPUX86State *env, uint32_t reason, uint64_t qualification, uintptr_t retaddr)
{
    struct x86_vmx_exit exit = {.reason = reason, .qualification = qualification};
    struct x86_vmx_insn insn;

    cpu_restore_state(env_cpu(env), retaddr);
    x86_vmx_decode(env, &insn);
    exit.length = insn.length;
    exit.instruction = x86_insn_information(&insn);
    x86_vmx_exit(env, &exit, 0);
}

/* ---- The transition ---- */

/* A double fault that exits, and a triple fault, are not said to come in the delivery of an event.
 */
static bool in_delivery(const struct x86_vmx_exit *exit)
{
    const uint32_t type = exit->event >> VMX_EVENT_TYPE_SHIFT & 7;

    return exit->reason != VMX_EXIT_TRIPLE_FAULT &&
           !(exit->event && type == VMX_EVENT_EXCEPTION && (exit->event & 0xff) == EXCP08_DBLE);
}

static void tell_vectoring(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const uint32_t type = vmx->vectoring >> VMX_EVENT_TYPE_SHIFT & 7;

    if (!in_delivery(&vmx->exit)) {
        vmx->vectoring = 0;
    }
    vmx->vmcs[VMCS_VECTORING] = vmx->vectoring;
    vmx->vmcs[VMCS_VECTORING_ERROR] = vmx->vectoring_error;
    if (vmx->vectoring && vmx->vectoring_length) {
        vmx->vmcs[VMCS_EXIT_LENGTH] = vmx->vectoring_length;
    }
    if (vmx->vectoring && type == VMX_EVENT_PRIVILEGED_SOFT) {
        env->eip -= vmx->vectoring_length; /* which its delivery had to push */
    }
    vmx->vectoring = 0;
}

static void tell(CPUX86State *env)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const struct x86_vmx_exit *exit = &vmx->exit;
    uint64_t *vmcs = vmx->vmcs;

    vmcs[VMCS_EXIT_REASON] = exit->reason;
    vmcs[VMCS_EXIT_QUALIFICATION] = exit->qualification;
    vmcs[VMCS_EXIT_EVENT] = exit->event;
    vmcs[VMCS_EXIT_EVENT_ERROR] = exit->event_error;
    vmcs[VMCS_EXIT_LENGTH] = exit->length;
    vmcs[VMCS_EXIT_INSTRUCTION] = exit->instruction;
    vmcs[VMCS_GUEST_LINEAR] = exit->linear;
    vmcs[VMCS_GUEST_PHYSICAL] = exit->physical;
    vmcs[VMCS_ENTRY_EVENT] &= ~(uint64_t)VMX_EVENT_VALID;
    tell_vectoring(env);
}

/* With "virtual NMIs", the guest's blocking was not the processor's. */
static void leave_nmi_blocking(CPUX86State *env)
{
    const uint32_t type = x86_vmx_of(env)->exit.event >> VMX_EVENT_TYPE_SHIFT & 7;

    if (x86_vmx_pin(env, VMX_PIN_BASED_VIRTUAL_NMIS)) {
        env->hflags2 &= ~HF2_NMI_MASK;
    }
    if (x86_vmx_of(env)->exit.event && type == VMX_EVENT_NMI) {
        env->hflags2 |= HF2_NMI_MASK;
    }
}

static void leave_non_root(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);

    x86_vmx_of(env)->non_root = false;
    x86_vmx_of(env)->halted = false;
    env->hflags &= ~(HF_GUEST_MASK | HF_INHIBIT_IRQ_MASK);
    env->hflags2 &= ~HF2_NPT_MASK;
    x86_vmx_scale_tsc(env);
    cpu_reset_interrupt(cs, CPU_INTERRUPT_VIRQ);
    cs->halted = 0;
}

/* A processor in shutdown after a VMX abort comes back by a reset only. */
static void vmx_abort(CPUX86State *env, uint32_t why)
{
    vmcs_abort(env, why);
    qemu_system_reset_request(SHUTDOWN_CAUSE_GUEST_RESET);
    env_cpu(env)->halted = 1;
}

/* The host's state, but for MSRs of the trace. False: an MSR cannot be loaded. */
static bool enter_host(CPUX86State *env, struct x86_vmx_trace_loads *trace)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    bool good;

    x86_vmx_load_host(env);
    good = !x86_vmx_load_msrs(env, vmcs[VMCS_EXIT_MSR_LOAD], vmcs[VMCS_EXIT_MSR_LOAD_COUNT], trace);
    x86_vmx_tlb_enter(env, false);
    return good;
}

static bool store_msrs(CPUX86State *env)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;

    return !x86_vmx_store_msrs(env, vmcs[VMCS_EXIT_MSR_STORE], vmcs[VMCS_EXIT_MSR_STORE_COUNT]);
}

void x86_vmx_do_exit(CPUX86State *env)
{
    struct x86_vmx_trace_loads trace;
    uint64_t ip;
    bool stored;

    tell(env);
    ip = x86_vpt_linear(env);
    x86_vmx_timer_end(env);
    x86_vmx_save_guest(env);
    x86_vmx_tlb_leave(env, true);
    leave_nmi_blocking(env);
    leave_non_root(env);
    stored = store_msrs(env);
    if (!enter_host(env, &trace) || !stored) {
        x86_vmx_tell_abort(env, ip);
        vmx_abort(env, stored ? ABORT_LOAD : ABORT_STORE);
    } else if (!x86_vmx_tell_exit(env, ip, &trace)) {
        vmx_abort(env, ABORT_LOAD);
    }
}

void x86_vmx_entry_failure(CPUX86State *env, uint32_t reason, uint64_t qualification,
                           struct vpt_vm_entry *entry)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    struct x86_vmx_trace_loads trace;
    bool loaded;

    vmx->vmcs[VMCS_EXIT_REASON] = reason | VMX_EXIT_ENTRY_FAILURE;
    vmx->vmcs[VMCS_EXIT_QUALIFICATION] = qualification;
    leave_non_root(env);
    loaded = enter_host(env, &trace);
    entry->outcome = VPT_ENTRY_FAILS_LATE;
    entry->host_ip = x86_vpt_linear(env);
    x86_vpt_context(env, &entry->host);
    x86_vmx_tell_entry(env, entry, NULL);
    if (!loaded || !x86_vmx_trace_load(env, &trace)) {
        vmx_abort(env, ABORT_LOAD);
    }
}
