/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT, the trace of Silvermont and Airmont from which PT descends: a part of libvpt.
 *
 * Sections, tables and errata are those of the "Real Time Instruction Trace Programming Reference"
 * v1.05. The conventions are those of vpt.h.
 *
 * A processor with RTIT is an object of its own. It is fed as a struct vpt_cpu is, but with every
 * instruction, because ranges of RTIT notice code that walks into them.
 */
#ifndef VPT_RTIT_H
#define VPT_RTIT_H

#include "vpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- MSRs (3.3) -------------------------------------------------------------------------- */

#define VPT_RTIT_LIP0           0x760u /* to LIP3, 763H */
#define VPT_RTIT_CTL            0x768u
#define VPT_RTIT_STATUS         0x769u
#define VPT_RTIT_CNTP           0x76bu
#define VPT_RTIT_EVENTS         0x76cu
#define VPT_RTIT_LAST_LIP       0x76eu
#define VPT_RTIT_LAST_CALL_NLIP 0x76fu
#define VPT_RTIT_BASE_ADDR      0x770u
#define VPT_RTIT_LIMIT_MASK     0x771u
#define VPT_RTIT_OFFSET         0x772u
#define VPT_RTIT_CR3_MATCH      0x777u
#define VPT_RTIT_PKT_CNT        0x77cu
#define VPT_RTIT_TNT_BUFF       0x77du

/* RTIT_CTL, Table 4. */
#define VPT_RTIT_CTL_TRACE_EN      (1u << 0)
#define VPT_RTIT_CTL_CYCLE_ACC     (1u << 1)
#define VPT_RTIT_CTL_OS            (1u << 2)
#define VPT_RTIT_CTL_USER          (1u << 3)
#define VPT_RTIT_CTL_STS_ON_CR3    (1u << 4)
#define VPT_RTIT_CTL_CR3EN         (1u << 7)
#define VPT_RTIT_CTL_DEST          (1u << 8)
#define VPT_RTIT_CTL_MTC_EN        (1u << 9)
#define VPT_RTIT_CTL_STS_EN        (1u << 10)
#define VPT_RTIT_CTL_CMPRS_RET     (1u << 11)
#define VPT_RTIT_CTL_LESS_PKTS     (1u << 12)
#define VPT_RTIT_CTL_TRACE_ACTIVE  (1u << 13)
#define VPT_RTIT_CTL_MTC_RANGE_SHR 14

/* RTIT_STATUS (3.3.3). */
#define VPT_RTIT_STATUS_FILTEREN  (1u << 0)
#define VPT_RTIT_STATUS_CONTEXTEN (1u << 1)
#define VPT_RTIT_STATUS_TRIGGEREN (1u << 2)
#define VPT_RTIT_STATUS_OVERFLOW  (1u << 3)

/* Errata of appendix E that the model shows if asked to. */
#define VPT_RTIT_E1 (1u << 1) /* FUP.FAR inside a far transfer of more than 3 prefixes */
#define VPT_RTIT_E2 (1u << 2) /* a FUP.PGD too many */
#define VPT_RTIT_E3 (1u << 3) /* the PSB comes one packet late */
#define VPT_RTIT_E4 (1u << 4) /* TraceStop in an overflow does not stop */
#define VPT_RTIT_E5 (1u << 5) /* a TIP behind FUP.BuffOvf */
#define VPT_RTIT_E6 (1u << 6) /* cycle counts are one too small */
#define VPT_RTIT_E7 (1u << 7) /* the first MTC comes at a wrong time */
#define VPT_RTIT_E8 (1u << 8) /* the packet behind a PSB is dropped */

/* ---- Events (2.1, chapter 4) -------------------------------------------------------------- */

/* What decides whether the processor is traced (2.1.2). */
struct vpt_rtit_context {
    uint64_t cr3;
    uint8_t cpl;
    bool paging; /* CR0.PG */
    bool smm, vmx_root;
};

enum vpt_rtit_kind {
    VPT_RTIT_OTHER, /* no change of flow */
    VPT_RTIT_COND,
    VPT_RTIT_JMP_DIRECT,
    VPT_RTIT_CALL_DIRECT,
    VPT_RTIT_JMP_INDIRECT,
    VPT_RTIT_CALL_INDIRECT,
    VPT_RTIT_RET,
    VPT_RTIT_FAR, /* far branches, interrupts, exceptions (Table 1 says what .from is) */
    VPT_RTIT_MOV_CR3,
    VPT_RTIT_PAGING, /* MOV CR0 that changes CR0.PG */
    VPT_RTIT_LEAVE,  /* SMI, VM exit: .from is what SMRAM or the VMCS has */
    VPT_RTIT_ENTER,  /* RSM, VM entry */
};

/* One instruction that retired, or one event between two. */
struct vpt_rtit_event {
    enum vpt_rtit_kind kind;
    bool taken;       /* VPT_RTIT_COND */
    uint8_t prefixes; /* VPT_RTIT_FAR: how many the instruction has, for E1 */
    uint64_t nlip;    /* the next instruction in memory */
    uint64_t target;  /* the next instruction that runs */
    uint64_t from;    /* VPT_RTIT_FAR and VPT_RTIT_LEAVE */
    struct vpt_rtit_context after;
};

/* ---- The logical processor ---------------------------------------------------------------- */

#define VPT_RTIT_BUFFER_BYTES 256

/* One logical processor with RTIT: plain data, as struct vpt_cpu. */
struct vpt_rtit {
    uint64_t lip[4], last_lip, last_call_nlip, base_addr, cr3_match;
    uint32_t ctl, cntp, events, limit_mask, offset, pkt_cnt;
    uint8_t tnt_buff;
    bool unlocked; /* RTIT_CTL was read (3.3.1) */
    bool filter_en, context_en, overflow, stalled;
    bool stop_pending; /* TraceStop in an overflow */
    bool psb_late;     /* a PSB is due behind the next packet: E3, or after an overflow */
    bool psb_sent;     /* E8: the last packet was a PSB */
    bool mtc_first;    /* E7: no MTC since TriggerEn became 1 */
    struct vpt_rtit_context ctx;
    uint64_t cycles, mtc_count; /* as of the last look at the clocks */
    uint8_t actual_ratio, effective_ratio;
    uint32_t errata;
    uint64_t packet_count, overflow_count, dropped_bytes, output_bytes;
    uint32_t buf_len;
    uint32_t stop_end; /* in buf, behind the last TraceStop packet; 0: there is none */
    uint8_t buf[VPT_RTIT_BUFFER_BYTES];
    const struct vpt_ops *ops;
    void *owner;
};

static inline bool vpt_rtit_trigger_en(const struct vpt_rtit *cpu)
{
    const uint32_t both = VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_TRACE_ACTIVE;

    return (cpu->ctl & both) == both;
}
static inline bool vpt_rtit_packet_en(const struct vpt_rtit *cpu)
{
    return vpt_rtit_trigger_en(cpu) && cpu->context_en && cpu->filter_en;
}

/*
 * As after reset, with errata VPT_RTIT_E*. Of ops, translate and clocks are required (false: they
 * are not there); clocks->tsc is the hardware's TSC.
 */
bool vpt_rtit_init(struct vpt_rtit *cpu, uint32_t errata, const struct vpt_ops *ops, void *owner);
/* RDMSR and WRMSR of 760H to 77FH, as vpt_rdmsr() and vpt_wrmsr(); next_ip is behind the WRMSR. */
bool vpt_rtit_msr_owned(uint32_t msr);
enum vpt_result vpt_rtit_rdmsr(struct vpt_rtit *cpu, uint32_t msr, uint64_t *value);
enum vpt_result vpt_rtit_wrmsr(struct vpt_rtit *cpu, uint32_t msr, uint64_t value,
                               uint64_t next_ip);
/* The state while no event is told, before a WRMSR that may enable tracing. */
void vpt_rtit_set_context(struct vpt_rtit *cpu, const struct vpt_rtit_context *ctx);
/* One event after the other, in program order, while TriggerEn is 1. */
void vpt_rtit_event(struct vpt_rtit *cpu, const struct vpt_rtit_event *event);
/* Wake from sleep, frequency change, clock modulation: STS (4.2.13). */
void vpt_rtit_sync(struct vpt_rtit *cpu, uint8_t actual_ratio, uint8_t effective_ratio);
/* These do what vpt_stall() and vpt_flush() do. */
void vpt_rtit_stall(struct vpt_rtit *cpu, bool stalled);
void vpt_rtit_drain(struct vpt_rtit *cpu);

#ifdef __cplusplus
}
#endif
#endif
