/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run loop: free running while nothing is traced, stepping while TriggerEn is 1; interrupts,
 * the clock, and the end.
 */
#include "kvm/backend.h"
#include "kvm/apic.h"
#include "kvm/boot.h"
#include "kvm/kick.h"
#include "kvm/machine.h"
#include "kvm/migrate.h"
#include "kvm/start.h"
#include "kvm/step.h"
#include "kvm/tracer.h"
#include "common/progress.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHECK_STEPS 4096u
#define QUANTUM     64 /* instructions of one processor before the next one's turn */
#define RFLAGS_IF   (1ull << 9)
#define NAP_NS      1000000 /* of a halted guest */
#define PROGRESS_S  0.5

static double seconds(const struct vmm *vmm)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - vmm->start.tv_sec) +
           (double)(now.tv_nsec - vmm->start.tv_nsec) * 1e-9;
}

static bool timed_out(const struct vmm *vmm)
{
    return vmm->options->timeout_s && seconds(vmm) > vmm->options->timeout_s;
}

/* ---- Turns ---- */

/*
 * One thread runs all processors in turn. While any of them traces, all are stepped, and a turn is
 * QUANTUM instructions of the guest: what the processors see of each other's memory depends on the
 * guest alone, not on the host's clock, and two runs give the same paths. (Time itself, RDTSC, is
 * the host's.) While nobody traces, a turn of free running ends with a kick.
 */

/* Whether a processor has something to do; its APIC timer may say so. */
static bool ready(struct vcpu *cpu)
{
    if (cpu->apic.init_pending || cpu->apic.sipi_pending)
        return true;
    if (cpu->wait_for_sipi)
        return false;
    apic_tick(&cpu->apic, vmm_apic_now(cpu->vmm));
    return !cpu->halted || vcpu_interrupt_due(cpu);
}

/* The next one that is ready, the present one last; false: all sleep. */
static bool next_turn(struct vmm *vmm)
{
    for (unsigned i = 1; i <= vmm->cpu_count; i++) {
        const unsigned next = (vmm->turn + i) % vmm->cpu_count;

        if (ready(&vmm->cpus[next])) {
            vmm->turn = next;
            vmm->turn_end = vmm->steps + QUANTUM;
            return true;
        }
    }
    return false;
}

/* The first timer that will wake somebody; 0: none. */
static uint64_t first_deadline(const struct vmm *vmm)
{
    uint64_t first = 0;

    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        const uint64_t deadline = vmm->cpus[i].apic.timer_deadline;

        if (deadline && !vmm->cpus[i].wait_for_sipi && (!first || deadline < first))
            first = deadline;
    }
    return first;
}

static int nothing_wakes(struct vmm *vmm)
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

/* Hands KVM what the APIC has for the processor. */
static int inject(struct vcpu *cpu)
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

/* ---- Stepping ---- */

/* Nothing to run until an interrupt: time goes straight to the timer. */
static int sleep_until_interrupt(struct vmm *vmm)
{
    const uint64_t deadline = first_deadline(vmm);

    if (!deadline)
        return nothing_wakes(vmm);
    if (deadline > vmm->steps)
        vmm->steps = deadline;
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        tracer_slept(&vmm->cpus[i]);
    return 0;
}

/* step() delivers interrupts in 64-bit mode; to a processor on its way there, KVM does. */
static int step_one(struct vcpu *cpu)
{
    int error;

    if (vcpu_sregs(cpu)->cs.l)
        return step(cpu);
    error = inject(cpu);
    if (!error)
        error = step(cpu);
    cpu->run->request_interrupt_window = 0;
    return error;
}

static int step_turn(struct vmm *vmm)
{
    struct vcpu *cpu = &vmm->cpus[vmm->turn];
    int error = 0;

    if (vmm->steps >= vmm->turn_end || !ready(cpu)) {
        if (!next_turn(vmm))
            return sleep_until_interrupt(vmm);
        cpu = &vmm->cpus[vmm->turn];
    }
    if (cpu->apic.init_pending || cpu->apic.sipi_pending)
        error = start_signals(cpu);
    else
        error = step_one(cpu);
    tracer_resolve_output(cpu);
    return error;
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

static int free_turn(struct vmm *vmm)
{
    struct vcpu *cpu = &vmm->cpus[vmm->turn];
    bool gp;
    int error;

    if (!ready(cpu)) {
        if (!next_turn(vmm))
            return nap(vmm);
        cpu = &vmm->cpus[vmm->turn];
    }
    if (cpu->apic.init_pending || cpu->apic.sipi_pending)
        return start_signals(cpu);
    error = inject(cpu);
    if (!error)
        error = machine_enter(cpu);
    if (error == -EINTR) {
        if (vmm->cpu_count > 1 && !event_queued(cpu))
            next_turn(vmm);
        return 0;
    }
    return error ? error : machine_handle_exit(cpu, &gp);
}

/* ---- Both ---- */

static size_t trace_bytes(const struct vmm *vmm)
{
    size_t len = 0;

    for (unsigned i = 0; i < vmm->cpu_count; i++)
        len += vmm->cpus[i].record->trace.len;
    return len;
}

static void progress(struct vmm *vmm, double *last)
{
    const double now = seconds(vmm);

    if (now - *last < PROGRESS_S || vmm->options->record_to)
        return;
    *last = now;
    progress_say("%.0f s, %llu instructions stepped, %zu trace bytes", now,
                 (unsigned long long)vmm->steps, trace_bytes(vmm));
}

static bool somebody_traces(const struct vmm *vmm)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        if (tracer_trigger_en(&vmm->cpus[i].tracer))
            return true;
    }
    return false;
}

static int run_loop(struct vmm *vmm)
{
    unsigned until_check = 0;
    double last_progress = 0;

    while (!vmm->ended) {
        int error;

        if (until_check-- == 0 || !vmm->stepping) {
            if (timed_out(vmm))
                return vmm_fail(vmm, -ETIMEDOUT, "the guest did not end within %u s (RIP %#llx)",
                                vmm->options->timeout_s, vcpu_regs(&vmm->cpus[vmm->turn])->rip);
            progress(vmm, &last_progress);
            until_check = CHECK_STEPS;
        }
        if (somebody_traces(vmm)) {
            if (!vmm->stepping)
                step_begin(vmm);
            if (vmm->options->save_to && vmm->steps >= vmm->options->save_after)
                return migrate_out(vmm);
            error = step_turn(vmm);
        } else {
            if (vmm->stepping)
                step_end(vmm);
            error = free_turn(vmm);
        }
        if (error || vmm->error)
            return error ? error : vmm->error;
    }
    return 0;
}

static enum run_end end_of(int error)
{
    switch (error) {
    case -ETIMEDOUT:
        return RUN_TIMED_OUT;
    case -EFAULT:
    case -EIO:
        return RUN_CRASHED;
    default:
        return RUN_HOST;
    }
}

static int run(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error = machine_create(vmm, caps);

    if (error)
        return error;
    error = vmm->options->restore ? migrate_in(vmm) : boot_load(vmm);
    if (error) {
        vmm->result->end = RUN_BAD_FILE;
        return error;
    }
    error = vmm->options->restore ? 0 : boot_enter(vmm);
    if (error)
        return error;
    error = kicks_start(vmm);
    if (error)
        return error;
    error = run_loop(vmm);
    kicks_stop(vmm);
    for (unsigned i = 0; i < vmm->cpu_count && !vmm->result->saved; i++)
        tracer_end(&vmm->cpus[i]);
    return error ? error : vmm->error;
}

void kvm_run(const struct run_options *options, const struct vpt_caps *caps,
             struct run_result *result)
{
    struct vmm *vmm = calloc(1, sizeof(*vmm));
    int error;

    if (!vmm) {
        result->end = RUN_HOST;
        snprintf(result->why, sizeof(result->why), "no memory");
        return;
    }
    vmm->options = options;
    vmm->result = result;
    vmm->ram_bytes = options->mem_bytes;
    vmm->steps_per_s = options->steps_per_s;
    error = run(vmm, caps);
    if (error && result->end == RUN_DONE)
        result->end = end_of(error);
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        tracer_conclude(&vmm->cpus[i]);
    result->steps = vmm->steps;
    result->seconds = seconds(vmm);
    fflush(stdout);
    machine_destroy(vmm);
    free(vmm);
}
