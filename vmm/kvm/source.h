/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the events of guests that trace come from. While nobody traces, the run loop (run.c) lets
 * KVM run; while somebody does, turns are the source's.
 */
#ifndef VMM_KVM_SOURCE_H
#define VMM_KVM_SOURCE_H

struct vcpu;
struct vmm;

struct source {
    /* The first processor begins to trace; the last one has ended. */
    void (*begin)(struct vmm *vmm);
    void (*end)(struct vmm *vmm);
    /* While nobody traces: as machine_enter(). */
    int (*enter_idle)(struct vcpu *cpu);
    /* One processor's turn, told to its tracer. 0 or -errno. */
    int (*turn)(struct vmm *vmm);
};

extern const struct source source_step, source_host_pt;

#endif
