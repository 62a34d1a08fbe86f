/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See guest.h.
 */
#include "guest.h"
#include "layout.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TIME_LIMIT_S 20

uint64_t guest_address(const uint8_t *piece)
{
    return CODE + ((uintptr_t)piece - (uintptr_t)guest_code);
}

/* ---- The machine ---- */

static void put_gate(struct guest *guest, unsigned vector, uint64_t address)
{
    uint64_t *gate = (uint64_t *)(guest->vm.ram + IDT) + 2 * (size_t)vector;

    gate[0] = (address & 0xffff) | 0x10u << 16 | 0x8eull << 40 | (address >> 16) << 48;
    gate[1] = 0;
}

/* The local APIC is enabled, and its performance-monitoring entry has a vector. */
static void enable_pmi(struct guest *guest)
{
    const uint32_t svr = 0x1ff, lvtpc = PMI_VECTOR;
    struct kvm_lapic_state apic;

    if (ioctl(guest->vm.cpu_fd[0], KVM_GET_LAPIC, &apic) < 0)
        vm_die("KVM_GET_LAPIC: %s", strerror(errno));
    memcpy(apic.regs + APIC_SVR, &svr, sizeof(svr));
    memcpy(apic.regs + APIC_LVTPC, &lvtpc, sizeof(lvtpc));
    if (ioctl(guest->vm.cpu_fd[0], KVM_SET_LAPIC, &apic) < 0)
        vm_die("KVM_SET_LAPIC: %s", strerror(errno));
}

void guest_open(struct guest *guest, bool apic, vm_cpuid *cpuid)
{
    struct kvm_sregs sregs;

    memset(guest, 0, sizeof(*guest));
    vm_open(&guest->vm, GUEST_BYTES, 1, apic, cpuid);
    memcpy(guest->vm.ram + CODE, guest_code, (uintptr_t)guest_code_end - (uintptr_t)guest_code);
    for (unsigned vector = 0; vector < 32; vector++)
        put_gate(guest, vector, guest_address(guest_vectors) + 16 * (uint64_t)vector);
    put_gate(guest, PMI_VECTOR, guest_address(guest_pmi));
    vm_start(&guest->vm, CODE);
    if (ioctl(guest->vm.cpu_fd[0], KVM_GET_SREGS, &sregs) < 0)
        vm_die("KVM_GET_SREGS: %s", strerror(errno));
    sregs.idt.base = IDT;
    sregs.idt.limit = 256 * 16 - 1;
    if (ioctl(guest->vm.cpu_fd[0], KVM_SET_SREGS, &sregs) < 0)
        vm_die("KVM_SET_SREGS: %s", strerror(errno));
    if (apic)
        enable_pmi(guest);
}

void guest_close(struct guest *guest)
{
    vm_close(&guest->vm);
}

/* ---- Running a piece ---- */

static void on_alarm(int number)
{
    (void)number;
}

static int end_of_io(const struct kvm_run *run)
{
    if (run->io.port == PORT_DONE)
        return DONE;
    if (run->io.port == PORT_FAULT)
        return *((const uint8_t *)run + run->io.data_offset);
    return FAILED;
}

static int run_piece(struct guest *guest, const struct kvm_regs *regs)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    struct kvm_run *run = guest->vm.run[0];
    bool ran;

    if (ioctl(guest->vm.cpu_fd[0], KVM_SET_REGS, regs) < 0)
        vm_die("KVM_SET_REGS: %s", strerror(errno));
    sigaction(SIGALRM, &action, NULL);
    alarm(TIME_LIMIT_S);
    ran = vm_run(&guest->vm, 0);
    alarm(0);
    if (!ran)
        return HUNG;
    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        return end_of_io(run);
    case KVM_EXIT_FAIL_ENTRY:
        guest->entry_reason = run->fail_entry.hardware_entry_failure_reason;
        return NO_ENTRY;
    case KVM_EXIT_INTERNAL_ERROR:
        return NO_EMULATION;
    default:
        return OTHER;
    }
}

int guest_call(struct guest *guest, const uint8_t *piece, uint64_t rbx, uint64_t rdi)
{
    const struct kvm_regs regs = {
        .rip = guest_address(piece), .rsp = STACK_TOP, .rflags = 2, .rbx = rbx, .rdi = rdi};

    return run_piece(guest, &regs);
}

int guest_write(struct guest *guest, uint32_t msr, uint64_t value)
{
    const struct kvm_regs regs = {.rip = guest_address(guest_wrmsr),
                                  .rsp = STACK_TOP,
                                  .rflags = 2,
                                  .rcx = msr,
                                  .rax = (uint32_t)value,
                                  .rdx = value >> 32};

    return run_piece(guest, &regs);
}

int guest_read(struct guest *guest, uint32_t msr, uint64_t *value)
{
    struct kvm_regs regs = {
        .rip = guest_address(guest_rdmsr), .rsp = STACK_TOP, .rflags = 2, .rcx = msr};
    const int end = run_piece(guest, &regs);

    if (ioctl(guest->vm.cpu_fd[0], KVM_GET_REGS, &regs) < 0)
        vm_die("KVM_GET_REGS: %s", strerror(errno));
    *value = (uint32_t)regs.rax | regs.rdx << 32;
    return end;
}

int guest_branch(struct guest *guest, uint64_t count)
{
    return guest_call(guest, guest_branches, count, 0);
}

bool guest_trace(struct guest *guest, uint64_t ctl, uint64_t base, uint64_t mask)
{
    return guest_write(guest, MSR_STATUS, 0) == DONE &&
           guest_write(guest, MSR_OUTPUT_BASE, base) == DONE &&
           guest_write(guest, MSR_OUTPUT_MASK, mask) == DONE &&
           guest_write(guest, MSR_CTL, ctl) == DONE;
}

void guest_trace_end(struct guest *guest)
{
    guest_write(guest, MSR_CTL, vm_get_msr(&guest->vm, MSR_CTL) & ~CTL_TRACEEN);
}

uint32_t guest_pmis(const struct guest *guest)
{
    uint32_t count;

    memcpy(&count, guest->vm.ram + PMI_COUNT, sizeof(count));
    return count;
}

const char *guest_end_name(int end)
{
    switch (end) {
    case DONE:
        return "no exception";
    case GP:
        return "#GP";
    case FAILED:
        return "the instruction fails";
    case NO_ENTRY:
        return "VM entry fails";
    case NO_EMULATION:
        return "KVM ends the VM: it cannot emulate an instruction";
    case HUNG:
        return "the guest does not go on";
    case OTHER:
        return "KVM gives up the VM";
    default:
        return "another exception";
    }
}
