/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT for guests whose processor has it: the way to its MSRs, and what it is told. RTIT is told
 * every instruction (vpt.h).
 */
#include "kvm/rtit.h"
#include "kvm/machine.h"
#include "kvm/walk.h"

#include <errno.h>

#define CR0_PG (1ull << 31)

/* What Filter_Event_ID and TraceStop_Event_ID choose (RTIT v1.05, Table 7). */
enum { ID_RANGE0, ID_RANGE1, ID_BOTH };

int rtit_create(struct vcpu *cpu, uint32_t errata, const struct vpt_ops *ops)
{
    const uint8_t ratio = cpu->tracer.pt.caps.max_nonturbo_ratio;

    if (!vpt_rtit_init(&cpu->tracer.rtit, errata, ops, cpu))
        return vmm_fail(cpu->vmm, -EINVAL, "RTIT lacks a callback");
    vpt_rtit_sync(&cpu->tracer.rtit, ratio, ratio);
    return 0;
}

static void context(struct vcpu *cpu, struct vpt_rtit_context *ctx)
{
    *ctx = (struct vpt_rtit_context){.cr3 = vcpu_sregs(cpu)->cr3,
                                     .cpl = (uint8_t)vcpu_cpl(cpu),
                                     .paging = (vcpu_sregs(cpu)->cr0 & CR0_PG) != 0};
}

/* ---- MSRs ---- */

static uint8_t ranges_of(const struct vpt_rtit *rtit, unsigned id, struct ptd_rtit_range *ranges)
{
    uint8_t count = 0;

    for (unsigned n = 0; n < 2; n++) {
        if (id == ID_BOTH || id == n)
            ranges[count++] = (struct ptd_rtit_range){rtit->lip[n], rtit->lip[n + 2]};
    }
    return count;
}

/* What a decoder must know, as of the last time that tracing began. */
static void note_settings(struct vcpu *cpu)
{
    const struct vpt_rtit *const rtit = &cpu->tracer.rtit;
    struct ptd_rtit_config *const config = &cpu->record->rtit;

    *config = (struct ptd_rtit_config){
        .mode = PTD_MODE_64,
        .cr3 = vcpu_sregs(cpu)->cr3,
        .cycle_acc = (rtit->ctl & VPT_RTIT_CTL_CYCLE_ACC) != 0,
        .cycles_minus_one = (rtit->errata & VPT_RTIT_E6) != 0,
    };
    config->filters = ranges_of(rtit, rtit->events & 7, config->filter);
    config->stops = ranges_of(rtit, rtit->events >> 3 & 7, config->stop);
    cpu->record->is_rtit = true;
}

enum vpt_result rtit_wrmsr(struct vcpu *cpu, uint32_t msr, uint64_t value, uint64_t next_ip)
{
    const bool traced = vpt_rtit_trigger_en(&cpu->tracer.rtit);
    struct vpt_rtit_context ctx;
    enum vpt_result result;

    context(cpu, &ctx);
    vpt_rtit_set_context(&cpu->tracer.rtit, &ctx);
    result = vpt_rtit_wrmsr(&cpu->tracer.rtit, msr, value, next_ip);
    if (!traced && vpt_rtit_trigger_en(&cpu->tracer.rtit))
        note_settings(cpu);
    return result;
}

void rtit_end(struct vcpu *cpu)
{
    vpt_rtit_drain(&cpu->tracer.rtit);
    cpu->record->rtit.tnt_buff = cpu->tracer.rtit.tnt_buff;
}

/* ---- Events ---- */

static bool is_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
        return true;
    default:
        return (byte & 0xf0) == 0x40; /* REX */
    }
}

/* The end of the instruction at ip, and its prefixes; ip itself if the bytes cannot be read. */
static uint64_t end_of(struct vcpu *cpu, uint64_t ip, uint8_t *prefixes)
{
    uint8_t code[MAX_INSN_BYTES];
    struct ptd_insn insn;

    if (!insn_at(cpu, ip, code, &insn))
        return ip;
    while (*prefixes < insn.size_bytes && is_prefix(code[*prefixes]))
        ++*prefixes;
    return ip + insn.size_bytes;
}

void rtit_tell_transfer(struct vcpu *cpu, enum vpt_transfer_type type, uint64_t ip)
{
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_FAR, .target = vcpu_regs(cpu)->rip, .from = ip, .nlip = ip};

    /* RTIT v1.05, Table 1: an instruction names the one behind it, an event where it came. */
    if (type != VPT_INTERRUPT && type != VPT_FAULT)
        event.from = event.nlip = end_of(cpu, ip, &event.prefixes);
    context(cpu, &event.after);
    vpt_rtit_event(&cpu->tracer.rtit, &event);
}

void rtit_tell(struct vcpu *cpu, const struct ptd_insn *insn)
{
    struct vpt_rtit_event event = {
        .kind = VPT_RTIT_OTHER, .target = vcpu_regs(cpu)->rip, .nlip = insn->ip + insn->size_bytes};

    switch ((enum ptd_insn_class)insn->iclass) {
    case PTD_INSN_COND:
        event.kind = VPT_RTIT_COND;
        event.taken = event.target == insn->target && event.target != event.nlip;
        break;
    case PTD_INSN_JMP_DIRECT:
        event.kind = VPT_RTIT_JMP_DIRECT;
        break;
    case PTD_INSN_CALL_DIRECT:
        event.kind = VPT_RTIT_CALL_DIRECT;
        break;
    case PTD_INSN_JMP_INDIRECT:
        event.kind = VPT_RTIT_JMP_INDIRECT;
        break;
    case PTD_INSN_CALL_INDIRECT:
        event.kind = VPT_RTIT_CALL_INDIRECT;
        break;
    case PTD_INSN_RET:
        event.kind = VPT_RTIT_RET;
        break;
    case PTD_INSN_FAR:
    case PTD_INSN_IRET:
    case PTD_INSN_INT:
        rtit_tell_transfer(cpu, VPT_FAR_BRANCH, insn->ip);
        return;
    case PTD_INSN_MOV_CR3:
        event.kind = VPT_RTIT_MOV_CR3;
        break;
    default: /* CR0.PG cannot change in 64-bit mode */
        break;
    }
    context(cpu, &event.after);
    vpt_rtit_event(&cpu->tracer.rtit, &event);
}

void rtit_woke(struct vcpu *cpu)
{
    vpt_rtit_sync(&cpu->tracer.rtit, cpu->tracer.rtit.actual_ratio,
                  cpu->tracer.rtit.effective_ratio);
}
