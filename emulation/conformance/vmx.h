/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules about VMX operation share. */
#ifndef VPT_CONFORMANCE_VMX_H
#define VPT_CONFORMANCE_VMX_H

#include "conformance.h"

#define EVENTS  (OS | USER | VPT_CTL_EVENTEN)
#define TRACING (TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN)
#define HOST    0x500000ull

/* From SOURCE to TARGET with CR3 9000H, and back from 402010H to HOST with CR3 1000H. */
struct vpt_vm_entry plain_entry(void);
struct vpt_vm_exit plain_exit(void);

/* In VMX root operation, where TraceEn is 1 with these bits; with output only if there are none. */
struct fake *root(uint64_t ctl);
void enter(struct fake *fake, const struct vpt_vm_entry *entry);
/* In a guest, when the packets of the entry are told. */
struct fake *guest(uint64_t ctl);
bool traceen(struct fake *fake);

/* A processor whose controls can all be 0 and 1. */
struct vpt_vmx_caps flexible(void);

#endif
