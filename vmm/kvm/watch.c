/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exceptions that nobody foresaw. They clear RFLAGS.TF, so their handlers would run unseen. While
 * an instruction is stepped, the first byte of each handler that it may lead to is an OUT: KVM
 * comes back before anything of the handler ran, whatever KVM it is. (Debug registers would do the
 * same where they work, but QEMU's SVM does not load breakpoints for a nested guest.)
 */
#include "kvm/watch.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/transfer.h"
#include "kvm/walk.h"

#define VECTOR_DB 1
#define VECTOR_UD 6
#define VECTOR_NM 7
#define VECTOR_GP 13
#define VECTOR_PF 14
#define VECTOR_XM 19

#define CR0_EM    (1ull << 2)
#define CR0_TS    (1ull << 3)
#define RFLAGS_TF (1ull << 8)
#define OUT       0xee /* OUT DX, AL */

/* Whether the processor pushes an error code (SDM vol. 3, table 6-1). */
static bool has_error_code(unsigned vector)
{
    return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21;
}

static void add(struct vcpu *cpu, struct watch *watch, unsigned vector)
{
    struct watched *watched = &watch->handlers[watch->count];
    uint32_t error_code;
    uint64_t gpa;

    /* At RIP, the OUT would take the place of the instruction that is to be stepped. */
    if (!idt_handler(cpu, vector, &watched->address) || watched->address == vcpu_regs(cpu)->rip ||
        !walk(cpu, watched->address, WALK_FETCH, 0, &gpa, &error_code))
        return;
    watched->byte = vmm_ram(cpu->vmm, gpa, 1);
    if (!watched->byte)
        return;
    watched->vector = (uint8_t)vector;
    watched->saved = *watched->byte;
    *watched->byte = OUT;
    watch->count++;
}

void watch_begin(struct vcpu *cpu, bool debug, unsigned other_vector, struct watch *watch)
{
    watch->ip = vcpu_regs(cpu)->rip;
    watch->count = 0;
    if (other_vector == VECTOR_XM && (vcpu_sregs(cpu)->cr0 & (CR0_EM | CR0_TS)))
        other_vector = VECTOR_NM;
    add(cpu, watch, debug ? VECTOR_DB : VECTOR_PF);
    add(cpu, watch, VECTOR_GP);
    add(cpu, watch, VECTOR_UD);
    add(cpu, watch, other_vector);
}

/*
 * Whether RSP points at the frame of this exception, raised by the instruction that was stepped.
 * The step may have left RFLAGS.TF in the frame: it is taken out, the guest must not see it.
 */
static bool clean_frame(struct vcpu *cpu, const struct watch *watch, unsigned vector)
{
    const uint64_t at = vcpu_regs(cpu)->rsp + (has_error_code(vector) ? 8 : 0);
    uint64_t frame[3]; /* RIP, CS, RFLAGS */

    if (!linear_read(cpu, at, frame, sizeof(frame)) || frame[0] != watch->ip)
        return false;
    frame[2] &= ~RFLAGS_TF;
    return linear_write(cpu, at, frame, sizeof(frame));
}

int watch_end(struct vcpu *cpu, const struct watch *watch)
{
    struct kvm_regs *regs = vcpu_regs(cpu);
    const bool stopped = cpu->run->exit_reason == KVM_EXIT_IO;
    const bool stepped = cpu->run->exit_reason == KVM_EXIT_DEBUG;
    int vector = -1;

    /* Backwards: vectors may share a handler. */
    for (unsigned i = watch->count; i-- > 0;) {
        const struct watched *watched = &watch->handlers[i];

        *watched->byte = watched->saved;
        /* Behind the OUT, at it, or before it if a kick came in between. */
        if (vector >= 0 || stepped || regs->rip - watched->address > 1)
            continue;
        if (watched->vector == VECTOR_DB) { /* it stays there: user_step.c */
            vector = VECTOR_DB;
        } else if (clean_frame(cpu, watch, watched->vector)) {
            vector = watched->vector;
            if (stopped)
                machine_complete(cpu);
            regs->rip = watched->address;
            vcpu_dirty(cpu, KVM_SYNC_X86_REGS);
        }
    }
    return vector;
}
