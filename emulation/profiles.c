/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named sets of capabilities, and the check that a set makes sense (33.3.1, Tables 33-11, 33-12).
 *
 * A profile is data, and names only what it does not share with its family. The values are typical
 * of the processors named, as far as public enumerations tell; a guest sees nothing else of that
 * processor. The choices are those that traces of the processors show (docs/profiles.md); profiles
 * without any send what "plain" sends.
 */
#include "vpt_caps.h"

#include <string.h>

/* Bitmaps of Table 33-12. */
#define MTC_PERIODS(map)    ((uint32_t)(map) << 16)
#define PSB_PERIODS(map)    ((uint32_t)(map) << 16)
#define CYC_THRESHOLDS(map) ((uint32_t)(map))

#define SKYLAKE_EBX       (VPT_CAP_CR3FILTER | VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC)
#define GOLDMONT_PLUS_EBX (SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_POWER)
#define ALL_EBX           (GOLDMONT_PLUS_EBX | VPT_CAP_PRESERVE | VPT_CAP_EVENT | VPT_CAP_DISTNT)
#define FULL_ECX          (VPT_CAP_TOPA | VPT_CAP_MENTRY | VPT_CAP_SNGLRGN)

/* What goes together: CPUID.15H and the ratio; widths of addresses; counters of leaf 0AH. */
#define TIME(den, num, hz, ratio)                                                                  \
    .tsc_den = (den), .tsc_num = (num), .crystal_hz = (hz), .max_nonturbo_ratio = (ratio)
#define WIDTHS(physical, linear)  .maxphyaddr = (physical), .linear_bits = (linear)
#define COUNTERS(general, fixed_) .perf_counters = (general), .perf_fixed = (fixed_)

/* All processors since Skylake, and in what its Core and Atom processors differ. */
#define SINCE_SKYLAKE                                                                              \
    .leaf14_1_eax = MTC_PERIODS(0x0249) | 2, .supported = true, .xsaves = true, .vmx_misc_pt = true
#define CORE                                                                                       \
    SINCE_SKYLAKE, .leaf14_0_ecx = FULL_ECX, .tsx = true,                                          \
                   .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x1fff)
#define ATOM                                                                                       \
    SINCE_SKYLAKE, .leaf14_0_ecx = FULL_ECX | VPT_CAP_LIP,                                         \
                   .leaf14_1_ebx = PSB_PERIODS(0x003f) | CYC_THRESHOLDS(0x3fff)

#define ICELAKE_SERVER                                                                             \
    CORE, .leaf14_0_ebx = SKYLAKE_EBX, TIME(2, 168, 25000000, 21), WIDTHS(46, 48), COUNTERS(8, 4)

/* All that chapter 33 describes. */
#define EVERYTHING                                                                                 \
    .leaf14_0_ebx = ALL_EBX, .leaf14_0_ecx = FULL_ECX | VPT_CAP_FABRIC | VPT_CAP_LIP,              \
    .leaf14_1_eax = MTC_PERIODS(0xffff) | VPT_MAX_RANGES,                                          \
    .leaf14_1_ebx = PSB_PERIODS(0xffff) | CYC_THRESHOLDS(0xffff), TIME(1, 100, 24000000, 24),      \
    WIDTHS(52, 57), COUNTERS(8, 4), .psb_align_bytes = 8, .supported = true, .tsx = true,          \
    .pebs = true, .long_tnt = true, .xsaves = true, .vmx_misc_pt = true

/* Choices of processors of which there was a trace: what all of them chose, and the rest. */
#define SEEN(...)                                                                                  \
    .psb_align_bytes = 8,                                                                          \
    .choices = {.fup_full = true, .psb_at_enable = true, .psb_early_bytes = 160, __VA_ARGS__}
/* Core processors from Skylake to Ice Lake. */
#define CORE_CHOICES                                                                               \
    .layout = VPT_LAYOUT_SPLIT,                                                                    \
    .psb_order = {VPT_PSB_TSX,  VPT_PSB_EXEC, VPT_PSB_FUP, VPT_PSB_PIP,                            \
                  VPT_PSB_VMCS, VPT_PSB_TSC,  VPT_PSB_CBR}
#define CPU(family_, model_, stepping_)                                                            \
    .family = (family_), .model = (model_), .stepping = (stepping_)

struct profile {
    const char *name, *about;
    struct vpt_caps caps;
};

static const struct profile profiles[] = {
    {"plain",
     "enumerates what icelake-server does; packets by the specification, without PADs and errata",
     {ICELAKE_SERVER}},
    {"broadwell",
     "first generation: one ToPA region, no timing, no IP filter",
     {.leaf14_0_ebx = VPT_CAP_CR3FILTER,
      .leaf14_0_ecx = VPT_CAP_TOPA,
      .topa_pmi_early_bytes = 1024,
      .max_nonturbo_ratio = 24,
      WIDTHS(46, 48),
      COUNTERS(4, 3),
      .supported = true,
      .tsx = true,
      SEEN(.layout = VPT_LAYOUT_WHOLE, .psb_ip_apart = true, .psb_twice = true, CPU(6, 79, 1))}},
    {"skylake",
     "client: IP filter, CYC, MTC",
     {CORE, .leaf14_0_ebx = SKYLAKE_EBX, TIME(2, 216, 0, 26), WIDTHS(39, 48), COUNTERS(4, 3),
      SEEN(CORE_CHOICES, .psb_ip_apart = true, CPU(6, 94, 3))}},
    {"cascade-lake",
     "server: as skylake, with 46-bit physical addresses",
     {CORE, .leaf14_0_ebx = SKYLAKE_EBX, TIME(2, 168, 25000000, 21), WIDTHS(46, 48), COUNTERS(4, 3),
      SEEN(CORE_CHOICES, .psb_ip_apart = true, CPU(6, 85, 7))}},
    {"goldmont-plus",
     "Atom: PTWRITE and power events, IP payloads are LIPs",
     {ATOM, .leaf14_0_ebx = GOLDMONT_PLUS_EBX, TIME(3, 171, 19200000, 11), WIDTHS(39, 48),
      COUNTERS(4, 3)}},
    {"icelake-client",
     "client: as hardware sends packets, with full IPs of 64 bits",
     {CORE, .leaf14_0_ebx = SKYLAKE_EBX, TIME(2, 78, 38400000, 15), WIDTHS(39, 57), COUNTERS(8, 4),
      SEEN(CORE_CHOICES, .ip_full_64 = true, CPU(6, 126, 5))}},
    {"icelake-server",
     "server: the set that QEMU's intel-pt property names; 46-bit physical addresses",
     {ICELAKE_SERVER, SEEN(CORE_CHOICES, CPU(6, 106, 6))}},
    {"gracemont",
     "Atom: Event Trace, TNT disable, PSB and PMI preservation",
     {ATOM, .leaf14_0_ebx = ALL_EBX, TIME(2, 150, 38400000, 28), WIDTHS(46, 48), COUNTERS(6, 3),
      .pebs = true}},
    {"sapphire-rapids",
     "server: PTWRITE, PSB and PMI preservation, 57-bit linear addresses",
     {CORE, .leaf14_0_ebx = SKYLAKE_EBX | VPT_CAP_PTWRITE | VPT_CAP_PRESERVE,
      TIME(2, 160, 25000000, 20), WIDTHS(46, 57), COUNTERS(8, 4)}},
    {"max", "everything that chapter 33 describes, with long TNT packets", {EVERYTHING}},
    {"future",
     "as max, and what is newer than chapter 33: trigger tracing and FRED's events",
     {EVERYTHING, .triggers = true, .fred = true}},
    {"least",
     "no processor: output to memory and nothing else, without CR3 filtering",
     {.leaf14_0_ecx = VPT_CAP_TOPA | VPT_CAP_SNGLRGN,
      .topa_pmi_early_bytes = 1024,
      .max_nonturbo_ratio = 24,
      WIDTHS(39, 48),
      COUNTERS(4, 3),
      .supported = true,
      .vmx_misc_pt = true}},
    {"silvermont",
     "Atom: no PT but RTIT, its ancestor",
     {.max_nonturbo_ratio = 18, WIDTHS(36, 48), COUNTERS(2, 3), .rtit = true}},
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

static unsigned bit(unsigned n)
{
    return 1u << n;
}

/* No order at all, or each packet once. */
static bool is_psb_order(const uint8_t *order)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < VPT_PSB_PARTS; i++) {
        if (order[i] > VPT_PSB_FUP)
            return false;
        seen |= bit(order[i]);
    }
    return seen == bit(VPT_PSB_NONE) || seen == bit(VPT_PSB_FUP + 1) - bit(VPT_PSB_TSC);
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
