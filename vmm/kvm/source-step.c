/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source that steps: a turn is an instruction of one processor, or the time up to a timer.
 */
#include "kvm/machine.h"
#include "kvm/source.h"
#include "kvm/start.h"
#include "kvm/step.h"
#include "kvm/tracer.h"
#include "kvm/turns.h"

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
    error = inject_event(cpu);
    if (!error)
        error = step(cpu);
    cpu->run->request_interrupt_window = 0;
    return error;
}

static int step_turn(struct vmm *vmm)
{
    struct vcpu *cpu = &vmm->cpus[vmm->turn];
    int error = 0;

    if (vmm->steps >= vmm->turn_end || !vcpu_ready(cpu)) {
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

const struct source source_step = {
    .begin = step_begin, .enter_idle = machine_enter, .turn = step_turn, .end = step_end};
