/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the KVM under us can do, found out with a tiny guest of our own: MSR exits, injection of #GP
 * and NMI, single-step in supervisor and user mode, exceptions, and how fast stepping is.
 */
#include "kvm/backend.h"
#include "kvm/boot.h"
#include "kvm/kick.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/user_step.h"
#include "kvm/watch.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define PROBE_RAM          (2u << 20)
#define TSS                0xa000u
#define IDT                0xb000u
#define HANDLERS           0xc000u /* 16 bytes each */
#define CODE               0x10000u
#define USER_CODE          0x11000u
#define STACK              0x20000u
#define GDT                0x7000u
#define USER_DATA_SELECTOR 0x20
#define USER_CODE_SELECTOR 0x28
#define TSS_SELECTOR       0x30
#define PAGE_TABLES        0x1000u
#define MAX_ENTRIES        1000
#define SPEED_STEPS        2000
#define VECTOR_DE          0
#define VECTOR_UD          6

/* mov ecx, 570h; rdmsr; mov eax, 40000h; xor edx, edx; wrmsr; hlt: sets a reserved bit */
static const uint8_t code_msr[] = {0xb9, 0x70, 0x05, 0x00, 0x00, 0x0f, 0x32, 0xb8, 0x00,
                                   0x00, 0x04, 0x00, 0x31, 0xd2, 0x0f, 0x30, 0xf4};
static const uint8_t code_ud2[] = {0x0f, 0x0b};
static const uint8_t code_loop[] = {0x90, 0x90, 0x90, 0xeb, 0xfb};

/* Handlers say which vector they are for: mov eax, vector; out 0f4h, eax; hlt */
static void put_handler(struct vmm *vmm, unsigned vector)
{
    const uint8_t code[] = {0xb8, (uint8_t)vector, 0, 0, 0, 0xe7, 0xf4, 0xf4};
    const uint64_t address = HANDLERS + 16 * vector;
    uint64_t *gate = (uint64_t *)(vmm->ram + IDT + 16 * vector);

    memcpy(vmm->ram + address, code, sizeof(code));
    gate[0] = (address & 0xffff) | 0x10u << 16 | 0x8eull << 40 | (address >> 16) << 48;
    gate[1] = 0;
}

static int prepare(struct vmm *vmm, const uint8_t *code, size_t len, uint32_t at, bool user)
{
    uint64_t *gdt = (uint64_t *)(vmm->ram + GDT);
    uint64_t *tables = (uint64_t *)(vmm->ram + PAGE_TABLES);
    struct kvm_regs regs = {.rip = at, .rsp = STACK, .rflags = 2};
    struct vcpu *cpu = &vmm->cpus[0];
    struct kvm_sregs sregs;
    int error;

    vmm->entry = at;
    vmm->ended = false;
    cpu->halted = false;
    vmm->result->guest_status = 0;
    error = boot_enter(vmm);
    if (error)
        return error;
    memcpy(vmm->ram + at, code, len);
    for (unsigned vector = 0; vector < 32; vector++)
        put_handler(vmm, vector);
    for (unsigned i = 0; i < 6 * 512; i++)
        tables[i] |= tables[i] ? 4 : 0; /* user mode sees it too */
    gdt[USER_DATA_SELECTOR / 8] = 0x00cff3000000ffffull;
    gdt[USER_CODE_SELECTOR / 8] = 0x00affb000000ffffull;
    gdt[TSS_SELECTOR / 8] = 0x67 | (uint64_t)TSS << 16 | 0x8bull << 40;
    memcpy(vmm->ram + TSS + 4, &(uint64_t){STACK - 0x1000}, 8);

    if (ioctl(cpu->fd, KVM_GET_SREGS, &sregs) < 0)
        return -errno;
    sregs.gdt.limit = TSS_SELECTOR + 15;
    sregs.idt.base = IDT;
    sregs.idt.limit = 32 * 16 - 1;
    sregs.tr = (struct kvm_segment){
        .base = TSS, .limit = 0x67, .selector = TSS_SELECTOR, .type = 11, .present = 1};
    if (user) {
        sregs.cs.selector = USER_CODE_SELECTOR | 3;
        sregs.cs.dpl = 3;
        sregs.ss.selector = USER_DATA_SELECTOR | 3;
        sregs.ss.dpl = 3;
    }
    if (ioctl(cpu->fd, KVM_SET_SREGS, &sregs) < 0 || ioctl(cpu->fd, KVM_SET_REGS, &regs) < 0)
        return -errno;
    return 0;
}

/* Runs until the guest says something by the exit port; bounded by kicks. */
static bool says(struct vcpu *cpu, uint32_t status)
{
    bool gp;

    for (unsigned i = 0; i < MAX_ENTRIES && !cpu->vmm->ended && !cpu->halted; i++) {
        const int error = machine_enter(cpu);

        if (error == -EINTR)
            continue;
        if (error || machine_handle_exit(cpu, &gp) != 0)
            return false;
    }
    return cpu->vmm->ended && cpu->vmm->result->guest_status == status;
}

static bool probe_msr(struct vcpu *cpu, struct probe *probe)
{
    if (prepare(cpu->vmm, code_msr, sizeof(code_msr), CODE, false) != 0)
        return false;
    for (unsigned i = 0; i < MAX_ENTRIES; i++) {
        bool gp;

        if (machine_enter(cpu) != 0)
            continue;
        if (cpu->run->exit_reason == KVM_EXIT_X86_WRMSR) {
            probe->msr_exits = machine_handle_exit(cpu, &gp) == 0 && gp;
            return probe->msr_exits && says(cpu, 13);
        }
        if (machine_handle_exit(cpu, &gp) != 0)
            return false;
    }
    return false;
}

static bool probe_nmi(struct vcpu *cpu)
{
    if (prepare(cpu->vmm, code_loop, sizeof(code_loop), CODE, false) != 0 ||
        ioctl(cpu->fd, KVM_NMI, 0) < 0)
        return false;
    return says(cpu, 2);
}

/* What KVM was told of registers is known to us only after an exit. */
static void fetch_registers(struct vcpu *cpu)
{
    cpu->run->immediate_exit = 1;
    machine_enter(cpu);
    cpu->run->immediate_exit = 0;
}

/* One step from ip. */
static bool step_to(struct vcpu *cpu, uint64_t ip, uint64_t expected)
{
    struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP};

    if (ioctl(cpu->fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return false;
    for (unsigned i = 0; i < MAX_ENTRIES; i++) {
        const int error = machine_enter(cpu);

        if (error && error != -EINTR)
            return false;
        if (!error || vcpu_regs(cpu)->rip != ip)
            break;
    }
    return cpu->run->exit_reason == KVM_EXIT_DEBUG && vcpu_regs(cpu)->rip == expected;
}

static bool probe_step(struct vcpu *cpu, bool user, unsigned steps)
{
    const uint32_t at = user ? USER_CODE : CODE;
    unsigned offset = 0;

    if (prepare(cpu->vmm, code_loop, sizeof(code_loop), at, user) != 0)
        return false;
    for (unsigned i = 0; i < steps; i++) {
        const unsigned next = offset == 3 ? 0 : offset + 1; /* the JMP leads back */

        if (!step_to(cpu, at + offset, at + next))
            return false;
        offset = next;
    }
    return true;
}

/* The same by way of the probe guest's #DB handler. */
static bool probe_step_by_handler(struct vcpu *cpu, unsigned steps)
{
    unsigned offset = 0;
    int vector;

    if (prepare(cpu->vmm, code_loop, sizeof(code_loop), USER_CODE, true) != 0)
        return false;
    fetch_registers(cpu);
    for (unsigned i = 0; i < steps; i++) {
        offset = offset == 3 ? 0 : offset + 1;
        if (step_user_by_handler(cpu, VECTOR_DE, &vector) != 0 ||
            vcpu_regs(cpu)->rip != USER_CODE + offset)
            return false;
    }
    return true;
}

/* A step that faults ends at the handler's first instruction. */
static bool probe_exceptions(struct vcpu *cpu)
{
    struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP};
    struct watch watch;
    int error = -EINTR;

    if (prepare(cpu->vmm, code_ud2, sizeof(code_ud2), CODE, false) != 0)
        return false;
    fetch_registers(cpu);
    if (ioctl(cpu->fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return false;
    watch_begin(cpu, false, VECTOR_DE, &watch);
    for (unsigned i = 0; i < MAX_ENTRIES && error == -EINTR; i++)
        error = machine_enter(cpu);
    return watch_end(cpu, &watch) == VECTOR_UD && !error;
}

static unsigned probe_speed(struct vcpu *cpu)
{
    struct timespec start, end;
    double elapsed;

    clock_gettime(CLOCK_MONOTONIC, &start);
    if (!probe_step(cpu, false, SPEED_STEPS))
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    elapsed = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    return (unsigned)(SPEED_STEPS / elapsed);
}

static void stop_debugging(struct vcpu *cpu)
{
    struct kvm_guest_debug debug = {0};

    ioctl(cpu->fd, KVM_SET_GUEST_DEBUG, &debug);
}

/* What one probe could not find out is not known: it must not pass for what KVM cannot do. */
static void cannot_probe(struct probe *probe, const char *why)
{
    probe->kvm = false;
    snprintf(probe->why, sizeof(probe->why), "%s", why);
}

/* A probe that ended in a bad state of the vCPU must not spoil the next one: a machine for each. */
static void with_machine(struct probe *probe, void (*what)(struct vcpu *, struct probe *))
{
    const bool failed = probe->why[0];
    struct vmm *vmm = calloc(1, sizeof(*vmm));
    struct run_result *result = calloc(1, sizeof(*result));
    const struct run_options options = {.image = "", .mem_bytes = PROBE_RAM};
    struct vpt_caps caps;

    if (failed || !vmm || !result || !vpt_profile("icelake-server", &caps)) {
        if (!failed)
            cannot_probe(probe, "no memory to find out what it can do");
        free(vmm);
        free(result);
        return;
    }
    vmm->options = &options;
    vmm->result = result;
    vmm->ram_bytes = PROBE_RAM;
    if (machine_create(vmm, &caps) == 0) {
        probe->kvm = true;
        if (kicks_start(vmm) == 0) {
            what(&vmm->cpus[0], probe);
            stop_debugging(&vmm->cpus[0]);
            kicks_stop(vmm);
        }
    } else {
        cannot_probe(probe, result->why);
    }
    machine_destroy(vmm);
    free(result);
    free(vmm);
}

static void what_msr(struct vcpu *cpu, struct probe *probe)
{
    probe->gp_injection = probe_msr(cpu, probe);
}
static void what_nmi(struct vcpu *cpu, struct probe *probe)
{
    probe->nmi = probe_nmi(cpu);
}
static void what_supervisor(struct vcpu *cpu, struct probe *probe)
{
    probe->step_supervisor = probe_step(cpu, false, 8);
    if (probe->step_supervisor)
        probe->steps_per_s = probe_speed(cpu);
}
static void what_user(struct vcpu *cpu, struct probe *probe)
{
    if (probe_step(cpu, true, 8))
        probe->step_user = STEP_USER_NATIVE;
}
static void what_exceptions(struct vcpu *cpu, struct probe *probe)
{
    probe->exceptions = probe_exceptions(cpu);
}
static void what_user_by_handler(struct vcpu *cpu, struct probe *probe)
{
    if (probe_step_by_handler(cpu, 8))
        probe->step_user = STEP_USER_BY_HANDLER;
}

void kvm_probe(struct probe *probe)
{
    memset(probe, 0, sizeof(*probe));
    with_machine(probe, what_msr);
    if (!probe->kvm)
        return;
    with_machine(probe, what_nmi);
    with_machine(probe, what_supervisor);
    with_machine(probe, what_user);
    with_machine(probe, what_exceptions);
    if (probe->step_user == STEP_USER_NOT)
        with_machine(probe, what_user_by_handler);
}
