/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stepping user mode by way of the guest's #DB handler.
 */
#ifndef VMM_KVM_USER_STEP_H
#define VMM_KVM_USER_STEP_H

struct vcpu;

/*
 * Runs one instruction of user code. *vector is that of an exception whose handler is about to run,
 * or -1. 0 or -errno.
 */
int step_user_by_handler(struct vcpu *cpu, unsigned other_vector, int *vector);
/* Before anything else than that runs the guest: the registers of user mode become KVM's. */
void user_step_leave(struct vcpu *cpu);

#endif
