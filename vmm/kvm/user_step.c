/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-step in user mode on a KVM that runs user code natively and lets the processor deliver the
 * debug exception to the guest: watch.c stops the guest at the first instruction of its own #DB
 * handler, and the frame just pushed leads back to user mode, one instruction further. It lies on
 * the kernel's stack, which is unused while user code runs.
 */
#include "kvm.h"

#include <errno.h>

#define RFLAGS_TF (1ull << 8)
#define VECTOR_DB 1

/* Back from the #DB handler to where the frame leads: the step is done. */
static int undo_debug_exception(struct vmm *vmm, const struct kvm_segment *cs,
                                const struct kvm_segment *ss)
{
    struct kvm_regs *regs = vmm_regs(vmm);
    uint64_t frame[5]; /* RIP, CS, RFLAGS, RSP, SS */

    if (!linear_read(vmm, regs->rsp, frame, sizeof(frame)))
        return vmm_fail(vmm, -EIO, "the frame of a #DB at %#llx cannot be read", regs->rip);
    regs->rip = frame[0];
    regs->rflags = frame[2] & ~RFLAGS_TF;
    regs->rsp = frame[3];
    vmm_sregs(vmm)->cs = *cs;
    vmm_sregs(vmm)->ss = *ss;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS | KVM_SYNC_X86_SREGS);
    return 0;
}

int step_user_by_handler(struct vmm *vmm, unsigned other_vector, int *vector)
{
    const struct kvm_segment cs = vmm_sregs(vmm)->cs, ss = vmm_sregs(vmm)->ss;
    const uint64_t ip = vmm_regs(vmm)->rip;
    struct watch watch;
    int error;

    watch_begin(vmm, true, other_vector, &watch);
    if (watch.count && watch.handlers[0].vector == VECTOR_DB)
        error = machine_step(vmm);
    else
        error =
            vmm_fail(vmm, -EFAULT,
                     "the guest traces user mode at %#llx without a #DB handler, which stepping "
                     "here needs",
                     (unsigned long long)ip);
    *vector = watch_end(vmm, &watch);
    if (error && error != -EINTR)
        return error;
    if (vmm_cpl(vmm) == 3)
        return 0;
    if (*vector < 0)
        return vmm_fail(vmm, -EIO,
                        "lost track of the guest at %#llx, next %#llx: an exception that could not "
                        "be foreseen",
                        (unsigned long long)ip, vmm_regs(vmm)->rip);
    if (*vector != VECTOR_DB)
        return 0;
    *vector = -1;
    return undo_debug_exception(vmm, &cs, &ss);
}
