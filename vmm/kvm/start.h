/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * INIT and start-up IPIs.
 */
#ifndef VMM_KVM_START_H
#define VMM_KVM_START_H

struct vcpu;

/* An application processor at power-up. 0 or -errno. */
int start_wait(struct vcpu *cpu);
/* INIT and SIPI that the APIC has accepted. 0 or -errno. */
int start_signals(struct vcpu *cpu);

#endif
