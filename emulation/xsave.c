/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace state as component 8 of the XSAVE feature set (33.3.5.2; Table 36-13 of older
 * editions).
 */
#include "msr.h"

#include <string.h>

#define AREA_RANGES 2

_Static_assert(sizeof(struct vpt_xsave_area) == 128, "CPUID.0DH.8:EAX");

void vpt_xsaves(struct vpt_cpu *cpu, struct vpt_xsave_area *area, uint64_t ip)
{
    const uint64_t ctl = cpu->ctl;

    /* The output MSRs are stable only when everything is flushed. */
    if (ctl & VPT_CTL_TRACEEN)
        vpt_trace_disable(cpu, ctl & ~VPT_CTL_TRACEEN, ip);
    *area = (struct vpt_xsave_area){
        .ctl = ctl,
        .output_base = cpu->output_base,
        .output_mask_ptrs = cpu->output_mask_ptrs,
        .cr3_match = cpu->cr3_match,
    };
    vpt_rdmsr(cpu, VPT_MSR_STATUS, &area->status);
    memcpy(area->addr, cpu->addr, sizeof(area->addr));
}

/* A value for an MSR that this processor lacks must be its reset value. */
static bool load(struct vpt_cpu *cpu, uint32_t msr, uint64_t value, uint64_t reset)
{
    uint64_t old;

    if (vpt_rdmsr(cpu, msr, &old) != VPT_OK)
        return value == reset || value == 0;
    return vpt_wrmsr(cpu, msr, value, 0, 0) == VPT_OK;
}

enum vpt_result vpt_xrstors(struct vpt_cpu *cpu, const struct vpt_xsave_area *area, uint64_t ip,
                            uint64_t next_ip)
{
    static const struct vpt_xsave_area initial = {0};
    struct vpt_cpu loaded = *cpu;
    bool good;

    if (!area)
        area = &initial;
    if (!cpu->caps.supported || (cpu->ctl & VPT_CTL_TRACEEN) || !vpt_ctl_ok(cpu, area->ctl))
        return VPT_GP;
    loaded.ctl = 0;
    good = load(&loaded, VPT_MSR_OUTPUT_BASE, area->output_base, 0) &&
           load(&loaded, VPT_MSR_OUTPUT_MASK_PTRS, area->output_mask_ptrs, 0x7f) &&
           load(&loaded, VPT_MSR_STATUS, area->status, 0) &&
           load(&loaded, VPT_MSR_CR3_MATCH, area->cr3_match, 0);
    for (uint32_t i = 0; i < 2 * AREA_RANGES; i++)
        good = good && load(&loaded, VPT_MSR_ADDR0_A + i, area->addr[i / 2][i % 2], 0);
    if (!good || (cpu->vmx_on && !cpu->caps.vmx_misc_pt))
        return VPT_GP;
    *cpu = loaded;
    return vpt_wrmsr(cpu, VPT_MSR_CTL, area->ctl, ip, next_ip);
}
