/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events in VMX non-root operation: which of them exit, which of them come next, and what is told
 * of one whose delivery a VM exit interrupts (IDT-vectoring information).
 */
#include "qemu/osdep.h"
#include "tcg/helper-tcg.h"
#include "compat.h"
#include "entry.h"
#include "exit.h"
#include "insn.h"
#include "intercept.h"
#include "timer.h"
#include "trace.h"

enum { TASK_BY_CALL, TASK_BY_IRET, TASK_BY_JMP, TASK_BY_GATE };

#define DR6_CAUSES 0x600fu
#define IRET       0xcf

static uint32_t event_of(uint32_t type, int vector, bool error)
{
    return VMX_EVENT_VALID | type << VMX_EVENT_TYPE_SHIFT | vector | (error ? VMX_EVENT_ERROR : 0);
}

/* ---- Exceptions ---- */

static bool exception_exits(CPUX86State *env, int vector, uint32_t error)
{
    const uint64_t *vmcs = x86_vmx_of(env)->vmcs;
    const bool set = vmcs[VMCS_EXCEPTION_BITMAP] & 1u << vector;

    if (vector != EXCP0E_PAGE) {
        return set;
    }
    return set == ((error & vmcs[VMCS_PAGE_FAULT_MASK]) == vmcs[VMCS_PAGE_FAULT_MATCH]);
}

bool x86_vmx_takes_fault(CPUX86State *env, int vector, int error, uint64_t address)
{
    if (!x86_vmx_guest(env) || vector != EXCP0E_PAGE || !exception_exits(env, vector, error)) {
        return false;
    }
    x86_vmx_of(env)->fault_address = address;
    return true;
}

/* TCG unblocks them at the end of IRET only; the architecture, whatever comes of it. */
bool x86_vmx_iret_unblocks(CPUX86State *env)
{
    struct x86_vmx_insn insn;

    if (!(env->hflags2 & HF2_NMI_MASK) || x86_vmx_of(env)->vectoring ||
        (x86_vmx_pin(env, VMX_PIN_BASED_NMI_EXITING) &&
         !x86_vmx_pin(env, VMX_PIN_BASED_VIRTUAL_NMIS))) {
        return false;
    }
    if (!x86_vmx_try_decode(env, &insn) || insn.opcode != IRET) {
        return false;
    }
    env->hflags2 &= ~HF2_NMI_MASK;
    return true;
}

void x86_vmx_check_exception(CPUX86State *env, int vector, uint32_t error, uintptr_t retaddr)
{
    const bool has_error = (env->cr[0] & CR0_PE_MASK) && exception_has_error_code(vector);
    struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_EXCEPTION_NMI,
        .event = event_of(VMX_EVENT_EXCEPTION, vector, has_error),
        .event_error = has_error ? error : 0,
    };

    if (!exception_exits(env, vector, error)) {
        /* EIP may be that of an instruction before it in the block, but none of them is an IRET. */
        x86_vmx_iret_unblocks(env);
        return;
    }
    if (vector == EXCP0E_PAGE) {
        exit.qualification = x86_vmx_of(env)->fault_address;
    } else if (vector == EXCP01_DB) {
        exit.qualification = env->dr[6] & DR6_CAUSES;
    }
    cpu_restore_state(env_cpu(env), retaddr);
    if (vector != EXCP08_DBLE && x86_vmx_iret_unblocks(env)) {
        exit.event |= VMX_EVENT_NMI_UNBLOCKED;
    }
    x86_vmx_exit(env, &exit, 0);
}

void x86_vmx_check_debug(CPUX86State *env, uint64_t causes)
{
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_EXCEPTION_NMI,
        .qualification = causes,
        .event = event_of(VMX_EVENT_EXCEPTION, EXCP01_DB, false),
    };

    if (exception_exits(env, EXCP01_DB, 0)) {
        x86_vmx_exit(env, &exit, 0);
    }
}

/* The monitor trap comes first; the next VM entry delivers the debug exception. */
static void check_trapped(CPUX86State *env, uint64_t causes)
{
    const struct x86_vmx_exit exit = {.reason = VMX_EXIT_MONITOR_TRAP};

    if (x86_vmx_primary(env, VMX_CPU_BASED_MONITOR_TRAP_FLAG)) {
        x86_vmx_of(env)->pending_debug =
            causes | (causes & DR6_BREAKPOINTS ? VMX_PENDING_BREAKPOINT : 0);
        x86_vmx_exit(env, &exit, 0);
    }
}

void x86_vmx_check_trap(CPUX86State *env, uint64_t dr6_before, uint64_t causes)
{
    const uint64_t dr6 = env->dr[6];

    if (x86_vmx_guest(env)) {
        causes |= dr6 & DR6_BREAKPOINTS;
        env->dr[6] = dr6_before;
        check_trapped(env, causes);
        x86_vmx_check_debug(env, causes);
        env->dr[6] = dr6;
    }
}

void x86_vmx_check_breakpoint(CPUX86State *env, uint64_t dr6_before)
{
    const uint64_t dr6 = env->dr[6];

    if (x86_vmx_guest(env)) {
        env->dr[6] = dr6_before;
        x86_vmx_check_debug(env, dr6 & DR6_BREAKPOINTS);
        env->dr[6] = dr6;
    }
}

static bool is_soft_exception(int vector, int length)
{
    return length == 1 && (vector == EXCP03_INT3 || vector == EXCP04_INTO);
}

void x86_vmx_check_soft(CPUX86State *env, int vector, int length, uintptr_t retaddr)
{
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_EXCEPTION_NMI,
        .event = event_of(VMX_EVENT_SOFT_EXCEPTION, vector, false),
        .length = length,
    };

    if (x86_vmx_guest(env) && is_soft_exception(vector, length) &&
        exception_exits(env, vector, 0)) {
        x86_vmx_exit(env, &exit, retaddr);
    }
}

/* As INT 1, but for the privilege of its gate. */
void x86_vmx_int1(CPUX86State *env, int length)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_EXCEPTION_NMI,
        .event = event_of(VMX_EVENT_PRIVILEGED_SOFT, EXCP01_DB, false),
        .length = length,
    };

    cpu_svm_check_intercept_param(env, SVM_EXIT_ICEBP, 0, 0); /* of a guest of SVM */
    if (x86_vmx_guest(env)) {
        if (exception_exits(env, EXCP01_DB, 0)) {
            x86_vmx_exit(env, &exit, 0);
        }
        vmx->vectoring = exit.event;
        vmx->vectoring_error = 0;
        vmx->vectoring_length = length;
        vmx->injects = true;
    }
    env->eip += length;
    vmx->int1 = true;
    vmx->int1_length = length;
    do_interrupt_all(env_archcpu(env), EXCP01_DB, 0, 0, 0, 0);
}

/* A fault of its delivery comes instead of it. */
bool x86_vmx_int1_done(CPUX86State *env, int vector)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const bool done = vmx && vmx->int1 && vector == EXCP01_DB;

    if (vmx) {
        vmx->int1 = false;
    }
    return done;
}

/* ---- Task switches ---- */

void x86_vmx_exit_task_switch(CPUX86State *env, uint16_t selector, bool call, bool iret,
                              uintptr_t retaddr)
{
    const uint64_t by_gate = x86_vmx_of(env)->vectoring ? TASK_BY_GATE : TASK_BY_CALL;
    const uint64_t source = iret ? TASK_BY_IRET : call ? by_gate : TASK_BY_JMP;
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_TASK_SWITCH,
        .qualification = selector | source << 30,
    };

    if (source == TASK_BY_GATE) {
        x86_vmx_exit(env, &exit, retaddr);
    }
    x86_vmx_exit_by(env, VMX_EXIT_TASK_SWITCH, exit.qualification, retaddr);
}

/* ---- Interrupts ---- */

void x86_vmx_check_interrupt(CPUX86State *env)
{
    struct x86_vmx_exit exit = {.reason = VMX_EXIT_EXTERNAL_INTERRUPT};

    if (!x86_vmx_pin(env, VMX_PIN_BASED_EXT_INTR_MASK)) {
        return;
    }
    if (x86_vmx_at_exit(env, VMX_VM_EXIT_ACK_INTR_ON_EXIT)) {
        const int vector = cpu_get_pic_interrupt(env);

        env_cpu(env)->interrupt_request &= ~CPU_INTERRUPT_HARD;
        exit.event = event_of(VMX_EVENT_EXTERNAL, vector & 0xff, false);
    }
    x86_vmx_exit(env, &exit, 0);
}

void x86_vmx_check_nmi(CPUX86State *env)
{
    const struct x86_vmx_exit exit = {
        .reason = VMX_EXIT_EXCEPTION_NMI,
        .event = event_of(VMX_EVENT_NMI, EXCP02_NMI, false),
    };

    if (x86_vmx_pin(env, VMX_PIN_BASED_NMI_EXITING)) {
        env_cpu(env)->interrupt_request &= ~CPU_INTERRUPT_NMI;
        x86_vmx_exit(env, &exit, 0);
    }
}

bool x86_vmx_blocks_init(CPUX86State *env)
{
    return x86_vmx_on(env) && !x86_vmx_guest(env);
}

void x86_vmx_exit_init(CPUX86State *env)
{
    const struct x86_vmx_exit exit = {.reason = VMX_EXIT_INIT};

    env_cpu(env)->interrupt_request &= ~CPU_INTERRUPT_INIT;
    x86_vmx_exit(env, &exit, 0);
}

static bool nmi_window(CPUX86State *env)
{
    return x86_vmx_primary(env, VMX_CPU_BASED_VIRTUAL_NMI_PENDING) &&
           !(env->hflags2 & HF2_NMI_MASK) && !(env->hflags & HF_INHIBIT_IRQ_MASK);
}

static bool takes_interrupts(CPUX86State *env)
{
    return (env->eflags & IF_MASK) && !(env->hflags & HF_INHIBIT_IRQ_MASK);
}

static bool interrupt_window(CPUX86State *env)
{
    return x86_vmx_primary(env, VMX_CPU_BASED_VIRTUAL_INTR_PENDING) && takes_interrupts(env);
}

/* One instruction has run, an event was injected, or the trap itself. */
static bool trap_is_due(CPUX86State *env)
{
    return x86_vmx_of(env)->traps || x86_vmx_primary(env, VMX_CPU_BASED_MONITOR_TRAP_FLAG);
}

void x86_vmx_exit_window(CPUX86State *env)
{
    struct x86_vmx_exit exit = {.reason = VMX_EXIT_INTERRUPT_WINDOW};

    if (x86_vmx_trace_waits(env)) {
        x86_vmx_exit_trace(env);
    }
    if (trap_is_due(env)) {
        exit.reason = VMX_EXIT_MONITOR_TRAP;
    } else if (x86_vmx_timer_is_due(env)) {
        exit.reason = VMX_EXIT_PREEMPTION_TIMER;
    } else if (nmi_window(env)) {
        exit.reason = VMX_EXIT_NMI_WINDOW;
    }
    x86_vmx_exit(env, &exit, 0);
}

static bool nmi_comes(CPUX86State *env)
{
    return x86_vmx_pin(env, VMX_PIN_BASED_VIRTUAL_NMIS) || !(env->hflags2 & HF2_NMI_MASK);
}

void x86_vmx_request(CPUX86State *env)
{
    const bool locked = bql_locked();

    if (!locked) {
        bql_lock();
    }
    env_cpu(env)->interrupt_request |= CPU_INTERRUPT_VIRQ;
    if (!locked) {
        bql_unlock();
    }
}

/* What is due without having been requested does not count: the loop of the vCPU would not ask. */
int x86_vmx_pending(CPUX86State *env, int requests)
{
    const bool due = requests & CPU_INTERRUPT_VIRQ;

    if ((requests & CPU_INTERRUPT_SMI) && !(env->hflags & HF_SMM_MASK)) {
        return CPU_INTERRUPT_SMI;
    }
    if (due && (x86_vmx_trace_waits(env) || trap_is_due(env) || x86_vmx_timer_is_due(env))) {
        return CPU_INTERRUPT_VIRQ;
    }
    if ((requests & CPU_INTERRUPT_NMI) && nmi_comes(env)) {
        return CPU_INTERRUPT_NMI;
    }
    if (due && nmi_window(env)) {
        return CPU_INTERRUPT_VIRQ;
    }
    if (requests & CPU_INTERRUPT_MCE) {
        return CPU_INTERRUPT_MCE;
    }
    if ((requests & CPU_INTERRUPT_HARD) &&
        (x86_vmx_pin(env, VMX_PIN_BASED_EXT_INTR_MASK) || takes_interrupts(env))) {
        return CPU_INTERRUPT_HARD;
    }
    return due && interrupt_window(env) ? CPU_INTERRUPT_VIRQ : 0;
}

/* ---- Delivery ---- */

static uint32_t type_of(int vector, bool software, bool hardware, uint32_t length)
{
    if (software) {
        return is_soft_exception(vector, length) ? VMX_EVENT_SOFT_EXCEPTION
                                                 : VMX_EVENT_SOFT_INTERRUPT;
    }
    if (hardware) {
        return vector == EXCP02_NMI ? VMX_EVENT_NMI : VMX_EVENT_EXTERNAL;
    }
    return VMX_EVENT_EXCEPTION;
}

void x86_vmx_delivering(CPUX86State *env, int vector, bool software, int error, bool hardware,
                        bool real)
{
    struct X86Vmx *vmx = x86_vmx_of(env);
    const bool has_error = !real && !software && !hardware && exception_has_error_code(vector);
    const uint32_t length = software ? env->exception_next_eip - env->eip : 0;

    if (vmx->injects) {
        vmx->injects = false;
        return;
    }
    vmx->vectoring = event_of(type_of(vector, software, hardware, length), vector, has_error);
    vmx->vectoring_error = has_error ? error : 0;
    vmx->vectoring_length = length;
}

void x86_vmx_delivered(CPUX86State *env)
{
    x86_vmx_of(env)->vectoring = 0;
    x86_vmx_of(env)->halted = false;
}
