/* SPDX-License-Identifier: BSD-3-Clause */
/* How RTIT takes the owner's answers about memory, and what a PSB clears (2.3, 4.2.1). */
#include "rtit_harness.h"

#include <string.h>

/* An owner that answers for too much, for nothing, or in small pieces. */
struct odd {
    uint32_t answer; /* what len_bytes says */
    uint8_t ram[4096 + 64];
};

static void on_translate(void *owner, uint64_t gpa, uint32_t len_bytes, enum vpt_access access,
                         struct vpt_span *span)
{
    struct odd *odd = owner;

    (void)access;
    CHECK(gpa % 4096 + len_bytes <= 4096, "a request within one page");
    *span = (struct vpt_span){VPT_SPAN_RAM, odd->answer, odd->ram + gpa % 4096};
}

static void on_clocks(void *owner, struct vpt_clocks *clocks)
{
    (void)owner;
    memset(clocks, 0, sizeof(*clocks));
}

static void test_answers(void)
{
    static const struct vpt_ops ops = {.translate = on_translate, .clocks = on_clocks};
    static const uint32_t answers[] = {0, 1, 7, UINT32_MAX};
    uint8_t first[4096] = {0};

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct odd odd = {.answer = answers[i]};
        struct vpt_rtit cpu;
        uint64_t value;

        CHECK(vpt_rtit_init(&cpu, 0, &ops, &odd), "vpt_rtit_init");
        vpt_rtit_rdmsr(&cpu, VPT_RTIT_CTL, &value);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_LIMIT_MASK, 0xfff, 0);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_EVENTS, 6 << 3 | 7, 0); /* always on; no TraceStop */
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN, 0x401000);
        vpt_rtit_wrmsr(&cpu, VPT_RTIT_CTL,
                       VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_TRACE_ACTIVE,
                       0x401000);
        for (unsigned n = 0; n < 40; n++) {
            const struct vpt_rtit_event event = {
                .kind = VPT_RTIT_JMP_INDIRECT, .nlip = 0x401002, .target = 0x402000 + 0x10001u * n};

            vpt_rtit_event(&cpu, &event);
        }
        vpt_rtit_drain(&cpu);
        CHECK(cpu.output_bytes > 100 && cpu.output_bytes < 4096, "answer %u: %llu bytes",
              answers[i], (unsigned long long)cpu.output_bytes);
        if (i == 0)
            memcpy(first, odd.ram, sizeof(first));
        CHECK(memcmp(first, odd.ram, sizeof(first)) == 0, "answer %u: the same bytes", answers[i]);
        for (size_t n = 4096; n < sizeof(odd.ram); n++)
            CHECK(odd.ram[n] == 0, "answer %u: behind the page", answers[i]);
    }
}

/* A walk (no jump) past the limit of one range, and at neither limit. */
static void test_either_range(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);
    const struct vpt_rtit_event inside = {
        .kind = VPT_RTIT_OTHER, .nlip = 0x500010, .target = 0x500010, .after = ctx};
    const struct vpt_rtit_event limit = {
        .kind = VPT_RTIT_OTHER, .nlip = 0x501000, .target = 0x501000, .after = ctx};
    const struct vpt_rtit_event jump = {
        .kind = VPT_RTIT_JMP_INDIRECT, .nlip = 0x401004, .target = 0x500000, .after = ctx};

    for (unsigned n = 0; n < 2; n++) {
        rtit_write(fake, VPT_RTIT_LIP0 + n, 0x500000 + n * 0x100000);
        rtit_write(fake, VPT_RTIT_LIP0 + n + 2, 0x501000 + n * 0x100000);
    }
    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 2); /* range 0 or range 1; no TraceStop */
    vpt_rtit_set_context(&fake->cpu, &ctx);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN);
    rtit_write(fake, VPT_RTIT_CTL,
               VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_TRACE_ACTIVE);
    vpt_rtit_event(&fake->cpu, &jump);
    CHECK(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_FILTEREN, "2.1.3: into a range");
    vpt_rtit_event(&fake->cpu, &inside);
    CHECK(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_FILTEREN, "within it");
    vpt_rtit_event(&fake->cpu, &limit);
    CHECK(!(rtit_read(fake, VPT_RTIT_STATUS) & VPT_RTIT_STATUS_FILTEREN), "at its limit");
    rtit_close(fake);
}

/* 4.2.1: nothing behind a PSB is compressed against what was before it. */
static void test_psb_clears(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) != 0, "a CALL is remembered");
    for (unsigned i = 0; i < 4000 && rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) != 0; i++)
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x7f0000000000 + i * 0x1000001ull);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "LAST_CALL_NLIP behind a PSB");
    rtit_close(fake);
}

void suite_rtit_output(void)
{
    static const struct test tests[] = {
        {"answers about memory", test_answers},
        {"range 0 or range 1", test_either_range},
        {"what a PSB clears", test_psb_clears},
        {NULL, NULL},
    };

    add_suite("RTIT: memory, ranges, PSB", tests);
}
