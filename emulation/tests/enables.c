/* SPDX-License-Identifier: BSD-3-Clause */
/* TriggerEn, ContextEn, FilterEn, BranchEn, PacketEn and TraceStop (33.2.5, 33.2.6). */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALL       (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define RANGE     0x402000ull
#define RANGE_END 0x402fffull
#define FILTER(n) ((uint64_t)VPT_ADDR_CFG_FILTER << (VPT_CTL_ADDR_CFG_SHR + 4 * (n)))
#define STOP(n)   ((uint64_t)VPT_ADDR_CFG_TRACESTOP << (VPT_CTL_ADDR_CFG_SHR + 4 * (n)))

static void set_range(struct fake *fake, unsigned n, uint64_t first, uint64_t last)
{
    fake_write(fake, VPT_MSR_ADDR0_A + 2 * n, first);
    fake_write(fake, VPT_MSR_ADDR0_A + 2 * n + 1, last);
}

/* Range 0 is [RANGE, RANGE_END]; enabled outside of it. */
static struct fake *filtered(uint64_t ctl)
{
    struct fake *fake = fake_open("max");

    set_range(fake, 0, RANGE, RANGE_END);
    fake_start(fake, ctl | FILTER(0));
    return fake;
}

static bool status_is(struct fake *fake, bool trigger, bool context, bool filter)
{
    uint64_t status = fake_read(fake, VPT_MSR_STATUS);

    return !!(status & VPT_STATUS_TRIGGEREN) == trigger &&
           !!(status & VPT_STATUS_CONTEXTEN) == context &&
           !!(status & VPT_STATUS_FILTEREN) == filter;
}

/* ---- TriggerEn ------------------------------------------------------------------------------ */

static void test_trigger(void)
{
    struct fake *fake = fake_open("max");

    CHECK(!vpt_trigger_en(&fake->cpu) && !vpt_packet_en(&fake->cpu), "off after reset");
    fake_start(fake, ALL);
    CHECK(vpt_trigger_en(&fake->cpu) && vpt_packet_en(&fake->cpu), "on with TraceEn");
    CHECK(status_is(fake, true, true, true), "STATUS %" PRIx64, fake_read(fake, VPT_MSR_STATUS));
    fake_stop(fake);
    CHECK(!vpt_trigger_en(&fake->cpu) && !vpt_packet_en(&fake->cpu), "off with TraceEn");
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN), "STATUS follows");
    fake_close(fake);
}

/* ---- ContextEn (33.2.6.3) ------------------------------------------------------------------- */

static const struct {
    const char *rule;
    uint64_t ctl; /* of OS, User, CR3Filter */
    uint64_t match, cr3;
    uint8_t cpl;
    bool enclave, pae, context_en;
} contexts[] = {
    {"OS at CPL 0", VPT_CTL_OS, 0, 0, 0, false, false, true},
    {"OS at CPL 1", VPT_CTL_OS, 0, 0, 1, false, false, false},
    {"OS at CPL 3", VPT_CTL_OS, 0, 0, 3, false, false, false},
    {"User at CPL 0", VPT_CTL_USER, 0, 0, 0, false, false, false},
    {"User at CPL 1", VPT_CTL_USER, 0, 0, 1, false, false, true},
    {"User at CPL 2", VPT_CTL_USER, 0, 0, 2, false, false, true},
    {"User at CPL 3", VPT_CTL_USER, 0, 0, 3, false, false, true},
    {"both at CPL 0", VPT_CTL_OS | VPT_CTL_USER, 0, 0, 0, false, false, true},
    {"both at CPL 3", VPT_CTL_OS | VPT_CTL_USER, 0, 0, 3, false, false, true},
    {"neither at CPL 0", 0, 0, 0, 0, false, false, false},
    {"neither at CPL 3", 0, 0, 0, 3, false, false, false},
    {"production enclave", VPT_CTL_OS | VPT_CTL_USER, 0, 0, 3, true, false, false},
    {"no filter, other CR3", VPT_CTL_OS, 0x1000, 0x2000, 0, false, false, true},
    {"CR3 matches", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x1000, 0, false, false, true},
    {"CR3 differs", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x2000, 0, false, false, false},
    {"bits 4:0 are ignored", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x101f, 0, false, false, true},
    {"bits 11:5 are ignored", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x1fe0, 0, false, false,
     true},
    {"bits 11:5 of MATCH too", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1fe0, 0x1000, 0, false, false,
     true},
    {"PAE: bit 5 counts", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x1020, 0, false, true, false},
    {"PAE: bit 11 counts", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x1800, 0, false, true, false},
    {"PAE: bits 4:0 are ignored", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1020, 0x103f, 0, false, true,
     true},
    {"high bits count", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x1000, 0x8000000000001000, 0, false, false,
     false},
    {"bit 12 counts", VPT_CTL_OS | VPT_CTL_CR3FILTER, 0x2000, 0x3000, 0, false, false, false},
    {"CR3 matches, CPL does not", VPT_CTL_USER | VPT_CTL_CR3FILTER, 0x1000, 0x1000, 0, false, false,
     false},
};

static struct vpt_context context_of_case(size_t i)
{
    struct vpt_context ctx = context_of(contexts[i].cpl);

    ctx.cr3 = contexts[i].cr3;
    ctx.enclave = contexts[i].enclave;
    ctx.pae = contexts[i].pae;
    if (ctx.pae)
        ctx.exec_mode = VPT_EXEC_32;
    return ctx;
}

static void test_context(void)
{
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        struct fake *fake = fake_open("max");
        const struct vpt_context ctx = context_of_case(i);

        fake_output(fake);
        fake_write(fake, VPT_MSR_CR3_MATCH, contexts[i].match);
        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, VPT_MSR_CTL,
                   contexts[i].ctl | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN) == contexts[i].context_en,
              "33.2.6.3: %s, at enabling", contexts[i].rule);
        CHECK(vpt_packet_en(&fake->cpu) == contexts[i].context_en, "33.2.6.1: %s: PacketEn",
              contexts[i].rule);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* The same, reached by a far transfer while TriggerEn is 1. */
static void test_context_by_transfer(void)
{
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        struct fake *fake = fake_open("max");
        const struct vpt_context ctx = context_of_case(i);

        fake_write(fake, VPT_MSR_CR3_MATCH, contexts[i].match);
        fake_start(fake, contexts[i].ctl | VPT_CTL_BRANCHEN);
        fake_transfer(fake, VPT_FAR_BRANCH, 0x401000, 0x405000, &ctx);
        CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN) == contexts[i].context_en,
              "33.2.6.3: %s, after a transfer", contexts[i].rule);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* vpt_set_context() is for TriggerEn = 0 only. */
static void test_set_context_while_on(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    vpt_set_context(&fake->cpu, &user);
    CHECK(vpt_packet_en(&fake->cpu), "it changed ContextEn");
    EXPECT(fake, "", "vpt_set_context with TriggerEn = 1");
    fake_close(fake);
}

/* Events may be told while TriggerEn is 0, too; the context they leave behind counts. */
static void test_events_while_off(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);
    uint64_t ctl = ALL | VPT_CTL_CR3FILTER | VPT_CTL_TOPA | VPT_CTL_TRACEEN;

    fake_output(fake);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x7000);
    user.cr3 = 0x5000;
    fake_transfer(fake, VPT_IRET, 0x401000, 0x402000, &user);
    vpt_mov_cr3(&fake->cpu, 0x7000, 0x402003);
    fake_write(fake, VPT_MSR_CTL, ctl & ~VPT_CTL_OS);
    CHECK(vpt_packet_en(&fake->cpu), "CPL 3 and CR3 7000H");
    fake_stop(fake);
    fake_close(fake);
}

/* ---- What changes of ContextEn look like (33.2.5.1, 33.2.5.2) ------------------------------- */

static void test_cpl_filter(void)
{
    struct vpt_context user = context_of(3), kernel = context_of(0);
    struct fake *fake = fake_open("max");

    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x401010, 0x7000, &user); /* SYSRET */
    vpt_cond_branch(&fake->cpu, 0x7010, true);
    vpt_call_indirect(&fake->cpu, 0x7100, 0x7012);
    vpt_ret(&fake->cpu, 0x7012);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x7020, 0x402000, &kernel); /* SYSCALL */
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    EXPECT(fake, "PGD() MODE(64)? PGE(402000) TIP(403000)", "OS only");
    fake_close(fake);

    fake = fake_open("max");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake_transfer(fake, VPT_IRET, 0x401010, 0x7000, &user);
    vpt_cond_branch(&fake->cpu, 0x7010, true);
    fake_transfer(fake, VPT_INTERRUPT, 0x7010, 0x402000, &kernel);
    vpt_cond_branch(&fake->cpu, 0x402010, true);
    fake_transfer(fake, VPT_IRET, 0x402010, 0x7010, &user);
    fake_transfer(fake, VPT_FAULT, 0x7014, 0x402000, &kernel);
    EXPECT(fake, "MODE(64)? PGE(7000) TNT(T) FUP(7010) PGD() MODE(64)? PGE(7010) FUP(7014) PGD()",
           "User only: no kernel IP is exposed");
    fake_close(fake);
}

static void test_cr3_filter(void)
{
    struct fake *fake = fake_open("max");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_start(fake, VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_CR3FILTER); /* CR3 is 1000H */
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_mov_cr3(&fake->cpu, 0x3000, 0x402003);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x402006);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x403003);
    vpt_mov_cr3(&fake->cpu, 0x6000, 0x403006);
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    EXPECT(fake, "PIP(5000) MODE(64)? PGE(402006) TIP(403000) PIP(5000) PGD()",
           "PIP if TriggerEn, OS and ContextEn hold after the operation");
    fake_close(fake);
}

/* 33.2.5.2: without OS no PIP at all. */
static void test_no_pip_without_os(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context user = context_of(3);

    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN);
    vpt_mov_cr3(&fake->cpu, 0x3000, 0x402003);
    user.cr3 = 0x4000;
    fake_transfer(fake, VPT_IRET, 0x402003, 0x7000, &user);
    user.cr3 = 0x5000;
    fake_transfer(fake, VPT_FAR_BRANCH, 0x7000, 0x8000, &user);
    EXPECT(fake, "MODE(64)? PGE(7000) TIP(8000)", "OS = 0");
    fake_close(fake);
}

/* ---- BranchEn (33.2.6.4) -------------------------------------------------------------------- */

static void test_branch_en(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context other = context_of(0);

    other.cr3 = 0x3000;
    other.exec_mode = VPT_EXEC_32;
    fake_start(fake, VPT_CTL_OS | VPT_CTL_USER);
    CHECK(status_is(fake, true, true, true), "TriggerEn, ContextEn, FilterEn");
    CHECK(!vpt_packet_en(&fake->cpu), "PacketEn without BranchEn");
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_call_direct(&fake->cpu, 0x402000, 0x401015);
    vpt_ret(&fake->cpu, 0x401015);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    vpt_mov_cr3(&fake->cpu, 0x2000, 0x403003);
    fake_transfer(fake, VPT_INTERRUPT, 0x403003, 0x404000, &other);
    EXPECT(fake, "PIP(2000) PIP(3000)", "only what is no control flow");
    fake_close(fake);
}

/* ---- FilterEn (33.2.5.3, 33.2.6.5) ---------------------------------------------------------- */

static void test_table_33_2(void)
{
    struct fake *fake = filtered(ALL);

    CHECK(status_is(fake, true, true, false), "outside: STATUS %" PRIx64,
          fake_read(fake, VPT_MSR_STATUS));
    vpt_jmp_direct(&fake->cpu, RANGE);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "inside");
    vpt_cond_branch(&fake->cpu, RANGE + 2, false);
    vpt_jmp_direct(&fake->cpu, RANGE_END + 1);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "outside again");
    vpt_cond_branch(&fake->cpu, 0x401000, true);
    EXPECT(fake, "MODE(64)? PGE(402000) TNT(N) PGD(403000)", "Table 33-2");
    fake_close(fake);
}

/* FilterEn at enabling is about the instruction after the WRMSR. */
static void test_filter_at_enabling(void)
{
    static const struct {
        uint64_t first, last;
        bool filter_en;
    } cases[] = {
        {IP_START, IP_START, true},
        {IP_START, IP_START + 100, true},
        {0, IP_START, true},
        {IP_ON, IP_ON + 1, false},
        {IP_START + 1, IP_START + 9, false},
        {0, IP_ON, false},
        {IP_START + 5, IP_START - 5, false},
        {0, 0x7fffffffffffull, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("max");

        set_range(fake, 0, cases[i].first, cases[i].last);
        fake_start(fake, ALL | FILTER(0));
        CHECK(fake_status(fake, VPT_STATUS_FILTEREN) == cases[i].filter_en, "case %zu", i);
        CHECK(vpt_packet_en(&fake->cpu) == cases[i].filter_en, "case %zu", i);
        fake->mark = 0;
        EXPECT(fake, cases[i].filter_en ? "PSB+ MODE(64) PGE(401000)" : "PSB+ MODE(64)?",
               "at enabling");
        fake_close(fake);
    }
}

/* Each kind of branch into and out of a range, Table 33-56 cases 4 and 5. */
enum hop { JMP, COND, JMP_IND, CALL, CALL_IND, RET, FAR, INTR, FAULT };

static void hop(struct fake *fake, enum hop kind, uint64_t from, uint64_t target)
{
    struct vpt_context ctx = context_of(0);

    switch (kind) {
    case JMP:
        vpt_jmp_direct(&fake->cpu, target);
        break;
    case COND:
        vpt_cond_branch(&fake->cpu, target, true);
        break;
    case JMP_IND:
        vpt_jmp_indirect(&fake->cpu, target);
        break;
    case CALL:
        vpt_call_direct(&fake->cpu, target, from + 5);
        break;
    case CALL_IND:
        vpt_call_indirect(&fake->cpu, target, from + 2);
        break;
    case RET:
        vpt_ret(&fake->cpu, target);
        break;
    case FAR:
        fake_transfer(fake, VPT_FAR_BRANCH, from, target, &ctx);
        break;
    case INTR:
        fake_transfer(fake, VPT_INTERRUPT, from, target, &ctx);
        break;
    case FAULT:
        fake_transfer(fake, VPT_FAULT, from, target, &ctx);
        break;
    }
}

static void test_in_and_out(void)
{
    static const char *const outs[] = {
        [JMP] = "PGD(405000)",
        [COND] = "PGD()",
        [JMP_IND] = "PGD(405000)",
        [CALL] = "PGD(405000)",
        [CALL_IND] = "PGD(405000)",
        [RET] = "PGD(405000)",
        [FAR] = "PGD(405000)",
        [INTR] = "FUP(402100) PGD(405000)",
        [FAULT] = "FUP(402100) PGD(405000)",
    };

    for (enum hop in = JMP; in <= FAULT; in++) {
        for (enum hop out = JMP; out <= FAULT; out++) {
            struct fake *fake = filtered(ALL);
            char pattern[128], rule[64];

            hop(fake, in, 0x401020, RANGE + 16);
            CHECK(vpt_packet_en(&fake->cpu), "hop %d in", in);
            hop(fake, out, RANGE + 0x100, 0x405000);
            CHECK(!vpt_packet_en(&fake->cpu), "hop %d out", out);
            snprintf(pattern, sizeof(pattern), "MODE(64)? PGE(402010) %s", outs[out]);
            snprintf(rule, sizeof(rule), "Table 33-56 4, 5: in by %d, out by %d", in, out);
            EXPECT(fake, pattern, rule);
            fake_close(fake);
        }
    }
}

/* Table 33-21: TIP.PGD replaces the TNT bit or TIP, and what was in the TNT buffer comes first. */
static void test_pgd_flushes_tnt(void)
{
    struct fake *fake = filtered(ALL);

    hop(fake, JMP, 0x401020, RANGE);
    vpt_cond_branch(&fake->cpu, RANGE + 8, true);
    vpt_cond_branch(&fake->cpu, RANGE + 16, false);
    vpt_cond_branch(&fake->cpu, 0x405000, true);
    EXPECT(fake, "MODE(64)? PGE(402000) TNT(TN) PGD()", "conditional branch out");
    fake_close(fake);
}

/* A compressed RET that leaves the range becomes a TIP.PGD with its target. */
static void test_ret_out(void)
{
    struct fake *fake = filtered(ALL);

    hop(fake, JMP, 0x401020, RANGE);
    vpt_call_direct(&fake->cpu, RANGE + 0x100, RANGE_END + 1); /* the last instruction */
    vpt_ret(&fake->cpu, RANGE_END + 1);
    EXPECT(fake, "MODE(64)? PGE(402000) PGD(403000)", "RET out");
    fake_close(fake);
}

/* Limits are inclusive at both ends. */
static void test_limits(void)
{
    static const struct {
        uint64_t target;
        bool inside;
    } cases[] = {{RANGE, true},
                 {RANGE - 1, false},
                 {RANGE_END, true},
                 {RANGE_END + 1, false},
                 {RANGE + 0x800, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = filtered(ALL);

        vpt_jmp_direct(&fake->cpu, cases[i].target);
        CHECK(vpt_packet_en(&fake->cpu) == cases[i].inside, "target %" PRIx64, cases[i].target);
        fake_stop(fake);
        fake_close(fake);
    }
}

/* FilterEn is 1 inside any of the ranges; moves between them change nothing. */
static void test_many_ranges(void)
{
    for (unsigned count = 1; count <= VPT_MAX_RANGES; count++) {
        struct fake *fake = fake_open("max");
        uint64_t ctl = ALL;

        for (unsigned n = 0; n < VPT_MAX_RANGES; n++) {
            set_range(fake, n, 0x410000 + n * 0x1000, 0x4107ff + n * 0x1000);
            if (n < count)
                ctl |= FILTER(VPT_MAX_RANGES - 1 - n); /* the highest first */
        }
        fake_start(fake, ctl);
        for (unsigned n = 0; n < VPT_MAX_RANGES; n++) {
            vpt_jmp_indirect(&fake->cpu, 0x410000 + n * 0x1000);
            CHECK(vpt_packet_en(&fake->cpu) == (n >= VPT_MAX_RANGES - count),
                  "%u ranges, inside range %u", count, n);
            if (n + 1 < VPT_MAX_RANGES)
                continue;
            vpt_jmp_indirect(&fake->cpu, 0x410900 + n * 0x1000);
            CHECK(!vpt_packet_en(&fake->cpu), "%u ranges, between ranges", count);
        }
        fake_stop(fake);
        fake_close(fake);
    }
}

/* 33.2.6.5: FilterEn toggles only with ContextEn = 1. */
static void test_filter_waits_for_context(void)
{
    struct fake *fake = filtered(VPT_CTL_OS | VPT_CTL_BRANCHEN);
    struct vpt_context user = context_of(3), kernel = context_of(0);

    vpt_jmp_direct(&fake->cpu, RANGE);
    fake_transfer(fake, VPT_IRET, RANGE + 8, 0x7000, &user);
    vpt_jmp_direct(&fake->cpu, RANGE + 0x10);
    fake_transfer(fake, VPT_INTERRUPT, RANGE + 0x20, 0x405000, &kernel);
    CHECK(!vpt_packet_en(&fake->cpu), "the handler is outside the range");
    fake_transfer(fake, VPT_IRET, 0x405010, RANGE + 0x20, &user);
    fake_transfer(fake, VPT_INTERRUPT, RANGE + 0x20, RANGE + 0x200, &kernel);
    EXPECT(fake, "MODE(64)? PGE(402000) PGD() MODE(64)? PGE(402200)", "33.2.6.5");
    fake_close(fake);
}

/* PIPs do not depend on FilterEn (33.2.6.5). */
static void test_pip_outside(void)
{
    struct fake *fake = filtered(ALL);

    vpt_mov_cr3(&fake->cpu, 0x3000, 0x401103);
    vpt_jmp_direct(&fake->cpu, RANGE);
    vpt_mov_cr3(&fake->cpu, 0x4000, RANGE + 3);
    EXPECT(fake, "PIP(3000) MODE(64)? PGE(402000) PIP(4000)", "33.2.6.5: PIP outside the range");
    fake_close(fake);
}

/* 33.2.6.5: without a range FilterEn is 1 after TraceEn, whatever it was at the end before. */
static void test_filter_of_an_earlier_session(void)
{
    struct fake *fake = filtered(ALL);

    fake_stop(fake);
    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN); /* at CPL 0: ContextEn is 0 */
    CHECK(status_is(fake, true, false, true), "STATUS %" PRIx64, fake_read(fake, VPT_MSR_STATUS));
    fake_stop(fake);
    fake_close(fake);
}

/* On processors without IP filtering FilterEn is always 1. */
static void test_no_ip_filtering(void)
{
    struct fake *fake = fake_open("broadwell");

    fake_start(fake, ALL);
    CHECK(status_is(fake, true, true, true), "33.2.6.1: FilterEn without IP filtering");
    fake_stop(fake);
    fake_close(fake);
}

/* ---- TraceStop (33.2.5.3, Table 33-28) ------------------------------------------------------ */

static void stopped(struct fake *fake, const char *pattern, const char *rule)
{
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "%s: Stopped", rule);
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN) && !vpt_trigger_en(&fake->cpu), "%s: TriggerEn",
          rule);
    CHECK(!vpt_packet_en(&fake->cpu), "%s: PacketEn", rule);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "%s: FilterEn is forced to 0", rule);
    vpt_jmp_indirect(&fake->cpu, 0x409000);
    EXPECT(fake, pattern, rule);
    fake_close(fake);
}

static struct fake *stop_range(uint64_t ctl)
{
    struct fake *fake = fake_open("max");

    set_range(fake, 1, RANGE, RANGE_END);
    fake_start(fake, ctl | STOP(1));
    return fake;
}

static void test_tracestop(void)
{
    struct fake *fake;
    struct vpt_context user = context_of(3), kernel = context_of(0);

    for (enum hop kind = JMP; kind <= FAULT; kind++) {
        fake = stop_range(ALL);
        vpt_jmp_indirect(&fake->cpu, 0x408000);
        hop(fake, kind, 0x408010, RANGE + 4);
        stopped(fake,
                kind == INTR || kind == FAULT ? "TIP(408000) FUP(408010) PGD()|PGD(402004) STOP"
                                              : "TIP(408000) PGD()|PGD(402004) STOP",
                "a branch into the range");
    }
    fake = stop_range(ALL);
    vpt_cond_branch(&fake->cpu, RANGE, false); /* sequential */
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "only taken branches enter");
    fake_stop(fake);
    fake_close(fake);

    fake = stop_range(VPT_CTL_OS | VPT_CTL_BRANCHEN);
    fake_transfer(fake, VPT_IRET, 0x401010, RANGE, &user);
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "ContextEn must be 1 on completion");
    vpt_jmp_direct(&fake->cpu, RANGE + 16);
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "ContextEn must be 1 on completion");
    fake_transfer(fake, VPT_INTERRUPT, RANGE + 16, RANGE + 32, &kernel);
    stopped(fake, "PGD() STOP", "an interrupt that sets ContextEn");
}

/* Table 33-28: a WRMSR that sets TraceEn, and MOV CR3, inside the range. */
static void test_tracestop_without_branch(void)
{
    struct fake *fake = fake_open("max");

    set_range(fake, 0, 0x400000, 0x401fff);
    fake_start(fake, ALL | STOP(0));
    fake->mark = 0;
    stopped(fake, "PSB+ MODE(64)? STOP", "WRMSR");

    fake = fake_open("max");
    set_range(fake, 0, RANGE, RANGE_END);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_start(fake, ALL | VPT_CTL_CR3FILTER | STOP(0));
    vpt_jmp_direct(&fake->cpu, RANGE);
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "ContextEn is 0");
    vpt_mov_cr3(&fake->cpu, 0x5000, RANGE + 0x13);
    stopped(fake, "PIP(5000)? STOP", "MOV CR3");
}

/* Where ranges overlap TraceStop wins; outside PacketEn it needs no TIP.PGD. */
static void test_tracestop_and_filter(void)
{
    struct fake *fake = fake_open("max");

    set_range(fake, 0, RANGE, RANGE_END);
    set_range(fake, 1, RANGE_END - 15, RANGE_END + 16);
    fake_start(fake, ALL | FILTER(0) | STOP(1));
    vpt_jmp_direct(&fake->cpu, RANGE);
    vpt_jmp_direct(&fake->cpu, RANGE_END - 15);
    stopped(fake, "MODE(64)? PGE(402000) PGD()|PGD(402ff0) STOP", "overlapping ranges");

    fake = fake_open("max");
    set_range(fake, 0, RANGE, RANGE_END);
    set_range(fake, 1, 0x404000, 0x404fff);
    fake_start(fake, ALL | FILTER(0) | STOP(1));
    vpt_jmp_direct(&fake->cpu, 0x404000);
    stopped(fake, "STOP", "while FilterEn = 0");
}

/* To resume, TraceEn must be cleared, then Stopped. */
static void test_tracestop_resume(void)
{
    struct fake *fake = stop_range(ALL);
    uint64_t ctl = fake_read(fake, VPT_MSR_CTL);

    vpt_jmp_direct(&fake->cpu, RANGE);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "Stopped");
    CHECK(vpt_wrmsr(&fake->cpu, VPT_MSR_STATUS, 0, IP_ON, IP_START) == VPT_GP, "TraceEn is 1");
    CHECK(fake_read(fake, VPT_MSR_CTL) == ctl, "TraceEn stays 1");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_CTL, ctl);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x408000);
    EXPECT(fake, "TIP(408000)", "tracing resumes");
    fake_close(fake);
}

/*
 * Tracing in a segment at cs_base, on a processor whose ranges and packets hold LIPs or else RIPs
 * (33.3.1.1); range 0 is the 4 KiB at first.
 */
static struct fake *filtered_segment(bool lip, enum vpt_exec_mode mode, uint64_t cs_base,
                                     uint64_t first)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_context ctx = context_of(0);
    struct fake *fake;

    if (!lip)
        caps.leaf14_0_ecx &= ~VPT_CAP_LIP;
    fake = fake_open_caps(&caps);
    ctx.exec_mode = (uint8_t)mode;
    ctx.cs_base = cs_base;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    set_range(fake, 0, first, first + 0xfff);
    fake_write(fake, VPT_MSR_CTL, ALL | VPT_CTL_TOPA | VPT_CTL_TRACEEN | FILTER(0));
    fake_mark(fake);
    return fake;
}

/* 33.3.1.1: without LIP, ranges are compared with, and packets hold, offsets from CS base. */
static void test_rip_and_lip(void)
{
    for (int lip = 0; lip < 2; lip++) {
        struct fake *fake = filtered_segment(lip, VPT_EXEC_16, 0x20000, lip ? 0x21000 : 0x1000);

        vpt_jmp_direct(&fake->cpu, 0x21010);
        vpt_jmp_indirect(&fake->cpu, 0x21020);
        vpt_jmp_direct(&fake->cpu, 0x25000);
        EXPECT(fake,
               lip ? "MODE(16)? PGE(21010) TIP(21020) PGD(25000)"
                   : "MODE(16)? PGE(1010) TIP(1020) PGD(5000)",
               lip ? "33.3.1.1: LIP" : "33.3.1.1: RIP");
        fake_close(fake);
    }
}

/* Outside 64-bit mode the sum of CS base and EIP wraps at 4 GiB, in packets and in ranges. */
static void test_ip_wraps(void)
{
    for (int lip = 0; lip < 2; lip++) {
        struct fake *fake =
            filtered_segment(lip, VPT_EXEC_32, 0x80000000, lip ? 0x10000000 : 0x90000000);

        vpt_jmp_direct(&fake->cpu, 0x10000100);    /* EIP 90000100H, the owner's sum wrapped */
        vpt_jmp_indirect(&fake->cpu, 0x110000200); /* the owner's sum did not */
        vpt_jmp_direct(&fake->cpu, 0x80000000);
        EXPECT(fake,
               lip ? "MODE(32)? PGE(10000100) TIP(10000200) PGD(80000000)"
                   : "MODE(32)? PGE(90000100) TIP(90000200) PGD(0)",
               lip ? "33.3.1.1: LIP" : "33.3.1.1: RIP");
        fake_close(fake);
    }
}

void suite_enables(void)
{
    static const struct test tests[] = {
        {"TriggerEn", test_trigger},
        {"ContextEn at enabling", test_context},
        {"ContextEn by a far transfer", test_context_by_transfer},
        {"vpt_set_context while TriggerEn = 1", test_set_context_while_on},
        {"events while TriggerEn = 0", test_events_while_off},
        {"CPL filter", test_cpl_filter},
        {"CR3 filter", test_cr3_filter},
        {"no PIP without OS", test_no_pip_without_os},
        {"BranchEn = 0", test_branch_en},
        {"Table 33-2", test_table_33_2},
        {"FilterEn at enabling", test_filter_at_enabling},
        {"branches into and out of a range", test_in_and_out},
        {"TIP.PGD after TNT", test_pgd_flushes_tnt},
        {"RET out of a range", test_ret_out},
        {"inclusive limits", test_limits},
        {"up to four ranges", test_many_ranges},
        {"FilterEn and ContextEn", test_filter_waits_for_context},
        {"PIP outside a range", test_pip_outside},
        {"FilterEn of an earlier session", test_filter_of_an_earlier_session},
        {"no IP filtering", test_no_ip_filtering},
        {"TraceStop by branches", test_tracestop},
        {"TraceStop by WRMSR and MOV CR3", test_tracestop_without_branch},
        {"TraceStop and filter ranges", test_tracestop_and_filter},
        {"resuming after TraceStop", test_tracestop_resume},
        {"RIP and LIP", test_rip_and_lip},
        {"IPs of 32 bits", test_ip_wraps},
        {NULL, NULL},
    };

    add_suite("enables and filters (33.2.5, 33.2.6)", tests);
}
