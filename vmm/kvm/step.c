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
#include "kvm.h"

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

#define MAX_INSN_BYTES 15
#define KNOWN_COUNT    4096u
#define FRAME_MARK     0x5645707453746570ull

/* Instructions met before, by address; valid while the bytes are the same. */
struct known {
    uint64_t ip;
    uint8_t code[MAX_INSN_BYTES];
    struct ptd_insn insn;
    struct memops memops;
};
static struct known known_insns[KNOWN_COUNT];

/* ---- State ---- */

void step_context(struct vmm *vmm, struct vpt_context *ctx)
{
    const struct kvm_sregs *sregs = vmm_sregs(vmm);

    *ctx = (struct vpt_context){
        .cr3 = sregs->cr3,
        .cpl = (uint8_t)vmm_cpl(vmm),
        .exec_mode = sregs->cs.l    ? VPT_EXEC_64
                     : sregs->cs.db ? VPT_EXEC_32
                                    : VPT_EXEC_16,
        .cs_base = sregs->cs.l ? 0 : sregs->cs.base,
        .interrupts = (vmm_regs(vmm)->rflags & RFLAGS_IF) != 0,
    };
}

void step_resume(struct vmm *vmm)
{
    vmm->stepping = true;
    vmm->run->request_interrupt_window = 0; /* take_interrupt() looks itself */
    /* Guests may lack SYSCALL set-up; then these stay 0 and nobody uses them. */
    machine_get_msr(vmm, MSR_STAR, &vmm->msr_star);
    machine_get_msr(vmm, MSR_LSTAR, &vmm->msr_lstar);
    machine_get_msr(vmm, MSR_FMASK, &vmm->msr_fmask);
}

void step_begin(struct vmm *vmm)
{
    const uint64_t old_now = vmm_apic_now(vmm);

    step_resume(vmm);
    apic_rebase(&vmm->apic, old_now, vmm_apic_now(vmm));
}

void step_end(struct vmm *vmm)
{
    const uint64_t old_now = vmm_apic_now(vmm);

    machine_debug(vmm, false);
    user_step_leave(vmm);
    vmm_regs(vmm)->rflags &= ~RFLAGS_TF;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS);
    machine_push(vmm);
    vmm->stepping = false;
    apic_rebase(&vmm->apic, old_now, vmm_apic_now(vmm));
}

/* ---- Events ---- */

static void tell_transfer(struct vmm *vmm, enum vpt_transfer_type type, unsigned vector,
                          uint64_t ip, uint64_t cr2)
{
    if (vmm->model.caps.rtit) {
        rtit_tell_transfer(vmm, type, ip);
        return;
    }

    struct vpt_transfer transfer = {.type = type,
                                    .vector = (uint8_t)vector,
                                    .ip = ip,
                                    .target = vmm_regs(vmm)->rip,
                                    .cr2 = cr2};

    step_context(vmm, &transfer.after);
    vpt_transfer(&vmm->model, &transfer);
}

static int exception(struct vmm *vmm, unsigned vector, int64_t error_code, uint64_t cr2)
{
    const uint64_t ip = vmm_regs(vmm)->rip;
    const int error = deliver(vmm, vector, error_code, false);

    if (error)
        return error;
    if (vector == VECTOR_PF)
        vmm_sregs(vmm)->cr2 = cr2;
    vmm->result->exceptions++;
    tell_transfer(vmm, VPT_FAULT, vector, ip, cr2);
    return 0;
}

/* 1: an interrupt was delivered; 0: none is due. */
static int take_interrupt(struct vmm *vmm)
{
    const uint64_t ip = vmm_regs(vmm)->rip;
    int vector, error;

    apic_tick(&vmm->apic, vmm_apic_now(vmm));
    if (vmm_events(vmm)->interrupt.shadow)
        return 0;
    if (vmm->apic.nmi_pending && !vmm_events(vmm)->nmi.masked) {
        vmm->apic.nmi_pending = false;
        vector = VECTOR_NMI;
    } else {
        vector = apic_pending(&vmm->apic);
        if (vector < 0 || !(vmm_regs(vmm)->rflags & RFLAGS_IF))
            return 0;
        apic_accept(&vmm->apic, vector);
    }
    error = deliver(vmm, (unsigned)vector, -1, false);
    if (error)
        return error;
    if (vmm->halted)
        vpt_power_exit(&vmm->model, &(struct vpt_power_exit){.reason = VPT_WAKE_INTERRUPT});
    vmm->halted = false;
    vmm->result->interrupts++;
    tell_transfer(vmm, VPT_INTERRUPT, (unsigned)vector, ip, 0);
    return 1;
}

/* Nothing to run until an interrupt: time goes straight to the timer. */
static int sleep_until_interrupt(struct vmm *vmm)
{
    if (!vmm->apic.timer_deadline)
        return vmm_fail(vmm, -EIO, "the guest halted at %#llx and nothing can wake it",
                        vmm_regs(vmm)->rip);
    if (vmm->apic.timer_deadline > vmm->steps)
        vmm->steps = vmm->apic.timer_deadline;
    if (vmm->model.caps.rtit)
        rtit_woke(vmm);
    return 0;
}

static int lost(struct vmm *vmm, const struct ptd_insn *insn, const char *what)
{
    return vmm_fail(vmm, -EIO, "lost track of the guest at %#llx, next %#llx: %s",
                    (unsigned long long)insn->ip, vmm_regs(vmm)->rip, what);
}

/* ---- The instruction at RIP ---- */

/* Bytes of code at RIP. How many, or 0 and the fault of their first byte. */
static size_t fetch(struct vmm *vmm, uint8_t *code, uint64_t *fault, uint32_t *error_code)
{
    const uint64_t rip = vmm_regs(vmm)->rip;
    const size_t in_page = PAGE_BYTES - rip % PAGE_BYTES;
    size_t len = in_page < MAX_INSN_BYTES ? in_page : MAX_INSN_BYTES;
    const uint8_t *ram;
    uint64_t gpa;

    *fault = rip;
    if (!walk(vmm, rip, WALK_FETCH, vmm_cpl(vmm), &gpa, error_code))
        return 0;
    ram = vmm_ram(vmm, gpa, len);
    if (!ram)
        return 0;
    memcpy(code, ram, len);
    if (len == MAX_INSN_BYTES)
        return len;

    *fault = rip + len; /* of the second page, if the instruction needs it */
    if (!walk(vmm, rip + len, WALK_FETCH, vmm_cpl(vmm), &gpa, error_code))
        return len;
    ram = vmm_ram(vmm, gpa, MAX_INSN_BYTES - len);
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
static bool frame_slot(struct vmm *vmm, uint64_t *slot)
{
    uint64_t rsp = vmm_regs(vmm)->rsp;

    if (vmm_cpl(vmm) == 3 && !linear_read(vmm, vmm_sregs(vmm)->tr.base + 4, &rsp, sizeof(rsp)))
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
static int run_insn(struct vmm *vmm, const struct known *known, struct outcome *outcome)
{
    uint64_t slot = 0, saved = 0, after = FRAME_MARK, flags;
    const uint64_t flags_slot = vmm_regs(vmm)->rsp;
    struct watch watch;
    bool marked;
    int error;

    if (vmm_cpl(vmm) == 3 && vmm->options->step_user == STEP_USER_BY_HANDLER)
        return step_user_by_handler(vmm, known->memops.other_vector, &outcome->vector);
    marked = frame_slot(vmm, &slot) && !memops_touch(vmm, &known->memops, slot, 8) &&
             linear_read(vmm, slot, &saved, 8) && linear_write(vmm, slot, &after, 8);
    if (is_popf(known) && linear_read(vmm, flags_slot, &flags, 8)) {
        flags |= RFLAGS_TF; /* what it loads keeps the step */
        linear_write(vmm, flags_slot, &flags, 8);
    }
    watch_begin(vmm, false, known->memops.other_vector, &watch);
    error = machine_step(vmm);
    outcome->vector = watch_end(vmm, &watch);
    if (!error && outcome->vector < 0)
        error = machine_handle_exit(vmm, &outcome->gp);
    if (error == -EINTR)
        error = 0;
    if (is_popf(known) && linear_read(vmm, flags_slot, &flags, 8)) {
        flags &= ~RFLAGS_TF;
        linear_write(vmm, flags_slot, &flags, 8);
    }
    if (is_pushf(known) && linear_read(vmm, vmm_regs(vmm)->rsp, &flags, 8)) {
        flags &= ~RFLAGS_TF;
        linear_write(vmm, vmm_regs(vmm)->rsp, &flags, 8);
    }
    if (error || !marked)
        return error;
    linear_read(vmm, slot, &after, 8);
    if (after == FRAME_MARK)
        linear_write(vmm, slot, &saved, 8);
    else if (after == vmm_sregs(vmm)->cs.selector && outcome->vector < 0)
        return lost(vmm, &known->insn, "an exception that could not be foreseen");
    return 0;
}

/* ---- What became of it ---- */

static bool retires_at(const struct ptd_insn *insn, uint64_t rip)
{
    const uint64_t next = insn->ip + insn->size_bytes;

    switch (insn->class) {
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
    switch (insn->class) {
    case PTD_INSN_COND:
    case PTD_INSN_JMP_DIRECT:
    case PTD_INSN_CALL_DIRECT:
        return insn->target == insn->ip;
    default:
        return insn->class != PTD_INSN_OTHER;
    }
}

static void tell(struct vmm *vmm, const struct known *known)
{
    const struct ptd_insn *insn = &known->insn;
    struct vpt_cpu *model = &vmm->model;
    const uint64_t rip = vmm_regs(vmm)->rip, next = insn->ip + insn->size_bytes;

    if (model->caps.rtit) {
        rtit_tell(vmm, insn);
        return;
    }
    switch (insn->class) {
    case PTD_INSN_COND:
        vpt_cond_branch(model, rip,
                        rip != next ||
                            (insn->target == next &&
                             condition_held(vmm_regs(vmm), known->code, insn->size_bytes)));
        break;
    case PTD_INSN_JMP_DIRECT:
        vpt_jmp_direct(model, rip);
        break;
    case PTD_INSN_CALL_DIRECT:
        vpt_call_direct(model, rip, next);
        break;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(model, rip);
        break;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(model, rip, next);
        break;
    case PTD_INSN_RET:
        vpt_ret(model, rip);
        break;
    case PTD_INSN_FAR:
        tell_transfer(vmm, VPT_FAR_BRANCH, 0, insn->ip, 0);
        break;
    case PTD_INSN_IRET:
        tell_transfer(vmm, VPT_IRET, 0, insn->ip, 0);
        break;
    case PTD_INSN_INT:
        tell_transfer(vmm, VPT_SOFT_INTERRUPT, 0, insn->ip, 0);
        break;
    case PTD_INSN_MOV_CR3:
        vpt_mov_cr3(model, vmm_sregs(vmm)->cr3, rip);
        break;
    default:
        vpt_interrupt_flag(model, (vmm_regs(vmm)->rflags & RFLAGS_IF) != 0, insn->ip);
        vpt_time(model);
        break;
    }
}

static int software_interrupt(struct vmm *vmm, const struct known *known)
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
    vmm_regs(vmm)->rip = ip + known->insn.size_bytes;
    error = deliver(vmm, vector, -1, true);
    if (error)
        return error;
    vmm->result->interrupts++;
    tell_transfer(vmm, VPT_SOFT_INTERRUPT, vector, ip, 0);
    return 0;
}

/* The processor delivered an exception, and stands at the handler's first instruction. */
static void caught(struct vmm *vmm, const struct ptd_insn *insn, unsigned vector)
{
    vmm->result->exceptions++;
    tell_transfer(vmm, VPT_FAULT, vector, insn->ip, vmm_sregs(vmm)->cr2);
}

/*
 * HLT is carried out here: stepped, some KVMs come back as from any other instruction, and halt
 * later. C1, whose MWAIT encoding is 0. False: #GP.
 */
static bool halt(struct vmm *vmm, const struct ptd_insn *insn)
{
    if (vmm_cpl(vmm) != 0)
        return false;
    vmm_regs(vmm)->rip = insn->ip + insn->size_bytes;
    vmm_events(vmm)->interrupt.shadow = 0; /* of an STI before it */
    vmm_events(vmm)->flags = KVM_VCPUEVENT_VALID_SHADOW;
    vmm_dirty(vmm, KVM_SYNC_X86_REGS | KVM_SYNC_X86_EVENTS);
    vmm->halted = true;
    vpt_power_entry(&vmm->model, &(struct vpt_power_entry){.ip = insn->ip});
    return true;
}

/* Carries out or runs the instruction, and tells the model. */
static int execute(struct vmm *vmm, const struct known *known)
{
    const struct ptd_insn *insn = &known->insn;
    const bool traced = vmm_packet_en(vmm);
    const uint64_t cr3 = vmm_sregs(vmm)->cr3;
    struct outcome outcome = {.vector = -1};
    bool undefined = false;
    int error = 0;

    if (insn->class == PTD_INSN_INT)
        return software_interrupt(vmm, known);
    if (insn->class == PTD_INSN_IRET)
        error = do_iret(vmm);
    else if (is_syscall(known))
        do_syscall(vmm, insn->ip + insn->size_bytes);
    else if (is_sysret(known))
        do_sysret(vmm);
    else if (is_hlt(known))
        outcome.gp = !halt(vmm, insn);
    else if (insn->class == PTD_INSN_PTWRITE)
        undefined = !do_ptwrite(vmm, known->code, insn->size_bytes, &known->memops);
    else if (is_sti(known))
        outcome.gp = !do_sti(vmm, insn->ip + insn->size_bytes);
    else
        error = run_insn(vmm, known, &outcome);
    if (error)
        return error;
    if (undefined)
        return exception(vmm, VECTOR_UD, -1, 0);
    if (outcome.gp)
        return exception(vmm, VECTOR_GP, 0, 0);
    if (outcome.vector >= 0) {
        caught(vmm, insn, (unsigned)outcome.vector);
        return 0;
    }
    /* An iteration of a repeated string instruction, or a debug exit that came before the step. */
    if (vmm_regs(vmm)->rip == insn->ip && !leads_to_itself(insn))
        return 0;
    vmm->steps++;
    if (!retires_at(insn, vmm_regs(vmm)->rip))
        return lost(vmm, insn, "not where this instruction can lead");

    /* A WRMSR that cleared TraceEn was told when it exited, and does not count (Table 33-23). */
    if (traced && (vmm->model.caps.rtit || (vmm->model.ctl & VPT_CTL_TRACEEN)) &&
        vmm->options->keep_path && !path_add(&vmm->result->path, &vmm->path_cr3, cr3, insn->ip))
        return vmm_fail(vmm, -ENOMEM, "no memory for the executed path");
    tell(vmm, known);
    return 0;
}

int step(struct vmm *vmm)
{
    uint8_t code[MAX_INSN_BYTES];
    uint32_t error_code;
    uint64_t fault;
    const struct known *known;
    size_t len;
    int error = take_interrupt(vmm);

    if (error)
        return error < 0 ? error : 0;
    if (vmm->halted)
        return sleep_until_interrupt(vmm);
    if (vmm_cpl(vmm) == 3 && vmm->options->step_user == STEP_USER_NOT) {
        vmm->result->needs_lab = true;
        return vmm_fail(vmm, -ENOTSUP, "the guest traces user mode, which this KVM cannot step");
    }
    if (!vmm_sregs(vmm)->cs.l)
        return vmm_fail(vmm, -ENOTSUP, "the guest at %#llx is not in 64-bit mode while tracing",
                        vmm_regs(vmm)->rip);

    len = fetch(vmm, code, &fault, &error_code);
    if (len == 0)
        return exception(vmm, VECTOR_PF, error_code, fault);
    known = look_up(vmm_regs(vmm)->rip, code, len);
    if (!known && len < MAX_INSN_BYTES)
        return exception(vmm, VECTOR_PF, error_code, fault);
    if (!known || is_ud2(known))
        return exception(vmm, VECTOR_UD, -1, 0);
    if (predict_page_fault(vmm, &known->memops, &fault, &error_code))
        return exception(vmm, VECTOR_PF, error_code, fault);
    return execute(vmm, known);
}
