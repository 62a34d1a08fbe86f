/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Translations over VM entries and VM exits. */
#ifndef I386_VMX_TLB_H
#define I386_VMX_TLB_H

#include "vmx.h"

/* The hypervisor or its guest is about to stop, with its control registers loaded still. */
void x86_vmx_tlb_leave(CPUX86State *env, bool guest);
/* It is about to run: what was kept for somebody else is forgotten. */
void x86_vmx_tlb_enter(CPUX86State *env, bool guest);
/* All translations of guests are forgotten. */
void x86_vmx_tlb_forget(CPUX86State *env);

#endif
