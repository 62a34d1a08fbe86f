/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-step in user mode on a KVM that runs user code natively and lets the processor deliver the
 * debug exception to the guest: an execution breakpoint stops the guest at the first instruction of
 * its own #DB handler, and the frame just pushed leads back to user mode, one instruction further.
 * The frame lies on the kernel's stack, which is unused while user code runs.
 */
#include "kvm.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define RFLAGS_TF (1ull << 8)
#define DR7_EXEC                                                                                   \
    0x400ull /* always set; breakpoint n is enabled by bit 2n and type 0 is execution */

/* The handlers at which to stop: the debug exception first, then others that user code may cause.
 */
static const unsigned vectors[4] = {1, 13, 6, 0};

static int arm(struct vmm *vmm, uint64_t handlers[4])
{
    struct kvm_guest_debug debug = {.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP |
                                               KVM_GUESTDBG_USE_HW_BP};

    debug.arch.debugreg[7] = DR7_EXEC;
    for (unsigned i = 0; i < 4; i++) {
        if (!idt_handler(vmm, vectors[i], &handlers[i])) {
            if (i == 0)
                return vmm_fail(vmm, -EFAULT,
                                "the guest traces user mode at %#llx without a #DB "
                                "handler, which stepping here needs",
                                vmm_regs(vmm)->rip);
            handlers[i] = 0;
            continue;
        }
        debug.arch.debugreg[i] = handlers[i];
        debug.arch.debugreg[7] |= 1ull << 2 * i;
    }
    if (ioctl(vmm->vcpu_fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
        return vmm_fail(vmm, -errno, "KVM cannot set breakpoints: %s", strerror(errno));
    return 0;
}

int step_user_by_handler(struct vmm *vmm)
{
    const struct kvm_segment cs = vmm_sregs(vmm)->cs, ss = vmm_sregs(vmm)->ss;
    struct kvm_regs *regs = vmm_regs(vmm);
    const uint64_t ip = regs->rip;
    uint64_t handlers[4], frame[5]; /* RIP, CS, RFLAGS, RSP, SS */
    int error = machine_push(vmm);

    if (!error)
        error = arm(vmm, handlers);
    if (error)
        return error;
    do {
        error = machine_enter(vmm);
    } while (error == -EINTR && regs->rip == ip);
    if (error && error != -EINTR)
        return error;
    if (vmm_cpl(vmm) == 3)
        return 0;
    if (regs->rip != handlers[0] || !linear_read(vmm, regs->rsp, frame, sizeof(frame)))
        return vmm_fail(vmm, -EIO,
                        "lost track of the guest at %#llx, next %#llx: an exception that "
                        "could not be foreseen",
                        (unsigned long long)ip, regs->rip);
    regs->rip = frame[0];
    regs->rflags = frame[2] & ~RFLAGS_TF;
    regs->rsp = frame[3];
    vmm_sregs(vmm)->cs = cs;
    vmm_sregs(vmm)->ss = ss;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
    return 0;
}
