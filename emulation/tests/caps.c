/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles, vpt_caps_check() and the CPUID leaves (33.3.1, Tables 33-11 and 33-12). */
#include "harness.h"

#include <string.h>

static const char *const expected_profiles[] = {
    "broadwell",       "skylake", "goldmont-plus", "icelake-server", "gracemont",
    "sapphire-rapids", "max",     "future",        "least",          "silvermont",
};

static void test_names(void)
{
    struct vpt_caps caps;

    for (size_t i = 0; i < sizeof(expected_profiles) / sizeof(expected_profiles[0]); i++)
        CHECK(vpt_profile(expected_profiles[i], &caps), "no profile %s", expected_profiles[i]);
    CHECK(vpt_profile_count() >= 7, "%zu profiles", vpt_profile_count());
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        CHECK(vpt_profile_name(i) && vpt_profile_name(i)[0], "profile %zu has no name", i);
        CHECK(vpt_profile_about(i) && vpt_profile_about(i)[0], "profile %zu: no description", i);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(vpt_profile_name(i), vpt_profile_name(j)) != 0, "two profiles are %s",
                  vpt_profile_name(i));
    }
    CHECK(!vpt_profile_name(vpt_profile_count()), "a name past the end");
    CHECK(!vpt_profile_about(vpt_profile_count()), "a description past the end");
    CHECK(!vpt_profile("no-such-processor", &caps), "an unknown profile exists");
    CHECK(!vpt_profile("Skylake", &caps), "names fold case");
    CHECK(!vpt_profile("", &caps), "the empty name is a profile");
}

static void test_every_profile_is_consistent(void)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct vpt_caps caps;
        const char *why;

        if (!CHECK(vpt_profile(vpt_profile_name(i), &caps), "%s", vpt_profile_name(i)))
            continue;
        why = vpt_caps_check(&caps);
        CHECK(!why, "%s: %s", vpt_profile_name(i), why ? why : "");
        CHECK(caps.supported != caps.rtit, "%s: neither PT nor RTIT, or both", vpt_profile_name(i));
    }
}

/* What tells one generation from another, as its documentation has it. */
static void test_what_profiles_are_known_for(void)
{
    struct vpt_caps caps = plain_caps("broadwell");

    CHECK(!(caps.leaf14_0_ecx & VPT_CAP_MENTRY), "broadwell has one ToPA entry");
    CHECK(!(caps.leaf14_0_ebx & (VPT_CAP_PSB_CYC | VPT_CAP_IPFILTER | VPT_CAP_MTC)),
          "broadwell is the first generation");
    caps = plain_caps("least");
    CHECK(!caps.leaf14_0_ebx && caps.leaf14_0_ecx == (VPT_CAP_TOPA | VPT_CAP_SNGLRGN),
          "least has output to memory only");
    caps = plain_caps("skylake");
    CHECK(caps.leaf14_0_ecx & VPT_CAP_MENTRY, "skylake has tables");
    CHECK(caps.leaf14_0_ebx & VPT_CAP_IPFILTER && caps.leaf14_0_ebx & VPT_CAP_PSB_CYC,
          "skylake has filters and CYC");
    CHECK(!(caps.leaf14_0_ebx & VPT_CAP_PTWRITE), "skylake has no PTWRITE");
    caps = plain_caps("goldmont-plus");
    CHECK(caps.leaf14_0_ebx & VPT_CAP_PTWRITE, "33.2.2: PTWRITE begins with Goldmont Plus");
    CHECK(caps.leaf14_0_ebx & VPT_CAP_POWER, "33.2.3: power events begin with Goldmont Plus");
    caps = plain_caps("gracemont");
    CHECK(caps.leaf14_0_ebx & VPT_CAP_EVENT, "33.2.4: Event Trace begins with Gracemont");
    caps = plain_caps("max");
    CHECK((caps.leaf14_0_ebx & 0x1ff) == 0x1ff, "max has every EBX feature");
    CHECK((caps.leaf14_1_eax & 7) == VPT_MAX_RANGES, "max has four ranges");
}

enum flaw {
    NO_OUTPUT,
    MENTRY_ALONE,
    MTC_WITHOUT_BITMAP,
    BITMAP_WITHOUT_MTC,
    PSB_WITHOUT_BITMAP,
    BITMAP_WITHOUT_PSB,
    FILTER_WITHOUT_RANGE,
    RANGE_WITHOUT_FILTER,
    TOO_MANY_RANGES,
    RESERVED_EBX,
    RESERVED_ECX,
    RESERVED_EAX,
    WIDE_PHYSICAL,
    NO_PHYSICAL,
    ODD_LINEAR,
    FLAWS
};

static void spoil(struct vpt_caps *caps, enum flaw flaw)
{
    switch (flaw) {
    case NO_OUTPUT:
        caps->leaf14_0_ecx &= ~(VPT_CAP_TOPA | VPT_CAP_MENTRY | VPT_CAP_SNGLRGN | VPT_CAP_FABRIC);
        break;
    case MENTRY_ALONE:
        caps->leaf14_0_ecx &= ~VPT_CAP_TOPA;
        caps->leaf14_0_ecx |= VPT_CAP_MENTRY | VPT_CAP_SNGLRGN;
        break;
    case MTC_WITHOUT_BITMAP:
        caps->leaf14_1_eax &= 0xffff;
        break;
    case BITMAP_WITHOUT_MTC:
        caps->leaf14_0_ebx &= ~VPT_CAP_MTC;
        break;
    case PSB_WITHOUT_BITMAP:
        caps->leaf14_1_ebx = 0;
        break;
    case BITMAP_WITHOUT_PSB:
        caps->leaf14_0_ebx &= ~VPT_CAP_PSB_CYC;
        break;
    case FILTER_WITHOUT_RANGE:
        caps->leaf14_1_eax &= ~7u;
        break;
    case RANGE_WITHOUT_FILTER:
        caps->leaf14_0_ebx &= ~VPT_CAP_IPFILTER;
        break;
    case TOO_MANY_RANGES:
        caps->leaf14_1_eax |= 7;
        break;
    case RESERVED_EBX:
        caps->leaf14_0_ebx |= 1u << 9;
        break;
    case RESERVED_ECX:
        caps->leaf14_0_ecx |= 1u << 4;
        break;
    case RESERVED_EAX:
        caps->leaf14_1_eax |= 1u << 3;
        break;
    case WIDE_PHYSICAL:
        caps->maxphyaddr = 64;
        break;
    case NO_PHYSICAL:
        caps->maxphyaddr = 0;
        break;
    case ODD_LINEAR:
        caps->linear_bits = 40;
        break;
    case FLAWS:
        break;
    }
}

static void test_contradictions(void)
{
    for (enum flaw flaw = NO_OUTPUT; flaw < FLAWS; flaw++) {
        struct vpt_caps caps = plain_caps("max");
        struct vpt_cpu cpu;
        static const struct vpt_ops none;

        spoil(&caps, flaw);
        CHECK(vpt_caps_check(&caps), "flaw %d is accepted", flaw);
        CHECK(!vpt_init(&cpu, &caps, &none, NULL), "vpt_init takes flaw %d", flaw);
    }
}

/* Limits of what PERF_GLOBAL_CTRL has bits for, and the widths that exist. */
static void test_limits(void)
{
    struct vpt_caps caps = plain_caps("max");

    caps.perf_counters = 32;
    caps.perf_fixed = 16;
    CHECK(!vpt_caps_check(&caps), "32 counters and 16 fixed ones are refused");
    caps.perf_counters = 33;
    CHECK(vpt_caps_check(&caps), "33 counters are accepted");
    caps.perf_counters = 8;
    caps.perf_fixed = 17;
    CHECK(vpt_caps_check(&caps), "17 fixed counters are accepted");
    caps = plain_caps("max");
    caps.linear_bits = 32;
    CHECK(!vpt_caps_check(&caps), "32-bit linear addresses are refused");
    caps.linear_bits = 48;
    CHECK(!vpt_caps_check(&caps), "48-bit linear addresses are refused");
    for (unsigned width = 30; width <= 54; width++) {
        caps.maxphyaddr = (uint8_t)width;
        CHECK(!vpt_caps_check(&caps) == (width >= 32 && width <= 52), "MAXPHYADDR %u", width);
    }
}

static void absent_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                             struct vpt_span *span)
{
    (void)owner;
    (void)gpa;
    (void)access;
    *span = (struct vpt_span){.kind = VPT_SPAN_UNBACKED, .len_bytes = len_bytes};
}

static void test_required_callbacks(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_ops ops = {0};
    struct vpt_cpu cpu;

    CHECK(!vpt_init(&cpu, &caps, &ops, NULL), "no translate, no clocks");
    ops.translate = absent_translate;
    CHECK(!vpt_init(&cpu, &caps, &ops, NULL), "no clocks, though TSC packets can be enabled");
}

/* ---- CPUID ---------------------------------------------------------------------------------- */

#define SAME 0xffffffffu

static struct vpt_cpuid asked(const struct vpt_caps *caps, uint32_t leaf, uint32_t subleaf,
                              uint32_t host, bool mine)
{
    struct vpt_cpuid regs = {host, host, host, host};

    CHECK(vpt_cpuid(caps, leaf, subleaf, &regs) == mine, "leaf %x.%x: is it vpt's?", leaf, subleaf);
    return regs;
}

static bool same(struct vpt_cpuid regs, uint32_t eax, uint32_t ebx, uint32_t ecx, uint32_t edx)
{
    return regs.eax == eax && regs.ebx == ebx && regs.ecx == ecx && regs.edx == edx;
}

static void test_cpuid_of_profiles(void)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        const char *name = vpt_profile_name(i);
        struct vpt_caps caps;
        struct vpt_cpuid regs;
        uint32_t last;

        vpt_profile(name, &caps);
        if (!caps.supported)
            continue;
        last = caps.leaf14_1_eax || caps.leaf14_1_ebx ? 1 : 0;
        regs = asked(&caps, 7, 0, 0, true);
        CHECK(same(regs, 0, 1u << 25, 0, 0), "%s: 7.0 EBX %x", name, regs.ebx);
        regs = asked(&caps, 7, 0, SAME, true);
        CHECK(same(regs, SAME, SAME, SAME, SAME), "%s: 7.0 loses bits", name);
        regs = asked(&caps, 0x14, 0, 0x5a5a5a5a, true);
        CHECK(same(regs, last, caps.leaf14_0_ebx, caps.leaf14_0_ecx, 0), "%s: 14H.0", name);
        regs = asked(&caps, 0x14, 1, 0x5a5a5a5a, true);
        CHECK(same(regs, caps.leaf14_1_eax, caps.leaf14_1_ebx, 0, 0), "%s: 14H.1", name);
        regs = asked(&caps, 0x14, 2, 0x5a5a5a5a, true);
        CHECK(same(regs, 0, 0, 0, 0), "%s: 14H.2 is past the last subleaf", name);
        if (caps.tsc_den) {
            regs = asked(&caps, 0x15, 0, 0x5a5a5a5a, true);
            CHECK(same(regs, caps.tsc_den, caps.tsc_num, caps.crystal_hz, 0), "%s: 15H", name);
        }
    }
}

/* Without PT, leaf 15H is the host's business. */
static void test_cpuid_15_without_pt(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_cpuid regs = {1, 2, 3, 4};

    caps.supported = false;
    CHECK(!vpt_cpuid(&caps, 0x15, 0, &regs) && same(regs, 1, 2, 3, 4), "15H without PT");
}

/* Software knows RTIT by family, model and stepping (RTIT v1.05, 1.2). */
static void test_cpuid_of_rtit(void)
{
    struct vpt_caps caps = plain_caps("silvermont");
    struct vpt_cpuid regs = asked(&caps, 1, 0, SAME, true);

    CHECK(same(regs, 0x30678, SAME, SAME, SAME), "the signature is %x", regs.eax);
    regs = asked(&caps, 7, 0, SAME, true);
    CHECK(same(regs, SAME, ~(1u << 25) & SAME, SAME, SAME), "PT beside RTIT");
    caps = plain_caps("skylake");
    CHECK(!vpt_cpuid(&caps, 1, 0, &regs), "leaf 1 is the host's business");
}

/* Leaf 0: the maximum leaf must let software reach 14H, and 15H if it is there. */
static void test_cpuid_maximum_leaf(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_cpuid regs = asked(&caps, 0, 0, 0xd, true);

    CHECK(caps.tsc_den != 0, "max enumerates 15H");
    CHECK(regs.eax == 0x15, "maximum leaf %x", regs.eax);
    CHECK(regs.ebx == 0xd && regs.ecx == 0xd && regs.edx == 0xd, "the vendor changed");
    CHECK(asked(&caps, 0, 0, 0x1f, true).eax == 0x1f, "the maximum leaf shrank");
    caps.tsc_den = caps.tsc_num = caps.crystal_hz = 0;
    if (!vpt_caps_check(&caps))
        CHECK(asked(&caps, 0, 0, 0xd, true).eax >= 0x14, "14H cannot be reached");
}

/* 33.3.5.2: state component 8 is 128 bytes, managed by IA32_XSS. */
static void test_cpuid_xsave(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_cpuid regs;

    caps.xsaves = true;
    regs = asked(&caps, 0xd, 1, 8, true); /* EAX[3]: there is an XSAVES */
    CHECK(regs.ecx == (1u << 8 | 8), "0DH.1:ECX %x", regs.ecx);
    regs = asked(&caps, 0xd, 1, 0, true);
    CHECK(regs.ecx == 0, "0DH.1:ECX %x, but the host has no XSAVES", regs.ecx);
    regs = asked(&caps, 0xd, 8, 0, true);
    CHECK(regs.eax == 128 && regs.ebx == 0, "0DH.8: size %u offset %u", regs.eax, regs.ebx);
    CHECK((regs.ecx & 1) == 1 && regs.edx == 0, "0DH.8: a supervisor component");
    caps.xsaves = false;
    regs = asked(&caps, 0xd, 1, SAME, true);
    CHECK(regs.ecx == ~(1u << 8), "0DH.1:ECX %x without XSAVES of PT", regs.ecx);
    regs = asked(&caps, 0xd, 8, SAME, true);
    CHECK(same(regs, 0, 0, 0, 0), "0DH.8 without XSAVES of PT");
}

static void test_cpuid_unsupported(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_cpuid regs;

    caps.supported = false;
    regs = asked(&caps, 7, 0, SAME, true);
    CHECK(same(regs, SAME, ~(1u << 25), SAME, SAME), "7.0:EBX[25] hidden, the rest kept");
    for (uint32_t subleaf = 0; subleaf < 3; subleaf++) {
        regs = asked(&caps, 0x14, subleaf, SAME, true);
        CHECK(same(regs, 0, 0, 0, 0), "14H.%u hidden", subleaf);
    }
    regs = asked(&caps, 0xd, 1, SAME, true);
    CHECK(!(regs.ecx & 1u << 8), "0DH.1:ECX[8] hidden");
    regs = asked(&caps, 0xd, 8, SAME, true);
    CHECK(same(regs, 0, 0, 0, 0), "0DH.8 hidden");
}

static void test_cpuid_of_others(void)
{
    static const uint32_t leaves[][2] = {{1, 0},   {7, 1},    {0xd, 0},        {0xd, 2},
                                         {0xd, 9}, {0x13, 0}, {0x16, 0},       {0x80000000, 0},
                                         {0xa, 0}, {0x1c, 0}, {0x80000008, 0}, {0x40000000, 0}};
    struct vpt_caps caps = plain_caps("max");

    for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        struct vpt_cpuid regs = asked(&caps, leaves[i][0], leaves[i][1], 0x12345678, false);

        CHECK(same(regs, 0x12345678, 0x12345678, 0x12345678, 0x12345678), "leaf %x.%x changed",
              leaves[i][0], leaves[i][1]);
    }
}

/* 33.8.3.1: TSC = ART * P + FastCounter, with P = EBX / EAX of leaf 15H. */
static void test_clocks_from_tsc(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_clocks clocks;

    caps.tsc_den = 2;
    caps.tsc_num = 168;
    for (uint64_t tsc = 0; tsc < 1u << 20; tsc = tsc * 3 + 83) {
        vpt_clocks_from_tsc(&caps, tsc, &clocks);
        CHECK(clocks.tsc == tsc, "tsc");
        CHECK(clocks.art == tsc / 84 && clocks.fast == tsc % 84, "tsc %llu: art %llu fast %u",
              (unsigned long long)tsc, (unsigned long long)clocks.art, clocks.fast);
        CHECK(clocks.cycles == tsc, "cycles");
    }
    vpt_clocks_from_tsc(&caps, UINT64_MAX, &clocks);
    CHECK(clocks.art == UINT64_MAX / 84, "no overflow at the largest TSC: %llu",
          (unsigned long long)clocks.art);
    caps.tsc_den = caps.tsc_num = caps.crystal_hz = 0;
    vpt_clocks_from_tsc(&caps, 12345, &clocks);
    CHECK(clocks.art == 0 && clocks.fast == 0, "without leaf 15H both are 0");
}

void suite_caps(void)
{
    static const struct test tests[] = {
        {"profile names", test_names},
        {"profiles are consistent", test_every_profile_is_consistent},
        {"what profiles are known for", test_what_profiles_are_known_for},
        {"contradictions are refused", test_contradictions},
        {"limits", test_limits},
        {"required callbacks", test_required_callbacks},
        {"CPUID of each profile", test_cpuid_of_profiles},
        {"CPUID of RTIT", test_cpuid_of_rtit},
        {"CPUID.15H without PT", test_cpuid_15_without_pt},
        {"CPUID maximum leaf", test_cpuid_maximum_leaf},
        {"CPUID 0DH", test_cpuid_xsave},
        {"CPUID without PT", test_cpuid_unsupported},
        {"CPUID of other leaves", test_cpuid_of_others},
        {"clocks from a TSC", test_clocks_from_tsc},
        {NULL, NULL},
    };

    add_suite("caps and CPUID (Tables 33-11, 33-12)", tests);
}
