/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is newer than chapter 33, byte for byte: TRIG packets of trigger tracing, and the CFE types
 * of events that FRED delivers.
 */
#include "harness.h"

#include <string.h>

#define BOTH     (VPT_CTL_OS | VPT_CTL_USER)
#define BRANCHES (BOTH | VPT_CTL_BRANCHEN)

static void fire(struct fake *fake, uint8_t fired, bool attributed, uint64_t ip, uint64_t insns)
{
    vpt_trigger(
        &fake->cpu,
        &(struct vpt_trigger){.fired = fired, .attributed = attributed, .ip = ip, .insns = insns});
}

static void expect_bytes(struct fake *fake, const uint8_t *want, size_t len, const char *what)
{
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_len - fake->mark == len && memcmp(fake->tap + fake->mark, want, len) == 0,
          "%s: %zu bytes", what, fake->tap_len - fake->mark);
}

static void test_bytes(void)
{
    static const uint8_t want[] = {
        0xd9, 0x00, 0x01,                         /* not attributed */
        0xd9, 0x20, 0x80,                         /* others fired */
        0x06,                                     /* TNT(T) */
        0xd9, 0xc0, 0x02, 0x00, 0x00,             /* no TIP yet: IP */
        0x3d, 0x40, 0x10,                         /* FUP(401040) */
        0xd9, 0x40, 0x04, 0x03, 0x00,             /* 3 instructions behind it */
        0x2d, 0x00, 0x20,                         /* TIP(402000) */
        0xd9, 0x40, 0xff, 0xff, 0xff,             /* as many as fit */
        0xd9, 0xc0, 0x08, 0x00, 0x00, 0x3d, 0x44, /* one more: IP */
        0x20,
    };
    struct fake *fake = fake_open("future");

    fake_start(fake, BRANCHES);
    fire(fake, 1, false, 0x401000, 0);
    vpt_trigger(&fake->cpu, &(struct vpt_trigger){.fired = 0x80, .more = true});
    vpt_cond_branch(&fake->cpu, 0x401030, true);
    fire(fake, 2, true, 0x401040, 4);
    fire(fake, 4, true, 0x40104c, 3);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fire(fake, 0xff, true, 0x402010, 65535);
    fire(fake, 8, true, 0x402044, 65536);
    expect_bytes(fake, want, sizeof(want), "TRIG");
    fake_close(fake);
}

/* What can be counted from, and what cannot. */
static void test_counts(void)
{
    const struct vpt_context ctx = context_of(0);
    struct fake *fake = fake_open("future");

    fake_start(fake, BRANCHES | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fire(fake, 1, true, 0x402004, 4);
    EXPECT(fake, "TIP(402000) TRIG(1,4)", "TIP");
    fake_close(fake);

    fake = fake_open("future");
    fake_start(fake, BRANCHES | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    fake_transfer(fake, VPT_INTERRUPT, 0x401010, 0x500000, &ctx);
    fire(fake, 1, true, 0x500000, 0);
    vpt_ptwrite(&fake->cpu, 5, 4, 0x500002);
    fire(fake, 1, true, 0x500006, 2);
    EXPECT(fake, "FUP(401010) TIP(500000) TRIG(1,0) PTW4(5)+ FUP(500002) TRIG(1,0)+ FUP(500006)",
           "a FUP that does not lead on");
    fake_close(fake);

    fake = fake_open("future");
    fake_start(fake, BRANCHES | VPT_CTL_DISTNT);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_cond_branch(&fake->cpu, 0x402010, true);
    fire(fake, 1, true, 0x402012, 1);
    EXPECT(fake, "TIP(402000) TRIG(1,0)+ FUP(402012)", "DisTNT");
    fake_close(fake);
}

static void test_dependencies(void)
{
    static const struct {
        const char *rule, *profile, *pattern;
        uint64_t ctl;
    } cases[] = {
        {"BranchEn = 0", "future", "TRIG(1,0)+ FUP(401000)", BOTH},
        {"ContextEn = 0", "future", "", VPT_CTL_USER | VPT_CTL_BRANCHEN},
        {"no trigger tracing", "max", "", BRANCHES},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open(cases[i].profile);

        fake_start(fake, cases[i].ctl);
        fake_mark(fake);
        fire(fake, 1, true, 0x401000, 0);
        EXPECT(fake, cases[i].pattern, cases[i].rule);
        fake_close(fake);
    }
}

/* A jump or a MOV CR3 may lead to where tracing goes on, but nobody counts from there. */
static void test_enabled(void)
{
    struct vpt_context ctx = context_of(0);
    struct fake *fake = fake_open("future");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, BRANCHES | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_indirect(&fake->cpu, 0x401100);
    vpt_jmp_direct(&fake->cpu, 0x403000);
    vpt_jmp_direct(&fake->cpu, 0x401200);
    fire(fake, 1, true, 0x401204, 9);
    EXPECT(fake, "TIP(401100) PGD(403000) PGE(401200) TRIG(1,0)+ FUP(401204)", "direct JMP");
    fake_close(fake);

    fake = fake_open("future");
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x2000);
    fake_start(fake, BRANCHES | VPT_CTL_CR3FILTER);
    ctx.cr3 = 0x2000;
    fake_transfer(fake, VPT_FAR_BRANCH, 0x401000, 0x402000, &ctx);
    vpt_mov_cr3(&fake->cpu, 0x3000, 0x402010);
    vpt_mov_cr3(&fake->cpu, 0x2000, 0x402020);
    fire(fake, 1, true, 0x402024, 9);
    EXPECT(fake,
           "PIP(2000) MODE(64) PGE(402000) PGD() PIP(2000) PGE(402020) TRIG(1,0)+ FUP(402024)",
           "MOV CR3");
    fake_close(fake);
}

/* Whoever goes over a trace for its TSC packets passes TRIG packets of both lengths. */
static void test_rewritten(void)
{
    uint8_t trace[] = {0xd9, 0x40, 0x01, 0x19, 0x00, 0x19, 1, 0, 0, 0, 0, 0, 0,
                       0xd9, 0x80, 0x19, 0x1d, 0x19, 2,    0, 0, 0, 0, 0, 0};

    CHECK(vpt_rewrite_tsc(trace, sizeof(trace), 0, 16) == sizeof(trace), "all of it");
    CHECK(trace[6] == 17 && trace[18] == 18, "both TSC packets");
    CHECK(vpt_rewrite_tsc(trace, 1, 0, 16) == 0, "a byte of a TRIG");
    CHECK(vpt_rewrite_tsc(trace, 4, 0, 16) == 0, "a TRIG without its count");
}

/* While the way to memory is busy nothing is told; then nothing is counted from before. */
static void test_overflow(void)
{
    struct fake *fake = fake_open("future");

    fake_start(fake, BRANCHES);
    vpt_stall(&fake->cpu, true);
    while (fake->cpu.overflow_count == 0)
        vpt_jmp_indirect(&fake->cpu, 0x402000);
    fire(fake, 1, true, 0x402000, 0);
    vpt_stall(&fake->cpu, false);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake_mark(fake);
    fire(fake, 2, true, 0x403001, 1);
    EXPECT(fake, "TRIG(2,0)+ FUP(403001)", "behind OVF");
    fake_close(fake);
}

/* A PSB that TRIG packets make due comes with the next instruction, and is looked for no more. */
static void test_boundary(void)
{
    struct fake *fake = fake_open("future");
    unsigned psbs = 0;

    fake_start(fake, BRANCHES);
    for (unsigned n = 0; n < 1500; n++) {
        const uint64_t packets = fake->cpu.packet_count + 1;
        bool due;

        fire(fake, 1, false, 0x401000, 0);
        due = fake->cpu.bytes_since_psb >= 2048;
        vpt_jmp_direct(&fake->cpu, 0x402000);
        CHECK((fake->cpu.packet_count > packets) == due, "TRIG %u", n);
        psbs += due;
    }
    CHECK(psbs == 2, "%u PSBs", psbs);
    fake_stop(fake);
    fake_close(fake);
}

/* The flag is a part of the state: a saved processor goes on counting. */
static void test_saved(void)
{
    uint8_t bytes[VPT_SAVE_MAX_BYTES];
    struct fake *fake = fake_open("future");
    struct vpt_cpu restored = fake->cpu;
    size_t len;

    fake_start(fake, BRANCHES);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    len = vpt_save(&fake->cpu, bytes, sizeof(bytes));
    CHECK(!vpt_restore(&restored, bytes, len) && restored.branch_told, "branch_told is kept");
    fake_close(fake);
}

static void test_fred_bytes(void)
{
    static const uint8_t want[] = {
        0x02, 0x13, 0x0e, 0x80,                               /* CFE(SWINT, 80H) */
        0x3d, 0x10, 0x10,                                     /* FUP(401010) */
        0x6d, 0x00, 0x00, 0x00, 0x81, 0xff, 0xff,             /* TIP(KERNEL) */
        0x02, 0x13, 0x82, 0x00, 0x3d, 0x30, 0x00,             /* ERETU: CFE(IRET)+, its FUP */
        0x6d, 0x12, 0x10, 0x40, 0x00, 0x00, 0x00,             /* TIP(401012) */
        0x02, 0x13, 0x8f, 0x00, 0x3d, 0x20, 0x10,             /* CFE(SYSCALL)+, FUP(401020) */
        0x6d, 0x00, 0x00, 0x00, 0x81, 0xff, 0xff,             /* TIP(KERNEL) */
        0x02, 0x13, 0x01, 0x0d, 0x3d, 0x40, 0x00, 0x2d, 0x00, /* a fault is what it was */
        0x00,
    };
    const struct vpt_context kernel = context_of(0), user = context_of(3);
    struct fake *fake = fake_open("future");
    struct vpt_transfer transfer = {.type = VPT_FRED_SOFT_INTERRUPT,
                                    .vector = 0x80,
                                    .ip = 0x401010,
                                    .target = KERNEL,
                                    .after = kernel};

    fake_start(fake, BRANCHES | VPT_CTL_EVENTEN);
    vpt_transfer(&fake->cpu, &transfer);
    fake_transfer(fake, VPT_IRET, KERNEL + 0x30, 0x401012, &user);
    transfer = (struct vpt_transfer){
        .type = VPT_FRED_SYSCALL, .ip = 0x401020, .target = KERNEL, .after = kernel};
    vpt_transfer(&fake->cpu, &transfer);
    transfer = (struct vpt_transfer){
        .type = VPT_FAULT, .vector = 13, .ip = KERNEL + 0x40, .target = KERNEL, .after = kernel};
    vpt_transfer(&fake->cpu, &transfer);
    expect_bytes(fake, want, sizeof(want), "FRED");
    fake_close(fake);
}

/* Without FRED, and without Event Trace, the packets are those of an IDT and of a far branch. */
static void test_fred_dependencies(void)
{
    static const struct {
        const char *rule, *profile, *pattern;
        uint64_t ctl;
        enum vpt_transfer_type type;
    } cases[] = {
        {"no Event Trace", "future", "FUP(401010) TIP(ffffffff81000000)", BRANCHES,
         VPT_FRED_SOFT_INTERRUPT},
        {"no Event Trace", "future", "TIP(ffffffff81000000)", BRANCHES, VPT_FRED_SYSCALL},
        {"no FRED", "max", "CFE(1,0) FUP(401010) TIP(ffffffff81000000)", BRANCHES | VPT_CTL_EVENTEN,
         VPT_FRED_SOFT_INTERRUPT},
        {"no FRED", "max", "TIP(ffffffff81000000)", BRANCHES | VPT_CTL_EVENTEN, VPT_FRED_SYSCALL},
        {"BranchEn = 0", "future", "CFE(e,0)+ FUP(401010)", BOTH | VPT_CTL_EVENTEN,
         VPT_FRED_SOFT_INTERRUPT},
        {"BranchEn = 0", "future", "CFE(f,0)+ FUP(401010)", BOTH | VPT_CTL_EVENTEN,
         VPT_FRED_SYSCALL},
    };
    const struct vpt_context kernel = context_of(0);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open(cases[i].profile);

        fake_start(fake, cases[i].ctl);
        fake_mark(fake);
        fake_transfer(fake, cases[i].type, 0x401010, KERNEL, &kernel);
        EXPECT(fake, cases[i].pattern, cases[i].rule);
        fake_close(fake);
    }
}

void suite_newest(void)
{
    static const struct test tests[] = {
        {"TRIG, byte for byte", test_bytes},
        {"what TRIG counts from", test_counts},
        {"TRIG's dependencies", test_dependencies},
        {"TRIG where tracing begins again", test_enabled},
        {"TRIG in a trace with another TSC", test_rewritten},
        {"TRIG and an overflow", test_overflow},
        {"TRIG and a PSB", test_boundary},
        {"TRIG and a saved processor", test_saved},
        {"FRED, byte for byte", test_fred_bytes},
        {"FRED's dependencies", test_fred_dependencies},
        {NULL, NULL},
    };

    add_suite("newer than chapter 33", tests);
}
