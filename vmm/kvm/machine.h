/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small VMM: one virtual machine with its vCPUs on <linux/kvm.h>.
 *
 * Functions that can fail return 0 or -errno and leave one line in vmm->result->why.
 */
#ifndef VMM_KVM_MACHINE_H
#define VMM_KVM_MACHINE_H

#include "kvm/apic.h"
#include "kvm/tracer.h"
#include "run/run.h"

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct source;
struct vmm;

/* One processor of the machine. All of them are run by one thread, in turn (run.c). */
struct vcpu {
    struct vmm *vmm;
    struct cpu_result *record;
    unsigned index; /* and the APIC ID */
    int fd;
    struct kvm_run *run;
    size_t run_bytes;
    struct tracer tracer;
    struct apic apic;
    bool debugging;     /* KVM was told to single-step */
    bool in_handler;    /* the registers are not KVM's, which has the guest in its #DB handler */
    bool halted;        /* HLT, until an interrupt */
    bool wait_for_sipi; /* INIT came, or power-up of an application processor */
    uint64_t path_cr3;
    uint64_t msr_star, msr_lstar, msr_fmask; /* as read when stepping began */
};

struct vmm {
    const struct run_options *options;
    struct run_result *result;
    const struct source *source;
    struct host_pt *host_pt; /* NULL: it is not the source */
    int kvm_fd, vm_fd;
    uint8_t *ram;
    uint64_t ram_bytes, entry;
    uint8_t *present; /* of each page of options->absent_*; NULL: all memory is */
    bool has_absent_slot;
    struct vcpu cpus[MAX_CPUS];
    unsigned cpu_count;
    unsigned turn;     /* whose turn it is (run.c) */
    uint64_t turn_end; /* in steps */
    uint64_t steps;    /* instructions stepped on all of them; the APICs' clock while stepping */
    bool tracing;      /* somebody is: turns are the source's */
    bool stepping;     /* all of them, if the source steps */
    bool ended;        /* the guest wrote the exit port */
    int error;         /* 0, or -errno of what cannot return it: the run ends with it */
    struct timespec start;
    timer_t kick_timer;
    uint64_t paused_ns;   /* the guest stood still for our sake: not of its APICs' time */
    unsigned steps_per_s; /* what the guest is told of the source of events */
};

/* Writes the line into result->why and returns error. */
int vmm_fail(struct vmm *vmm, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t vmm_apic_now(const struct vmm *vmm);

/* Registers of the last exit, in the run structure (KVM_CAP_SYNC_REGS); mark what was changed. */
static inline struct kvm_regs *vcpu_regs(struct vcpu *cpu)
{
    return &cpu->run->s.regs.regs;
}
static inline struct kvm_sregs *vcpu_sregs(struct vcpu *cpu)
{
    return &cpu->run->s.regs.sregs;
}
static inline struct kvm_vcpu_events *vcpu_events(struct vcpu *cpu)
{
    return &cpu->run->s.regs.events;
}
static inline void vcpu_dirty(struct vcpu *cpu, uint64_t what)
{
    cpu->run->kvm_dirty_regs |= what;
}
static inline unsigned vcpu_cpl(struct vcpu *cpu)
{
    return vcpu_sregs(cpu)->ss.dpl;
}
/* Whether an interrupt or NMI is to be taken now. */
bool vcpu_interrupt_due(struct vcpu *cpu);

/* ---- Creation, KVM_RUN, exits ---- */

int machine_create(struct vmm *vmm, const struct vpt_caps *caps);
void machine_destroy(struct vmm *vmm);
/* One KVM_RUN. 0, -EINTR (kicked), or another error. */
int machine_enter(struct vcpu *cpu);
/*
 * Carries out the exit that KVM_RUN gave. While stepping, and when tracing begins or ends, KVM also
 * finishes the instruction, so that RIP stands behind it. 0 or -errno; *gp: an MSR access raises
 * #GP.
 */
int machine_handle_exit(struct vcpu *cpu, bool *gp);
/* Runs one instruction, or up to its exit. 0, -EINTR (kicked behind it), or another error. */
int machine_step(struct vcpu *cpu);
/* KVM finishes the instruction that exited, and runs nothing more. 0 or -errno. */
int machine_complete(struct vcpu *cpu);
/* KVM_SET_GUEST_DEBUG, unless it is so already. 0 or -errno. */
int machine_debug(struct vcpu *cpu, bool step);
/* Hands changed registers to KVM at once. 0 or -errno. */
int machine_push(struct vcpu *cpu);
int machine_get_msr(struct vcpu *cpu, uint32_t msr, uint64_t *value);
int machine_set_msr(struct vcpu *cpu, uint32_t msr, uint64_t value);

#endif
