/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PT or RTIT: the one place that asks which. What both get from their owner (memory, PMIs, clocks)
 * stands here, and how PT is told what a processor did; how RTIT is told, in rtit.c.
 */
#include "kvm/tracer.h"
#include "kvm/apic.h"
#include "kvm/condition.h"
#include "kvm/machine.h"
#include "kvm/memory.h"
#include "kvm/rtit.h"

#include <errno.h>

#define MSR_TSC        0x10u
#define MSR_TSC_ADJUST 0x3bu
#define RFLAGS_IF      (1ull << 9)
#define RECORD_MOST    (256u << 20) /* of the trace of a guest that runs at full speed */

static bool is_rtit(const struct tracer *tracer)
{
    return tracer->pt.caps.rtit;
}

/* ---- The callbacks of both ---- */

static void translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                      struct vpt_span *span)
{
    struct vcpu *cpu = owner;

    (void)access;
    span->len_bytes = len_bytes;
    if (memory_is_absent(cpu->vmm, gpa)) {
        if (!is_rtit(&cpu->tracer)) {
            span->kind = VPT_SPAN_FAULT;
            return;
        }
        memory_populate_page(cpu, gpa); /* RTIT is older than EPT violations by output */
    }
    span->host = vmm_ram(cpu->vmm, gpa, len_bytes);
    if (span->host)
        span->kind = VPT_SPAN_RAM;
    else if (gpa >= APIC_BASE && gpa < APIC_BASE + PAGE_BYTES)
        span->kind = VPT_SPAN_APIC;
    else
        span->kind = VPT_SPAN_UNBACKED;
}

static void wrote(void *owner, uint64_t gpa, const uint8_t *bytes, uint32_t len_bytes)
{
    struct vcpu *cpu = owner;

    (void)gpa;
    if (cpu->vmm->host_pt && cpu->record->trace.len + len_bytes > RECORD_MOST)
        cpu->record->unrecorded_bytes += len_bytes;
    else if (!bytes_add(&cpu->record->trace, bytes, len_bytes))
        cpu->vmm->error = vmm_fail(cpu->vmm, -ENOMEM, "no memory for the trace");
}

static void pmi(void *owner)
{
    struct vcpu *cpu = owner;

    cpu->record->pmis++;
    apic_pmi(&cpu->apic);
}

void tracer_clocks(const struct vpt_caps *caps, uint64_t tsc, uint64_t tsc_adjust,
                   struct vpt_clocks *out)
{
    vpt_clocks_from_tsc(caps, tsc - tsc_adjust, out);
    out->cycles = tsc - tsc_adjust;
    out->tsc = tsc;
}

static void clocks(void *owner, struct vpt_clocks *out)
{
    struct vcpu *cpu = owner;
    uint64_t tsc = 0, tsc_adjust = 0;

    if (cpu->tracer.has_told_tsc) {
        tracer_clocks(&cpu->tracer.pt.caps, cpu->tracer.told_tsc, cpu->tracer.told_adjust, out);
        return;
    }
    machine_get_msr(cpu, MSR_TSC, &tsc);
    machine_get_msr(cpu, MSR_TSC_ADJUST, &tsc_adjust); /* KVM has it whatever CPUID says */
    tracer_clocks(&cpu->tracer.pt.caps, tsc, tsc_adjust, out);
}

static const struct vpt_ops ops = {
    .translate = translate, .wrote = wrote, .pmi = pmi, .clocks = clocks};

/* ---- State ---- */

int tracer_create(struct vcpu *cpu, const struct vpt_caps *caps)
{
    struct tracer *const tracer = &cpu->tracer;

    if (!vpt_init(&tracer->pt, caps, &ops, cpu))
        return vmm_fail(cpu->vmm, -EINVAL, "the profile contradicts itself: %s",
                        vpt_caps_check(caps));
    return is_rtit(tracer) ? rtit_create(cpu, cpu->vmm->options->rtit_errata, &ops) : 0;
}

struct vpt_caps *tracer_caps(struct vcpu *cpu)
{
    return &cpu->tracer.pt.caps;
}

bool tracer_trigger_en(const struct tracer *tracer)
{
    return is_rtit(tracer) ? vpt_rtit_trigger_en(&tracer->rtit) : vpt_trigger_en(&tracer->pt);
}

bool tracer_packet_en(const struct tracer *tracer)
{
    return is_rtit(tracer) ? vpt_rtit_packet_en(&tracer->rtit) : vpt_packet_en(&tracer->pt);
}

bool tracer_counts(const struct tracer *tracer)
{
    /* A WRMSR that cleared TraceEn was told when it exited, and does not count (Table 33-23). */
    return is_rtit(tracer) || (tracer->pt.ctl & VPT_CTL_TRACEEN);
}

/* What decides what PT traces, as of the last exit. */
static void context(struct vcpu *cpu, struct vpt_context *ctx)
{
    const struct kvm_sregs *sregs = vcpu_sregs(cpu);

    *ctx = (struct vpt_context){
        .cr3 = sregs->cr3,
        .cpl = (uint8_t)vcpu_cpl(cpu),
        .exec_mode = sregs->cs.l    ? VPT_EXEC_64
                     : sregs->cs.db ? VPT_EXEC_32
                                    : VPT_EXEC_16,
        .cs_base = sregs->cs.l ? 0 : sregs->cs.base,
        .interrupts = (vcpu_regs(cpu)->rflags & RFLAGS_IF) != 0,
    };
}

/* ---- MSRs ---- */

enum vpt_result tracer_rdmsr(struct vcpu *cpu, uint32_t msr, uint64_t *value)
{
    if (is_rtit(&cpu->tracer) && vpt_rtit_msr_owned(msr))
        return vpt_rtit_rdmsr(&cpu->tracer.rtit, msr, value);
    return vpt_rdmsr(&cpu->tracer.pt, msr, value);
}

enum vpt_result tracer_wrmsr(struct vcpu *cpu, uint32_t msr, uint64_t value, uint64_t ip,
                             uint64_t next_ip)
{
    struct vpt_context ctx;

    if (is_rtit(&cpu->tracer) && vpt_rtit_msr_owned(msr))
        return rtit_wrmsr(cpu, msr, value, next_ip);
    context(cpu, &ctx);
    vpt_set_context(&cpu->tracer.pt, &ctx);
    return vpt_wrmsr(&cpu->tracer.pt, msr, value, ip, next_ip);
}

/* ---- Events ---- */

void tracer_transfer(struct vcpu *cpu, enum vpt_transfer_type type, unsigned vector, uint64_t ip,
                     uint64_t cr2)
{
    struct vpt_transfer transfer = {.type = type,
                                    .vector = (uint8_t)vector,
                                    .ip = ip,
                                    .target = vcpu_regs(cpu)->rip,
                                    .cr2 = cr2};

    if (is_rtit(&cpu->tracer)) {
        rtit_tell_transfer(cpu, type, ip);
        return;
    }
    context(cpu, &transfer.after);
    vpt_transfer(&cpu->tracer.pt, &transfer);
}

/* PT alone is told of INIT and SIPI. */
void tracer_init(struct vcpu *cpu, uint64_t ip)
{
    struct vpt_transfer transfer = {.type = VPT_INIT_WAIT, .ip = ip};

    context(cpu, &transfer.after);
    vpt_transfer(&cpu->tracer.pt, &transfer);
}

void tracer_sipi(struct vcpu *cpu, uint8_t vector)
{
    struct vpt_transfer transfer = {
        .type = VPT_SIPI, .vector = vector, .target = (uint64_t)vector << 12};

    context(cpu, &transfer.after);
    vpt_transfer(&cpu->tracer.pt, &transfer);
}

/* RIP alone does not tell it where the target is the next instruction. */
static bool was_taken(struct vcpu *cpu, const struct ptd_insn *insn, const uint8_t *code)
{
    const uint64_t rip = vcpu_regs(cpu)->rip, next = insn->ip + insn->size_bytes;

    return rip != next ||
           (insn->target == next && condition_held(vcpu_regs(cpu), code, insn->size_bytes));
}

static void tell_pt(struct vcpu *cpu, const struct ptd_insn *insn, const uint8_t *code)
{
    struct vpt_cpu *const pt = &cpu->tracer.pt;
    const uint64_t rip = vcpu_regs(cpu)->rip, next = insn->ip + insn->size_bytes;

    switch (insn->iclass) {
    case PTD_INSN_COND:
        vpt_cond_branch(pt, rip, was_taken(cpu, insn, code));
        break;
    case PTD_INSN_JMP_DIRECT:
        vpt_jmp_direct(pt, rip);
        break;
    case PTD_INSN_CALL_DIRECT:
        vpt_call_direct(pt, rip, next);
        break;
    case PTD_INSN_JMP_INDIRECT:
        vpt_jmp_indirect(pt, rip);
        break;
    case PTD_INSN_CALL_INDIRECT:
        vpt_call_indirect(pt, rip, next);
        break;
    case PTD_INSN_RET:
        vpt_ret(pt, rip);
        break;
    case PTD_INSN_FAR:
        tracer_transfer(cpu, VPT_FAR_BRANCH, 0, insn->ip, 0);
        break;
    case PTD_INSN_IRET:
        tracer_transfer(cpu, VPT_IRET, 0, insn->ip, 0);
        break;
    case PTD_INSN_INT:
        tracer_transfer(cpu, VPT_SOFT_INTERRUPT, 0, insn->ip, 0);
        break;
    case PTD_INSN_MOV_CR3:
        vpt_mov_cr3(pt, vcpu_sregs(cpu)->cr3, rip);
        break;
    default:
        vpt_interrupt_flag(pt, (vcpu_regs(cpu)->rflags & RFLAGS_IF) != 0, insn->ip);
        vpt_time(pt);
        break;
    }
}

void tracer_insn(struct vcpu *cpu, const struct ptd_insn *insn, const uint8_t *code)
{
    if (is_rtit(&cpu->tracer))
        rtit_tell(cpu, insn);
    else
        tell_pt(cpu, insn, code);
}

void tracer_ptwrite(struct vcpu *cpu, uint64_t value, uint8_t size_bytes, uint64_t ip)
{
    vpt_ptwrite(&cpu->tracer.pt, value, size_bytes, ip);
}

/* C1, whose MWAIT encoding is 0. */
void tracer_halt(struct vcpu *cpu, uint64_t ip)
{
    vpt_power_entry(&cpu->tracer.pt, &(struct vpt_power_entry){.ip = ip});
}

void tracer_wake(struct vcpu *cpu)
{
    vpt_power_exit(&cpu->tracer.pt, &(struct vpt_power_exit){.reason = VPT_WAKE_INTERRUPT});
}

void tracer_slept(struct vcpu *cpu)
{
    if (is_rtit(&cpu->tracer))
        rtit_woke(cpu);
}

/* ---- Output ---- */

void tracer_resolve_output(struct vcpu *cpu)
{
    struct vpt_cpu *const pt = &cpu->tracer.pt;
    uint64_t gpa;

    while (vpt_output_blocked(pt)) {
        vpt_output_fault(pt, &gpa);
        if (!memory_is_absent(cpu->vmm, gpa))
            return; /* resolved; the next packet finds that out */
        memory_populate_page(cpu, gpa);
        vpt_flush(pt);
    }
}

void tracer_end(struct vcpu *cpu)
{
    vpt_flush(&cpu->tracer.pt);
    if (is_rtit(&cpu->tracer))
        rtit_end(cpu);
}

void tracer_conclude(struct vcpu *cpu)
{
    const struct tracer *const tracer = &cpu->tracer;

    cpu->record->packets = tracer->pt.packet_count + tracer->rtit.packet_count;
    cpu->record->dropped_bytes = tracer->pt.dropped_bytes + tracer->rtit.dropped_bytes;
    cpu->record->mtc_freq = tracer->pt.ctl >> VPT_CTL_MTCFREQ_SHR & 0xf;
    cpu->record->family = tracer->pt.caps.choices.family;
    cpu->record->model = tracer->pt.caps.choices.model;
    cpu->record->stepping = tracer->pt.caps.choices.stepping;
    cpu->record->deferred_tips = tracer->pt.caps.deferred_tips;
}

/* ---- A guest that moves ---- */

size_t tracer_save(const struct vcpu *cpu, uint8_t *data)
{
    return vpt_save(&cpu->tracer.pt, data, VPT_SAVE_MAX_BYTES);
}

const char *tracer_restore(struct vcpu *cpu, const uint8_t *data, size_t len)
{
    return vpt_restore(&cpu->tracer.pt, data, len);
}
