/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an application processor starts: it waits for a start-up IPI from power-up on, or after INIT,
 * and then begins in real mode at the page that the IPI names (SDM vol. 3, 9.1.1 and 9.4).
 */
#include "kvm/start.h"
#include "kvm/apic.h"
#include "kvm/machine.h"
#include "kvm/tracer.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define APIC_ID          0x20
#define APIC_BASE_ENABLE (1ull << 11)
#define CR0_AFTER_INIT   0x60000010ull
#define DR6_AFTER_INIT   0xffff0ff0ull
#define DR7_AFTER_INIT   0x400ull
#define RFLAGS_ONE       (1ull << 1)
#define RESET_RIP        0xfff0u
#define RESET_SELECTOR   0xf000u
#define RESET_BASE       0xffff0000u
#define FAMILY_6         0x600u /* RDX: the processor's signature */

#define TYPE_CODE 11 /* accessed, readable */
#define TYPE_DATA 3
#define TYPE_LDT  2
#define TYPE_TSS  3

static struct kvm_segment real_mode_segment(uint8_t type, uint8_t s)
{
    return (struct kvm_segment){.limit = 0xffff, .type = type, .present = 1, .s = s};
}

/* The registers that INIT defines; the others keep their values. */
static int set_init_state(struct vcpu *cpu)
{
    struct kvm_sregs *sregs = vcpu_sregs(cpu);
    struct kvm_vcpu_events *events = vcpu_events(cpu);
    struct kvm_debugregs debug;

    *vcpu_regs(cpu) = (struct kvm_regs){.rip = RESET_RIP, .rflags = RFLAGS_ONE, .rdx = FAMILY_6};
    sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = real_mode_segment(TYPE_DATA, 1);
    sregs->cs = real_mode_segment(TYPE_CODE, 1);
    sregs->cs.base = RESET_BASE;
    sregs->cs.selector = RESET_SELECTOR;
    sregs->ldt = real_mode_segment(TYPE_LDT, 0);
    sregs->tr = real_mode_segment(TYPE_TSS, 0);
    sregs->gdt = sregs->idt = (struct kvm_dtable){.limit = 0xffff};
    sregs->cr0 = CR0_AFTER_INIT;
    sregs->cr2 = sregs->cr3 = sregs->cr4 = sregs->cr8 = sregs->efer = 0;
    sregs->apic_base = APIC_BASE | APIC_BASE_ENABLE;
    memset(sregs->interrupt_bitmap, 0, sizeof(sregs->interrupt_bitmap));
    *events = (struct kvm_vcpu_events){.flags = KVM_VCPUEVENT_VALID_NMI_PENDING |
                                                KVM_VCPUEVENT_VALID_SHADOW};
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS);
    if (ioctl(cpu->fd, KVM_GET_DEBUGREGS, &debug) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_GET_DEBUGREGS: %s", strerror(errno));
    memset(debug.db, 0, sizeof(debug.db));
    debug.dr6 = DR6_AFTER_INIT;
    debug.dr7 = DR7_AFTER_INIT;
    if (ioctl(cpu->fd, KVM_SET_DEBUGREGS, &debug) < 0)
        return vmm_fail(cpu->vmm, -errno, "KVM_SET_DEBUGREGS: %s", strerror(errno));
    return machine_push(cpu);
}

static int take_init(struct vcpu *cpu)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;
    int error;

    cpu->in_handler = false;
    cpu->halted = false;
    cpu->wait_for_sipi = true;
    apic_reset(&cpu->apic, (uint8_t)(apic_read(&cpu->apic, APIC_ID, 0) >> 24));
    error = set_init_state(cpu);
    if (error)
        return error;
    tracer_init(cpu, ip);
    return 0;
}

static void take_sipi(struct vcpu *cpu, uint8_t vector)
{
    struct kvm_segment *cs = &vcpu_sregs(cpu)->cs;

    cs->selector = (uint16_t)(vector << 8);
    cs->base = (uint64_t)vector << 12;
    vcpu_regs(cpu)->rip = 0;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
    cpu->wait_for_sipi = false;
    tracer_sipi(cpu, vector);
}

int start_wait(struct vcpu *cpu)
{
    const int error = machine_complete(cpu); /* runs nothing: so that the registers are known */

    return error ? error : take_init(cpu);
}

int start_signals(struct vcpu *cpu)
{
    const bool sipi = cpu->apic.sipi_pending;
    const uint8_t vector = cpu->apic.sipi_vector; /* INIT resets the APIC */
    int error = 0;

    if (cpu->apic.init_pending) {
        if (cpu->index == 0)
            return vmm_fail(cpu->vmm, -EIO,
                            "INIT of the bootstrap processor: there is no firmware to start");
        error = take_init(cpu);
    }
    /* A SIPI that nobody waits for is lost. */
    if (!error && sipi && cpu->wait_for_sipi)
        take_sipi(cpu, vector);
    cpu->apic.sipi_pending = false;
    return error;
}
