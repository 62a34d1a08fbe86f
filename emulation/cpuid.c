/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What CPUID tells a guest of its trace hardware (33.3.1, Tables 33-11 and 33-12; leaf 15H: 33.8.3;
 * leaf 0DH: the state component of 33.3.5.2).
 */
#include "vpt.h"

#define RTIT_SIGNATURE       0x00030678u /* 06_37H stepping 8 (RTIT v1.05, 1.2) */
#define CPUID_7_EBX_PT       (1u << 25)
#define XSAVE_PT_COMPONENT   8
#define XSAVE_PT_BYTES       128u
#define XSAVE_SUBLEAF_XSAVES 3 /* bit of CPUID.0DH.1:EAX */

static uint32_t max_leaf(const struct vpt_caps *caps, uint32_t host)
{
    const uint32_t needed = caps->tsc_den ? 0x15 : 0x14;

    return host < needed ? needed : host;
}

static bool leaf_14(const struct vpt_caps *caps, uint32_t subleaf, struct vpt_cpuid *regs)
{
    const bool sub1 = caps->leaf14_1_eax || caps->leaf14_1_ebx;

    *regs = (struct vpt_cpuid){0};
    if (!caps->supported)
        return true;
    if (subleaf == 0) {
        regs->eax = sub1;
        regs->ebx = caps->leaf14_0_ebx;
        regs->ecx = caps->leaf14_0_ecx;
    } else if (subleaf == 1) {
        regs->eax = caps->leaf14_1_eax;
        regs->ebx = caps->leaf14_1_ebx;
    }
    return true;
}

static bool leaf_d(const struct vpt_caps *caps, uint32_t subleaf, struct vpt_cpuid *regs)
{
    const bool present = caps->supported && caps->xsaves;

    if (subleaf == 1) {
        /* Without XSAVES itself there is no way to reach a supervisor component. */
        if (present && (regs->eax & 1u << XSAVE_SUBLEAF_XSAVES))
            regs->ecx |= 1u << XSAVE_PT_COMPONENT;
        else
            regs->ecx &= ~(1u << XSAVE_PT_COMPONENT);
        return true;
    }
    if (subleaf == XSAVE_PT_COMPONENT) {
        *regs = (struct vpt_cpuid){0};
        if (present) {
            regs->eax = XSAVE_PT_BYTES;
            regs->ecx = 1; /* a supervisor component */
        }
        return true;
    }
    return false;
}

bool vpt_cpuid(const struct vpt_caps *caps, uint32_t leaf, uint32_t subleaf, struct vpt_cpuid *regs)
{
    switch (leaf) {
    case 0:
        if (caps->supported)
            regs->eax = max_leaf(caps, regs->eax);
        return true;
    case 1:
        if (caps->rtit)
            regs->eax = RTIT_SIGNATURE;
        return caps->rtit;
    case 7:
        if (subleaf != 0)
            return false;
        if (caps->supported)
            regs->ebx |= CPUID_7_EBX_PT;
        else
            regs->ebx &= ~CPUID_7_EBX_PT;
        return true;
    case 0xd:
        return leaf_d(caps, subleaf, regs);
    case 0x14:
        return leaf_14(caps, subleaf, regs);
    case 0x15:
        if (!caps->supported)
            return false;
        *regs = (struct vpt_cpuid){caps->tsc_den, caps->tsc_num, caps->crystal_hz, 0};
        return true;
    default:
        return false;
    }
}

void vpt_clocks_from_tsc(const struct vpt_caps *caps, uint64_t tsc, struct vpt_clocks *clocks)
{
    *clocks = (struct vpt_clocks){.tsc = tsc, .cycles = tsc};
    if (caps->tsc_den == 0 || caps->tsc_num == 0)
        return;

    /* TSC = ART * num / den; the edge of ART tick n is the first TSC value at or after n * num /
     * den. */
    const uint64_t num = caps->tsc_num, den = caps->tsc_den;
    const uint64_t art = tsc / num * den + tsc % num * den / num;
    const uint64_t edge = art / den * num + (art % den * num + den - 1) / den;

    clocks->art = art;
    clocks->fast = (uint16_t)((tsc - edge) & 0x1ff);
}
