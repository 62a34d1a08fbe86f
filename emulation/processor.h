/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What several parts of the model ask of a processor.
 */
#ifndef VPT_PROCESSOR_H
#define VPT_PROCESSOR_H

#include "vpt.h"

/*
 * No event, with all that it can force out (deferred TIPs, MTC, CFE and EVD, a PSB+ after it, a
 * CYC before each), and with the OVF and TraceStop that may have to end the trace behind it, adds
 * more bytes than this to the internal buffer.
 */
#define VPT_EVENT_MAX_BYTES 512u

static inline bool vpt_cap(const struct vpt_cpu *cpu, uint32_t ebx_bit)
{
    return (cpu->caps.leaf14_0_ebx & ebx_bit) != 0;
}
static inline unsigned vpt_range_count(const struct vpt_caps *caps)
{
    return caps->leaf14_0_ebx & VPT_CAP_IPFILTER ? caps->leaf14_1_eax & 7 : 0;
}
static inline unsigned vpt_addr_cfg(uint64_t ctl, unsigned n)
{
    return (unsigned)(ctl >> (VPT_CTL_ADDR_CFG_SHR + 4 * n)) & 0xf;
}

/*
 * An address as packets and ranges have it: a RIP or a LIP, as the processor enumerates (33.3.1.1).
 * Outside 64-bit mode both have 32 bits: the sum of base and offset wraps.
 */
struct vpt_ip_form {
    uint64_t base, mask;
};
static inline struct vpt_ip_form vpt_ip_form(const struct vpt_cpu *cpu)
{
    return (struct vpt_ip_form){
        .base = cpu->caps.leaf14_0_ecx & VPT_CAP_LIP ? 0 : cpu->ctx.cs_base,
        .mask = cpu->ctx.exec_mode == VPT_EXEC_64 ? UINT64_MAX : UINT32_MAX,
    };
}
static inline uint64_t vpt_ip_formed(struct vpt_ip_form form, uint64_t ip)
{
    return (ip - form.base) & form.mask;
}
static inline uint64_t vpt_ip_payload(const struct vpt_cpu *cpu, uint64_t ip)
{
    return vpt_ip_formed(vpt_ip_form(cpu), ip);
}

/* Where the next byte goes in the current region. */
static inline uint32_t vpt_output_offset(const struct vpt_cpu *cpu)
{
    return (uint32_t)(cpu->output_mask_ptrs >> 32);
}
static inline void vpt_set_output_offset(struct vpt_cpu *cpu, uint32_t offset)
{
    cpu->output_mask_ptrs = (uint64_t)offset << 32 | (uint32_t)cpu->output_mask_ptrs;
}

#endif
