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
#include "kvm.h"

#include <errno.h>
#include <string.h>

#define RFLAGS_TF (1ull << 8)
#define VECTOR_DB 1

static const uint8_t iretq[] = {0x48, 0xcf};

struct frame {
    uint64_t rip, cs, rflags, rsp, ss;
};

void user_step_leave(struct vmm *vmm)
{
    if (!vmm->in_handler)
        return;
    vmm->in_handler = false;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
}

/* The registers of user mode, as the handler's frame has them. */
static int show_user_mode(struct vmm *vmm, const struct kvm_segment *cs,
                          const struct kvm_segment *ss)
{
    struct kvm_regs *regs = vmm_regs(vmm);
    struct frame frame;

    if (!linear_read(vmm, regs->rsp, &frame, sizeof(frame)))
        return vmm_fail(vmm, -EIO, "the frame of a #DB at %#llx cannot be read", regs->rip);
    regs->rip = frame.rip;
    regs->rflags = frame.rflags & ~RFLAGS_TF;
    regs->rsp = frame.rsp;
    vmm_sregs(vmm)->cs = *cs;
    vmm_sregs(vmm)->ss = *ss;
    vmm->in_handler = true;
    return 0;
}

/* One instruction by way of the handler that the guest is in. */
static int step_from_handler(struct vmm *vmm, const struct watched *handler)
{
    uint8_t *behind = handler->byte + 1, saved[sizeof(iretq)];
    int error;

    memcpy(saved, behind, sizeof(saved));
    memcpy(behind, iretq, sizeof(iretq));
    do {
        error = machine_enter(vmm);
    } while (error == -EINTR);
    memcpy(behind, saved, sizeof(saved));
    return error;
}

/* One instruction from user mode, as the registers have it. */
static int step_from_user(struct vmm *vmm)
{
    int error = machine_debug(vmm, false);

    if (error)
        return error;
    vmm_regs(vmm)->rflags |= RFLAGS_TF;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS);
    do {
        error = machine_enter(vmm);
    } while (error == -EINTR);
    return error;
}

static bool behind_is_writable(const struct watched *handler)
{
    return handler->address % PAGE_BYTES <= PAGE_BYTES - 1 - sizeof(iretq);
}

int step_user_by_handler(struct vmm *vmm, unsigned other_vector, int *vector)
{
    const struct kvm_segment cs = vmm_sregs(vmm)->cs, ss = vmm_sregs(vmm)->ss;
    const uint64_t ip = vmm_regs(vmm)->rip;
    struct watch watch;
    int error;

    watch_begin(vmm, true, other_vector, &watch);
    if (!watch.count || watch.handlers[0].vector != VECTOR_DB) {
        error =
            vmm_fail(vmm, -EFAULT,
                     "the guest traces user mode at %#llx without a #DB handler, which stepping "
                     "here needs",
                     (unsigned long long)ip);
    } else if (vmm->in_handler && !vmm->run->kvm_dirty_regs &&
               behind_is_writable(&watch.handlers[0])) {
        vmm->in_handler = false;
        error = step_from_handler(vmm, &watch.handlers[0]);
    } else {
        user_step_leave(vmm);
        error = step_from_user(vmm);
    }
    *vector = watch_end(vmm, &watch);
    if (error)
        return error;
    if (*vector < 0)
        return vmm_fail(vmm, -EIO,
                        "lost track of the guest at %#llx, next %#llx: an exception that could not "
                        "be foreseen",
                        (unsigned long long)ip, vmm_regs(vmm)->rip);
    if (*vector != VECTOR_DB)
        return 0;
    *vector = -1;
    return show_user_mode(vmm, &cs, &ss);
}
