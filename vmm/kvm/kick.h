/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kick that makes KVM_RUN return every millisecond.
 */
#ifndef VMM_KVM_KICK_H
#define VMM_KVM_KICK_H

#include <stdint.h>

struct kvm_run;
struct vmm;

int kicks_start(struct vmm *vmm);
void kicks_stop(struct vmm *vmm);
/* The next one comes in so many nanoseconds. */
void kick_after(struct vmm *vmm, uint64_t ns);
/* Kicks are for this vCPU from now on. */
void kick_next(struct kvm_run *run);

#endif
