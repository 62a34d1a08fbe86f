/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is, the interrupts that KVM delivers, and turns of free running.
 */
#ifndef VMM_KVM_TURNS_H
#define VMM_KVM_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;
struct vmm;

/* Whether a processor has something to do; its APIC timer may say so. */
bool vcpu_ready(struct vcpu *cpu);
/* The next one that is ready, the present one last; false: all sleep. */
bool next_turn(struct vmm *vmm);
/* The first timer that will wake somebody; 0: none. */
uint64_t first_deadline(const struct vmm *vmm);
/* Says so, and returns the error. */
int nothing_wakes(struct vmm *vmm);
/* Hands KVM what the APIC has for the processor. 0 or -errno. */
int inject_event(struct vcpu *cpu);
/* A turn that KVM runs by itself. enter() is one KVM_RUN, as machine_enter() is. 0 or -errno. */
int free_turn(struct vmm *vmm, int (*enter)(struct vcpu *cpu));

#endif
