/* SPDX-License-Identifier: BSD-3-Clause */
/* What happened in VM entries and exits (33.5, 33.6; Tables 33-52 to 33-54, 33-56, 33-59). */
#ifndef PTD_INVARIANTS_TRUTH_VMX_H
#define PTD_INVARIANTS_TRUTH_VMX_H

#include "roundtrip/invariants/truth.h"

/* entry->outcome is what happened; may: as of truth_enable(). */
void truth_vm_entry(struct truth *truth, const struct vpt_vm_entry *entry, bool may);
void truth_vm_exit(struct truth *truth, const struct vpt_vm_exit *exit, bool may);

#endif
