/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's Intel PT as the source of what a guest on KVM did (-accel
 * kvm,vpt=on,vpt-source=host-pt): while the guest traces itself, the host's processor traces the
 * vCPU's thread. What one KVM_RUN left is followed before its exit is answered, so that MSRs that
 * the guest reads, PMIs and its buffers are those of where it stands (docs/host-pt.md).
 *
 * Cutting and following are vmm/hostpt's, which knows nothing of QEMU. This file lends it the
 * guest's memory, its TSC, and what KVM knows of the vCPU. It is called by the vCPU's thread.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "exec/address-spaces.h"
#include "hostpt/follow.h"
#include "hostpt/host.h"
#include "hostpt/pace.h"
#include "hostpt/thread.h"
#include "compat-kvm.h"
#include "vpt-i386.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>

struct X86VptHost {
    X86CPU *cpu;
    struct pt_thread *thread;
    struct follow *follow;
    struct ptd_memory *memory;
    MemoryListener listener;
    bool memory_changed;
    timer_t kick;
    bool has_kick;
    struct pace pace;
    enum { PIECE_NONE, PIECE_LEARNS, PIECE_TRACED } piece;
    bool begun;                /* the piece is traced */
    struct follow_state state; /* when it began */
    int64_t begin_ns;
    bool failed; /* and that was told */
};

/* ---- What following asks of QEMU ---- */

static bool add_range(Int128 start, Int128 len, const MemoryRegion *mr, hwaddr offset, void *opaque)
{
    MemoryRegion *region = (MemoryRegion *)mr;
    struct ptd_memory *memory = opaque;

    return memory_region_is_ram(region) && !memory_region_is_ram_device(region) &&
           ptd_memory_add(memory, int128_get64(start),
                          (uint8_t *)memory_region_get_ram_ptr(region) + offset,
                          int128_get64(len)) == PTD_E_NOMEM;
}

static struct ptd_memory *look_at_memory(CPUState *cs)
{
    struct ptd_memory *memory = ptd_memory_new();

    if (memory) {
        RCU_READ_LOCK_GUARD();
        flatview_for_each_range(address_space_to_flatview(cs->as), add_range, memory);
    }
    return memory;
}

static void memory_changed(MemoryListener *listener)
{
    struct X86VptHost *host = container_of(listener, struct X86VptHost, listener);

    host->memory_changed = true;
}

static void look_again(struct X86VptHost *host)
{
    struct ptd_memory *memory = look_at_memory(CPU(host->cpu));

    if (memory) {
        follow_use_memory(host->follow, memory);
        ptd_memory_free(host->memory);
        host->memory = memory;
        host->memory_changed = false;
    }
}

/* What the models are told from here on happens at this time of the guest's. */
static void tell_time(void *owner, uint64_t tsc)
{
    struct X86Vpt *vpt = owner;

    vpt->told_tsc = tsc;
    vpt->has_told_tsc = true;
}

/* KVM has the guest's clock, and QEMU a copy that may be old. */
static void tell_present(X86CPU *cpu)
{
    struct {
        struct kvm_msrs head;
        struct kvm_msr_entry entries[2];
    } msrs = {.head.nmsrs = 2, .entries = {{.index = MSR_IA32_TSC}, {.index = MSR_TSC_ADJUST}}};

    if (kvm_vcpu_ioctl(CPU(cpu), KVM_GET_MSRS, &msrs) == 2) {
        cpu->env.tsc_adjust = msrs.entries[1].data;
        tell_time(cpu->vpt, msrs.entries[0].data);
    }
}

static bool state_of(CPUState *cs, struct follow_state *state, struct reason *why)
{
    struct kvm_sregs sregs;
    int error = kvm_vcpu_ioctl(cs, KVM_GET_SREGS, &sregs);

    if (error) {
        reason_set(why, error, "KVM does not tell a vCPU's state: %s", strerror(-error));
        return false;
    }
    *state = (struct follow_state){.cpl = sregs.ss.dpl,
                                   .is_long = sregs.efer & MSR_EFER_LMA,
                                   .is_la57 = sregs.cr4 & CR4_LA57_MASK};
    return host_tsc_offset(cs->kvm_fd, &state->tsc_offset, why) == 0;
}

/* ---- The vCPU ---- */

bool x86_vpt_host_limit(struct vpt_caps *caps, Error **errp)
{
    struct reason why = {""};

    if (kvm_state->vpt_host && host_limit(caps, &why) < 0) {
        error_setg(errp, "vpt-source=host-pt: %s", why.text);
        return false;
    }
    return true;
}

static bool make_kick(struct X86VptHost *host, struct reason *why)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIG_IPI};

    event._sigev_un._tid = qemu_get_thread_id();
    host->has_kick = timer_create(CLOCK_MONOTONIC, &event, &host->kick) == 0;
    if (!host->has_kick) {
        reason_set(why, -errno, "there is no timer: %s", strerror(errno));
    }
    return host->has_kick;
}

static bool open_follow(struct X86VptHost *host, bool waits, struct reason *why)
{
    const struct follow_config config = {
        .cpu = &host->cpu->vpt->guest,
        .memory = host->memory,
        .clocks = pt_thread_clocks(host->thread),
        .budget_ns = waits ? 0 : FOLLOW_BUDGET_NS,
        .time = tell_time,
        .owner = host->cpu->vpt,
    };

    host->follow = host->memory ? follow_new(&config) : NULL;
    if (!host->follow) {
        reason_no_memory(why);
    }
    return host->follow != NULL;
}

static bool open_host(struct X86VptHost *host, struct reason *why)
{
    const KVMState *s = kvm_state;
    CPUState *cs = CPU(host->cpu);
    const bool waits = !s->vpt_overflows;

    host->memory = look_at_memory(cs);
    return host_check_kvm(why) == 0 && state_of(cs, &host->state, why) && make_kick(host, why) &&
           pt_thread_open(s->vpt_recorder, waits ? PT_THREAD_PATIENCE_MS : 0, &host->thread, why) ==
               0 &&
           open_follow(host, waits, why);
}

static void free_host(struct X86VptHost *host)
{
    follow_free(host->follow);
    pt_thread_close(host->thread);
    ptd_memory_free(host->memory);
    if (host->has_kick) {
        timer_delete(host->kick);
    }
    g_free(host);
}

bool x86_vpt_host_open(CPUState *cs, Error **errp)
{
    X86CPU *cpu = X86_CPU(cs);
    struct reason why = {""};
    struct X86VptHost *host;

    if (!kvm_state->vpt_host || !cpu->vpt->enabled) {
        return true;
    }
    host = g_new0(struct X86VptHost, 1);
    host->cpu = cpu;
    if (!open_host(host, &why)) {
        error_setg(errp, "vpt-source=host-pt: %s", why.text);
        free_host(host);
        return false;
    }
    host->listener = (MemoryListener){.name = "vpt-host-pt", .commit = memory_changed};
    memory_listener_register(&host->listener, cs->as);
    cpu->vpt->host = host;
    return true;
}

void x86_vpt_host_close(CPUState *cs)
{
    struct X86Vpt *vpt = X86_CPU(cs)->vpt;

    if (vpt && vpt->host) {
        memory_listener_unregister(&vpt->host->listener);
        free_host(vpt->host);
        vpt->host = NULL;
    }
}

void x86_vpt_host_elsewhere(X86CPU *cpu)
{
    if (cpu->vpt->host) {
        follow_elsewhere(cpu->vpt->host->follow);
    }
}

/* ---- Around KVM_RUN ---- */

/* Whatever fails, the guest has an overflow there, and whoever runs it one line. */
static void fail(struct X86VptHost *host, const struct reason *why)
{
    if (!host->failed) {
        error_report("the guest's trace has overflows: %s", why->text);
        host->failed = true;
    }
}

static void set_kick(struct X86VptHost *host, long ns)
{
    const struct itimerspec when = {.it_value.tv_nsec = ns};

    timer_settime(host->kick, 0, &when, NULL);
}

void x86_vpt_host_begin(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);
    struct X86VptHost *host = cpu->vpt->host;
    struct reason why = {""};

    if (!host) {
        return;
    }
    if (vpt_trigger_en(&cpu->vpt->guest)) {
        host->piece = PIECE_TRACED;
    } else {
        follow_elsewhere(host->follow);
        host->piece = pt_thread_is_shared(host->thread) && !follow_knows_vmcs(host->follow)
                          ? PIECE_LEARNS
                          : PIECE_NONE;
    }
    if (host->piece == PIECE_NONE) {
        return;
    }
    if (host->piece == PIECE_TRACED && cpu->vpt->asleep) {
        tell_present(cpu);
        x86_vpt_wake(cpu->vpt);
        cpu->vpt->has_told_tsc = false;
    }
    host->begun = state_of(cs, &host->state, &why) && pt_thread_begin(host->thread, &why) == 0;
    if (!host->begun) {
        fail(host, &why);
    }
    set_kick(host, pace_next_ns(&host->pace, &cpu->vpt->guest));
    host->begin_ns = get_clock();
}

static void follow(struct X86VptHost *host, const struct pt_piece *piece, uint64_t ran_ns,
                   bool halted)
{
    X86CPU *cpu = host->cpu;
    uint64_t ip;

    if (host->memory_changed) {
        look_again(host);
    }
    tell_present(cpu);
    if (follow_piece(host->follow, &host->state, piece) < 0) {
        error_report("no memory to follow the guest");
        exit(EXIT_FAILURE);
    }
    cpu->vpt->has_told_tsc = false;
    vpt_flush(&cpu->vpt->guest);
    pace_ran(&host->pace, &cpu->vpt->guest, ran_ns);
    if (halted && follow_exit_ip(host->follow, &ip)) {
        const struct vpt_power_entry entry = {.ip = ip};

        vpt_power_entry(&cpu->vpt->guest, &entry);
        cpu->vpt->asleep = true;
    }
}

/* The iothread's lock keeps memory as it is, but for what other vCPUs write. If that is code,
 * following notices it, as it notices what the vCPU itself has changed (code-watch.h). */
void x86_vpt_host_end(CPUState *cs, int run_ret)
{
    /* Where KVM_RUN failed, as a kick makes it do, the reason may be that of an exit before. */
    const bool halted = run_ret == 0 && cs->kvm_run->exit_reason == KVM_EXIT_HLT;
    struct X86VptHost *host = X86_CPU(cs)->vpt->host;
    struct pt_piece piece = {.lost = true};
    struct reason why = {""};
    uint64_t ran_ns;

    if (!host || host->piece == PIECE_NONE) {
        return;
    }
    ran_ns = get_clock() - host->begin_ns;
    set_kick(host, 0);
    if (host->begun && pt_thread_end(host->thread, &piece, &why) < 0) {
        fail(host, &why);
        piece = (struct pt_piece){.lost = true};
    }
    bql_lock();
    if (host->piece == PIECE_TRACED) {
        follow(host, &piece, ran_ns, halted);
    } else if (!piece.lost && !follow_learn(host->follow, &piece)) {
        fail(host, &(struct reason){"no memory for the host's trace"});
    }
    bql_unlock();
    host->piece = PIECE_NONE;
}
