/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is, the interrupts that KVM delivers, and turns of free running.
 */
#include "kvm/turns.h"
#include "kvm/apic.h"
#include "kvm/machine.h"
#include "kvm/start.h"
#include "run/run.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define QUANTUM   64 /* instructions of one processor before the next one's turn */
#define RFLAGS_IF (1ull << 9)
#define NAP_NS    1000000 /* of a halted guest */

/* ---- Turns ---- */

/*
 * One thread runs all processors in turn. While any of them traces, all are stepped, and a turn is
 * QUANTUM instructions of the guest: what the processors see of each other's memory depends on the
 * guest alone, not on the host's clock, and two runs give the same paths. (Time itself, RDTSC, is
 * the host's.) While nobody traces, a turn of free running ends with a kick.
 */

bool vcpu_ready(struct vcpu *cpu)
{
    if (cpu->apic.init_pending || cpu->apic.sipi_pending)
        return true;
    if (cpu->wait_for_sipi)
        return false;
    apic_tick(&cpu->apic, vmm_apic_now(cpu->vmm));
    return !cpu->halted || vcpu_interrupt_due(cpu);
}

bool next_turn(struct vmm *vmm)
{
    for (unsigned i = 1; i <= vmm->cpu_count; i++) {
        const unsigned next = (vmm->turn + i) % vmm->cpu_count;

        if (vcpu_ready(&vmm->cpus[next])) {
            vmm->turn = next;
            vmm->turn_end = vmm->steps + QUANTUM;
            return true;
        }
    }
    return false;
}

uint64_t first_deadline(const struct vmm *vmm)
{
    uint64_t first = 0;

    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        const uint64_t deadline = vmm->cpus[i].apic.timer_deadline;

        if (deadline && !vmm->cpus[i].wait_for_sipi && (!first || deadline < first))
            first = deadline;
    }
    return first;
}

int nothing_wakes(struct vmm *vmm)
{
    return vmm_fail(vmm, -EIO, "the guest halted at %#llx and nothing can wake it",
                    vcpu_regs(&vmm->cpus[vmm->turn])->rip);
}

/* ---- Interrupts of KVM ---- */

/*
 * Whether KVM may be given an interrupt now. What it said at its last exit is not the whole truth:
 * the processor may have been stepped since, and to its HLT.
 */
static bool takes_interrupt(struct vcpu *cpu)
{
    if (cpu->halted)
        return vcpu_interrupt_due(cpu);
    return cpu->run->ready_for_interrupt_injection && cpu->run->if_flag &&
           (vcpu_regs(cpu)->rflags & RFLAGS_IF) && !vcpu_events(cpu)->interrupt.shadow;
}

int inject_event(struct vcpu *cpu)
{
    struct kvm_run *run = cpu->run;
    int vector;

    if (cpu->apic.nmi_pending) {
        cpu->apic.nmi_pending = false;
        cpu->halted = false;
        cpu->record->interrupts++;
        if (ioctl(cpu->fd, KVM_NMI, 0) < 0)
            return vmm_fail(cpu->vmm, -errno, "KVM_NMI: %s", strerror(errno));
    }
    vector = apic_pending(&cpu->apic);
    run->request_interrupt_window = 0;
    if (vector < 0)
        return 0;
    if (!takes_interrupt(cpu)) {
        run->request_interrupt_window = 1;
        return 0;
    }
    struct kvm_interrupt irq = {.irq = (uint32_t)vector};
    if (ioctl(cpu->fd, KVM_INTERRUPT, &irq) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_INTERRUPT: %s", strerror(errno));
    apic_accept(&cpu->apic, vector);
    cpu->halted = false;
    cpu->record->interrupts++;
    return 0;
}

/* ---- Free running ---- */

static int nap(struct vmm *vmm)
{
    const struct timespec time = {.tv_nsec = NAP_NS};

    if (!first_deadline(vmm))
        return nothing_wakes(vmm);
    nanosleep(&time, NULL);
    return 0;
}

/* What KVM is about to deliver has to be in the guest before the others go on. */
static bool event_queued(struct vcpu *cpu)
{
    const struct kvm_vcpu_events *events = vcpu_events(cpu);

    return events->exception.injected || events->exception.pending || events->interrupt.injected ||
           events->nmi.injected || events->nmi.pending;
}

int free_turn(struct vmm *vmm, int (*enter)(struct vcpu *cpu))
{
    struct vcpu *cpu = &vmm->cpus[vmm->turn];
    bool gp;
    int error;

    if (!vcpu_ready(cpu)) {
        if (!next_turn(vmm))
            return nap(vmm);
        cpu = &vmm->cpus[vmm->turn];
    }
    if (cpu->apic.init_pending || cpu->apic.sipi_pending)
        return start_signals(cpu);
    error = inject_event(cpu);
    if (!error)
        error = enter(cpu);
    if (error == -EINTR) {
        if (vmm->cpu_count > 1 && !event_queued(cpu))
            next_turn(vmm);
        return 0;
    }
    return error ? error : machine_handle_exit(cpu, &gp);
}
