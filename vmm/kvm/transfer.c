/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers of control that single-stepping by RFLAGS.TF cannot follow, carried out here instead:
 * delivery of interrupts and exceptions clears TF, SYSCALL masks it, IRET and SYSRET load it. Under
 * stepping the handler's first instructions would otherwise run unseen. 64-bit mode only.
 */
#include "kvm/transfer.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/walk.h"

#include <errno.h>
#include <string.h>

#define RFLAGS_TF    (1ull << 8)
#define RFLAGS_IF    (1ull << 9)
#define RFLAGS_IOPL  (3ull << 12)
#define RFLAGS_NT    (1ull << 14)
#define RFLAGS_RF    (1ull << 16)
#define RFLAGS_VM    (1ull << 17)
#define RFLAGS_ONE   (1ull << 1)
#define RFLAGS_KNOWN 0x3f7fd5ull

#define GATE_INTERRUPT 0xe
#define GATE_TRAP      0xf
#define NMI_VECTOR     2
#define CODE_SEGMENT   8 /* of a descriptor's type */

/* Loads a flat code or stack segment from the GDT. False: there is no such descriptor. */
static bool load_segment(struct vcpu *cpu, uint16_t selector, struct kvm_segment *segment)
{
    const struct kvm_dtable *gdt = &vcpu_sregs(cpu)->gdt;
    const uint16_t offset = selector & ~7u;
    uint64_t descriptor;

    if (!offset || (selector & 4) || offset + 7u > gdt->limit ||
        !linear_read(cpu, gdt->base + offset, &descriptor, sizeof(descriptor)))
        return false;
    memset(segment, 0, sizeof(*segment));
    segment->selector = selector;
    segment->base = (descriptor >> 16 & 0xffffff) | (descriptor >> 56 & 0xff) << 24;
    segment->limit = (uint32_t)((descriptor & 0xffff) | (descriptor >> 32 & 0xf0000));
    segment->type = descriptor >> 40 & 0xf;
    segment->s = descriptor >> 44 & 1;
    segment->dpl = descriptor >> 45 & 3;
    segment->present = descriptor >> 47 & 1;
    segment->avl = descriptor >> 52 & 1;
    segment->l = descriptor >> 53 & 1;
    segment->db = descriptor >> 54 & 1;
    segment->g = descriptor >> 55 & 1;
    if (segment->g)
        segment->limit = segment->limit << 12 | 0xfff;
    return segment->present && segment->s;
}

static void null_stack_segment(struct kvm_segment *segment, unsigned cpl)
{
    memset(segment, 0, sizeof(*segment));
    segment->selector = (uint16_t)cpl;
    segment->dpl = (uint8_t)cpl;
    segment->unusable = 1;
}

/* The stack of a handler: an IST, RSP0 on a change of privilege, or the present one. */
static bool handler_stack(struct vcpu *cpu, unsigned ist, unsigned old_cpl, unsigned new_cpl,
                          uint64_t *rsp)
{
    const uint64_t tss = vcpu_sregs(cpu)->tr.base;

    *rsp = vcpu_regs(cpu)->rsp;
    if (ist)
        return linear_read(cpu, tss + 0x1c + 8 * ist, rsp, sizeof(*rsp));
    if (new_cpl < old_cpl)
        return linear_read(cpu, tss + 4 + 8 * new_cpl, rsp, sizeof(*rsp));
    return true;
}

static uint64_t gate_handler(const uint64_t gate[2])
{
    return (gate[0] & 0xffff) | (gate[0] >> 32 & 0xffff0000) | gate[1] << 32;
}

static bool read_gate(struct vcpu *cpu, unsigned vector, uint64_t gate[2])
{
    const struct kvm_dtable *idt = &vcpu_sregs(cpu)->idt;

    return vector * 16 + 15 <= idt->limit &&
           linear_read(cpu, idt->base + vector * 16, gate, 2 * sizeof(gate[0]));
}

bool idt_handler(struct vcpu *cpu, unsigned vector, uint64_t *handler)
{
    uint64_t gate[2];

    if (!read_gate(cpu, vector, gate) || !(gate[0] >> 47 & 1))
        return false;
    *handler = gate_handler(gate);
    return true;
}

int deliver(struct vcpu *cpu, unsigned vector, int64_t error_code, bool software)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    struct kvm_sregs *sregs = vcpu_sregs(cpu);
    struct kvm_segment cs;
    uint64_t gate[2], frame[6], rsp;
    unsigned words = 0;

    if (!read_gate(cpu, vector, gate))
        return vmm_fail(cpu->vmm, -EFAULT, "vector %u at %#llx has no IDT entry", vector,
                        regs->rip);

    const unsigned type = gate[0] >> 40 & 0xf, dpl = gate[0] >> 45 & 3;
    const bool present = gate[0] >> 47 & 1;
    const uint64_t handler = gate_handler(gate);
    const unsigned old_cpl = vcpu_cpl(cpu);

    if (!present || (type != GATE_INTERRUPT && type != GATE_TRAP) || (software && dpl < old_cpl) ||
        !load_segment(cpu, (uint16_t)(gate[0] >> 16), &cs) || !cs.l || !(cs.type & CODE_SEGMENT) ||
        cs.dpl > old_cpl)
        return vmm_fail(cpu->vmm, -EFAULT, "vector %u at %#llx has no usable gate", vector,
                        regs->rip);
    if (!handler_stack(cpu, gate[0] >> 32 & 7, old_cpl, cs.dpl, &rsp))
        return vmm_fail(cpu->vmm, -EFAULT, "vector %u at %#llx has no stack", vector, regs->rip);

    if (error_code >= 0)
        frame[words++] = (uint64_t)error_code;
    frame[words++] = regs->rip;
    frame[words++] = sregs->cs.selector;
    frame[words++] = regs->rflags & ~RFLAGS_TF;
    frame[words++] = regs->rsp;
    frame[words++] = sregs->ss.selector;
    rsp = (rsp & ~15ull) - 8 * words;
    if (!linear_write(cpu, rsp, frame, 8 * words))
        return vmm_fail(cpu->vmm, -EFAULT, "vector %u at %#llx cannot push its frame", vector,
                        regs->rip);

    cs.selector = (uint16_t)((cs.selector & ~3u) | cs.dpl);
    if (cs.dpl != old_cpl)
        null_stack_segment(&sregs->ss, cs.dpl);
    sregs->cs = cs;
    regs->rsp = rsp;
    regs->rip = handler;
    regs->rflags &= ~(RFLAGS_TF | RFLAGS_NT | RFLAGS_RF | RFLAGS_VM);
    if (type == GATE_INTERRUPT)
        regs->rflags &= ~RFLAGS_IF;
    vcpu_events(cpu)->interrupt.shadow = 0;
    if (vector == NMI_VECTOR && !software)
        vcpu_events(cpu)->nmi.masked = 1;
    vcpu_events(cpu)->flags = KVM_VCPUEVENT_VALID_SHADOW;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS);
    return 0;
}

int do_iret(struct vcpu *cpu)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    struct kvm_sregs *sregs = vcpu_sregs(cpu);
    struct kvm_segment cs, ss;
    const unsigned cpl = vcpu_cpl(cpu);
    uint64_t frame[5]; /* RIP, CS, RFLAGS, RSP, SS */
    uint64_t keep = RFLAGS_VM;

    if (!linear_read(cpu, regs->rsp, frame, sizeof(frame)))
        return vmm_fail(cpu->vmm, -EFAULT, "IRET at %#llx cannot read its frame", regs->rip);
    if (!load_segment(cpu, (uint16_t)frame[1], &cs) || (frame[1] & 3) < cpl)
        return vmm_fail(cpu->vmm, -EFAULT, "IRET at %#llx to a bad CS %#llx", regs->rip,
                        (unsigned long long)frame[1]);

    const unsigned new_cpl = frame[1] & 3;
    if ((frame[4] & ~3ull) == 0)
        null_stack_segment(&ss, new_cpl);
    else if (!load_segment(cpu, (uint16_t)frame[4], &ss))
        return vmm_fail(cpu->vmm, -EFAULT, "IRET at %#llx to a bad SS %#llx", regs->rip,
                        (unsigned long long)frame[4]);
    ss.dpl = (uint8_t)new_cpl;
    cs.dpl = (uint8_t)new_cpl;

    if (cpl > 0)
        keep |= RFLAGS_IOPL;
    if (cpl > (regs->rflags >> 12 & 3))
        keep |= RFLAGS_IF;
    regs->rip = frame[0];
    regs->rflags =
        (regs->rflags & keep) | (frame[2] & RFLAGS_KNOWN & ~(keep | RFLAGS_TF)) | RFLAGS_ONE;
    regs->rsp = frame[3];
    sregs->cs = cs;
    sregs->ss = ss;
    vcpu_events(cpu)->nmi.masked = 0;
    vcpu_events(cpu)->interrupt.shadow = 0;
    vcpu_events(cpu)->flags = KVM_VCPUEVENT_VALID_SHADOW;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS | KVM_SYNC_X86_EVENTS);
    return 0;
}

bool do_sti(struct vcpu *cpu, uint64_t next_ip)
{
    struct kvm_regs *regs = vcpu_regs(cpu);

    if (vcpu_cpl(cpu) > (regs->rflags >> 12 & 3))
        return false;
    if (!(regs->rflags & RFLAGS_IF)) {
        vcpu_events(cpu)->interrupt.shadow = KVM_X86_SHADOW_INT_STI;
        vcpu_events(cpu)->flags = KVM_VCPUEVENT_VALID_SHADOW;
    }
    regs->rip = next_ip;
    regs->rflags |= RFLAGS_IF;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_EVENTS);
    return true;
}

/* The fixed segments of SYSCALL and SYSRET. */
static void flat_segments(struct kvm_sregs *sregs, uint16_t cs, uint16_t ss, uint8_t cpl)
{
    sregs->cs = (struct kvm_segment){.selector = cs,
                                     .limit = UINT32_MAX,
                                     .type = 11,
                                     .present = 1,
                                     .dpl = cpl,
                                     .s = 1,
                                     .l = 1,
                                     .g = 1};
    sregs->ss = (struct kvm_segment){.selector = ss,
                                     .limit = UINT32_MAX,
                                     .type = 3,
                                     .present = 1,
                                     .dpl = cpl,
                                     .db = 1,
                                     .s = 1,
                                     .g = 1};
}

void do_nop(struct vcpu *cpu, uint64_t next_ip)
{
    vcpu_regs(cpu)->rip = next_ip;
    vcpu_events(cpu)->interrupt.shadow = 0;
    vcpu_events(cpu)->flags = KVM_VCPUEVENT_VALID_SHADOW;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_EVENTS);
}

void do_syscall(struct vcpu *cpu, uint64_t next_ip)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    const uint16_t selector = (cpu->msr_star >> 32) & 0xfffc;

    regs->rcx = next_ip;
    regs->r11 = regs->rflags & ~(RFLAGS_TF | RFLAGS_RF);
    regs->rip = cpu->msr_lstar;
    regs->rflags = (regs->rflags & ~(cpu->msr_fmask | RFLAGS_TF | RFLAGS_RF)) | RFLAGS_ONE;
    flat_segments(vcpu_sregs(cpu), selector, (uint16_t)(selector + 8), 0);
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
}

void do_sysret(struct vcpu *cpu)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    const uint16_t selector = (uint16_t)(cpu->msr_star >> 48);

    regs->rip = regs->rcx;
    regs->rflags = (regs->r11 & RFLAGS_KNOWN & ~(RFLAGS_TF | RFLAGS_RF | RFLAGS_VM)) | RFLAGS_ONE;
    flat_segments(vcpu_sregs(cpu), (uint16_t)((selector + 16) | 3), (uint16_t)((selector + 8) | 3),
                  3);
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
}
