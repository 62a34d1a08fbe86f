/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The VMX-preemption timer. */
#ifndef I386_VMX_TIMER_H
#define I386_VMX_TIMER_H

#include "vmx.h"

#define VMX_TIMER_SHIFT 5 /* as IA32_VMX_MISC says */

void x86_vmx_timer_init(X86CPU *cpu);
void x86_vmx_timer_free(X86CPU *cpu);
/* The guest begins and ends to run. */
void x86_vmx_timer_begin(CPUX86State *env);
void x86_vmx_timer_end(CPUX86State *env);
bool x86_vmx_timer_is_due(CPUX86State *env);
/* After migration. */
void x86_vmx_timer_resume(CPUX86State *env);

#endif
