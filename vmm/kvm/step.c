/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-step as the source of events: while the model's TriggerEn is 1, every instruction is
 * stepped, classified by its bytes, and told to the model with what became of it.
 *
 * KVM steps by RFLAGS.TF, which interrupts, exceptions, SYSCALL, SYSRET and IRET clear or replace.
 * Those are carried out by transfer.c, page faults are predicted by predict.c, other exceptions are
 * caught by watch.c at their handlers' first instructions. What is left is noticed by a mark where
 * an exception's frame would be pushed: then the path is lost, and the run says so.
 */
#include "kvm/step.h"
#include "kvm/apic.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/predict.h"
#include "kvm/ptwrite.h"
#include "kvm/tracer.h"
#include "kvm/transfer.h"
#include "kvm/user_step.h"
#include "kvm/walk.h"
#include "kvm/watch.h"
#include "run/path.h"
#include "run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RFLAGS_TF (1ull << 8)
#define RFLAGS_IF (1ull << 9)

#define VECTOR_NMI 2
#define VECTOR_UD  6
#define VECTOR_GP  13
#define VECTOR_PF  14

#define MSR_STAR  0xc0000081u
#define MSR_LSTAR 0xc0000082u
#define MSR_FMASK 0xc0000084u

#define KNOWN_COUNT 4096u
#define FRAME_MARK  0x5645707453746570ull

/* Instructions met before, by address; valid while the bytes are the same. */
struct known {
    uint64_t ip;
    uint8_t code[MAX_INSN_BYTES];
    struct ptd_insn insn;
    struct memops memops;
};
static struct known known_insns[KNOWN_COUNT];

/* ---- State ---- */

/* Guests may lack SYSCALL set-up; then these stay 0 and nobody uses them. */
static void read_syscall_msrs(struct vcpu *cpu)
{
    machine_get_msr(cpu, MSR_STAR, &cpu->msr_star);
    machine_get_msr(cpu, MSR_LSTAR, &cpu->msr_lstar);
    machine_get_msr(cpu, MSR_FMASK, &cpu->msr_fmask);
}

void step_resume(struct vmm *vmm)
{
    vmm->tracing = vmm->stepping = true;
    for (unsigned i = 0; i < vmm->cpu_count; i++) {
        struct vcpu *cpu = &vmm->cpus[i];

        cpu->run->request_interrupt_window = 0; /* take_interrupt() looks itself */
        read_syscall_msrs(cpu);
    }
}

static void rebase_apics(struct vmm *vmm, uint64_t old_now)
{
    for (unsigned i = 0; i < vmm->cpu_count; i++)
        apic_rebase(&vmm->cpus[i].apic, old_now, vmm_apic_now(vmm));
}

void step_begin(struct vmm *vmm)
{
    const uint64_t old_now = vmm_apic_now(vmm);

    step_resume(vmm);
    rebase_apics(vmm, old_now);
}

static void leave_stepping(struct vcpu *cpu)
{
    machine_debug(cpu, false);
    user_step_leave(cpu);
    vcpu_regs(cpu)->rflags &= ~RFLAGS_TF;
    vcpu_dirty(cpu, KVM_SYNC_X86_REGS);
    machine_push(cpu);
}

void step_end(struct vmm *vmm)
{
    const uint64_t old_now = vmm_apic_now(vmm);

    for (unsigned i = 0; i < vmm->cpu_count; i++)
        leave_stepping(&vmm->cpus[i]);
    vmm->stepping = false;
    rebase_apics(vmm, old_now);
}

/* ---- Events ---- */

static int exception(struct vcpu *cpu, unsigned vector, int64_t error_code, uint64_t cr2)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;
    const int error = deliver(cpu, vector, error_code, false);

    if (error)
        return error;
    if (vector == VECTOR_PF)
        vcpu_sregs(cpu)->cr2 = cr2;
    cpu->record->exceptions++;
    tracer_transfer(cpu, VPT_FAULT, vector, ip, cr2);
    return 0;
}

/* 1: an interrupt was delivered; 0: none is due. */
static int take_interrupt(struct vcpu *cpu)
{
    const uint64_t ip = vcpu_regs(cpu)->rip;
    int vector, error;

    apic_tick(&cpu->apic, vmm_apic_now(cpu->vmm));
    if (vcpu_events(cpu)->interrupt.shadow || !vcpu_sregs(cpu)->cs.l)
        return 0;
    if (cpu->apic.nmi_pending && !vcpu_events(cpu)->nmi.masked) {
        cpu->apic.nmi_pending = false;
        vector = VECTOR_NMI;
    } else {
        vector = apic_pending(&cpu->apic);
        if (vector < 0 || !(vcpu_regs(cpu)->rflags & RFLAGS_IF))
            return 0;
        apic_accept(&cpu->apic, vector);
    }
    error = deliver(cpu, (unsigned)vector, -1, false);
    if (error)
        return error;
    if (cpu->halted)
        tracer_wake(cpu);
    cpu->halted = false;
    cpu->record->interrupts++;
    tracer_transfer(cpu, VPT_INTERRUPT, (unsigned)vector, ip, 0);
    return 1;
}

static int lost(struct vcpu *cpu, const struct ptd_insn *insn, const char *what)
{
    return vmm_fail(cpu->vmm, -EIO, "lost track of the guest at %#llx, next %#llx: %s",
                    (unsigned long long)insn->ip, vcpu_regs(cpu)->rip, what);
}

/* ---- The instruction at RIP ---- */

/* Bytes of code at RIP. How many, or 0 and the fault of their first byte. */
static size_t fetch(struct vcpu *cpu, uint8_t *code, uint64_t *fault, uint32_t *error_code)
{
    const uint64_t rip = vcpu_regs(cpu)->rip;
    const size_t in_page = PAGE_BYTES - rip % PAGE_BYTES;
    size_t len = in_page < MAX_INSN_BYTES ? in_page : MAX_INSN_BYTES;
    const uint8_t *ram;
    uint64_t gpa;

    *fault = rip;
    if (!walk(cpu, rip, WALK_FETCH, vcpu_cpl(cpu), &gpa, error_code))
        return 0;
    ram = vmm_ram(cpu->vmm, gpa, len);
    if (!ram)
        return 0;
    memcpy(code, ram, len);
    if (len == MAX_INSN_BYTES)
        return len;

    *fault = rip + len; /* of the second page, if the instruction needs it */
    if (!walk(cpu, rip + len, WALK_FETCH, vcpu_cpl(cpu), &gpa, error_code))
        return len;
    ram = vmm_ram(cpu->vmm, gpa, MAX_INSN_BYTES - len);
    if (!ram)
        return len;
    memcpy(code + len, ram, MAX_INSN_BYTES - len);
    return MAX_INSN_BYTES;
}

/* NULL: code is not an instruction. */
static const struct known *look_up(uint64_t ip, const uint8_t *code, size_t len)
{
    struct known *known = &known_insns[(ip ^ ip >> 12) % KNOWN_COUNT];

    if (known->insn.size_bytes && known->ip == ip && len >= known->insn.size_bytes &&
        memcmp(known->code, code, known->insn.size_bytes) == 0)
        return known;
    known->ip = ip;
    known->insn.size_bytes = 0;
    if (ptd_insn_decode(PTD_MODE_64, ip, code, len, &known->insn) != PTD_OK ||
        !memops_decode(code, len, &known->memops)) {
        known->insn.size_bytes = 0;
        return NULL;
    }
    memcpy(known->code, code, known->insn.size_bytes);
    return known;
}

/* Whether the instruction is `second` of the 0F map, without operands; a REX.W may precede. */
static bool is_0f(const struct known *known, uint8_t second)
{
    const uint8_t *end = known->code + known->insn.size_bytes;
    const unsigned size = known->insn.size_bytes;

    return (size == 2 || (size == 3 && known->code[0] == 0x48)) && end[-2] == 0x0f &&
           end[-1] == second;
}
static bool is_syscall(const struct known *known)
{
    return is_0f(known, 0x05);
}
static bool is_sysret(const struct known *known)
{
    return known->insn.size_bytes == 3 && is_0f(known, 0x07); /* REX.W: to 64-bit mode */
}
static bool is_ud2(const struct known *known)
{
    return is_0f(known, 0x0b);
}
static bool is_sti(const struct known *known)
{
    return known->insn.size_bytes == 1 && known->code[0] == 0xfb;
}
static bool is_hlt(const struct known *known)
{
    return known->insn.size_bytes == 1 && known->code[0] == 0xf4;
}
static bool is_pause(const struct known *known)
{
    return known->insn.size_bytes == 2 && known->code[0] == 0xf3 && known->code[1] == 0x90;
}
static bool is_wrmsr(const struct known *known)
{
    return known->insn.size_bytes == 2 && is_0f(known, 0x30);
}
/* PUSHF and POPF: their stack slot holds RFLAGS, TF and all. */
static bool is_pushf(const struct known *known)
{
    return known->insn.size_bytes == 1 && known->code[0] == 0x9c;
}
static bool is_popf(const struct known *known)
{
    return known->insn.size_bytes == 1 && known->code[0] == 0x9d;
}

/* ---- Running it ---- */

/* Where an exception's frame would hold CS, if one came now. */
static bool frame_slot(struct vcpu *cpu, uint64_t *slot)
{
    uint64_t rsp = vcpu_regs(cpu)->rsp;

    if (vcpu_cpl(cpu) == 3 && !linear_read(cpu, vcpu_sregs(cpu)->tr.base + 4, &rsp, sizeof(rsp)))
        return false;
    *slot = (rsp & ~15ull) - 32;
    return true;
}

/* What became of a step besides its registers. */
struct outcome {
    bool gp;    /* an MSR access raises #GP, which is still to be delivered */
    int vector; /* of an exception that the processor delivered; -1: none */
};

/* Runs one instruction on the processor; notices an exception that nobody foresaw. */
static int run_insn(struct vcpu *cpu, const struct known *known, struct outcome *outcome)
{
    uint64_t slot = 0, saved = 0, after = FRAME_MARK, flags;
    const uint64_t flags_slot = vcpu_regs(cpu)->rsp;
    struct watch watch;
    bool marked;
    int error;

    if (vcpu_cpl(cpu) == 3 && cpu->vmm->options->step_user == STEP_USER_BY_HANDLER)
        return step_user_by_handler(cpu, known->memops.other_vector, &outcome->vector);
    marked = frame_slot(cpu, &slot) && !memops_touch(cpu, &known->memops, slot, 8) &&
             linear_read(cpu, slot, &saved, 8) && linear_write(cpu, slot, &after, 8);
    if (is_popf(known) && linear_read(cpu, flags_slot, &flags, 8)) {
        flags |= RFLAGS_TF; /* what it loads keeps the step */
        linear_write(cpu, flags_slot, &flags, 8);
    }
    watch_begin(cpu, false, known->memops.other_vector, &watch);
    error = machine_step(cpu);
    outcome->vector = watch_end(cpu, &watch);
    if (!error && outcome->vector < 0)
        error = machine_handle_exit(cpu, &outcome->gp);
    if (error == -EINTR)
        error = 0;
    if (is_popf(known) && linear_read(cpu, flags_slot, &flags, 8)) {
        flags &= ~RFLAGS_TF;
        linear_write(cpu, flags_slot, &flags, 8);
    }
    if (is_pushf(known) && linear_read(cpu, vcpu_regs(cpu)->rsp, &flags, 8)) {
        flags &= ~RFLAGS_TF;
        linear_write(cpu, vcpu_regs(cpu)->rsp, &flags, 8);
    }
    if (error || !marked)
        return error;
    linear_read(cpu, slot, &after, 8);
    if (after == FRAME_MARK)
        linear_write(cpu, slot, &saved, 8);
    else if (after == vcpu_sregs(cpu)->cs.selector && outcome->vector < 0)
        return lost(cpu, &known->insn, "an exception that could not be foreseen");
    return 0;
}

/* ---- What became of it ---- */

static bool retires_at(const struct ptd_insn *insn, uint64_t rip)
{
    const uint64_t next = insn->ip + insn->size_bytes;

    switch (insn->iclass) {
    case PTD_INSN_COND:
        return rip == next || rip == insn->target;
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        return rip == insn->target;
    case PTD_INSN_JMP_INDIRECT:
    case PTD_INSN_CALL_INDIRECT:
    case PTD_INSN_RET:
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_INT:
        return true;
    default:
        return rip == next;
    }
}

static bool leads_to_itself(const struct ptd_insn *insn)
{
    switch (insn->iclass) {
    case PTD_INSN_COND:
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        return insn->target == insn->ip;
    default:
        return insn->iclass != PTD_INSN_OTHER;
    }
}

static int software_interrupt(struct vcpu *cpu, const struct known *known)
{
    const uint8_t *code = known->code + known->insn.size_bytes - 1;
    const uint64_t ip = known->insn.ip;
    unsigned vector;
    int error;

    if (*code == 0xcc)
        vector = 3;
    else if (*code == 0xf1)
        vector = 1;
    else
        vector = *code;
    vcpu_regs(cpu)->rip = ip + known->insn.size_bytes;
    error = deliver(cpu, vector, -1, true);
    if (error)
        return error;
    cpu->record->interrupts++;
    tracer_transfer(cpu, VPT_SOFT_INTERRUPT, vector, ip, 0);
    return 0;
}

/* The processor delivered an exception, and stands at the handler's first instruction. */
static void caught(struct vcpu *cpu, const struct ptd_insn *insn, unsigned vector)
{
    cpu->record->exceptions++;
    tracer_transfer(cpu, VPT_FAULT, vector, insn->ip, vcpu_sregs(cpu)->cr2);
}

/*
 * HLT is carried out here: stepped, some KVMs come back as from any other instruction, and halt
 * later. False: #GP.
 */
static bool halt(struct vcpu *cpu, const struct ptd_insn *insn)
{
    if (vcpu_cpl(cpu) != 0)
        return false;
    do_nop(cpu, insn->ip + insn->size_bytes);
    cpu->halted = true;
    tracer_halt(cpu, insn->ip);
    return true;
}

/* Carries out or runs the instruction, and tells the model. */
static int execute(struct vcpu *cpu, const struct known *known)
{
    const struct ptd_insn *insn = &known->insn;
    const bool traced = tracer_packet_en(&cpu->tracer);
    const uint64_t cr3 = vcpu_sregs(cpu)->cr3;
    struct outcome outcome = {.vector = -1};
    bool undefined = false;
    int error = 0;

    if (insn->iclass == PTD_INSN_INT)
        return software_interrupt(cpu, known);
    if (insn->iclass == PTD_INSN_IRET)
        error = do_iret(cpu);
    else if (is_syscall(known))
        do_syscall(cpu, insn->ip + insn->size_bytes);
    else if (is_sysret(known))
        do_sysret(cpu);
    else if (is_hlt(known))
        outcome.gp = !halt(cpu, insn);
    else if (is_pause(known)) /* QEMU's processor traps one instruction too late */
        do_nop(cpu, insn->ip + insn->size_bytes);
    else if (insn->iclass == PTD_INSN_PTWRITE)
        undefined = !do_ptwrite(cpu, known->code, insn->size_bytes, &known->memops);
    else if (is_sti(known))
        outcome.gp = !do_sti(cpu, insn->ip + insn->size_bytes);
    else
        error = run_insn(cpu, known, &outcome);
    if (error)
        return error;
    if (undefined)
        return exception(cpu, VECTOR_UD, -1, 0);
    if (outcome.gp)
        return exception(cpu, VECTOR_GP, 0, 0);
    if (outcome.vector >= 0) {
        caught(cpu, insn, (unsigned)outcome.vector);
        return 0;
    }
    /* An iteration of a repeated string instruction, or a debug exit that came before the step. */
    if (vcpu_regs(cpu)->rip == insn->ip && !leads_to_itself(insn))
        return 0;
    cpu->vmm->steps++;
    if (!retires_at(insn, vcpu_regs(cpu)->rip))
        return lost(cpu, insn, "not where this instruction can lead");

    if (is_wrmsr(known))
        read_syscall_msrs(cpu);
    if (traced && tracer_counts(&cpu->tracer) && cpu->vmm->options->keep_path &&
        !path_add(&cpu->record->path, &cpu->path_cr3, cr3, insn->ip))
        return vmm_fail(cpu->vmm, -ENOMEM, "no memory for the executed path");
    tracer_insn(cpu, insn, known->code);
    return 0;
}

/*
 * An instruction of a processor on its way to 64-bit mode, which traces nothing: nobody has to know
 * what it was.
 */
static int step_untold(struct vcpu *cpu)
{
    bool gp;
    int error = machine_step(cpu);

    if (!error)
        error = machine_handle_exit(cpu, &gp);
    cpu->vmm->steps++;
    return error == -EINTR ? 0 : error;
}

int step(struct vcpu *cpu)
{
    uint8_t code[MAX_INSN_BYTES];
    uint32_t error_code;
    uint64_t fault;
    const struct known *known;
    const bool told = tracer_trigger_en(&cpu->tracer);
    size_t len;
    int error = take_interrupt(cpu);

    if (error)
        return error < 0 ? error : 0;
    if (cpu->halted)
        return 0;
    if (!told && !vcpu_sregs(cpu)->cs.l)
        return step_untold(cpu);
    if (vcpu_cpl(cpu) == 3 && cpu->vmm->options->step_user == STEP_USER_NOT) {
        cpu->vmm->result->needs_lab = true;
        return vmm_fail(cpu->vmm, -ENOTSUP,
                        "the guest traces user mode, which this KVM cannot step");
    }
    if (!vcpu_sregs(cpu)->cs.l)
        return vmm_fail(cpu->vmm, -ENOTSUP,
                        "the guest at %#llx is not in 64-bit mode while tracing",
                        vcpu_regs(cpu)->rip);

    len = fetch(cpu, code, &fault, &error_code);
    if (len == 0)
        return exception(cpu, VECTOR_PF, error_code, fault);
    known = look_up(vcpu_regs(cpu)->rip, code, len);
    if (!known && len < MAX_INSN_BYTES)
        return exception(cpu, VECTOR_PF, error_code, fault);
    if (!known || is_ud2(known))
        return exception(cpu, VECTOR_UD, -1, 0);
    if (predict_page_fault(cpu, &known->memops, &fault, &error_code))
        return exception(cpu, VECTOR_PF, error_code, fault);
    return execute(cpu, known);
}
