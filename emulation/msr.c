/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace MSRs (33.2.8, Tables 33-6 to 33-9), the rules by which an access raises #GP, and
 * setting and clearing TraceEn (33.2.8.3, Table 33-56 cases 1 to 3). Also the PERF_GLOBAL MSRs, as
 * far as a ToPA PMI needs them.
 */
#include "msr.h"
#include "enables.h"
#include "events.h"
#include "output.h"
#include "packets.h"
#include "processor.h"
#include "pt_packets.h"
#include "topa.h"

#define STATUS_WRITABLE_PRESERVE (VPT_STATUS_PENDPSB | VPT_STATUS_PENDTOPAPMI)
#define STATUS_IGNORED           (VPT_STATUS_FILTEREN | VPT_STATUS_CONTEXTEN | VPT_STATUS_TRIGGEREN)
#define MASK_PTRS_FORCED         0x7full
#define OUTPUT_BASE_RESERVED     0x7full
#define CR3_MATCH_RESERVED       0x1full

static bool tracing(const struct vpt_cpu *cpu)
{
    return (cpu->ctl & VPT_CTL_TRACEEN) != 0;
}

/* ---- Which MSRs exist ---- */

static bool has_memory_output(const struct vpt_cpu *cpu)
{
    return (cpu->caps.leaf14_0_ecx & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN)) != 0;
}

/* The value behind an ADDRn MSR, or NULL. */
static uint64_t *addr_msr(struct vpt_cpu *cpu, uint32_t msr)
{
    const uint32_t index = msr - VPT_MSR_ADDR0_A;

    if (msr < VPT_MSR_ADDR0_A || index >= 2 * vpt_range_count(&cpu->caps))
        return NULL;
    return &cpu->addr[index / 2][index % 2];
}

static bool is_perf_global(uint32_t msr)
{
    return msr >= VPT_MSR_PERF_GLOBAL_STATUS && msr <= VPT_MSR_PERF_GLOBAL_RESET;
}

bool vpt_msr_owned(uint32_t msr)
{
    return (msr >= 0x560 && msr <= 0x59f) || is_perf_global(msr);
}

/* ---- PERF_GLOBAL ---- */

static enum vpt_result wrmsr_perf_global(struct vpt_cpu *cpu, uint32_t msr, uint64_t value)
{
    const uint64_t counters =
        ((1ull << cpu->caps.perf_counters) - 1) | ((1ull << cpu->caps.perf_fixed) - 1) << 32;
    /* OvfBuf, CondChgd and LBR/CTR frozen exist besides the counters and Trace_ToPA_PMI. */
    const uint64_t clearable =
        counters | VPT_PERF_TOPA_PMI | 1ull << 58 | 1ull << 59 | 1ull << 62 | 1ull << 63;

    switch (msr) {
    case VPT_MSR_PERF_GLOBAL_CTRL:
        if (value & ~counters)
            return VPT_GP;
        cpu->perf_global_ctrl = value;
        return VPT_OK;
    case VPT_MSR_PERF_GLOBAL_RESET:
        if (value & ~clearable)
            return VPT_GP;
        cpu->perf_global_status &= ~value;
        return VPT_OK;
    default:
        return VPT_GP; /* PERF_GLOBAL_STATUS is read-only */
    }
}

static enum vpt_result rdmsr_perf_global(const struct vpt_cpu *cpu, uint32_t msr, uint64_t *value)
{
    switch (msr) {
    case VPT_MSR_PERF_GLOBAL_STATUS:
        *value = cpu->perf_global_status;
        return VPT_OK;
    case VPT_MSR_PERF_GLOBAL_CTRL:
        *value = cpu->perf_global_ctrl;
        return VPT_OK;
    default:
        *value = 0;
        return VPT_OK;
    }
}

/* ---- RTIT_CTL ---- */

/* The bits that may be 1 in RTIT_CTL at all (Table 33-6). */
static uint64_t ctl_writable(const struct vpt_cpu *cpu)
{
    uint64_t bits = VPT_CTL_TRACEEN | VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_TSCEN | VPT_CTL_DISRETC |
                    VPT_CTL_BRANCHEN;

    if (vpt_cap(cpu, VPT_CAP_CR3FILTER))
        bits |= VPT_CTL_CR3FILTER;
    if (vpt_cap(cpu, VPT_CAP_PSB_CYC))
        bits |= VPT_CTL_CYCEN | 0xfull << VPT_CTL_CYCTHRESH_SHR | 0xfull << VPT_CTL_PSBFREQ_SHR;
    if (vpt_cap(cpu, VPT_CAP_MTC))
        bits |= VPT_CTL_MTCEN | 0xfull << VPT_CTL_MTCFREQ_SHR;
    if (vpt_cap(cpu, VPT_CAP_PTWRITE))
        bits |= VPT_CTL_PTWEN | VPT_CTL_FUPONPTW;
    if (vpt_cap(cpu, VPT_CAP_POWER))
        bits |= VPT_CTL_PWREVTEN;
    if (vpt_cap(cpu, VPT_CAP_PRESERVE))
        bits |= VPT_CTL_INJECT_PSB_PMI;
    if (vpt_cap(cpu, VPT_CAP_EVENT))
        bits |= VPT_CTL_EVENTEN;
    if (vpt_cap(cpu, VPT_CAP_DISTNT))
        bits |= VPT_CTL_DISTNT;
    if (cpu->caps.leaf14_0_ecx & VPT_CAP_TOPA)
        bits |= VPT_CTL_TOPA;
    if (cpu->caps.leaf14_0_ecx & VPT_CAP_FABRIC)
        bits |= VPT_CTL_FABRICEN;
    for (unsigned n = 0; n < vpt_range_count(&cpu->caps); n++)
        bits |= 0xfull << (VPT_CTL_ADDR_CFG_SHR + 4 * n);
    return bits;
}

/* Whether a field holds a value of its bitmap. 0 is always good while its packets are off. */
static bool encoding_ok(uint64_t ctl, unsigned shift, uint32_t bitmap, uint64_t user)
{
    const unsigned value = (unsigned)(ctl >> shift) & 0xf;

    if (value == 0 && !(ctl & user))
        return true;
    return (bitmap >> value & 1) != 0;
}

bool vpt_ctl_ok(const struct vpt_cpu *cpu, uint64_t ctl)
{
    const uint64_t addr_cfg = ctl >> VPT_CTL_ADDR_CFG_SHR;
    const uint32_t mtc_periods = cpu->caps.leaf14_1_eax >> 16;
    const uint32_t cyc_thresholds = cpu->caps.leaf14_1_ebx & 0xffff;
    const uint32_t psb_periods = cpu->caps.leaf14_1_ebx >> 16;

    if (ctl & ~ctl_writable(cpu))
        return false;
    /* Four ADDRn_CFG of 4 bits: 3 and more are reserved (Table 33-6). */
    if ((addr_cfg & 0xcccc) || (addr_cfg & addr_cfg >> 1 & 0x1111))
        return false;
    if (!encoding_ok(ctl, VPT_CTL_MTCFREQ_SHR, mtc_periods, VPT_CTL_MTCEN) ||
        !encoding_ok(ctl, VPT_CTL_CYCTHRESH_SHR, cyc_thresholds, VPT_CTL_CYCEN))
        return false;
    if (vpt_cap(cpu, VPT_CAP_PSB_CYC) &&
        !encoding_ok(ctl, VPT_CTL_PSBFREQ_SHR, psb_periods, VPT_CTL_TRACEEN))
        return false;
    /* Single-range output is what is left when neither ToPA nor FabricEn is set. */
    if ((ctl & VPT_CTL_TRACEEN) && !(ctl & (VPT_CTL_TOPA | VPT_CTL_FABRICEN)) &&
        !(cpu->caps.leaf14_0_ecx & VPT_CAP_SNGLRGN))
        return false;
    return true;
}

bool vpt_ctl_write_ok(const struct vpt_cpu *cpu, uint64_t value)
{
    if (!cpu->caps.supported || (cpu->vmx_on && !cpu->caps.vmx_misc_pt))
        return false; /* 33.2.8.1, 33.2.9.4 */
    if (tracing(cpu) && (value & VPT_CTL_TRACEEN))
        return value == cpu->ctl; /* 33.2.8.1, the note */
    return vpt_ctl_ok(cpu, value);
}

static enum vpt_result wrmsr_ctl(struct vpt_cpu *cpu, uint64_t value, uint64_t ip, uint64_t next_ip)
{
    if (!vpt_ctl_write_ok(cpu, value))
        return VPT_GP;
    if (value == cpu->ctl)
        return VPT_OK;
    if (tracing(cpu))
        vpt_trace_disable(cpu, value, ip);
    else if (value & VPT_CTL_TRACEEN)
        vpt_trace_enable(cpu, value, next_ip, 0);
    else
        cpu->ctl = value;
    return VPT_OK;
}

/* ---- RTIT_STATUS ---- */

static enum vpt_result wrmsr_status(struct vpt_cpu *cpu, uint64_t value)
{
    uint64_t writable = VPT_STATUS_ERROR | VPT_STATUS_STOPPED;

    if (vpt_cap(cpu, VPT_CAP_PRESERVE))
        writable |= STATUS_WRITABLE_PRESERVE;
    if (vpt_cap(cpu, VPT_CAP_PSB_CYC))
        writable |= VPT_STATUS_BYTECNT_MASK;
    if (value & ~(writable | STATUS_IGNORED))
        return VPT_GP;
    cpu->status = value & writable;
    return VPT_OK;
}

static uint64_t read_status(const struct vpt_cpu *cpu)
{
    uint64_t value = cpu->status;

    if (cpu->filter_en)
        value |= VPT_STATUS_FILTEREN;
    if (cpu->context_en)
        value |= VPT_STATUS_CONTEXTEN;
    if (cpu->trigger_en)
        value |= VPT_STATUS_TRIGGEREN;
    return value;
}

/* ---- PacketByteCnt: 17 bits for periods of up to 64 MiB ---- */

/* Bytes that one count stands for, so that a whole period fits the field. */
static uint32_t bytecnt_unit(const struct vpt_cpu *cpu)
{
    const uint32_t unit = (cpu->psb_period_bytes + cpu->caps.choices.psb_early_bytes) >> 16;

    return unit ? unit : 1;
}

static void load_bytecnt(struct vpt_cpu *cpu)
{
    const uint64_t count = (cpu->status & VPT_STATUS_BYTECNT_MASK) >> VPT_STATUS_BYTECNT_SHR;

    cpu->bytes_since_psb = (uint32_t)count * bytecnt_unit(cpu);
}

static void save_bytecnt(struct vpt_cpu *cpu)
{
    const uint32_t unit = bytecnt_unit(cpu);
    uint64_t count =
        ((uint64_t)cpu->bytes_since_psb + unit - 1) / unit; /* 0 only if nothing was sent */

    if (!vpt_cap(cpu, VPT_CAP_PSB_CYC))
        return;
    if (count > VPT_STATUS_BYTECNT_MASK >> VPT_STATUS_BYTECNT_SHR)
        count = VPT_STATUS_BYTECNT_MASK >> VPT_STATUS_BYTECNT_SHR;
    cpu->status = (cpu->status & ~VPT_STATUS_BYTECNT_MASK) | count << VPT_STATUS_BYTECNT_SHR;
}

/* ---- TraceEn ---- */

void vpt_ctl_loaded(struct vpt_cpu *cpu)
{
    const uint64_t ctl = cpu->ctl;

    cpu->psb_period_bytes =
        (2048u << (ctl >> VPT_CTL_PSBFREQ_SHR & 0xf)) - cpu->caps.choices.psb_early_bytes;
    cpu->timing = (ctl & (VPT_CTL_MTCEN | VPT_CTL_CYCEN)) != 0;
    cpu->ranges = (ctl >> VPT_CTL_ADDR_CFG_SHR & 0xffff) != 0;
    cpu->ret_kept = !(ctl & VPT_CTL_DISRETC);
}

static void load_ctl(struct vpt_cpu *cpu, uint64_t ctl)
{
    cpu->ctl = ctl;
    vpt_ctl_loaded(cpu);
}

/* TriggerEn, with nothing left of an earlier trace. */
static void set_trigger(struct vpt_cpu *cpu)
{
    cpu->trigger_en = true; /* PacketEn is 0 still, as ever without TriggerEn */
    cpu->tnt = 1;
    cpu->deferred_count = 0;
    cpu->waiting_bytes = 0;
    cpu->overflow = false;
    cpu->psb_again = false;
}

void vpt_trace_enable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t next_ip, uint8_t cfe)
{
    const bool preserve = (ctl & VPT_CTL_INJECT_PSB_PMI) != 0;

    load_ctl(cpu, ctl);
    load_bytecnt(cpu);
    if (preserve && (cpu->status & VPT_STATUS_PENDTOPAPMI))
        vpt_topa_pmi(cpu);
    if (cpu->status & (VPT_STATUS_ERROR | VPT_STATUS_STOPPED))
        return; /* TraceEn without TriggerEn, 33.2.6.2 */
    if (!vpt_output_start(cpu))
        return;

    set_trigger(cpu);
    vpt_filter_start(cpu);
    cpu->tnt_full = 1ull << (cpu->caps.long_tnt ? 47 : 6);
    cpu->boundary_due = false;
    vpt_start_mode(cpu);
    cpu->ip_full = true;
    vpt_ret_clear(cpu);
    vpt_choose_path(cpu);
    if (cpu->timing) {
        cpu->ops->clocks(cpu->owner, &cpu->now);
        cpu->cyc_base = cpu->now.cycles; /* 33.3.6.1 */
        cpu->mtc_count = cpu->now.art >> (ctl >> VPT_CTL_MTCFREQ_SHR & 0xf);
    }

    const bool stop = vpt_update_enables(cpu, next_ip);

    if (!vpt_cap(cpu, VPT_CAP_PSB_CYC) || cpu->bytes_since_psb == 0 ||
        (preserve && (cpu->status & VPT_STATUS_PENDPSB))) {
        vpt_emit_psb(cpu, next_ip, true);
    } else {
        vpt_emit_tsc(cpu);
        vpt_emit_cbr(cpu);
    }
    /* Before the TIP.PGE: behind it, a CFE without IP would bind to the next FUP (33.4.2.29). */
    if (cfe && cpu->context_en)
        vpt_control_flow_event(cpu, cfe, 0, next_ip, false, false);
    if (cpu->packet_en) {
        vpt_emit_mode_exec(cpu);
        vpt_emit_ip(cpu, PT_TIP_PGE, next_ip);
    }
    if (stop)
        vpt_trace_stop(cpu);
    vpt_end_event(cpu, next_ip);
}

void vpt_trace_append_begin(struct vpt_cpu *cpu)
{
    vpt_ctl_loaded(cpu);
    load_bytecnt(cpu);
    set_trigger(cpu);
}

void vpt_trace_off(struct vpt_cpu *cpu, uint64_t ctl)
{
    cpu->stalled = false;
    vpt_flush(cpu);
    vpt_clear_trigger(cpu);
    save_bytecnt(cpu);
    if (cpu->buf_len && !cpu->waiting_ctl)
        cpu->waiting_ctl = cpu->ctl;
    load_ctl(cpu, ctl);
}

void vpt_trace_disable(struct vpt_cpu *cpu, uint64_t ctl, uint64_t ip)
{
    if (cpu->trigger_en) {
        vpt_begin_last_event(cpu, ip);
        if (cpu->packet_en) {
            vpt_emit_ip(cpu, PT_FUP, ip);
            vpt_emit_pgd_suppressed(cpu);
        }
    }
    vpt_trace_off(cpu, ctl);
}

/* ---- Access ---- */

static bool canonical(const struct vpt_cpu *cpu, uint64_t addr)
{
    const unsigned unused = 64 - cpu->caps.linear_bits;

    if (cpu->caps.linear_bits == 32)
        return addr >> 32 == 0;
    return (uint64_t)((int64_t)(addr << unused) >> unused) == addr;
}

enum vpt_result vpt_rdmsr(struct vpt_cpu *cpu, uint32_t msr, uint64_t *value)
{
    const uint64_t *addr;

    if (is_perf_global(msr))
        return rdmsr_perf_global(cpu, msr, value);
    if (!cpu->caps.supported)
        return VPT_GP;
    switch (msr) {
    case VPT_MSR_CTL:
        *value = cpu->ctl;
        return VPT_OK;
    case VPT_MSR_STATUS:
        *value = read_status(cpu);
        return VPT_OK;
    case VPT_MSR_CR3_MATCH:
        if (!vpt_cap(cpu, VPT_CAP_CR3FILTER))
            return VPT_GP;
        *value = cpu->cr3_match;
        return VPT_OK;
    case VPT_MSR_OUTPUT_BASE:
    case VPT_MSR_OUTPUT_MASK_PTRS:
        if (!has_memory_output(cpu))
            return VPT_GP;
        *value = msr == VPT_MSR_OUTPUT_BASE ? cpu->output_base : cpu->output_mask_ptrs;
        return VPT_OK;
    default:
        addr = addr_msr(cpu, msr);
        if (!addr)
            return VPT_GP;
        *value = *addr;
        return VPT_OK;
    }
}

/* Every MSR but RTIT_CTL: writable only while TraceEn is 0 (33.2.8.1). */
static enum vpt_result wrmsr_config(struct vpt_cpu *cpu, uint32_t msr, uint64_t value)
{
    uint64_t *addr;

    if (tracing(cpu))
        return VPT_GP;
    switch (msr) {
    case VPT_MSR_STATUS:
        return wrmsr_status(cpu, value);
    case VPT_MSR_CR3_MATCH:
        if (!vpt_cap(cpu, VPT_CAP_CR3FILTER) || (value & CR3_MATCH_RESERVED))
            return VPT_GP;
        cpu->cr3_match = value;
        return VPT_OK;
    case VPT_MSR_OUTPUT_BASE:
        if (!has_memory_output(cpu) || (value & OUTPUT_BASE_RESERVED) ||
            value >> cpu->caps.maxphyaddr)
            return VPT_GP;
        vpt_output_forget(cpu);
        cpu->output_base = value;
        return VPT_OK;
    case VPT_MSR_OUTPUT_MASK_PTRS:
        if (!has_memory_output(cpu))
            return VPT_GP;
        vpt_output_forget(cpu);
        cpu->output_mask_ptrs = value | MASK_PTRS_FORCED;
        return VPT_OK;
    default:
        addr = addr_msr(cpu, msr);
        if (!addr || !canonical(cpu, value))
            return VPT_GP;
        *addr = value;
        return VPT_OK;
    }
}

enum vpt_result vpt_wrmsr(struct vpt_cpu *cpu, uint32_t msr, uint64_t value, uint64_t ip,
                          uint64_t next_ip)
{
    if (is_perf_global(msr))
        return wrmsr_perf_global(cpu, msr, value);
    if (!cpu->caps.supported)
        return VPT_GP;
    if (msr == VPT_MSR_CTL)
        return wrmsr_ctl(cpu, value, ip, next_ip);
    return wrmsr_config(cpu, msr, value);
}
