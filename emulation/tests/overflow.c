/* SPDX-License-Identifier: BSD-3-Clause */
/* Overflow of the internal buffer by a slow way to memory (33.3.8), output to a transport
 * (33.2.7.3). */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

/* As much as the internal buffer holds waits and is not lost. */
static void test_short_stall(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 20; i++)
        vpt_jmp_indirect(&fake->cpu, 0x402000 + 16 * i);
    CHECK(fake_words(fake, false)[0] == '\0', "bytes reach memory while the way is busy");
    vpt_stall(&fake->cpu, false);
    CHECK(strstr(fake_words(fake, false), "TIP(402000) TIP(402010)"), "the packets come later");
    CHECK(fake->cpu.overflow_count == 0 && !strstr(fake_words(fake, false), "OVF"), "no overflow");
    fake_stop(fake);
    fake_close(fake);
}

static void test_long_stall(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    vpt_call_indirect(&fake->cpu, 0x402000, 0x401005);
    fake_noise(fake, 4000);
    CHECK(fake->cpu.overflow_count == 1, "%llu overflows",
          (unsigned long long)fake->cpu.overflow_count);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    vpt_ret(&fake->cpu, 0x401005);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(403000) PSB+? TIP(401005)", words),
          "33.3.8: no RET is compressed across an overflow: [%s]", words ? words : "no OVF");
    fake_stop(fake);
    fake_close(fake);
}

/* Conditional branches alone fill the buffer as well. */
static void test_stalled_branches(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 50000; i++)
        vpt_cond_branch(&fake->cpu, 0x401000, i & 1);
    CHECK(fake->cpu.overflow_count == 1, "one overflow");
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(403000) PSB+?", words), "33.3.8: [%s]",
          words ? words : "no OVF");
    fake_stop(fake);
    fake_close(fake);
}

/* An overflow that memory never let end is over when tracing begins again. */
static void test_never_resolved(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    fake_noise(fake, 4000);
    fake_stop(fake);
    CHECK(vpt_output_blocked(&fake->cpu) && fake->cpu.overflow, "it waits");
    fake_unmap(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_output(fake);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "PSB+ MODE(64) PGE(401000) TIP(402000)", "the next trace");
    fake_close(fake);
}

/* Tracing ends in an overflow: the loss is told before. */
static void test_end_in_overflow(void)
{
    struct fake *fake = fake_open("skylake");
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 4000);
    fake_stop(fake);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(40fff0) PSB+? FUP(40fff0) PGD()", words),
          "the end of tracing: [%s]", words ? words : "no OVF");
    CHECK(fake->cpu.buf_len == 0, "33.3.3: everything is flushed");
    fake_close(fake);
}

/* TraceStop in an overflow: the loss and the stop are told, in a stall and by a flush that fails.
 */
static void test_stop_in_overflow(void)
{
    struct fake *fake;
    const char *words;

    for (unsigned fault = 0; fault < 2; fault++) {
        fake = fake_open("skylake");
        fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
        fake_start(fake, BRANCHES | (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
        if (fault)
            fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
        else
            vpt_stall(&fake->cpu, true);
        fake_noise(fake, 4000);
        CHECK(fake->cpu.overflow, "an overflow");
        vpt_cond_branch(&fake->cpu, 0x401010, true);
        vpt_jmp_indirect(&fake->cpu, 0x500000);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !vpt_trigger_en(&fake->cpu),
              "33.3.8.1: it stops");
        fake_unmap(fake);
        vpt_stall(&fake->cpu, false);
        words = strstr(fake_words(fake, false), "OVF");
        CHECK(words && words_match("OVF STOP", words), "33.2.5.3: [%s]", words ? words : "no OVF");
        CHECK(fake->cpu.overflow_count == 1 && !fake->cpu.overflow, "and it is over");
        fake_close(fake);
    }
}

/* Branches are as cheap behind an overflow as before it. */
static void test_fast_again(void)
{
    struct fake *fake = fake_open("skylake");

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 3000);
    CHECK(fake->cpu.path == VPT_PATH_SLOW, "its end is waited for");
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    CHECK(!fake->cpu.overflow && fake->cpu.path == VPT_PATH_FAST, "it is over");
    fake_stop(fake);
    fake_close(fake);
}

static void test_transport(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, BRANCHES | VPT_CTL_FABRICEN | VPT_CTL_TRACEEN);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_stop(fake);
    CHECK(fake->tap_total == 0 && fake->table_reads == 0, "33.2.7.3: memory is not touched");
    CHECK(fake->other_len > 32 && fake->other[0] == 0x02 && fake->other[1] == 0x82,
          "the transport takes %zu bytes", fake->other_len);
    CHECK(fake->cpu.output_bytes == fake->other_len, "and they are counted");
    fake_close(fake);
}

void suite_overflow(void)
{
    static const struct test tests[] = {
        {"a short stall", test_short_stall},
        {"a long stall", test_long_stall},
        {"branches in a stall", test_stalled_branches},
        {"an overflow without end", test_never_resolved},
        {"the end of tracing in an overflow", test_end_in_overflow},
        {"a TraceStop in an overflow", test_stop_in_overflow},
        {"the fast path behind it", test_fast_again},
        {"trace transport", test_transport},
        {NULL, NULL},
    };

    add_suite("overflow, transport (33.3.8, 33.2.7.3)", tests);
}
