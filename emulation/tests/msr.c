/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every access rule of the MSRs (33.2.8, Tables 33-6 to 33-9) for every profile. The rules stand
 * here a second time, as a table of bits with what permits each, and the model must agree with it.
 */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define EBX(bit)                                                                                   \
    {                                                                                              \
        bit, 0                                                                                     \
    }
#define ECX(bit)                                                                                   \
    {                                                                                              \
        0, bit                                                                                     \
    }

/* Table 33-6: who permits a bit of CTL to be 1. Bits not named here are reserved. */
static const struct {
    uint8_t bit;
    struct {
        uint32_t ebx, ecx;
    } needs;
} ctl_bits[] = {
    {1, EBX(VPT_CAP_PSB_CYC)},
    {2, {0, 0}},
    {3, {0, 0}},
    {4, EBX(VPT_CAP_POWER)},
    {5, EBX(VPT_CAP_PTWRITE)},
    {6, ECX(VPT_CAP_FABRIC)},
    {7, EBX(VPT_CAP_CR3FILTER)},
    {8, ECX(VPT_CAP_TOPA)},
    {9, EBX(VPT_CAP_MTC)},
    {10, {0, 0}},
    {11, {0, 0}},
    {12, EBX(VPT_CAP_PTWRITE)},
    {13, {0, 0}},
    {31, EBX(VPT_CAP_EVENT)},
    {55, EBX(VPT_CAP_DISTNT)},
    {56, EBX(VPT_CAP_PRESERVE)},
};

static unsigned ranges_of(const struct vpt_caps *caps)
{
    return caps->leaf14_0_ebx & VPT_CAP_IPFILTER ? caps->leaf14_1_eax & 7 : 0;
}

/* A field of CTL whose values a bitmap lists; 0 with its enable off needs no permission. */
static bool encoding_allowed(bool feature, uint32_t bitmap, unsigned value, bool enabled)
{
    if (!feature)
        return value == 0;
    return (value == 0 && !enabled) || (bitmap >> value & 1);
}

/* Whether CTL := value is legal while TraceEn is 0. */
static bool ctl_legal(const struct vpt_caps *caps, uint64_t value)
{
    uint64_t known =
        VPT_CTL_TRACEEN | 0x3c000ull << 0 | 0xfull << 19 | 0xfull << 24 | 0xffffull << 32;
    bool mtc = caps->leaf14_0_ebx & VPT_CAP_MTC, psb = caps->leaf14_0_ebx & VPT_CAP_PSB_CYC;

    for (size_t i = 0; i < sizeof(ctl_bits) / sizeof(ctl_bits[0]); i++) {
        bool permitted = (ctl_bits[i].needs.ebx & caps->leaf14_0_ebx) == ctl_bits[i].needs.ebx &&
                         (ctl_bits[i].needs.ecx & caps->leaf14_0_ecx) == ctl_bits[i].needs.ecx;

        if (permitted)
            known |= 1ull << ctl_bits[i].bit;
    }
    if (value & ~known)
        return false;
    if (!encoding_allowed(mtc, caps->leaf14_1_eax >> 16, value >> 14 & 15, value & VPT_CTL_MTCEN))
        return false;
    if (!encoding_allowed(psb, caps->leaf14_1_ebx & 0xffff, value >> 19 & 15,
                          value & VPT_CTL_CYCEN))
        return false;
    if (!encoding_allowed(psb, caps->leaf14_1_ebx >> 16, value >> 24 & 15, false))
        return false;
    for (unsigned n = 0; n < VPT_MAX_RANGES; n++) {
        unsigned cfg = value >> (32 + 4 * n) & 15;

        if (cfg > (n < ranges_of(caps) ? 2u : 0u))
            return false;
    }
    if (value & VPT_CTL_TRACEEN && !(value & (VPT_CTL_TOPA | VPT_CTL_FABRICEN)) &&
        !(caps->leaf14_0_ecx & VPT_CAP_SNGLRGN))
        return false;
    return true;
}

/* A value for TraceEn = 1 that the processor's output schemes allow. */
static uint64_t output_bits(const struct vpt_caps *caps)
{
    if (caps->leaf14_0_ecx & VPT_CAP_TOPA)
        return VPT_CTL_TOPA;
    return caps->leaf14_0_ecx & VPT_CAP_SNGLRGN ? 0 : VPT_CTL_FABRICEN;
}

typedef void (*per_profile)(struct fake *fake, const char *name);

static void for_every_profile(per_profile run)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct vpt_caps caps;
        struct fake *fake;

        vpt_profile(vpt_profile_name(i), &caps);
        if (!caps.supported)
            continue;
        fake = fake_open_caps(&caps);
        run(fake, vpt_profile_name(i));
        fake_close(fake);
    }
}

/* Writes, compares with what must happen, and sees that #GP changed nothing. */
static bool try_write(struct fake *fake, const char *name, uint32_t msr, uint64_t value, bool legal,
                      uint64_t reads_as)
{
    uint64_t before = 0, after = 0;
    enum vpt_result got;

    vpt_rdmsr(&fake->cpu, msr, &before);
    got = vpt_wrmsr(&fake->cpu, msr, value, IP_ON, IP_START);
    vpt_rdmsr(&fake->cpu, msr, &after);
    CHECK((got == VPT_OK) == legal, "%s: WRMSR %" PRIx32 " := %" PRIx64 " must %s", name, msr,
          value, legal ? "succeed" : "fault");
    if (got == VPT_GP)
        return CHECK(after == before, "%s: #GP changed %" PRIx32, name, msr);
    return CHECK(after == reads_as, "%s: %" PRIx32 " := %" PRIx64 " reads %" PRIx64, name, msr,
                 value, after);
}

static void disable(struct fake *fake)
{
    vpt_wrmsr(&fake->cpu, VPT_MSR_CTL, 0, IP_OFF, IP_END);
    vpt_wrmsr(&fake->cpu, VPT_MSR_STATUS, 0, IP_OFF, IP_END);
}

static void try_ctl(struct fake *fake, const char *name, uint64_t value)
{
    disable(fake);
    try_write(fake, name, VPT_MSR_CTL, value, ctl_legal(&fake->caps, value), value);
}

/* ---- CTL ------------------------------------------------------------------------------------ */

static void ctl_single_bits(struct fake *fake, const char *name)
{
    uint64_t on = VPT_CTL_TRACEEN | output_bits(&fake->caps);

    for (unsigned bit = 0; bit < 64; bit++) {
        try_ctl(fake, name, 1ull << bit);
        try_ctl(fake, name, on | 1ull << bit);
    }
    disable(fake);
}

static void ctl_fields(struct fake *fake, const char *name)
{
    for (unsigned value = 0; value < 16; value++) {
        try_ctl(fake, name, (uint64_t)value << VPT_CTL_MTCFREQ_SHR);
        try_ctl(fake, name, VPT_CTL_MTCEN | (uint64_t)value << VPT_CTL_MTCFREQ_SHR);
        try_ctl(fake, name, (uint64_t)value << VPT_CTL_CYCTHRESH_SHR);
        try_ctl(fake, name, VPT_CTL_CYCEN | (uint64_t)value << VPT_CTL_CYCTHRESH_SHR);
        try_ctl(fake, name, (uint64_t)value << VPT_CTL_PSBFREQ_SHR);
        for (unsigned n = 0; n < VPT_MAX_RANGES; n++)
            try_ctl(fake, name, (uint64_t)value << (VPT_CTL_ADDR_CFG_SHR + 4 * n));
    }
    disable(fake);
}

static void ctl_random(struct fake *fake, const char *name)
{
    uint64_t seed = 12345;

    for (unsigned i = 0; i < 20000; i++) {
        uint64_t value = 0;

        for (unsigned j = 0; j < 1 + i % 5; j++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            value |= 1ull << (seed >> 33 & 63);
        }
        try_ctl(fake, name, value);
    }
    disable(fake);
}

static void test_ctl_single_bits(void)
{
    for_every_profile(ctl_single_bits);
}

static void test_ctl_fields(void)
{
    for_every_profile(ctl_fields);
}

static void test_ctl_random(void)
{
    for_every_profile(ctl_random);
}

/* Encodings that no profile has: bitmaps without bit 0, each single bit of a bitmap. */
static void test_ctl_bitmaps(void)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;

        caps.leaf14_1_eax = (caps.leaf14_1_eax & 7) | 1u << (16 + bit);
        caps.leaf14_1_ebx = 1u << bit | 1u << (16 + bit) | 1u << 16;
        fake = fake_open_caps(&caps);
        ctl_fields(fake, "one encoding");
        fake_close(fake);
    }
}

static void test_ctl_ranges(void)
{
    for (unsigned ranges = 1; ranges <= VPT_MAX_RANGES; ranges++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;

        caps.leaf14_1_eax = (caps.leaf14_1_eax & ~7u) | ranges;
        fake = fake_open_caps(&caps);
        ctl_fields(fake, "fewer ranges");
        fake_close(fake);
    }
}

/* Table 33-6, bit 8: each output scheme on its own. */
static void test_ctl_output_schemes(void)
{
    static const uint32_t schemes[] = {
        VPT_CAP_TOPA,
        VPT_CAP_TOPA | VPT_CAP_MENTRY,
        VPT_CAP_SNGLRGN,
        VPT_CAP_FABRIC,
        VPT_CAP_SNGLRGN | VPT_CAP_FABRIC,
        VPT_CAP_TOPA | VPT_CAP_SNGLRGN,
        VPT_CAP_TOPA | VPT_CAP_MENTRY | VPT_CAP_SNGLRGN | VPT_CAP_FABRIC,
    };

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;
        uint64_t value;
        bool memory = schemes[i] & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN);

        caps.leaf14_0_ecx = schemes[i];
        fake = fake_open_caps(&caps);
        for (uint64_t bits = 0; bits < 8; bits++)
            try_ctl(fake, "output scheme",
                    (bits & 1 ? VPT_CTL_TRACEEN : 0) | (bits & 2 ? VPT_CTL_TOPA : 0) |
                        (bits & 4 ? VPT_CTL_FABRICEN : 0));
        disable(fake);
        for (uint32_t msr = VPT_MSR_OUTPUT_BASE; msr <= VPT_MSR_OUTPUT_MASK_PTRS; msr++) {
            CHECK((vpt_rdmsr(&fake->cpu, msr, &value) == VPT_OK) == memory,
                  "33.2.8.7, 33.2.8.8: scheme %zu, RDMSR %x", i, msr);
            CHECK((vpt_wrmsr(&fake->cpu, msr, 0x7f & (msr & 1 ? ~0ull : 0), IP_ON, IP_START) ==
                   VPT_OK) == memory,
                  "33.2.8.7, 33.2.8.8: scheme %zu, WRMSR %x", i, msr);
        }
        fake_close(fake);
    }
}

/* 33.2.8.3: with TraceEn = 1, only the same value, or one that clears TraceEn. */
static void ctl_while_enabled(struct fake *fake, const char *name)
{
    uint64_t on = VPT_CTL_TRACEEN | VPT_CTL_OS | output_bits(&fake->caps);

    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = on ^ 1ull << bit;
        bool legal = bit == 0 && ctl_legal(&fake->caps, value);

        disable(fake);
        fake_write(fake, VPT_MSR_CTL, on);
        try_write(fake, name, VPT_MSR_CTL, on, true, on);
        try_write(fake, name, VPT_MSR_CTL, value, legal, value);
    }
    for (unsigned bit = 1; bit < 64; bit++) {
        uint64_t value = (on & ~VPT_CTL_TRACEEN) ^ 1ull << bit;

        disable(fake);
        fake_write(fake, VPT_MSR_CTL, on);
        try_write(fake, name, VPT_MSR_CTL, value, ctl_legal(&fake->caps, value), value);
    }
    disable(fake);
}

static void test_ctl_while_enabled(void)
{
    for_every_profile(ctl_while_enabled);
}

/* ---- STATUS --------------------------------------------------------------------------------- */

static void status_bits(struct fake *fake, const char *name)
{
    uint64_t writable = VPT_STATUS_ERROR | VPT_STATUS_STOPPED;
    const uint64_t ignored = VPT_STATUS_FILTEREN | VPT_STATUS_CONTEXTEN | VPT_STATUS_TRIGGEREN;

    if (fake->caps.leaf14_0_ebx & VPT_CAP_PRESERVE)
        writable |= VPT_STATUS_PENDPSB | VPT_STATUS_PENDTOPAPMI;
    if (fake->caps.leaf14_0_ebx & VPT_CAP_PSB_CYC)
        writable |= VPT_STATUS_BYTECNT_MASK;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t value = 1ull << bit;

        fake_write(fake, VPT_MSR_STATUS, 0);
        try_write(fake, name, VPT_MSR_STATUS, value, (value & ~(writable | ignored)) == 0,
                  value & writable);
    }
    try_write(fake, name, VPT_MSR_STATUS, writable | ignored, true, writable);
    fake_write(fake, VPT_MSR_STATUS, 0);
}

static void test_status(void)
{
    for_every_profile(status_bits);
}

/* ---- The other MSRs ------------------------------------------------------------------------- */

static bool canonical(uint64_t address, unsigned bits)
{
    unsigned shift = 64 - bits;

    return (uint64_t)((int64_t)(address << shift) >> shift) == address;
}

static void addresses(struct fake *fake, const char *name)
{
    for (unsigned n = 0; n < 2 * ranges_of(&fake->caps); n++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            uint64_t low = 1ull << bit, high = ~0ull << bit;

            try_write(fake, name, VPT_MSR_ADDR0_A + n, low, canonical(low, fake->caps.linear_bits),
                      low);
            try_write(fake, name, VPT_MSR_ADDR0_A + n, high,
                      canonical(high, fake->caps.linear_bits), high);
            try_write(fake, name, VPT_MSR_ADDR0_A + n, ~low,
                      canonical(~low, fake->caps.linear_bits), ~low);
        }
        try_write(fake, name, VPT_MSR_ADDR0_A + n, 0, true, 0);
        try_write(fake, name, VPT_MSR_ADDR0_A + n, ~0ull, true, ~0ull);
    }
}

static void test_addresses(void)
{
    for_every_profile(addresses);
}

/* Canonical at 48 and at 57 bits (33.2.8.5). */
static void test_addresses_wide(void)
{
    static const uint8_t widths[] = {48, 57};

    for (size_t i = 0; i < sizeof(widths); i++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;

        caps.linear_bits = widths[i];
        fake = fake_open_caps(&caps);
        addresses(fake, "linear address width");
        fake_close(fake);
    }
}

static void cr3_match(struct fake *fake, const char *name)
{
    bool there = fake->caps.leaf14_0_ebx & VPT_CAP_CR3FILTER;
    uint64_t value = 0x55;

    CHECK((vpt_rdmsr(&fake->cpu, VPT_MSR_CR3_MATCH, &value) == VPT_OK) == there, "%s: RDMSR 572H",
          name);
    CHECK(there || value == 0x55, "%s: #GP left a value", name);
    for (unsigned bit = 0; bit < 64; bit++)
        try_write(fake, name, VPT_MSR_CR3_MATCH, 1ull << bit, there && bit >= 5, 1ull << bit);
}

static void test_cr3_match(void)
{
    for_every_profile(cr3_match);
}

static void output_msrs(struct fake *fake, const char *name)
{
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0, "%s: OUTPUT_BASE at reset", name);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == 0x7f, "%s: MASK_PTRS at reset", name);
    for (unsigned bit = 0; bit < 64; bit++) {
        try_write(fake, name, VPT_MSR_OUTPUT_BASE, 1ull << bit,
                  bit >= 7 && bit < fake->caps.maxphyaddr, 1ull << bit);
        try_write(fake, name, VPT_MSR_OUTPUT_MASK_PTRS, 1ull << bit, true, 1ull << bit | 0x7f);
    }
    try_write(fake, name, VPT_MSR_OUTPUT_MASK_PTRS, 0, true, 0x7f);
    try_write(fake, name, VPT_MSR_OUTPUT_MASK_PTRS, ~0ull, true, ~0ull);
}

static void test_output_msrs(void)
{
    for_every_profile(output_msrs);
}

static void test_physical_width(void)
{
    for (uint8_t width = 32; width <= 52; width += 4) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *fake;

        caps.maxphyaddr = width;
        fake = fake_open_caps(&caps);
        output_msrs(fake, "MAXPHYADDR");
        fake_close(fake);
    }
}

/* ---- Which exist, and when they may be written ---------------------------------------------- */

static bool exists(const struct vpt_caps *caps, uint32_t msr)
{
    if (msr == VPT_MSR_CTL || msr == VPT_MSR_STATUS)
        return true;
    if (msr == VPT_MSR_OUTPUT_BASE || msr == VPT_MSR_OUTPUT_MASK_PTRS)
        return caps->leaf14_0_ecx & (VPT_CAP_TOPA | VPT_CAP_SNGLRGN);
    if (msr == VPT_MSR_CR3_MATCH)
        return caps->leaf14_0_ebx & VPT_CAP_CR3FILTER;
    return msr >= VPT_MSR_ADDR0_A && msr < VPT_MSR_ADDR0_A + 2 * ranges_of(caps);
}

static void presence(struct fake *fake, const char *name)
{
    for (uint32_t msr = 0x560; msr <= 0x59f; msr++) {
        uint64_t value = 0x5555;
        enum vpt_result read = vpt_rdmsr(&fake->cpu, msr, &value);

        CHECK(vpt_msr_owned(msr), "%x belongs to the model", msr);
        CHECK((read == VPT_OK) == exists(&fake->caps, msr), "%s: RDMSR %x", name, msr);
        CHECK(read == VPT_OK || value == 0x5555, "%s: #GP of %x left a value", name, msr);
        if (!exists(&fake->caps, msr))
            CHECK(vpt_wrmsr(&fake->cpu, msr, 0, IP_ON, IP_START) == VPT_GP, "%s: WRMSR %x", name,
                  msr);
    }
}

static void test_presence(void)
{
    for_every_profile(presence);
}

static void test_owned(void)
{
    CHECK(!vpt_msr_owned(0x55f) && !vpt_msr_owned(0x5a0), "only 560H to 59FH");
    CHECK(!vpt_msr_owned(0x38d) && !vpt_msr_owned(0x391), "only 38EH to 390H");
    CHECK(vpt_msr_owned(0x38e) && vpt_msr_owned(0x38f) && vpt_msr_owned(0x390), "38EH to 390H");
    CHECK(!vpt_msr_owned(0) && !vpt_msr_owned(0xffffffff) && !vpt_msr_owned(0xc0000570), "others");
}

/* 33.2.8.1: with TraceEn = 1 every write but those of CTL faults, even of the same value. */
static void locked(struct fake *fake, const char *name)
{
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | output_bits(&fake->caps));
    for (uint32_t msr = 0x560; msr <= 0x59f; msr++) {
        uint64_t value = 0;

        if (msr == VPT_MSR_CTL || !exists(&fake->caps, msr))
            continue;
        CHECK(vpt_rdmsr(&fake->cpu, msr, &value) == VPT_OK, "%s: RDMSR %x", name, msr);
        CHECK(vpt_wrmsr(&fake->cpu, msr, value, IP_ON, IP_START) == VPT_GP,
              "%s: WRMSR %x of its own value while TraceEn = 1", name, msr);
        CHECK(vpt_wrmsr(&fake->cpu, msr, 0, IP_ON, IP_START) == VPT_GP,
              "%s: WRMSR %x of 0 while TraceEn = 1", name, msr);
    }
    disable(fake);
}

static void test_locked(void)
{
    for_every_profile(locked);
}

/* The lock is TraceEn, not TriggerEn: it holds after an operational error too. */
static void test_locked_after_error(void)
{
    struct fake *fake = fake_open("max");

    fake_poke(fake, TABLE_GPA, 2); /* reserved bit 1 */
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | VPT_CTL_TOPA);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "an error is signalled");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_STATUS, 0, IP_ON, IP_START) == VPT_GP, "still locked");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_close(fake);
}

static void test_unsupported(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.supported = false;
    fake = fake_open_caps(&caps);
    for (uint32_t msr = 0x560; msr <= 0x59f; msr++) {
        uint64_t value;

        CHECK(vpt_rdmsr(&fake->cpu, msr, &value) == VPT_GP, "33.2.8.1: RDMSR %x", msr);
        CHECK(vpt_wrmsr(&fake->cpu, msr, 0, IP_ON, IP_START) == VPT_GP, "33.2.8.1: WRMSR %x", msr);
    }
    fake_close(fake);
}

/* ---- Performance monitoring (33.2.7.2, ToPA PMI) -------------------------------------------- */

static void test_perf_global(void)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = context_of(0);
    uint64_t status;

    vpt_set_context(&fake->cpu, &ctx);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "38EH at reset");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_PERF_GLOBAL_STATUS, 0, IP_ON, IP_START) == VPT_GP,
          "38EH is read-only");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_PERF_GLOBAL_STATUS, VPT_PERF_TOPA_PMI, IP_ON, IP_START) ==
              VPT_GP,
          "38EH is read-only");
    fake_write(fake, VPT_MSR_PERF_GLOBAL_CTRL, 1);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_CTRL) == 1, "38FH keeps its value");
    fake_write(fake, VPT_MSR_PERF_GLOBAL_CTRL, 0);

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_INT); /* 4 KiB */
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | VPT_CTL_TOPA | VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_noise(fake, 5000);
    fake_stop(fake);
    status = fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS);
    CHECK(status == VPT_PERF_TOPA_PMI, "bit 55 alone is set: %" PRIx64, status);
    fake_write(fake, VPT_MSR_PERF_GLOBAL_RESET, 1);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == status, "another bit does not clear it");
    fake_write(fake, VPT_MSR_PERF_GLOBAL_RESET, VPT_PERF_TOPA_PMI);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "writing 1 to bit 55 clears it");
    fake_close(fake);
}

/* 38FH has a bit for each counter, 390H also those of the status MSR; all others are reserved. */
static void perf_reserved(struct fake *fake, const char *name)
{
    const uint64_t counters =
        ((1ull << fake->caps.perf_counters) - 1) | ((1ull << fake->caps.perf_fixed) - 1) << 32;

    for (unsigned bit = 0; bit < 64; bit++) {
        const uint64_t value = 1ull << bit;

        try_write(fake, name, VPT_MSR_PERF_GLOBAL_CTRL, value, value & counters, value);
        if (value & (counters | VPT_PERF_TOPA_PMI))
            CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_PERF_GLOBAL_RESET, value, IP_ON, IP_START) ==
                      VPT_OK,
                  "%s: 390H bit %u", name, bit);
    }
    try_write(fake, name, VPT_MSR_PERF_GLOBAL_CTRL, counters, true, counters);
}

static void test_perf_reserved(void)
{
    for_every_profile(perf_reserved);
}

void suite_msr(void)
{
    static const struct test tests[] = {
        {"CTL: each bit", test_ctl_single_bits},
        {"CTL: encodings", test_ctl_fields},
        {"CTL: random values", test_ctl_random},
        {"CTL: bitmaps with one encoding", test_ctl_bitmaps},
        {"CTL: number of ranges", test_ctl_ranges},
        {"CTL: output schemes", test_ctl_output_schemes},
        {"CTL: writes while TraceEn = 1", test_ctl_while_enabled},
        {"STATUS (Table 33-7)", test_status},
        {"ADDRn_A and ADDRn_B", test_addresses},
        {"ADDRn: 48 and 57 bits", test_addresses_wide},
        {"CR3_MATCH", test_cr3_match},
        {"OUTPUT_BASE, OUTPUT_MASK_PTRS", test_output_msrs},
        {"MAXPHYADDR", test_physical_width},
        {"which MSRs exist", test_presence},
        {"which MSRs are the model's", test_owned},
        {"TraceEn = 1 locks the others", test_locked},
        {"the lock holds after an error", test_locked_after_error},
        {"no PT, no MSRs", test_unsupported},
        {"38EH, 38FH, 390H", test_perf_global},
        {"38FH and 390H: reserved bits", test_perf_reserved},
        {NULL, NULL},
    };

    add_suite("MSRs (33.2.8)", tests);
}
