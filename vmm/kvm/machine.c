/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The virtual machine: memory, one vCPU, the MSR filter, and what its exits ask for.
 *
 * The model meets KVM here: RDMSR and WRMSR of the trace MSRs leave KVM by the filter and are
 * answered by libvpt; its packets go to guest memory through the callbacks below.
 */
#include "kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MSR_TSC 0x10u

#define PORT_CONSOLE 0xe9
#define PORT_EXIT    0xf4
#define PORT_NOTE    0x5b0

#define RFLAGS_TF (1ull << 8)

#define SYNC_ALL (KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS)

int vmm_fail(struct vmm *vmm, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(vmm->result->why, sizeof(vmm->result->why), format, args);
    va_end(args);
    return error;
}

void *vmm_ram(const struct vmm *vmm, uint64_t gpa, uint64_t len)
{
    if (gpa > vmm->ram_bytes || len > vmm->ram_bytes - gpa)
        return NULL;
    return vmm->ram + gpa;
}

uint64_t vmm_apic_now(const struct vmm *vmm)
{
    struct timespec now;

    if (vmm->stepping)
        return vmm->steps;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)(now.tv_sec - vmm->start.tv_sec) * 1000000000ull + (uint64_t)now.tv_nsec -
           (uint64_t)vmm->start.tv_nsec;
}

/* ---- The model's callbacks ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct vmm *vmm = owner;

    (void)access;
    span->len_bytes = len_bytes;
    span->host = vmm_ram(vmm, gpa, len_bytes);
    if (span->host)
        span->kind = VPT_SPAN_RAM;
    else if (gpa >= APIC_BASE && gpa < APIC_BASE + PAGE_BYTES)
        span->kind = VPT_SPAN_APIC;
    else
        span->kind = VPT_SPAN_UNBACKED;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct vmm *vmm = owner;

    (void)gpa;
    bytes_add(&vmm->result->trace, bytes, len_bytes);
}

static void pmi(void *owner)
{
    struct vmm *vmm = owner;

    vmm->result->pmis++;
    apic_pmi(&vmm->apic);
}

static void clocks(void *owner, struct vpt_clocks *out)
{
    struct vmm *vmm = owner;
    uint64_t tsc = 0;

    machine_get_msr(vmm, MSR_TSC, &tsc);
    vpt_clocks_from_tsc(&vmm->model.caps, tsc, out);
    out->cycles = tsc;
}

static const struct vpt_ops ops = {
    .translate = translate, .wrote = wrote, .pmi = pmi, .clocks = clocks};

/* ---- MSRs ---- */

/* One MSR by this request. */
static int one_msr(struct vmm *vmm, unsigned long request, uint32_t msr, uint64_t *value)
{
    _Alignas(struct kvm_msrs) uint8_t space[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
    struct kvm_msrs *msrs = (struct kvm_msrs *)space;

    memset(space, 0, sizeof(space));
    msrs->nmsrs = 1;
    msrs->entries[0].index = msr;
    msrs->entries[0].data = *value;
    if (ioctl(vmm->vcpu_fd, request, msrs) != 1)
        return -EIO;
    *value = msrs->entries[0].data;
    return 0;
}

int machine_get_msr(struct vmm *vmm, uint32_t msr, uint64_t *value)
{
    uint64_t read = 0;
    const int error = one_msr(vmm, KVM_GET_MSRS, msr, &read);

    if (!error)
        *value = read;
    return error;
}

int machine_set_msr(struct vmm *vmm, uint32_t msr, uint64_t value)
{
    return one_msr(vmm, KVM_SET_MSRS, msr, &value);
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
static unsigned msr_insn_bytes(struct vmm *vmm)
{
    uint8_t code[15];
    struct ptd_insn insn;
    size_t len = sizeof(code);

    while (len > 2 && !linear_read(vmm, vmm_regs(vmm)->rip, code, len))
        len--;
    if (ptd_insn_decode(PTD_MODE_64, 0, code, len, &insn) != PTD_OK)
        return 2;
    return insn.size_bytes;
}

static void handle_msr(struct vmm *vmm)
{
    struct kvm_run *run = vmm->run;
    const uint64_t ip = vmm_regs(vmm)->rip;
    enum vpt_result result;

    const bool rtit = vmm->model.caps.rtit && vpt_rtit_msr_owned(run->msr.index);

    if (run->exit_reason == KVM_EXIT_X86_RDMSR) {
        uint64_t value = 0;

        result = rtit ? vpt_rtit_rdmsr(&vmm->rtit, run->msr.index, &value)
                      : vpt_rdmsr(&vmm->model, run->msr.index, &value);
        run->msr.data = value;
    } else if (rtit) {
        result = rtit_wrmsr(vmm, run->msr.index, run->msr.data, ip + msr_insn_bytes(vmm));
    } else {
        struct vpt_context ctx;

        step_context(vmm, &ctx);
        vpt_set_context(&vmm->model, &ctx);
        result =
            vpt_wrmsr(&vmm->model, run->msr.index, run->msr.data, ip, ip + msr_insn_bytes(vmm));
    }
    run->msr.error = result == VPT_GP;
}

/* ---- Ports and memory ---- */

static void port_out(struct vmm *vmm, uint16_t port, const uint8_t *data, unsigned size)
{
    FILE *console = vmm->options->json ? stderr : stdout;
    uint32_t value = 0;

    memcpy(&value, data, size);
    switch (port) {
    case PORT_CONSOLE:
        fputc((int)(value & 0xff), console);
        if ((value & 0xff) == '\n')
            fflush(console);
        break;
    case PORT_EXIT:
        vmm->result->guest_status = value;
        vmm->ended = true;
        break;
    case PORT_NOTE:
        if (size == 4)
            note_received(vmm, value);
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

static void handle_io(struct vmm *vmm)
{
    struct kvm_run *run = vmm->run;
    uint8_t *data = (uint8_t *)run + run->io.data_offset;

    for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
        if (run->io.direction == KVM_EXIT_IO_OUT)
            port_out(vmm, run->io.port, data, run->io.size);
        else
            port_in(run->io.port, data, run->io.size);
    }
}

static void handle_mmio(struct vmm *vmm)
{
    struct kvm_run *run = vmm->run;
    const uint64_t gpa = run->mmio.phys_addr;
    const bool apic = gpa >= APIC_BASE && gpa < APIC_BASE + PAGE_BYTES && run->mmio.len == 4;
    const uint32_t offset = (uint32_t)(gpa - APIC_BASE);
    uint32_t value;

    if (run->mmio.is_write) {
        memcpy(&value, run->mmio.data, 4);
        if (apic)
            apic_write(&vmm->apic, offset, value, vmm_apic_now(vmm));
        return;
    }
    memset(run->mmio.data, 0xff, sizeof(run->mmio.data));
    if (apic) {
        value = apic_read(&vmm->apic, offset, vmm_apic_now(vmm));
        memcpy(run->mmio.data, &value, 4);
    }
}

/* ---- Running ---- */

int machine_enter(struct vmm *vmm)
{
    if (ioctl(vmm->vcpu_fd, KVM_RUN, 0) == 0)
        return 0;
    if (errno == EINTR || errno == EAGAIN) {
        vmm->run->immediate_exit = 0;
        return -EINTR;
    }
    return vmm_fail(vmm, -errno, "KVM_RUN: %s", strerror(errno));
}

int machine_push(struct vmm *vmm)
{
    struct kvm_run *run = vmm->run;
    const uint64_t dirty = run->kvm_dirty_regs;

    run->kvm_dirty_regs = 0;
    if (dirty & KVM_SYNC_X86_SREGS && ioctl(vmm->vcpu_fd, KVM_SET_SREGS, vmm_sregs(vmm)) < 0)
        return vmm_fail(vmm, -errno, "KVM_SET_SREGS: %s", strerror(errno));
    if (dirty & KVM_SYNC_X86_REGS && ioctl(vmm->vcpu_fd, KVM_SET_REGS, vmm_regs(vmm)) < 0)
        return vmm_fail(vmm, -errno, "KVM_SET_REGS: %s", strerror(errno));
    if (dirty & KVM_SYNC_X86_EVENTS &&
        ioctl(vmm->vcpu_fd, KVM_SET_VCPU_EVENTS, vmm_events(vmm)) < 0)
        return vmm_fail(vmm, -errno, "KVM_SET_VCPU_EVENTS: %s", strerror(errno));
    return 0;
}

static bool exception_queued(struct vmm *vmm)
{
    return vmm_events(vmm)->exception.injected || vmm_events(vmm)->exception.pending;
}

int machine_debug(struct vmm *vmm, bool step)
{
    const struct kvm_guest_debug debug = {
        .control = step ? KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP : 0};

    if (vmm->debugging == step)
        return 0;
    if (ioctl(vmm->vcpu_fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return vmm_fail(vmm, -errno, "KVM cannot single-step: %s", strerror(errno));
    vmm->debugging = step;
    return 0;
}

int machine_step(struct vmm *vmm)
{
    const uint64_t ip = vmm_regs(vmm)->rip;
    int error = machine_debug(vmm, true);

    user_step_leave(vmm);
    if (error)
        return error;
    /* What loads RFLAGS loses the step: it goes in with the other registers each time. */
    vmm_regs(vmm)->rflags |= RFLAGS_TF;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS);
    /* A kick may come before the instruction, or when its exception is still to be delivered. */
    do {
        error = machine_enter(vmm);
    } while (error == -EINTR && (vmm_regs(vmm)->rip == ip || exception_queued(vmm)));
    return error;
}

int machine_complete(struct vmm *vmm)
{
    int error;

    vmm->run->immediate_exit = 1;
    error = machine_enter(vmm);
    vmm->run->immediate_exit = 0;
    return error == -EINTR ? 0 : error;
}

/* A #GP that KVM queued when it finished an MSR access: the source delivers it itself. */
static void take_back_exception(struct vmm *vmm)
{
    struct kvm_vcpu_events *events = vmm_events(vmm);

    events->exception.injected = 0;
    events->exception.pending = 0;
    events->flags = 0;
    vmm_dirty(vmm, KVM_SYNC_X86_EVENTS);
}

int machine_handle_exit(struct vmm *vmm, bool *gp)
{
    struct kvm_run *run = vmm->run;
    const bool was_tracing = vmm_trigger_en(vmm);
    int error;

    *gp = false;
    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        handle_io(vmm);
        break;
    case KVM_EXIT_MMIO:
        handle_mmio(vmm);
        break;
    case KVM_EXIT_X86_RDMSR:
    case KVM_EXIT_X86_WRMSR:
        handle_msr(vmm);
        *gp = run->msr.error;
        break;
    case KVM_EXIT_HLT:
        vmm->halted = true;
        return 0;
    case KVM_EXIT_IRQ_WINDOW_OPEN:
    case KVM_EXIT_DEBUG:
        return 0;
    case KVM_EXIT_SHUTDOWN:
        return vmm_fail(vmm, -EFAULT, "the guest triple-faulted (RIP %#llx)", vmm_regs(vmm)->rip);
    case KVM_EXIT_INTERNAL_ERROR:
        return vmm_fail(vmm, -EFAULT, "KVM internal error %u at RIP %#llx", run->internal.suberror,
                        vmm_regs(vmm)->rip);
    case KVM_EXIT_FAIL_ENTRY:
        return vmm_fail(vmm, -EFAULT, "KVM cannot enter the guest: reason %#llx",
                        run->fail_entry.hardware_entry_failure_reason);
    default:
        return vmm_fail(vmm, -EFAULT, "unexpected exit %u at RIP %#llx", run->exit_reason,
                        vmm_regs(vmm)->rip);
    }
    if (!vmm->stepping && was_tracing == vmm_trigger_en(vmm))
        return 0;
    error = machine_complete(vmm);
    if (!error && *gp && vmm->stepping)
        take_back_exception(vmm);
    return error;
}

/* ---- Creation ---- */

static int create_memory(struct vmm *vmm)
{
    struct kvm_userspace_memory_region region = {.memory_size = vmm->ram_bytes};

    vmm->ram = mmap(NULL, vmm->ram_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (vmm->ram == MAP_FAILED) {
        vmm->ram = NULL;
        return vmm_fail(vmm, -ENOMEM, "no memory for the guest");
    }
    region.userspace_addr = (uintptr_t)vmm->ram;
    if (ioctl(vmm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        return vmm_fail(vmm, -errno, "KVM refuses the guest memory: %s", strerror(errno));
    return 0;
}

static int create_vcpu(struct vmm *vmm)
{
    int size;

    vmm->vcpu_fd = ioctl(vmm->vm_fd, KVM_CREATE_VCPU, 0);
    if (vmm->vcpu_fd < 0)
        return vmm_fail(vmm, -errno, "KVM_CREATE_VCPU: %s", strerror(errno));
    size = ioctl(vmm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
    if (size < (int)sizeof(struct kvm_run))
        return vmm_fail(vmm, -EIO, "KVM_GET_VCPU_MMAP_SIZE: %s", strerror(errno));
    vmm->run_bytes = (size_t)size;
    vmm->run = mmap(NULL, vmm->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vmm->vcpu_fd, 0);
    if (vmm->run == MAP_FAILED) {
        vmm->run = NULL;
        return vmm_fail(vmm, -errno, "cannot map the vCPU: %s", strerror(errno));
    }
    if ((ioctl(vmm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_SYNC_REGS) & SYNC_ALL) != SYNC_ALL)
        return vmm_fail(vmm, -ENOTSUP, "this KVM lacks KVM_CAP_SYNC_REGS");
    vmm->run->kvm_valid_regs = SYNC_ALL;
    return 0;
}

int machine_create(struct vmm *vmm, const struct vpt_caps *caps)
{
    int error;

    vmm->kvm_fd = vmm->vm_fd = vmm->vcpu_fd = -1;
    vmm->path_cr3 = UINT64_MAX;
    clock_gettime(CLOCK_MONOTONIC, &vmm->start);
    apic_reset(&vmm->apic);
    if (!vpt_init(&vmm->model, caps, &ops, vmm))
        return vmm_fail(vmm, -EINVAL, "the profile contradicts itself: %s", vpt_caps_check(caps));
    error = caps->rtit ? rtit_create(vmm, vmm->options->rtit_errata, &ops) : 0;
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
    error = create_memory(vmm);
    if (!error)
        error = create_vcpu(vmm);
    if (!error)
        error = boot_cpuid(vmm, caps);
    if (!error)
        error = filter_msrs(vmm);
    return error;
}

void machine_destroy(struct vmm *vmm)
{
    if (vmm->run)
        munmap(vmm->run, vmm->run_bytes);
    if (vmm->vcpu_fd >= 0)
        close(vmm->vcpu_fd);
    if (vmm->vm_fd >= 0)
        close(vmm->vm_fd);
    if (vmm->kvm_fd >= 0)
        close(vmm->kvm_fd);
    if (vmm->ram)
        munmap(vmm->ram, vmm->ram_bytes);
}
