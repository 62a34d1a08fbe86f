/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-step as the source of events.
 */
#ifndef VMM_KVM_STEP_H
#define VMM_KVM_STEP_H

struct vcpu;
struct vmm;

/* All processors, when the first of them begins to trace. */
void step_begin(struct vmm *vmm);
/* The same for a guest that was being stepped already, in another process. */
void step_resume(struct vmm *vmm);
/* An instruction, or the delivery of an interrupt, on this processor, which is not asleep. */
int step(struct vcpu *cpu);
void step_end(struct vmm *vmm);

#endif
