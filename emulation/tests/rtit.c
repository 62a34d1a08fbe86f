/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT besides its tables (those are in emulation/conformance/rtit.c): the lock of the MSRs
 * (3.3.1), overflow (4.2.5), TraceStop, cycle counts (4.2.14), and each erratum of appendix E.
 */
#include "rtit_harness.h"

#include <stdio.h>
#include <string.h>

static const uint32_t msrs[] = {0x760, 0x761, 0x762, 0x763, 0x769, 0x76b, 0x76c, 0x76e,
                                0x76f, 0x770, 0x771, 0x772, 0x777, 0x77c, 0x77d};

/* Until RTIT_CTL was read, nothing else can be read, and nothing written. */
static void test_lock(void)
{
    struct rtit_fake *fake = rtit_open(0);
    struct vpt_rtit cpu;
    uint64_t value;

    vpt_rtit_init(&cpu, 0, fake->cpu.ops, fake);
    for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
        CHECK(vpt_rtit_rdmsr(&cpu, msrs[i], &value) == VPT_GP, "RDMSR %x", msrs[i]);
        CHECK(vpt_rtit_wrmsr(&cpu, msrs[i], 1, 0) == VPT_GP, "WRMSR %x", msrs[i]);
    }
    CHECK(vpt_rtit_wrmsr(&cpu, VPT_RTIT_CTL, 0, 0) == VPT_GP, "WRMSR of RTIT_CTL");
    CHECK(vpt_rtit_rdmsr(&cpu, VPT_RTIT_CTL, &value) == VPT_OK && value == 0, "the key");
    for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++)
        CHECK(vpt_rtit_rdmsr(&cpu, msrs[i], &value) == VPT_OK, "RDMSR %x", msrs[i]);
    for (uint32_t msr = 0x760; msr < 0x780; msr++) {
        bool known = msr == VPT_RTIT_CTL;

        for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++)
            known |= msrs[i] == msr;
        CHECK(known == (vpt_rtit_rdmsr(&cpu, msr, &value) == VPT_OK), "RDMSR %x", msr);
        CHECK(vpt_rtit_msr_owned(msr), "%x is RTIT's", msr);
    }
    CHECK(!vpt_rtit_msr_owned(0x75f) && !vpt_rtit_msr_owned(0x780), "and no other");
    rtit_close(fake);
}

/* 4.2.14: one, two and three bytes. */
static void test_counts(void)
{
    static const uint32_t counts[] = {0, 1, 63, 64, 0x3fff, 0x4000, 0x1fffff};
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);
    char pattern[512] = "";

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        fake->clocks.cycles += counts[i];
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        snprintf(pattern + strlen(pattern), sizeof(pattern) - strlen(pattern), "TIP(402000):%u ",
                 counts[i]);
    }
    RTIT_EXPECT(fake, pattern, "4.2.14");
    rtit_close(fake);
}

/* 4.2.15: a full TNT has a count, a partial one none. */
static void test_counts_of_tnt(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 5;
    for (unsigned i = 0; i < 7; i++)
        rtit_branch(fake, true);
    fake->clocks.cycles += 3;
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    RTIT_EXPECT(fake, "TNT(TTTTTT):5 TNT(T) TIP(402000):3", "4.2.15");
    rtit_close(fake);
}

static struct rtit_fake *overflowed(uint32_t errata)
{
    struct rtit_fake *fake = rtit_start(errata, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    rtit_branch(fake, true);
    vpt_rtit_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 60; i++)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000000000 + i * 0x1000001ull);
    CHECK(fake->cpu.overflow_count == 1, "one overflow");
    CHECK(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_OVERFLOW, "Buffer_Overflow");
    rtit_branch(fake, true); /* does not update TNT_BUFF */
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 1, "TNT_BUFF in an overflow");
    vpt_rtit_stall(&fake->cpu, false);
    rtit_do(fake, VPT_RTIT_OTHER, 0x403000);
    return fake;
}

/* Behind FUP.BuffOvf nothing is compressed against what was before. */
static void test_overflow(void)
{
    struct rtit_fake *fake = overflowed(0);
    const char *words;

    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    words = strstr(rtit_words(fake), "OVF");
    CHECK(words && words_match("OVF(403000) TIP(401004)", words), "4.2.5: %s",
          words ? words : "none");
    CHECK(!(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_OVERFLOW), "it is over");
    rtit_close(fake);
}

/* A TraceStop in an overflow waits for its end. */
static struct rtit_fake *stop_in_overflow(uint32_t errata)
{
    struct rtit_fake *fake = rtit_start(errata, 0);

    rtit_write(fake, VPT_RTIT_EVENTS, 0 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_STATUS, VPT_RTIT_STATUS_OVERFLOW | VPT_RTIT_STATUS_FILTEREN);
    fake->fault = true;
    fake->cpu.buf[0] = 0x02;
    fake->cpu.buf_len = 1;
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x500010);
    CHECK(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE, "still pending");
    fake->fault = false;
    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    return fake;
}
static void test_stop_in_overflow(void)
{
    struct rtit_fake *fake = stop_in_overflow(0);

    RTIT_EXPECT(fake, "TNT(N) OVF(402000) STOP", "4.2.5, TraceStop");
    CHECK(!(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE), "TraceActive");
    rtit_close(fake);
}

/* Event IDs of both fields, ranges that are walked into, and 47-bit addresses (2.4.3, Table 7). */
static void test_ranges(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
    rtit_write(fake, VPT_RTIT_LIP0 + 1, 0xffff800000600000);
    rtit_write(fake, VPT_RTIT_LIP0 + 3, 0xffff800000601000);
    rtit_write(fake, VPT_RTIT_EVENTS, 1 << 3 | 7);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    RTIT_EXPECT(fake, "", "RANGE0 does not stop");
    rtit_do(fake, VPT_RTIT_OTHER, 0xffff800000600000);
    RTIT_EXPECT(fake, "STOP", "RANGE1 does");
    rtit_close(fake);

    fake = rtit_ranged(0, 0x500000, 0x501000);
    rtit_write(fake, VPT_RTIT_LIP0 + 1, 0x600000);
    rtit_write(fake, VPT_RTIT_LIP0 + 3, 0x601000);
    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 2);
    rtit_do(fake, VPT_RTIT_OTHER, 0x600000);
    rtit_do(fake, VPT_RTIT_OTHER, 0x600004);
    rtit_do(fake, VPT_RTIT_OTHER, 0x601000);
    RTIT_EXPECT(fake, "PGE(600000) PGD(401004)", "either range, walked through");
    rtit_close(fake);
}

/* Memory that answers for a part only, is not there, or is elsewhere: nothing is written astray. */
static void test_output(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    for (unsigned i = 0; i < 40; i++)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000 + 0x10000 * i);
    CHECK(fake->tap_len - fake->mark >= 64, "lines leave by themselves");
    rtit_write(fake, VPT_RTIT_BASE_ADDR, 0xf00000000);
    vpt_rtit_drain(&fake->cpu);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    vpt_rtit_drain(&fake->cpu);
    CHECK(fake->tap_len == fake->mark && fake->cpu.dropped_bytes > 0, "no memory: %llu lost",
          (unsigned long long)fake->cpu.dropped_bytes);
    rtit_close(fake);
}

/* ---- Appendix E ----------------------------------------------------------------------------- */

static void test_e1(void)
{
    const struct vpt_rtit_event event = {.kind = VPT_RTIT_FAR,
                                         .prefixes = 4,
                                         .from = 0x401009,
                                         .target = 0x402000,
                                         .after = rtit_context(0)};
    struct rtit_fake *fake = rtit_start(VPT_RTIT_E1, 0);

    vpt_rtit_event(&fake->cpu, &event);
    RTIT_EXPECT(fake, "FAR(401008) TIP(402000)", "E1");
    rtit_close(fake);
    fake = rtit_start(0, 0);
    vpt_rtit_event(&fake->cpu, &event);
    RTIT_EXPECT(fake, "FAR(401009) TIP(402000)", "without E1");
    rtit_close(fake);
}

/* Back into context and out of the filter in one. */
static void e2(uint32_t errata, const char *pattern)
{
    struct rtit_fake *fake = rtit_open(errata);
    struct vpt_rtit_context user = rtit_context(3);
    struct vpt_rtit_event event = {.kind = VPT_RTIT_FAR,
                                   .nlip = 0x401002,
                                   .from = 0x401002,
                                   .target = 0x700000,
                                   .after = rtit_context(0)};

    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 0);
    rtit_write(fake, VPT_RTIT_LIP0, 0x401000);
    rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x402000);
    rtit_write(fake, VPT_RTIT_STATUS, VPT_RTIT_STATUS_FILTEREN);
    vpt_rtit_set_context(&fake->cpu, &user);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_DEST | VPT_RTIT_CTL_TRACE_EN);
    rtit_write(fake, VPT_RTIT_CTL,
               VPT_RTIT_CTL_OS | VPT_RTIT_CTL_DEST | VPT_RTIT_CTL_TRACE_EN |
                   VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_mark(fake);
    vpt_rtit_event(&fake->cpu, &event);
    RTIT_EXPECT(fake, pattern, "E2");
    rtit_close(fake);
}
static void test_e2(void)
{
    e2(0, "");
    e2(VPT_RTIT_E2, "PGD(401002)");
}

static void e3(uint32_t errata, const char *pattern)
{
    struct rtit_fake *fake = rtit_start(errata, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x7ff);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
    RTIT_EXPECT(fake, pattern, "E3");
    rtit_close(fake);
}
static void test_e3(void)
{
    e3(0, "TIP(402000) PSB TIP(403000)");
    e3(VPT_RTIT_E3, "TIP(402000) TIP(403000) PSB");
}

static void test_e4(void)
{
    struct rtit_fake *fake = stop_in_overflow(VPT_RTIT_E4);

    RTIT_EXPECT(fake, "TNT(N) OVF(402000)", "E4");
    CHECK(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE, "tracing goes on");
    rtit_close(fake);
}

static void test_e5(void)
{
    struct rtit_fake *fake = overflowed(VPT_RTIT_E5);
    const char *words = strstr(rtit_words(fake), "OVF");

    CHECK(words && words_match("OVF(403000) TIP(403000)", words), "E5: %s", words ? words : "none");
    rtit_close(fake);
}

static void test_e6(void)
{
    struct rtit_fake *fake = rtit_start(VPT_RTIT_E6, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 9;
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
    RTIT_EXPECT(fake, "TIP(402000):8 TIP(403000):0", "E6");
    rtit_close(fake);
}

static void test_e7(void)
{
    struct rtit_fake *fake = rtit_start(VPT_RTIT_E7, VPT_RTIT_CTL_MTC_EN);

    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    fake->clocks.tsc = 0x100;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "MTC(0,0) MTC(0,2)", "E7");
    rtit_close(fake);
}

static void test_e8(void)
{
    struct rtit_fake *fake = rtit_start(VPT_RTIT_E8, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x403000);
    RTIT_EXPECT(fake, "PSB TIP(403000)|TIP(3000)", "E8");
    rtit_close(fake);
}

void suite_rtit(void)
{
    static const struct test tests[] = {
        {"the lock", test_lock},
        {"cycle counts", test_counts},
        {"cycle counts of TNT", test_counts_of_tnt},
        {"overflow", test_overflow},
        {"TraceStop in an overflow", test_stop_in_overflow},
        {"ranges", test_ranges},
        {"output", test_output},
        {"E1", test_e1},
        {"E2", test_e2},
        {"E3", test_e3},
        {"E4", test_e4},
        {"E5", test_e5},
        {"E6", test_e6},
        {"E7", test_e7},
        {"E8", test_e8},
        {NULL, NULL},
    };

    add_suite("RTIT", tests);
}
