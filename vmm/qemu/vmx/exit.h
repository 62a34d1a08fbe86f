/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VM exits, and what decides on them. */
#ifndef I386_VMX_EXIT_H
#define I386_VMX_EXIT_H

#include "vmx.h"

struct vpt_vm_entry;

/* ---- exit.c ---- */

/* retaddr: of the translated code that called, or 0. */
G_NORETURN void x86_vmx_exit(CPUX86State *env, const struct x86_vmx_exit *exit, uintptr_t retaddr);
/* By the instruction at EIP. */
G_NORETURN void x86_vmx_exit_by(CPUX86State *env, uint32_t reason, uint64_t qualification,
                                uintptr_t retaddr);
/* In the loop of the vCPU: the state of the host instead of the guest's. */
void x86_vmx_do_exit(CPUX86State *env);
/* VM entry fails after its checks of controls and host state; *entry is what is told of it. */
void x86_vmx_entry_failure(CPUX86State *env, uint32_t reason, uint64_t qualification,
                           struct vpt_vm_entry *entry);

#endif
