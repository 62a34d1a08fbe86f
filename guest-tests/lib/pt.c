/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel PT as a guest sees it: see pt.h.
 */
#include "pt.h"
#include "cpu.h"

static unsigned bits(uint32_t reg, unsigned first, unsigned count)
{
    return reg >> first & ((1u << count) - 1);
}

/*
 * CPUID.7.0:EBX[25] is what counts (33.3.1). But a KVM that interprets supervisor code may answer
 * leaf 7 from the processor below it, whatever the VMM has asked for: then leaf 14H and the MSRs
 * tell.
 */
static void find_trace_unit(struct pt_caps *caps)
{
    struct cpuid main = cpuid_checked(0x14, 0);
    uint64_t ctl;

    caps->enumerated = bits(cpuid_checked(7, 0).ebx, 25, 1);
    caps->present = caps->enumerated || (main.ecx && rdmsr_safe(MSR_RTIT_CTL, &ctl) == 0);
}

/* Leaf 14H: Tables 33-11 and 33-12. */
static void read_trace_leaf(struct pt_caps *caps)
{
    struct cpuid main = cpuid_checked(0x14, 0), sub = {0};

    if (main.eax >= 1)
        sub = cpuid(0x14, 1);
    caps->cr3_filter = bits(main.ebx, 0, 1);
    caps->psb_cyc = bits(main.ebx, 1, 1);
    caps->ip_filter = bits(main.ebx, 2, 1);
    caps->mtc = bits(main.ebx, 3, 1);
    caps->ptwrite = bits(main.ebx, 4, 1);
    caps->power = bits(main.ebx, 5, 1);
    caps->preserve = bits(main.ebx, 6, 1);
    caps->event = bits(main.ebx, 7, 1);
    caps->dis_tnt = bits(main.ebx, 8, 1);
    caps->topa = bits(main.ecx, 0, 1);
    caps->multi_entry = bits(main.ecx, 1, 1);
    caps->single_range = bits(main.ecx, 2, 1);
    caps->fabric = bits(main.ecx, 3, 1);
    caps->lip = bits(main.ecx, 31, 1);
    caps->ranges = bits(sub.eax, 0, 3);
    caps->mtc_map = (uint16_t)bits(sub.eax, 16, 16);
    caps->cyc_map = (uint16_t)bits(sub.ebx, 0, 16);
    caps->psb_map = (uint16_t)bits(sub.ebx, 16, 16);
}

const struct pt_caps *pt_caps(void)
{
    static struct pt_caps caps;
    struct cpuid perf, sizes;

    if (caps.phys_bits)
        return &caps;
    find_trace_unit(&caps);
    if (caps.present)
        read_trace_leaf(&caps);
    perf = cpuid_checked(0x0a, 0);
    caps.perf_version = bits(perf.eax, 0, 8);
    caps.perf_counters = bits(perf.eax, 8, 8);
    caps.perf_fixed = bits(perf.edx, 0, 5);
    sizes = cpuid_checked(0x80000008, 0);
    caps.phys_bits = bits(sizes.eax, 0, 8);
    caps.linear_bits = bits(sizes.eax, 8, 8);
    return &caps;
}

bool pt_memory_output(const struct pt_caps *caps)
{
    return caps->topa || caps->single_range;
}

struct pt_position pt_position(void)
{
    uint64_t pointers = rdmsr(MSR_RTIT_OUTPUT_MASK_PTRS);

    return (struct pt_position){
        .base = rdmsr(MSR_RTIT_OUTPUT_BASE),
        .index = (unsigned)(pointers >> 7 & 0x1ffffff),
        .offset = (uint32_t)(pointers >> 32),
    };
}
