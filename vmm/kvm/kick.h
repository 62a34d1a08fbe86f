/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kick that makes KVM_RUN return every millisecond.
 */
#ifndef VMM_KVM_KICK_H
#define VMM_KVM_KICK_H

struct kvm_run;
struct vmm;

int kicks_start(struct vmm *vmm);
void kicks_stop(struct vmm *vmm);
/* Kicks are for this vCPU from now on. */
void kick_next(struct kvm_run *run);

#endif
