/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What virtual PT is told of VMX operation. */
#ifndef I386_VMX_TRACE_H
#define I386_VMX_TRACE_H

#include "vpt/vpt-i386.h"

/* How many entries an MSR area may have: IA32_VMX_MISC[27:25] says 512. */
#define X86_VMX_AREA_MAX 512

/* The MSRs of virtual PT in an MSR-load area: the model loads them, amid the packets of the
 * transition. */
struct x86_vmx_trace_loads {
    uint32_t count;
    uint32_t number[X86_VMX_AREA_MAX]; /* of the entry, from 1 */
    struct vpt_msr_load load[X86_VMX_AREA_MAX];
};

/* What the feature words have of it, as virtual PT of the vCPU is. */
void x86_vmx_trace_realize(X86CPU *cpu);
bool x86_vmx_trace_owns(CPUX86State *env, uint64_t msr);

/* The instruction has succeeded; EIP is still at it. */
void x86_vmx_tell_vmxon(CPUX86State *env);
void x86_vmx_tell_vmxoff(CPUX86State *env);
void x86_vmx_tell_vmptrld(CPUX86State *env, uint64_t vmcs);
void x86_vmx_tell_vmclear(CPUX86State *env, uint64_t vmcs);

/* VM entry's checks of what concerns the trace: control fields, guest state, and the number of the
 * first MSR that cannot be loaded (0: all can). */
bool x86_vmx_trace_controls(CPUX86State *env);
bool x86_vmx_trace_guest(CPUX86State *env);
uint32_t x86_vmx_trace_area(CPUX86State *env, const struct x86_vmx_trace_loads *loads);

/* VMLAUNCH or VMRESUME at EIP, of so many bytes, fails and falls through. */
void x86_vmx_tell_entry_refused(CPUX86State *env, int length);
/* The transition is done, but for an event to inject. Control words are filled in; loads may be
 * NULL. */
void x86_vmx_tell_entry(CPUX86State *env, struct vpt_vm_entry *entry,
                        const struct x86_vmx_trace_loads *loads);
/* An exit without a guest that ran has loaded the host: its MSRs. False: one cannot be loaded. */
bool x86_vmx_trace_load(CPUX86State *env, const struct x86_vmx_trace_loads *loads);
/* ip: where the guest was. False: an MSR cannot be loaded. */
bool x86_vmx_tell_exit(CPUX86State *env, uint64_t ip, const struct x86_vmx_trace_loads *loads);
void x86_vmx_tell_abort(CPUX86State *env, uint64_t ip);

/* The guest's IA32_RTIT_CTL, for its field. */
uint64_t x86_vmx_trace_ctl(CPUX86State *env);
/* Trace output waits for an address that EPT does not give: the guest has to exit. */
bool x86_vmx_trace_waits(CPUX86State *env);
G_NORETURN void x86_vmx_exit_trace(CPUX86State *env);

#endif
