/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The virtual machine: memory, vCPUs, the MSR filter, and what its exits ask for.
 *
 * RDMSR and WRMSR of the trace MSRs leave KVM by the filter and are
 * answered by the tracer.
 */
#include "kvm/machine.h"
#include "kvm/boot.h"
#include "kvm/kick.h"
#include "kvm/memory.h"
#include "kvm/notes.h"
#include "kvm/start.h"
#include "kvm/user_step.h"
#include "kvm/walk.h"
#include "common/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PORT_CONSOLE 0xe9
#define PORT_EXIT    0xf4
#define PORT_NOTE    0x5b0

#define RFLAGS_TF (1ull << 8)
#define RFLAGS_IF (1ull << 9)

#define SYNC_ALL (KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS)

int vmm_fail(struct vmm *vmm, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(vmm->result->why, sizeof(vmm->result->why), format, args);
    va_end(args);
    return error;
}

uint64_t vmm_apic_now(const struct vmm *vmm)
{
    struct timespec now;

    if (vmm->stepping)
        return vmm->steps;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)(now.tv_sec - vmm->start.tv_sec) * 1000000000ull + (uint64_t)now.tv_nsec -
           (uint64_t)vmm->start.tv_nsec - vmm->paused_ns;
}

bool vcpu_interrupt_due(struct vcpu *cpu)
{
    return (cpu->apic.nmi_pending && !vcpu_events(cpu)->nmi.masked) ||
           (apic_pending(&cpu->apic) >= 0 && (vcpu_regs(cpu)->rflags & RFLAGS_IF));
}

/* ---- MSRs ---- */

/* One MSR by this request. */
static int one_msr(struct vcpu *cpu, unsigned long request, uint32_t msr, uint64_t *value)
{
    _Alignas(struct kvm_msrs) uint8_t space[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
    struct kvm_msrs *msrs = (struct kvm_msrs *)space;

    memset(space, 0, sizeof(space));
    msrs->nmsrs = 1;
    msrs->entries[0].index = msr;
    msrs->entries[0].data = *value;
    if (ioctl(cpu->fd, request, msrs) != 1)
        return -EIO;
    *value = msrs->entries[0].data;
    return 0;
}

int machine_get_msr(struct vcpu *cpu, uint32_t msr, uint64_t *value)
{
    uint64_t read = 0;
    const int error = one_msr(cpu, KVM_GET_MSRS, msr, &read);

    if (!error)
        *value = read;
    return error;
}

int machine_set_msr(struct vcpu *cpu, uint32_t msr, uint64_t value)
{
    return one_msr(cpu, KVM_SET_MSRS, msr, &value);
}

static int filter_msrs(struct vmm *vmm)
{
    static uint8_t deny[8]; /* all zero: every MSR of the range leaves KVM */
    struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR,
                                 .args[0] = KVM_MSR_EXIT_REASON_FILTER};
    struct kvm_msr_filter filter = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
                                    .ranges = {{.flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
                                                .base = 0x560,
                                                .nmsrs = 0x40,
                                                .bitmap = deny},
                                               {.flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
                                                .base = VPT_MSR_PERF_GLOBAL_STATUS,
                                                .nmsrs = 3,
                                                .bitmap = deny},
                                               {.flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
                                                .base = VPT_RTIT_LIP0,
                                                .nmsrs = 0x20,
                                                .bitmap = deny}}};

    /* The exit has to be enabled before the filter: otherwise it would mean #GP. */
    if (ioctl(vmm->vm_fd, KVM_ENABLE_CAP, &cap) < 0 ||
        ioctl(vmm->vm_fd, KVM_X86_SET_MSR_FILTER, &filter) < 0)
        return vmm_fail(vmm, -errno, "KVM cannot filter MSRs: %s", strerror(errno));
    return 0;
}

/* How long the RDMSR or WRMSR at RIP is: 2 bytes, and what prefixes somebody found useful. */
static unsigned msr_insn_bytes(struct vcpu *cpu)
{
    uint8_t code[MAX_INSN_BYTES];
    struct ptd_insn insn;

    if (!insn_at(cpu, vcpu_regs(cpu)->rip, code, &insn))
        return 2;
    return insn.size_bytes;
}

static void handle_msr(struct vcpu *cpu)
{
    struct kvm_run *run = cpu->run;
    const uint64_t ip = vcpu_regs(cpu)->rip;
    enum vpt_result result;

    if (run->exit_reason == KVM_EXIT_X86_RDMSR) {
        uint64_t value = 0;

        result = tracer_rdmsr(cpu, run->msr.index, &value);
        run->msr.data = value;
    } else {
        result = tracer_wrmsr(cpu, run->msr.index, run->msr.data, ip, ip + msr_insn_bytes(cpu));
    }
    run->msr.error = result == VPT_GP;
    tracer_resolve_output(cpu);
}

/* ---- Ports and memory ---- */

static void port_out(struct vcpu *cpu, uint16_t port, const uint8_t *data, unsigned size)
{
    FILE *console = cpu->vmm->options->json ? stderr : stdout;
    uint32_t value = 0;

    memcpy(&value, data, size);
    switch (port) {
    case PORT_CONSOLE:
        progress_guest(console, (char)value);
        fputc((int)(value & 0xff), console);
        if ((value & 0xff) == '\n')
            fflush(console);
        break;
    case PORT_EXIT:
        cpu->vmm->result->guest_status = value;
        cpu->vmm->ended = true;
        break;
    case PORT_NOTE:
        if (size == 4)
            note_received(cpu, value);
        break;
    default:
        break;
    }
}

static void port_in(uint16_t port, uint8_t *data, unsigned size)
{
    uint32_t value = UINT32_MAX;

    if (port == PORT_CONSOLE)
        value = PORT_CONSOLE;
    if (port == PORT_NOTE && size == 4)
        value = NOTE_MAGIC;
    memcpy(data, &value, size);
}

static void handle_io(struct vcpu *cpu)
{
    struct kvm_run *run = cpu->run;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;

    for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
        if (run->io.direction == KVM_EXIT_IO_OUT)
            port_out(cpu, run->io.port, data, run->io.size);
        else
            port_in(run->io.port, data, run->io.size);
    }
}

/* An IPI reaches the others at once: they are between two instructions. */
static void send_ipi(struct vcpu *cpu)
{
    struct vmm *vmm = cpu->vmm;

    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        if (apic_receive(&vmm->cpus[i].apic, &cpu->apic))
            return;
    }
}

static void handle_mmio(struct vcpu *cpu)
{
    struct kvm_run *run = cpu->run;
    const uint64_t gpa = run->mmio.phys_addr;
    const bool apic = gpa >= APIC_BASE && gpa < APIC_BASE + PAGE_BYTES && run->mmio.len == 4;
    const uint32_t offset = (uint32_t)(gpa - APIC_BASE);
    uint32_t value;

    if (memory_access(cpu->vmm, gpa, run->mmio.data, run->mmio.len, run->mmio.is_write))
        return;
    if (run->mmio.is_write) {
        memcpy(&value, run->mmio.data, 4);
        if (apic)
            apic_write(&cpu->apic, offset, value, vmm_apic_now(cpu->vmm));
        if (apic && apic_sends(offset))
            send_ipi(cpu);
        return;
    }
    memset(run->mmio.data, 0xff, sizeof(run->mmio.data));
    if (apic) {
        value = apic_read(&cpu->apic, offset, vmm_apic_now(cpu->vmm));
        memcpy(run->mmio.data, &value, 4);
    }
}

/* ---- Running ---- */

int machine_enter(struct vcpu *cpu)
{
    kick_next(cpu->run);
    if (ioctl(cpu->fd, KVM_RUN, 0) == 0)
        return 0;
    if (errno == EINTR || errno == EAGAIN) {
        cpu->run->immediate_exit = 0;
        return -EINTR;
    }
    return vmm_fail(cpu->vmm, -errno, "KVM_RUN: %s", strerror(errno));
}

int machine_push(struct vcpu *cpu)
{
    struct kvm_run *run = cpu->run;
    const uint64_t dirty = run->kvm_dirty_regs;

    run->kvm_dirty_regs = 0;
    if (dirty & KVM_SYNC_X86_SREGS && ioctl(cpu->fd, KVM_SET_SREGS, vcpu_sregs(cpu)) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_SET_SREGS: %s", strerror(errno));
    if (dirty & KVM_SYNC_X86_REGS && ioctl(cpu->fd, KVM_SET_REGS, vcpu_regs(cpu)) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_SET_REGS: %s", strerror(errno));
    if (dirty & KVM_SYNC_X86_EVENTS && ioctl(cpu->fd, KVM_SET_VCPU_EVENTS, vcpu_events(cpu)) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_SET_VCPU_EVENTS: %s", strerror(errno));
    return 0;
}

static bool exception_queued(struct vcpu *cpu)
{
    return vcpu_events(cpu)->exception.injected || vcpu_events(cpu)->exception.pending;
}

int machine_debug(struct vcpu *cpu, bool step)
{
    const struct kvm_guest_debug debug = {
        .control = step ? KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP : 0};

    if (cpu->debugging == step)
        return 0;
    if (ioctl(cpu->fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM cannot single-step: %s", strerror(errno));
    cpu->debugging = step;
    return 0;
}

int machine_step(struct vcpu *cpu)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;
    int error = machine_debug(cpu, true);

    user_step_leave(cpu);
    if (error)
        return error;
    /* What loads RFLAGS loses the step: it goes in with the other registers each time. */
    vcpu_regs(cpu)->rflags |= RFLAGS_TF;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS);
    /* A kick may come before the instruction, or when its exception is still to be delivered. */
    do {
        error = machine_enter(cpu);
    } while (error == -EINTR && (vcpu_regs(cpu)->rip == ip || exception_queued(cpu)));
    return error;
}

int machine_complete(struct vcpu *cpu)
{
    int error;

    cpu->run->immediate_exit = 1;
    error = machine_enter(cpu);
    cpu->run->immediate_exit = 0;
    return error == -EINTR ? 0 : error;
}

/* A #GP that KVM queued when it finished an MSR access: the source delivers it itself. */
static void take_back_exception(struct vcpu *cpu)
{
    struct kvm_vcpu_events *events = vcpu_events(cpu);

    events->exception.injected = 0;
    events->exception.pending = 0;
    events->flags = 0;
    vcpu_dirty(cpu, KVM_SYNC_X86_EVENTS);
}

int machine_handle_exit(struct vcpu *cpu, bool *gp)
{
    struct kvm_run *run = cpu->run;
    const bool was_tracing = tracer_trigger_en(&cpu->tracer);
    int error;

    *gp = false;
    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        handle_io(cpu);
        break;
    case KVM_EXIT_MMIO:
        handle_mmio(cpu);
        break;
    case KVM_EXIT_X86_RDMSR:
    case KVM_EXIT_X86_WRMSR:
        handle_msr(cpu);
        *gp = run->msr.error;
        break;
    case KVM_EXIT_HLT:
        cpu->halted = true;
        return 0;
    case KVM_EXIT_IRQ_WINDOW_OPEN:
    case KVM_EXIT_DEBUG:
        return 0;
    case KVM_EXIT_SHUTDOWN:
        return vmm_fail(cpu->vmm, -EFAULT, "the guest triple-faulted (RIP %#llx)",
                        vcpu_regs(cpu)->rip);
    case KVM_EXIT_INTERNAL_ERROR:
        return vmm_fail(cpu->vmm, -EFAULT, "KVM internal error %u at RIP %#llx",
                        run->internal.suberror, vcpu_regs(cpu)->rip);
    case KVM_EXIT_FAIL_ENTRY:
        return vmm_fail(cpu->vmm, -EFAULT, "KVM cannot enter the guest: reason %#llx",
                        run->fail_entry.hardware_entry_failure_reason);
    default:
        return vmm_fail(cpu->vmm, -EFAULT, "unexpected exit %u at RIP %#llx", run->exit_reason,
                        vcpu_regs(cpu)->rip);
    }
    /* Of several vCPUs, the others may do anything before this one runs again. */
    if (!cpu->vmm->stepping && was_tracing == tracer_trigger_en(&cpu->tracer) &&
        cpu->vmm->cpu_count == 1)
        return 0;
    error = machine_complete(cpu);
    if (!error && *gp && cpu->vmm->stepping)
        take_back_exception(cpu);
    return error;
}

/* ---- Creation ---- */

static int create_vcpu(struct vcpu *cpu)
{
    struct vmm *vmm = cpu->vmm;
    int size;

    cpu->fd = ioctl(vmm->vm_fd, KVM_CREATE_VCPU, cpu->index);
    if (cpu->fd < 0)
        return vmm_fail(vmm, -errno, "KVM_CREATE_VCPU: %s", strerror(errno));
    size = ioctl(vmm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(struct kvm_run))
        return vmm_fail(vmm, -EIO, "KVM_GET_VCPU_MMAP_SIZE: %s", strerror(errno));
    cpu->run_bytes = (size_t)size;
    cpu->run = mmap(NULL, cpu->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd, 0);
    if (cpu->run == MAP_FAILED) {
        cpu->run = NULL;
        return vmm_fail(vmm, -errno, "cannot map the vCPU: %s", strerror(errno));
    }
    if ((ioctl(vmm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_SYNC_REGS) & SYNC_ALL) != SYNC_ALL)
        return vmm_fail(vmm, -ENOTSUP, "this KVM lacks KVM_CAP_SYNC_REGS");
    cpu->run->kvm_valid_regs = SYNC_ALL;
    return 0;
}

/* What a vCPU is before KVM knows of it. */
static int prepare_vcpu(struct vmm *vmm, unsigned index, const struct vpt_caps *caps)
{
    struct vcpu *cpu = &vmm->cpus[index];

    cpu->vmm = vmm;
    cpu->record = &vmm->result->cpus[index];
    cpu->index = index;
    cpu->fd = -1;
    cpu->path_cr3 = UINT64_MAX;
    apic_reset(&cpu->apic, (uint8_t)index);
    return tracer_create(cpu, caps);
}

/* Before there are vCPUs, so that the TSC of each begins at the same time. */
static int set_tsc_khz(struct vmm *vmm)
{
    const uint32_t khz = vmm->options->tsc_khz;

    if (khz == 0)
        return 0;
    if (ioctl(vmm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_VM_TSC_CONTROL) <= 0)
        return vmm_fail(vmm, -ENOTSUP, "this KVM cannot scale the TSC of a VM");
    if (ioctl(vmm->vm_fd, KVM_SET_TSC_KHZ, khz) < 0)
        return vmm_fail(vmm, -errno, "KVM cannot scale the TSC to %u kHz: %s", khz,
                        strerror(errno));
    return 0;
}

static int create_vcpus(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error = 0;

    for (unsigned i = 0; i < vmm->cpu_count && !error; i++) {
        error = create_vcpu(&vmm->cpus[i]);
        if (!error)
            error = boot_cpuid(&vmm->cpus[i], caps);
        if (!error && i > 0)
            error = start_wait(&vmm->cpus[i]);
    }
    return error;
}

int machine_create(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error = 0;

    vmm->kvm_fd = vmm->vm_fd = -1;
    vmm->cpu_count = vmm->options->cpus ? vmm->options->cpus : 1;
    vmm->result->cpu_count = vmm->cpu_count;
    clock_gettime(CLOCK_MONOTONIC, &vmm->start);
    for (unsigned i = 0; i < vmm->cpu_count && !error; i++)
        error = prepare_vcpu(vmm, i, caps);
    if (error)
        return error;

    vmm->kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (vmm->kvm_fd < 0)
        return vmm_fail(vmm, -errno, "/dev/kvm: %s", strerror(errno));
    if (ioctl(vmm->kvm_fd, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
        return vmm_fail(vmm, -ENOTSUP, "/dev/kvm has another interface version");
    vmm->vm_fd = ioctl(vmm->kvm_fd, KVM_CREATE_VM, 0);
    if (vmm->vm_fd < 0)
        return vmm_fail(vmm, -errno, "KVM_CREATE_VM: %s", strerror(errno));
    error = set_tsc_khz(vmm);
    if (!error)
        error = memory_create(vmm);
    if (!error)
        error = create_vcpus(vmm, caps);
    if (!error)
        error = filter_msrs(vmm);
    return error;
}

void machine_destroy(struct vmm *vmm)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        if (vmm->cpus[i].run)
            munmap(vmm->cpus[i].run, vmm->cpus[i].run_bytes);
        if (vmm->cpus[i].fd >= 0)
            close(vmm->cpus[i].fd);
    }
    if (vmm->vm_fd >= 0)
        close(vmm->vm_fd);
    if (vmm->kvm_fd >= 0)
        close(vmm->kvm_fd);
    memory_destroy(vmm);
}
