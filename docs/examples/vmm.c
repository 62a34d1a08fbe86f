/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A virtual machine monitor with Intel Processor Trace, as short as it can be. It runs guest.S on
 * /dev/kvm, one instruction at a time, tells libvpt which branches the guest took, and writes the
 * trace that libvpt makes of them to a file:
 *
 *   vmm GUEST.bin TRACE.pt
 *
 * A real source of events knows every instruction that can make a packet. This one knows the three
 * that its guest has. The monitor traces the guest, which knows nothing of it; to let a guest trace
 * itself, hand its RDMSR and WRMSR to vpt_rdmsr() and vpt_wrmsr(), and its CPUID to vpt_cpuid().
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <vpt.h>

#define MEM_BYTES   0x200000u
#define CODE        0x1000u   /* the guest is linked for this address */
#define TRACE       0x100000u /* packets go to this half of the guest's memory */
#define TRACE_BYTES 0x100000u

static uint8_t *mem;
static struct vpt_caps caps; /* what the processor can do */

static void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

/* Where is guest memory? */
static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    (void)owner;
    (void)access;
    span->len_bytes = len_bytes; /* within a page, as vpt.h promises */
    span->kind = gpa < MEM_BYTES ? VPT_SPAN_RAM : VPT_SPAN_UNBACKED;
    span->host = gpa < MEM_BYTES ? mem + gpa : NULL;
}

/* And what time is it? libvpt asks at most once for each event. */
static void clocks(void *owner, struct vpt_clocks *now)
{
    (void)owner;
    vpt_clocks_from_tsc(&caps, __builtin_ia32_rdtsc(), now);
}

/* A virtual machine with one processor in flat 32-bit mode, to be stepped from CODE on. */
static int make_guest(struct kvm_run **run)
{
    const int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = ioctl(kvm, KVM_CREATE_VM, 0);
    const struct kvm_userspace_memory_region region = {.memory_size = MEM_BYTES,
                                                       .userspace_addr = (uintptr_t)mem};
    const struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP};
    const struct kvm_segment flat = {
        .limit = UINT32_MAX, .selector = 8, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1};
    const struct kvm_regs regs = {.rip = CODE, .rflags = 2};
    struct kvm_sregs sregs;
    int cpu;

    if (kvm < 0 || vm < 0 || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
        die("/dev/kvm");
    cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    if (cpu < 0 || ioctl(cpu, KVM_GET_SREGS, &sregs) < 0)
        die("KVM_CREATE_VCPU");
    sregs.cs = sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = flat;
    sregs.cs.type = 11;
    sregs.cr0 |= 1;
    *run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
                MAP_SHARED, cpu, 0);
    if (*run == MAP_FAILED || ioctl(cpu, KVM_SET_SREGS, &sregs) < 0 ||
        ioctl(cpu, KVM_SET_REGS, &regs) < 0 || ioctl(cpu, KVM_SET_GUEST_DEBUG, &debug) < 0)
        die("the virtual processor");
    return cpu;
}

/* Tracing of all that runs, to TRACE: what a WRMSR of the guest would do. False: #GP. */
static bool start_trace(struct vpt_cpu *model)
{
    const uint64_t ctl = VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_TSCEN | VPT_CTL_BRANCHEN;
    const struct vpt_context state = {.exec_mode = VPT_EXEC_32};

    vpt_set_context(model, &state);
    return vpt_wrmsr(model, VPT_MSR_OUTPUT_BASE, TRACE, 0, 0) == VPT_OK &&
           vpt_wrmsr(model, VPT_MSR_OUTPUT_MASK_PTRS, TRACE_BYTES - 1, 0, 0) == VPT_OK &&
           vpt_wrmsr(model, VPT_MSR_CTL, ctl, CODE, CODE) == VPT_OK;
}

/* The instruction at ip ran, and next is the one behind it in time. */
static void tell(struct vpt_cpu *model, uint64_t ip, uint64_t next)
{
    switch (mem[ip]) {
    case 0x75: /* JNZ rel8 */
        vpt_cond_branch(model, next, next != ip + 2);
        break;
    case 0xe8: /* CALL rel32 */
        vpt_call_direct(model, next, ip + 5);
        break;
    case 0xc3: /* RET */
        vpt_ret(model, next);
        break;
    default: /* goes on behind itself, and makes no packet */
        break;
    }
}

int main(int argc, char **argv)
{
    static const struct vpt_ops ops = {.translate = translate, .clocks = clocks};
    struct kvm_run *run;
    struct vpt_cpu model;
    uint64_t ip = CODE, insns = 0;
    FILE *file;
    int cpu;

    if (argc != 3)
        return fprintf(stderr, "usage: vmm GUEST.bin TRACE.pt\n"), EXIT_FAILURE;
    mem = mmap(NULL, MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    file = fopen(argv[1], "rb");
    if (mem == MAP_FAILED || !file || fread(mem + CODE, 1, TRACE - CODE, file) == 0)
        die(argv[1]);
    (void)fclose(file);
    cpu = make_guest(&run);
    if (!vpt_profile("icelake-server", &caps) || !vpt_init(&model, &caps, &ops, NULL) ||
        !start_trace(&model))
        die("libvpt");

    while (ioctl(cpu, KVM_RUN, 0) == 0 && run->exit_reason == KVM_EXIT_DEBUG) {
        tell(&model, ip, run->debug.arch.pc);
        ip = run->debug.arch.pc;
        insns++;
    }
    if (run->exit_reason != KVM_EXIT_IO)
        die("the guest did not end as it should");
    (void)vpt_wrmsr(&model, VPT_MSR_CTL, 0, ip, ip); /* ends the trace, and writes all of it out */

    file = fopen(argv[2], "wb");
    if (!file || fwrite(mem + TRACE, 1, model.output_bytes, file) != model.output_bytes ||
        fclose(file) != 0)
        die(argv[2]);
    printf("%llu instructions, %llu bytes of trace\n", (unsigned long long)insns,
           (unsigned long long)model.output_bytes);
    return EXIT_SUCCESS;
}
