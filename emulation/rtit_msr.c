/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MSRs of RTIT (RTIT v1.05, 3.3; Tables 4 to 16).
 */
#include "rtit.h"
#include "rtit_encoder.h"

#include <string.h>

#define CTL_WRITABLE      0x0000ff9fu /* not 6:5, not 31:16 */
#define EVENTS_WRITABLE   0x3fu
#define CNTP_WRITABLE     0x3fffffu
#define LAST_LIP_WRITABLE 0x1ffffffffull
#define NLIP_WRITABLE     0x1ffffffffffffull
#define CR3_WRITABLE      0xfffffffe0ull
#define PKT_CNT_WRITABLE  0x33fffu
#define BASE_WRITABLE     0xfffffffc0ull
#define MASK_WRITABLE     0x3fffffu
#define MASK_FORCED       0x3fu
#define OFFSET_WRITABLE   0x3fffffu
#define TNT_WRITABLE      0x7fu
#define STATUS_WRITABLE   (VPT_RTIT_STATUS_FILTEREN | VPT_RTIT_STATUS_OVERFLOW)
#define STATUS_IGNORED    (VPT_RTIT_STATUS_CONTEXTEN | VPT_RTIT_STATUS_TRIGGEREN)
#define LIP_BITS          48

static uint64_t sign_extend(uint64_t lip)
{
    return (uint64_t)((int64_t)(lip << (64 - LIP_BITS)) >> (64 - LIP_BITS));
}

bool vpt_rtit_init(struct vpt_rtit *cpu, uint32_t errata, const struct vpt_ops *ops, void *owner)
{
    if (!ops->translate || !ops->clocks)
        return false;
    memset(cpu, 0, sizeof(*cpu));
    cpu->pkt_cnt = 0x20000;
    cpu->base_addr = 0xfdc00000;
    cpu->limit_mask = 0x7f;
    cpu->tnt_buff = 1;
    cpu->errata = errata;
    cpu->ops = ops;
    cpu->owner = owner;
    return true;
}

bool vpt_rtit_msr_owned(uint32_t msr)
{
    return msr >= VPT_RTIT_LIP0 && msr <= 0x77f;
}

void vpt_rtit_set_context(struct vpt_rtit *cpu, const struct vpt_rtit_context *ctx)
{
    if (!vpt_rtit_trigger_en(cpu))
        cpu->ctx = *ctx;
}

enum vpt_result vpt_rtit_rdmsr(struct vpt_rtit *cpu, uint32_t msr, uint64_t *value)
{
    if (msr == VPT_RTIT_CTL)
        cpu->unlocked = true;
    else if (!cpu->unlocked)
        return VPT_GP;
    switch (msr) {
    case VPT_RTIT_CTL:
        *value = cpu->ctl;
        return VPT_OK;
    case VPT_RTIT_STATUS:
        *value = (cpu->filter_en ? VPT_RTIT_STATUS_FILTEREN : 0) |
                 (cpu->context_en ? VPT_RTIT_STATUS_CONTEXTEN : 0) |
                 (vpt_rtit_trigger_en(cpu) ? VPT_RTIT_STATUS_TRIGGEREN : 0) |
                 (cpu->overflow ? VPT_RTIT_STATUS_OVERFLOW : 0);
        return VPT_OK;
    case VPT_RTIT_CNTP:
        *value = cpu->cntp;
        return VPT_OK;
    case VPT_RTIT_EVENTS:
        *value = cpu->events;
        return VPT_OK;
    case VPT_RTIT_LAST_LIP:
        *value = cpu->last_lip;
        return VPT_OK;
    case VPT_RTIT_LAST_CALL_NLIP:
        *value = cpu->last_call_nlip;
        return VPT_OK;
    case VPT_RTIT_BASE_ADDR:
        *value = cpu->base_addr;
        return VPT_OK;
    case VPT_RTIT_LIMIT_MASK:
        *value = cpu->limit_mask;
        return VPT_OK;
    case VPT_RTIT_OFFSET:
        *value = cpu->offset;
        return VPT_OK;
    case VPT_RTIT_CR3_MATCH:
        *value = cpu->cr3_match;
        return VPT_OK;
    case VPT_RTIT_PKT_CNT:
        *value = cpu->pkt_cnt;
        return VPT_OK;
    case VPT_RTIT_TNT_BUFF:
        *value = cpu->tnt_buff;
        return VPT_OK;
    default:
        if (msr < VPT_RTIT_LIP0 || msr > VPT_RTIT_LIP0 + 3)
            return VPT_GP;
        *value = sign_extend(cpu->lip[msr - VPT_RTIT_LIP0]);
        return VPT_OK;
    }
}

/* A 64-bit register with reserved bits. */
static enum vpt_result set64(uint64_t *reg, uint64_t value, uint64_t writable)
{
    if (value & ~writable)
        return VPT_GP;
    *reg = value;
    return VPT_OK;
}

static enum vpt_result set32(uint32_t *reg, uint64_t value, uint64_t writable)
{
    if (value & ~writable)
        return VPT_GP;
    *reg = (uint32_t)value;
    return VPT_OK;
}

static void write_status(struct vpt_rtit *cpu, uint64_t value, uint64_t next_ip)
{
    const bool was = vpt_rtit_packet_en(cpu);

    cpu->filter_en = value & VPT_RTIT_STATUS_FILTEREN;
    cpu->overflow = value & VPT_RTIT_STATUS_OVERFLOW; /* not natural: no packet (4.2.5) */
    vpt_rtit_packet_en_written(cpu, was, next_ip);
}

enum vpt_result vpt_rtit_wrmsr(struct vpt_rtit *cpu, uint32_t msr, uint64_t value, uint64_t next_ip)
{
    if (!cpu->unlocked)
        return VPT_GP;
    switch (msr) {
    case VPT_RTIT_CTL:
        if (value & ~(uint64_t)CTL_WRITABLE)
            return VPT_GP;
        vpt_rtit_write_ctl(cpu, (uint32_t)value, next_ip);
        return VPT_OK;
    case VPT_RTIT_STATUS:
        if (value & ~(uint64_t)(STATUS_WRITABLE | STATUS_IGNORED))
            return VPT_GP;
        write_status(cpu, value, next_ip);
        return VPT_OK;
    case VPT_RTIT_CNTP:
        return set32(&cpu->cntp, value, CNTP_WRITABLE);
    case VPT_RTIT_EVENTS:
        return set32(&cpu->events, value, EVENTS_WRITABLE);
    case VPT_RTIT_LAST_LIP:
        return set64(&cpu->last_lip, value, LAST_LIP_WRITABLE);
    case VPT_RTIT_LAST_CALL_NLIP:
        return set64(&cpu->last_call_nlip, value, NLIP_WRITABLE);
    case VPT_RTIT_BASE_ADDR:
        return set64(&cpu->base_addr, value, BASE_WRITABLE);
    case VPT_RTIT_LIMIT_MASK:
        return set32(&cpu->limit_mask, value | MASK_FORCED, MASK_WRITABLE);
    case VPT_RTIT_OFFSET:
        return set32(&cpu->offset, value, OFFSET_WRITABLE);
    case VPT_RTIT_CR3_MATCH:
        return set64(&cpu->cr3_match, value, CR3_WRITABLE);
    case VPT_RTIT_PKT_CNT:
        if (set32(&cpu->pkt_cnt, value, PKT_CNT_WRITABLE) != VPT_OK)
            return VPT_GP;
        vpt_rtit_packet_count_changed(cpu);
        return VPT_OK;
    case VPT_RTIT_TNT_BUFF:
        if (value == 0 || value & ~(uint64_t)TNT_WRITABLE)
            return VPT_GP;
        cpu->tnt_buff = (uint8_t)value;
        return VPT_OK;
    default:
        if (msr < VPT_RTIT_LIP0 || msr > VPT_RTIT_LIP0 + 3)
            return VPT_GP;
        cpu->lip[msr - VPT_RTIT_LIP0] = sign_extend(value); /* 63:48 are ignored */
        return VPT_OK;
    }
}
