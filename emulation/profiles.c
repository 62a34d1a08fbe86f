/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named sets of capabilities, and the check that a set makes sense (33.3.1, Tables 33-11, 33-12).
 *
 * A profile is data. The values are typical of the processors named, as far as public enumerations
 * tell; a guest sees nothing else of that processor. The choices are those that traces of the
 * processors show (docs/profiles.md); profiles without any send what "plain" sends.
 */
#include "internal.h"

#include <string.h>

/* Bitmaps of Table 33-12. */
#define MTC_PERIODS(map)    ((uint32_t)(map) << 16)
#define PSB_PERIODS(map)    ((uint32_t)(map) << 16)
#define CYC_THRESHOLDS(map) ((uint32_t)(map))

#define SKYLAKE_EBX (VPT_CAP_CR3FILTER | VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC)
#define FULL_ECX    (VPT_CAP_TOPA | VPT_CAP_MENTRY | VPT_CAP_SNGLRGN)

/* What the cores from Skylake to Ice Lake have in common. */
#define CORE_CHOICES                                                                               \
    .fup_full = true, .psb_at_enable = true, .layout = VPT_LAYOUT_SPLIT, .psb_early_bytes = 160,   \
    .psb_order = {VPT_PSB_TSX,  VPT_PSB_EXEC, VPT_PSB_FUP, VPT_PSB_PIP,                            \
                  VPT_PSB_VMCS, VPT_PSB_TSC,  VPT_PSB_CBR}

/* All that chapter 33 describes. */
#define EVERYTHING                                                                                 \
    .leaf14_0_ebx = SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_POWER | VPT_CAP_PRESERVE |             \
                    VPT_CAP_EVENT | VPT_CAP_DISTNT,                                                \
    .leaf14_0_ecx = FULL_ECX | VPT_CAP_FABRIC | VPT_CAP_LIP,                                       \
    .leaf14_1_eax = MTC_PERIODS(0xffff) | VPT_MAX_RANGES,                                          \
    .leaf14_1_ebx = PSB_PERIODS(0xffff) | CYC_THRESHOLDS(0xffff), .tsc_den = 1, .tsc_num = 100,    \
    .crystal_hz = 24000000, .psb_align_bytes = 8, .maxphyaddr = 52, .linear_bits = 57,             \
    .max_nonturbo_ratio = 24, .perf_counters = 8, .perf_fixed = 4, .supported = true, .tsx = true, \
    .pebs = true, .long_tnt = true, .xsaves = true, .vmx_misc_pt = true

struct profile {
    const char *name, *about;
    struct vpt_caps caps;
};

static const struct profile profiles[] = {
    {"plain",
     "enumerates what icelake-server does; packets by the specification, without PADs and errata",
     {
         .leaf14_0_ebx = SKYLAKE_EBX,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 168,
         .crystal_hz = 25000000,
         .maxphyaddr = 46,
         .linear_bits = 48,
         .max_nonturbo_ratio = 21,
         .perf_counters = 8,
         .perf_fixed = 4,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
     }},
    {"broadwell",
     "first generation: one ToPA region, no timing, no IP filter",
     {
         .leaf14_0_ebx = VPT_CAP_CR3FILTER,
         .leaf14_0_ecx = VPT_CAP_TOPA,
         .topa_pmi_early_bytes = 1024,
         .maxphyaddr = 46,
         .linear_bits = 48,
         .max_nonturbo_ratio = 24,
         .perf_counters = 4,
         .perf_fixed = 3,
         .supported = true,
         .tsx = true,
         .psb_align_bytes = 8,
         .choices = {.fup_full = true,
                     .psb_ip_apart = true,
                     .psb_at_enable = true,
                     .psb_twice = true,
                     .layout = VPT_LAYOUT_WHOLE,
                     .psb_early_bytes = 160,
                     .family = 6,
                     .model = 79,
                     .stepping = 1},
     }},
    {"skylake",
     "client: IP filter, CYC, MTC",
     {
         .leaf14_0_ebx = SKYLAKE_EBX,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 216,
         .psb_align_bytes = 8,
         .maxphyaddr = 39,
         .linear_bits = 48,
         .max_nonturbo_ratio = 26,
         .perf_counters = 4,
         .perf_fixed = 3,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
         .choices = {CORE_CHOICES, .psb_ip_apart = true, .family = 6, .model = 94, .stepping = 3},
     }},
    {"cascade-lake",
     "server: as skylake, with 46-bit physical addresses",
     {
         .leaf14_0_ebx = SKYLAKE_EBX,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 168,
         .crystal_hz = 25000000,
         .psb_align_bytes = 8,
         .maxphyaddr = 46,
         .linear_bits = 48,
         .max_nonturbo_ratio = 21,
         .perf_counters = 4,
         .perf_fixed = 3,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
         .choices = {CORE_CHOICES, .psb_ip_apart = true, .family = 6, .model = 85, .stepping = 7},
     }},
    {"goldmont-plus",
     "Atom: PTWRITE and power events, IP payloads are LIPs",
     {
         .leaf14_0_ebx = SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_POWER,
         .leaf14_0_ecx = FULL_ECX | VPT_CAP_LIP,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x3fff),
         .tsc_den = 3,
         .tsc_num = 171,
         .crystal_hz = 19200000,
         .maxphyaddr = 39,
         .linear_bits = 48,
         .max_nonturbo_ratio = 11,
         .perf_counters = 4,
         .perf_fixed = 3,
         .supported = true,
         .xsaves = true,
         .vmx_misc_pt = true,
     }},
    {"icelake-client",
     "client: as hardware sends packets, with full IPs of 64 bits",
     {
         .leaf14_0_ebx = SKYLAKE_EBX,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 78,
         .crystal_hz = 38400000,
         .psb_align_bytes = 8,
         .maxphyaddr = 39,
         .linear_bits = 57,
         .max_nonturbo_ratio = 15,
         .perf_counters = 8,
         .perf_fixed = 4,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
         .choices = {CORE_CHOICES, .ip_full_64 = true, .family = 6, .model = 126, .stepping = 5},
     }},
    {"icelake-server",
     "server: the set that QEMU's intel-pt property names; 46-bit physical addresses",
     {
         .leaf14_0_ebx = SKYLAKE_EBX,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 168,
         .crystal_hz = 25000000,
         .psb_align_bytes = 8,
         .maxphyaddr = 46,
         .linear_bits = 48,
         .max_nonturbo_ratio = 21,
         .perf_counters = 8,
         .perf_fixed = 4,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
         .choices = {CORE_CHOICES, .family = 6, .model = 106, .stepping = 6},
     }},
    {"gracemont",
     "Atom: Event Trace, TNT disable, PSB and PMI preservation",
     {
         .leaf14_0_ebx = SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_POWER | VPT_CAP_PRESERVE |
                         VPT_CAP_EVENT | VPT_CAP_DISTNT,
         .leaf14_0_ecx = FULL_ECX | VPT_CAP_LIP,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x3fff),
         .tsc_den = 2,
         .tsc_num = 150,
         .crystal_hz = 38400000,
         .maxphyaddr = 46,
         .linear_bits = 48,
         .max_nonturbo_ratio = 28,
         .perf_counters = 6,
         .perf_fixed = 3,
         .supported = true,
         .pebs = true,
         .xsaves = true,
         .vmx_misc_pt = true,
     }},
    {"sapphire-rapids",
     "server: PTWRITE, PSB and PMI preservation, 57-bit linear addresses",
     {
         .leaf14_0_ebx = SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_PRESERVE,
         .leaf14_0_ecx = FULL_ECX,
         .leaf14_1_eax = MTC_PERIODS(0x0249) | 2,
         .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff),
         .tsc_den = 2,
         .tsc_num = 160,
         .crystal_hz = 25000000,
         .maxphyaddr = 46,
         .linear_bits = 57,
         .max_nonturbo_ratio = 20,
         .perf_counters = 8,
         .perf_fixed = 4,
         .supported = true,
         .tsx = true,
         .xsaves = true,
         .vmx_misc_pt = true,
     }},
    {"max", "everything that chapter 33 describes, with long TNT packets", {EVERYTHING}},
    {"future",
     "as max, and what is newer than chapter 33: trigger tracing and FRED's events",
     {EVERYTHING, .triggers = true, .fred = true}},
    {"silvermont",
     "Atom: no PT but RTIT, its ancestor",
     {
         .maxphyaddr = 36,
         .linear_bits = 48,
         .max_nonturbo_ratio = 18,
         .perf_counters = 2,
         .perf_fixed = 3,
         .rtit = true,
     }},
};

size_t vpt_profile_count(void)
{
    return sizeof(profiles) / sizeof(profiles[0]);
}

const char *vpt_profile_name(size_t i)
{
    return i < vpt_profile_count() ? profiles[i].name : NULL;
}

const char *vpt_profile_about(size_t i)
{
    return i < vpt_profile_count() ? profiles[i].about : NULL;
}

bool vpt_profile(const char *name, struct vpt_caps *caps)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            *caps = profiles[i].caps;
            return true;
        }
    }
    return false;
}

/* No order at all, or each packet once. */
static bool is_psb_order(const uint8_t *order)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < VPT_PSB_PARTS; i++) {
        if (order[i] > VPT_PSB_FUP)
            return false;
        seen |= 1u << order[i];
    }
    return seen == 1u << VPT_PSB_NONE || seen == (2u << VPT_PSB_FUP) - (1u << VPT_PSB_TSC);
}

static const char *check_choices(const struct vpt_caps *caps)
{
    const struct vpt_choices *choices = &caps->choices;

    if (choices->layout > VPT_LAYOUT_WHOLE)
        return "there is no such layout of packets";
    if (choices->layout != VPT_LAYOUT_DENSE && caps->deferred_tips)
        return "deferred TIPs fill the internal buffer if PADs come with them";
    if (choices->psb_early_bytes >= 2048)
        return "PSB packets come earlier than the shortest period";
    if (!is_psb_order(choices->psb_order))
        return "the order of a PSB+ does not name each packet once";
    return NULL;
}

const char *vpt_caps_check(const struct vpt_caps *caps)
{
    const uint32_t ebx = caps->leaf14_0_ebx, ecx = caps->leaf14_0_ecx;

    if (caps->maxphyaddr < 32 || caps->maxphyaddr > 52)
        return "the physical-address width is not 32 to 52 bits";
    if (caps->linear_bits != 32 && caps->linear_bits != 48 && caps->linear_bits != 57)
        return "the linear-address width is not 32, 48 or 57 bits";
    if (caps->perf_counters > 32 || caps->perf_fixed > 16)
        return "more performance counters than PERF_GLOBAL_CTRL has bits for";
    if (!caps->supported)
        return NULL;
    if (ebx & ~0x1ffu)
        return "CPUID.14H.0:EBX has reserved bits set";
    if (ecx & ~(VPT_CAP_TOPA | VPT_CAP_MENTRY | VPT_CAP_SNGLRGN | VPT_CAP_FABRIC | VPT_CAP_LIP))
        return "CPUID.14H.0:ECX has reserved bits set";
    if (!(ecx & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN | VPT_CAP_FABRIC)))
        return "there is no output scheme";
    if ((ecx & VPT_CAP_MENTRY) && !(ecx & VPT_CAP_TOPA))
        return "ToPA tables with several entries need ToPA output";
    if (caps->leaf14_1_eax & 0xfff8)
        return "CPUID.14H.1:EAX has reserved bits set";
    if ((caps->leaf14_1_eax & 7) > VPT_MAX_RANGES)
        return "there are more than four address ranges";
    if (((caps->leaf14_1_eax & 7) != 0) != ((ebx & VPT_CAP_IPFILTER) != 0))
        return "address ranges and IP filtering go together";
    if ((caps->leaf14_1_eax >> 16 != 0) != ((ebx & VPT_CAP_MTC) != 0))
        return "MTC periods and MTC packets go together";
    if ((caps->leaf14_1_ebx != 0) != ((ebx & VPT_CAP_PSB_CYC) != 0))
        return "cycle thresholds, PSB periods and cycle-accurate mode go together";
    if ((ecx & VPT_CAP_TOPA) && !(ecx & VPT_CAP_MENTRY) && caps->topa_pmi_early_bytes >= 4096)
        return "the early PMI of a single-entry ToPA does not fit its smallest region";
    if (caps->psb_align_bytes & (caps->psb_align_bytes - 1) || caps->psb_align_bytes > 64)
        return "the alignment of PSB packets is not a power of two up to 64";
    if (caps->tsc_den == 0 && caps->tsc_num != 0)
        return "CPUID.15H has a numerator without a denominator";
    return check_choices(caps);
}
