/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-step in user mode on a KVM that runs user code natively and lets the processor deliver the
 * debug exception to the guest: watch.c stops the guest at the first instruction of its own #DB
 * handler, and the frame just pushed says where user code stands, one instruction further. It lies
 * on the kernel's stack, which is unused while user code runs.
 *
 * As long as nothing but user code happens, the guest stays in its handler between two steps: an
 * IRETQ behind the OUT that stopped it goes on by that very frame, whose RFLAGS.TF is still set.
 * A step is then one KVM_RUN, with no register to hand over. What the rest of vpt sees are the
 * registers of user mode; the first change of one makes them true (user_step_leave).
 */
#include "kvm/user_step.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/walk.h"
#include "kvm/watch.h"

#include <errno.h>
#include <string.h>

#define RFLAGS_TF (1ull << 8)
#define VECTOR_DB 1

static const uint8_t iretq[] = {0x48, 0xcf};

struct frame {
    uint64_t rip, cs, rflags, rsp, ss;
};

void user_step_leave(struct vcpu *cpu)
{
    if (!cpu->in_handler)
        return;
    cpu->in_handler = false;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
}

/* The registers of user mode, as the handler's frame has them. */
static int show_user_mode(struct vcpu *cpu, const struct kvm_segment *cs,
                          const struct kvm_segment *ss)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    struct frame frame;

    if (!linear_read(cpu, regs->rsp, &frame, sizeof(frame)))
        return vmm_fail(cpu->vmm, -EIO, "the frame of a #DB at %#llx cannot be read", regs->rip);
    regs->rip = frame.rip;
    regs->rflags = frame.rflags & ~RFLAGS_TF;
    regs->rsp = frame.rsp;
    vcpu_sregs(cpu)->cs = *cs;
    vcpu_sregs(cpu)->ss = *ss;
    cpu->in_handler = true;
    return 0;
}

/* One instruction by way of the handler that the guest is in. */
static int step_from_handler(struct vcpu *cpu, const struct watched *handler)
{
    uint8_t *behind = handler->byte + 1, saved[sizeof(iretq)];
    int error;

    memcpy(saved, behind, sizeof(saved));
    memcpy(behind, iretq, sizeof(iretq));
    do {
        error = machine_enter(cpu);
    } while (error == -EINTR);
    memcpy(behind, saved, sizeof(saved));
    return error;
}

/* One instruction from user mode, as the registers have it. */
static int step_from_user(struct vcpu *cpu)
{
    int error = machine_debug(cpu, false);

    if (error)
        return error;
    vcpu_regs(cpu)->rflags |= RFLAGS_TF;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS);
    do {
        error = machine_enter(cpu);
    } while (error == -EINTR);
    return error;
}

static bool behind_is_writable(const struct watched *handler)
{
    return handler->address % PAGE_BYTES <= PAGE_BYTES - 1 - sizeof(iretq);
}

int step_user_by_handler(struct vcpu *cpu, unsigned other_vector, int *vector)
{
    const struct kvm_segment cs = vcpu_sregs(cpu)->cs, ss = vcpu_sregs(cpu)->ss;
    const uint64_t ip = vcpu_regs(cpu)->rip;
    struct watch watch;
    int error;

    watch_begin(cpu, true, other_vector, &watch);
    if (!watch.count || watch.handlers[0].vector != VECTOR_DB) {
        error =
            vmm_fail(cpu->vmm, -EFAULT,
                     "the guest traces user mode at %#llx without a #DB handler, which stepping "
                     "here needs",
                     (unsigned long long)ip);
    } else if (cpu->in_handler && !cpu->run->kvm_dirty_regs &&
               behind_is_writable(&watch.handlers[0])) {
        cpu->in_handler = false;
        error = step_from_handler(cpu, &watch.handlers[0]);
    } else {
        user_step_leave(cpu);
        error = step_from_user(cpu);
    }
    *vector = watch_end(cpu, &watch);
    if (error)
        return error;
    if (*vector < 0)
        return vmm_fail(cpu->vmm, -EIO,
                        "lost track of the guest at %#llx, next %#llx: an exception that could not "
                        "be foreseen",
                        (unsigned long long)ip, vcpu_regs(cpu)->rip);
    if (*vector != VECTOR_DB)
        return 0;
    *vector = -1;
    return show_user_mode(cpu, &cs, &ss);
}
