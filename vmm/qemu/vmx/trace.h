/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What virtual PT is told of VMX operation. */
#ifndef I386_VMX_TRACE_H
#define I386_VMX_TRACE_H

#include "vpt/vpt-i386.h"

void x86_vmx_trace_realize(X86CPU *cpu);
/* The instruction has succeeded; EIP is still at it. */
void x86_vmx_tell_vmxon(CPUX86State *env);
void x86_vmx_tell_vmxoff(CPUX86State *env);
void x86_vmx_tell_vmptrld(CPUX86State *env, uint64_t vmcs);
void x86_vmx_tell_vmclear(CPUX86State *env, uint64_t vmcs);
/* The transition is done, but for an event to inject. Control words are filled in. */
void x86_vmx_tell_entry(CPUX86State *env, struct vpt_vm_entry *entry);
/* ip: where the guest was. */
void x86_vmx_tell_exit(CPUX86State *env, uint64_t ip);

#endif
