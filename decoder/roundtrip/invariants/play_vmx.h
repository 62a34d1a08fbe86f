/* SPDX-License-Identifier: BSD-3-Clause */
/* VMX operation (33.5, 33.6): VMXON, VMPTRLD, entries and exits with all their controls. */
#ifndef PTD_INVARIANTS_PLAY_VMX_H
#define PTD_INVARIANTS_PLAY_VMX_H

#include "roundtrip/invariants/state.h"

/* At CPL 0; of a guest, any VM exit. */
void play_vmx(struct run *run);
void play_vm_exit(struct run *run);

#endif
