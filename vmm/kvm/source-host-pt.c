/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's Intel PT as the source of events: KVM runs the guest as fast as it can, while the
 * processor traces the thread. What one KVM_RUN left is followed before anything else happens to
 * the guest, so MSRs that it reads, PMIs and its buffers are those of where it stands. The kick
 * ends each KVM_RUN after a millisecond, or sooner (docs/host-pt.md).
 */
#include "kvm/host-pt.h"
#include "kvm/backend.h"
#include "kvm/kick.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/source.h"
#include "kvm/tracer.h"
#include "kvm/turns.h"
#include "hostpt/follow.h"
#include "hostpt/host.h"
#include "hostpt/pace.h"
#include "hostpt/thread.h"

#include <errno.h>
#include <stdlib.h>

#define MSR_TSC_ADJUST 0x3bu
#define CR4_LA57       (1ull << 12)
#define EFER_LMA       (1ull << 10)

struct host_pt {
    struct pt_thread *thread;
    struct ptd_memory *memory; /* the guest's */
    struct host_pt_cpu {
        struct follow *follow;
        struct pace pace;
        bool asleep; /* in a HLT that the model knows */
    } cpus[MAX_CPUS];
};

int host_pt_limit(struct vpt_caps *caps, struct reason *why)
{
    return host_limit(caps, why);
}

/* ---- What following asks of the vCPU ---- */

static void take_time(void *owner, uint64_t tsc)
{
    struct vcpu *const cpu = owner;

    cpu->tracer.told_tsc = tsc;
    cpu->tracer.has_told_tsc = true;
}

/* ---- Creation ---- */

static int create_cpu(struct host_pt *pt, struct vcpu *cpu)
{
    const struct run_options *const options = cpu->vmm->options;
    const struct follow_config config = {
        .cpu = &cpu->tracer.pt,
        .memory = pt->memory,
        .clocks = pt_thread_clocks(pt->thread),
        .budget_ns = options->overflow_behind ? FOLLOW_BUDGET_NS : 0,
        .time = take_time,
        .owner = cpu,
    };

    pt->cpus[cpu->index].follow = follow_new(&config);
    return pt->cpus[cpu->index].follow ? 0 : vmm_fail(cpu->vmm, -ENOMEM, "no memory to follow");
}

int host_pt_create(struct vmm *vmm)
{
    struct reason why = {0};
    struct host_pt *pt;
    uint64_t offset;
    int error = host_check_kvm(&why);

    if (!error)
        error = host_tsc_offset(vmm->cpus[0].fd, &offset, &why);
    if (error)
        return vmm_fail(vmm, error, "--source host-pt: %.250s", why.text);
    pt = calloc(1, sizeof(*pt));
    if (!pt)
        return vmm_fail(vmm, -ENOMEM, "no memory for a trace");
    vmm->host_pt = pt;
    pt->memory = ptd_memory_new();
    if (!pt->memory || ptd_memory_add(pt->memory, 0, vmm->ram, vmm->ram_bytes) != PTD_OK)
        return vmm_fail(vmm, -ENOMEM, "no memory to follow");
    error = pt_thread_open(vmm->options->recorder,
                           vmm->options->overflow_behind ? 0 : PT_THREAD_PATIENCE_MS, &pt->thread,
                           &why);
    if (error)
        return vmm_fail(vmm, error, "%.250s", why.text);
    for (unsigned i = 0; i < vmm->cpu_count && !error; i++)
        error = create_cpu(pt, &vmm->cpus[i]);
    return error;
}

static void conclude_cpu(struct host_pt *pt, struct vcpu *cpu)
{
    struct follow *const follow = pt->cpus[cpu->index].follow;

    if (follow) {
        cpu->record->lost_pieces = follow_sums(follow)->overflows;
        cpu->record->followed_insns = follow_sums(follow)->insns;
    }
    follow_free(follow);
}

void host_pt_destroy(struct vmm *vmm)
{
    struct host_pt *const pt = vmm->host_pt;

    if (!pt)
        return;
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        conclude_cpu(pt, &vmm->cpus[i]);
    pt_thread_close(pt->thread);
    ptd_memory_free(pt->memory);
    free(pt);
    vmm->host_pt = NULL;
}

/* ---- One KVM_RUN ---- */

static int state_of(struct vcpu *cpu, struct follow_state *state)
{
    const struct kvm_sregs *const sregs = vcpu_sregs(cpu);
    struct reason why = {0};
    int error;

    *state = (struct follow_state){.cpl = (uint8_t)vcpu_cpl(cpu),
                                   .is_long = (sregs->efer & EFER_LMA) != 0,
                                   .is_la57 = (sregs->cr4 & CR4_LA57) != 0};
    error = host_tsc_offset(cpu->fd, &state->tsc_offset, &why);
    return error ? vmm_fail(cpu->vmm, error, "%.250s", why.text) : 0;
}

/* What the trace says of the guest. */
static int follow_run(struct vcpu *cpu, const struct follow_state *state,
                      const struct pt_piece *piece)
{
    struct follow *const follow = cpu->vmm->host_pt->cpus[cpu->index].follow;
    int error;

    machine_get_msr(cpu, MSR_TSC_ADJUST, &cpu->tracer.told_adjust);
    cpu->vmm->steps -= follow_sums(follow)->insns;
    error = follow_piece(follow, state, piece);
    cpu->vmm->steps += follow_sums(follow)->insns;
    cpu->tracer.has_told_tsc = false;
    tracer_resolve_output(cpu);
    vpt_flush(&cpu->tracer.pt);
    return error ? vmm_fail(cpu->vmm, error, "no memory to follow the guest") : 0;
}

/* The guest's HLT, which KVM has left to us, and its end. */
static void tell_sleep(struct vcpu *cpu, bool sleeps)
{
    struct host_pt_cpu *const own = &cpu->vmm->host_pt->cpus[cpu->index];
    uint64_t ip;

    if (sleeps && follow_exit_ip(own->follow, &ip)) {
        tracer_halt(cpu, ip);
        own->asleep = true;
    } else if (!sleeps && own->asleep) {
        tracer_wake(cpu);
        own->asleep = false;
    }
}

/* Enters the guest, and tells what was traced meanwhile, and how long the guest ran. *entered: what
 * machine_enter() says. 0 or -errno. */
static int run_piece(struct vcpu *cpu, struct pt_piece *piece, uint64_t *ran_ns, int *entered)
{
    struct pt_thread *const thread = cpu->vmm->host_pt->thread;
    struct reason why = {0};
    uint64_t before;
    int error = pt_thread_begin(thread, &why);

    if (error)
        return vmm_fail(cpu->vmm, error, "%.250s", why.text);
    cpu->run->immediate_exit = 0; /* a kick of the time that following took is no reason */
    before = vmm_apic_now(cpu->vmm);
    *entered = machine_enter(cpu);
    *ran_ns = vmm_apic_now(cpu->vmm) - before;
    error = pt_thread_end(thread, piece, &why);
    return error ? vmm_fail(cpu->vmm, error, "%.250s", why.text) : 0;
}

static int enter_traced(struct vcpu *cpu, uint64_t *ran_ns)
{
    struct pace *const pace = &cpu->vmm->host_pt->cpus[cpu->index].pace;
    struct follow_state state;
    struct pt_piece piece = {.lost = true};
    int error, result = 0;

    tell_sleep(cpu, false);
    error = state_of(cpu, &state);
    kick_after(cpu->vmm, pace_next_ns(pace, &cpu->tracer.pt));
    if (!error)
        error = run_piece(cpu, &piece, ran_ns, &result);
    if (!error)
        error = follow_run(cpu, &state, &piece);
    pace_ran(pace, &cpu->tracer.pt, *ran_ns);
    if (!error && !result && cpu->run->exit_reason == KVM_EXIT_HLT)
        tell_sleep(cpu, true);
    return error ? error : result;
}

/* The guest's VMCS is to be known before its trace begins. */
static int enter_untraced(struct vcpu *cpu)
{
    struct host_pt *const pt = cpu->vmm->host_pt;
    struct follow *const follow = pt->cpus[cpu->index].follow;
    struct pt_piece piece = {.lost = true};
    uint64_t ran_ns;
    int error, result = 0;

    follow_elsewhere(follow);
    if (!pt_thread_is_shared(pt->thread) || follow_knows_vmcs(follow))
        return machine_enter(cpu);
    error = run_piece(cpu, &piece, &ran_ns, &result);
    if (!error && !piece.lost && !follow_learn(follow, &piece))
        error = vmm_fail(cpu->vmm, -ENOMEM, "no memory for the host's trace");
    return error ? error : result;
}

/* The APICs' time stands still while nobody runs, else a timer could have expired whenever one
 * does. */
static int enter(struct vcpu *cpu)
{
    struct vmm *const vmm = cpu->vmm;
    const uint64_t before = vmm_apic_now(vmm);
    uint64_t ran_ns = 0;
    int result;

    if (!tracer_trigger_en(&cpu->tracer))
        return enter_untraced(cpu);
    result = enter_traced(cpu, &ran_ns);
    vmm->paused_ns += vmm_apic_now(vmm) - before - ran_ns;
    return result;
}

/* ---- The source ---- */

static void begin(struct vmm *vmm)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        follow_elsewhere(vmm->host_pt->cpus[i].follow);
}

static void end(struct vmm *vmm)
{
    (void)vmm;
}

static int turn(struct vmm *vmm)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        if (vmm->cpus[i].apic.init_pending || vmm->cpus[i].apic.sipi_pending)
            follow_elsewhere(vmm->host_pt->cpus[i].follow);
    }
    return free_turn(vmm, enter);
}

const struct source source_host_pt = {
    .begin = begin, .enter_idle = enter_untraced, .turn = turn, .end = end};
