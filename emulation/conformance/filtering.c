/* SPDX-License-Identifier: BSD-3-Clause */
/* Filtering by CPL, CR3 and IP, and TraceStop (33.2.5). */
#include "conformance.h"

#include <string.h>

#define FIRST 0x500000ull
#define LAST  0x500fffull

/* ---- CPL ------------------------------------------------------------------------------------ */

static void cpl_both(void)
{
    struct fake *fake = begin("skylake", TRACED);

    transfer(fake, VPT_IRET, at_cpl(3));
    transfer(fake, VPT_FAR_BRANCH, at_cpl(0));
    END(fake, "TIP(402000) TIP(402000)");
}
static void cpl_middle(void)
{
    for (uint8_t cpl = 1; cpl < 4; cpl++) {
        struct fake *fake = begin("skylake", USER | BRANCHEN);

        transfer(fake, VPT_FAR_BRANCH, at_cpl(cpl));
        END(fake, "MODE(64) PGE(402000)");
        fake = begin("skylake", OS | BRANCHEN);
        transfer(fake, VPT_FAR_BRANCH, at_cpl(cpl));
        END(fake, "PGD()");
    }
}
static void cpl_secret(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);
    struct vpt_transfer syscall = {.type = VPT_FAR_BRANCH, .ip = SOURCE, .after = at_cpl(0)};

    transfer(fake, VPT_IRET, at_cpl(3));
    SO_FAR(fake, "MODE(64) PGE(402000)");
    syscall.target = KERNEL;
    vpt_transfer(&fake->cpu, &syscall);
    vpt_jmp_indirect(&fake->cpu, KERNEL + 0x40);
    vpt_mov_cr3(&fake->cpu, 0x5000, KERNEL + 0x43);
    END(fake, "PGD()");
}
static void cpl_none(void)
{
    struct fake *fake = begin("skylake", BRANCHEN);

    transfer(fake, VPT_IRET, at_cpl(3));
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    vpt_cond_branch(&fake->cpu, SOURCE, true);
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn");
    END(fake, "");
}

static const struct rule section_cpl[] = {
    {"both", "OS = User = 1: every CPL is traced", TEST(cpl_both)},
    {"CPL 1 and 2", "they count as above 0", TEST(cpl_middle)},
    {"privacy", "nothing of a CPL that is not traced is seen: no target, no IP, no CR3",
     TEST(cpl_secret)},
    {"neither", "OS = User = 0: ContextEn is 0", TEST(cpl_none)},
    {"real mode", "CPL is 0; 3 in virtual-8086 mode", UNMET("the owner tells the CPL")},
    {0},
};

/* ---- CR3 ------------------------------------------------------------------------------------ */

/* Whether CR3 matches CR3_MATCH. */
static bool match(uint64_t match_value, uint64_t cr3, bool pae)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = at_cr3(cr3);
    bool matches;

    ctx.pae = pae;
    fake_output(fake);
    fake_write(fake, VPT_MSR_CR3_MATCH, match_value);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_CR3FILTER | VPT_CTL_TRACEEN);
    matches = fake_status(fake, VPT_STATUS_CONTEXTEN);
    end_quietly(fake);
    return matches;
}
static void cr3_bits(void)
{
    CHECK(match(0x5000, 0x5000, false), "the same");
    for (unsigned bit = 0; bit < 12; bit++)
        CHECK(match(0x5000, 0x5000 | 1u << bit, false), "CR3 bit %u does not count", bit);
    for (unsigned bit = 5; bit < 12; bit++)
        CHECK(match(0x5000 | 1u << bit, 0x5000, false), "CR3_MATCH bit %u does not count", bit);
    for (unsigned bit = 12; bit < 52; bit++)
        CHECK(!match(0x5000, 0x5000 ^ 1ull << bit, false), "bit %u counts", bit);
}
static void cr3_pae(void)
{
    for (unsigned bit = 0; bit < 5; bit++)
        CHECK(match(0x5000, 0x5000 | 1u << bit, true), "bit %u does not count", bit);
    for (unsigned bit = 5; bit < 32; bit++)
        CHECK(!match(0x5000, 0x5000 ^ 1ull << bit, true), "bit %u counts", bit);
}
static void cr3_off(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x7000);
    fake_start(fake, TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}
static void cr3_excluded(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x1000);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    transfer(fake, VPT_INTERRUPT, at_cr3(0x5000));
    END(fake, "PGD()");
}
static void cr3_pip(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    SO_FAR(fake, "PIP(5000) MODE(64) PGE(401010)");
    end_quietly(fake);
    fake = begin("skylake", USER | BRANCHEN);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    transfer(fake, VPT_IRET, at_cpl(3));
    fake_mark(fake);
    fake_noise(fake, 2200);
    CHECK(!strstr(fake_words(fake, true), "PIP("), "OS = 0: no PIP, not in PSB+ either");
    end_quietly(fake);
}

static void cr3_others(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x7000);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER | VPT_CTL_MTCEN);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    vpt_set_core_ratio(&fake->cpu, 9);
    END(fake, "MTC(1) CBR(9)");
}

static const struct rule section_cr3[] = {
    {"bits", "CR3 matches if 63:12 are the same; 11:0 do not count", TEST(cr3_bits)},
    {"PAE", "with PAE paging 63:5 count, 4:0 do not", TEST(cr3_pae)},
    {"off", "CR3Filter = 0: CR3_MATCH does not count", TEST(cr3_off)},
    {"excluded", "nothing of an address space that does not match is seen", TEST(cr3_excluded)},
    {"PIP", "only with OS = 1", TEST(cr3_pip)},
    {"others", "timing packets do not depend on it", TEST(cr3_others)},
    {0},
};

/* ---- IP ------------------------------------------------------------------------------------- */

static struct fake *filtered(void)
{
    return begin_range("skylake", VPT_ADDR_CFG_FILTER, FIRST, LAST, TRACED);
}

static void example(void)
{
    struct fake *fake = filtered();

    vpt_jmp_direct(&fake->cpu, 0x500000);
    vpt_cond_branch(&fake->cpu, 0x500002, false);
    vpt_jmp_direct(&fake->cpu, 0x501000);
    vpt_cond_branch(&fake->cpu, 0x400100, true);
    END(fake, "MODE(64) PGE(500000) TNT(N) PGD(501000)");
}
static void ip_inclusive(void)
{
    const struct {
        uint64_t ip;
        bool inside;
    } cases[] = {{FIRST - 1, false}, {FIRST, true}, {LAST, true}, {LAST + 1, false}};

    for (unsigned i = 0; i < 4; i++) {
        struct fake *fake = filtered();

        vpt_jmp_indirect(&fake->cpu, cases[i].ip);
        CHECK(fake_status(fake, VPT_STATUS_FILTEREN) == cases[i].inside, "%llx",
              (unsigned long long)cases[i].ip);
        end_quietly(fake);
    }
}
static void ip_several(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
    fake_write(fake, VPT_MSR_ADDR0_A + 2, 0x700000);
    fake_write(fake, VPT_MSR_ADDR0_A + 3, 0x700fff);
    fake_start(fake, TRACED | 0x11ull << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_indirect(&fake->cpu, FIRST);
    vpt_jmp_indirect(&fake->cpu, 0x700fff);
    vpt_jmp_indirect(&fake->cpu, 0x600000);
    END(fake, "MODE(64) PGE(500000) TIP(700fff) PGD(600000)");
}
static void ip_event(void)
{
    const struct vpt_context same = at_cpl(0);
    struct fake *fake = filtered();

    fake_transfer(fake, VPT_INTERRUPT, SOURCE, FIRST, &same);
    SO_FAR(fake, "MODE(64) PGE(500000)");
    fake_transfer(fake, VPT_INTERRUPT, FIRST + 4, TARGET, &same);
    END(fake, "FUP(500004) PGD(402000)");
}
static void ip_walk(void)
{
    struct fake *fake = filtered();

    vpt_cond_branch(&fake->cpu, FIRST, false); /* walks in: not seen */
    vpt_jmp_indirect(&fake->cpu, LAST);        /* seen */
    vpt_cond_branch(&fake->cpu, LAST + 1, false);
    vpt_jmp_indirect(&fake->cpu, 0x600000);
    END(fake, "MODE(64) PGE(500fff) TNT(N) PGD(600000)");
}
static void ip_payload_type(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct vpt_context ctx = in_mode(VPT_EXEC_32);

    ctx.cs_base = 0x10000;
    for (unsigned lip = 0; lip < 2; lip++) {
        struct fake *fake;

        caps.leaf14_0_ecx =
            lip ? caps.leaf14_0_ecx | VPT_CAP_LIP : caps.leaf14_0_ecx & ~VPT_CAP_LIP;
        fake = fake_open_caps(&caps);
        fake_write(fake, VPT_MSR_ADDR0_A, lip ? FIRST : FIRST - 0x10000);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, lip ? FIRST : FIRST - 0x10000);
        fake_start(fake, TRACED | 1ull << VPT_CTL_ADDR_CFG_SHR);
        fake_transfer(fake, VPT_FAR_BRANCH, SOURCE, FIRST, &ctx);
        SO_FAR(fake, lip ? "MODE(32) PGE(500000)" : "MODE(32) PGE(4f0000)");
        end_quietly(fake);
    }
}
static void ip_timing(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, FIRST, LAST,
                                    TRACED | VPT_CTL_MTCEN | VPT_CTL_TSCEN);

    fake->clocks.art++;
    vpt_time(&fake->cpu);
    fake->clocks.tsc = 0x88;
    vpt_set_core_ratio(&fake->cpu, 9);
    END(fake, "MTC(1) TSC(88) TMA(1,0) CBR(9)");
}

static const struct rule table_2[] = {
    {"example",
     "a jump into the range gives TIP.PGE, branches in it TNT, a jump out TIP.PGD with the target",
     TEST(example)},
    {0},
};

static const struct rule section_ip[] = {
    {"limits", "base and limit belong to the range", TEST(ip_inclusive)},
    {"several", "all filter ranges together are what is traced", TEST(ip_several)},
    {"events", "a range is entered and left by interrupts as by branches", TEST(ip_event)},
    {"walking", "what is entered or left without a branch is noticed at the next taken one",
     TEST(ip_walk)},
    {"LIP or RIP", "ranges are compared with what IP payloads hold", TEST(ip_payload_type)},
    {"timing", "timing packets do not depend on it", TEST(ip_timing)},
    {0},
};

/* ---- TraceStop ------------------------------------------------------------------------------ */

static struct fake *stopping(uint64_t ctl)
{
    return begin_range("skylake", VPT_ADDR_CFG_TRACESTOP, FIRST, LAST, ctl);
}

static void stop_branch(void)
{
    struct fake *fake = stopping(TRACED);

    vpt_cond_branch(&fake->cpu, FIRST, true);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "Stopped");
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN), "TriggerEn");
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "FilterEn is forced to 0");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "PGD() STOP"); /* a conditional branch shows no target (Table 33-21) */
    fake = stopping(TRACED);
    vpt_jmp_indirect(&fake->cpu, FIRST);
    END(fake, "PGD(500000) STOP");
}
static void stop_event(void)
{
    const struct vpt_context same = at_cpl(0);
    struct fake *fake = stopping(TRACED);

    fake_transfer(fake, VPT_INTERRUPT, SOURCE, FIRST, &same);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "Stopped");
    END(fake, "FUP(401010) PGD(500000) STOP");
}
static void stop_not_taken(void)
{
    struct fake *fake = stopping(TRACED);

    vpt_cond_branch(&fake->cpu, FIRST, false);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TNT(N) TIP(402000)");
}
static void stop_context(void)
{
    const struct vpt_context user = at_cpl(3), kernel = at_cpl(0);
    struct fake *fake = stopping(OS | BRANCHEN);

    fake_transfer(fake, VPT_IRET, SOURCE, FIRST, &user);
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "ContextEn is 0 after the branch");
    fake_transfer(fake, VPT_INTERRUPT, FIRST, FIRST + 4, &kernel);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "ContextEn becomes 1 by it");
    END(fake, "PGD() STOP");
}
static void stop_enable(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_TRACESTOP, IP_START, IP_START, TRACED);

    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "WRMSR that enables in the range");
    end_quietly(fake);
    fake = fake_open("skylake");
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER |
                         (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
    vpt_mov_cr3(&fake->cpu, 0x5000, FIRST + 3);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "MOV CR3 in the range");
    END(fake, "PIP(5000) STOP");
}
static void stop_resume(void)
{
    struct fake *fake = stopping(TRACED);

    vpt_jmp_indirect(&fake->cpu, FIRST);
    CHECK(wrmsr(fake, VPT_MSR_STATUS, 0) == VPT_GP, "not while TraceEn is 1");
    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "clearing TraceEn leaves it");
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_start(fake, TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}
static void stop_overlap(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
    fake_write(fake, VPT_MSR_ADDR0_A + 2, FIRST + 0x800);
    fake_write(fake, VPT_MSR_ADDR0_A + 3, LAST + 0x800);
    fake_start(fake, TRACED | 0x21ull << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_indirect(&fake->cpu, FIRST);
    SO_FAR(fake, "MODE(64) PGE(500000)");
    vpt_jmp_indirect(&fake->cpu, FIRST + 0x800);
    END(fake, "PGD(500800) STOP");
}
static void stop_filtered(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, FIRST);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, LAST);
    fake_write(fake, VPT_MSR_ADDR0_A + 2, 0x700000);
    fake_write(fake, VPT_MSR_ADDR0_A + 3, 0x700fff);
    fake_start(fake, TRACED | 0x21ull << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_indirect(&fake->cpu, 0x700000); /* from one IP that is not traced to another */
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "FilterEn does not matter");
    END(fake, "STOP");
}
static void stop_overflow(void)
{
    for (unsigned by_event = 0; by_event < 2; by_event++) {
        const struct vpt_context same = at_cpl(0);
        struct fake *fake = stopping(TRACED);
        const char *words;

        vpt_stall(&fake->cpu, true);
        fake_noise(fake, 4000);
        CHECK(fake->cpu.overflow, "an overflow");
        if (by_event)
            fake_transfer(fake, VPT_INTERRUPT, SOURCE, FIRST, &same);
        else
            vpt_jmp_indirect(&fake->cpu, FIRST);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED), "it stops all the same");
        CHECK(!vpt_trigger_en(&fake->cpu), "TriggerEn");
        vpt_jmp_indirect(&fake->cpu, TARGET);
        vpt_stall(&fake->cpu, false);
        vpt_flush(&fake->cpu);
        words = strstr(fake_words(fake, false), "OVF");
        CHECK(words && words_match("OVF STOP", words), "both are told: %s",
              words ? words : "no OVF");
        end_quietly(fake);
    }
}

static const struct rule section_stop[] = {
    {"branch", "a taken branch into the range sets Stopped, clears TriggerEn and FilterEn; STOP",
     TEST(stop_branch)},
    {"event", "an interrupt into the range does the same", TEST(stop_event)},
    {"not taken", "a branch that is not taken does not", TEST(stop_not_taken)},
    {"context", "ContextEn must be 1 after the branch or event, not before", TEST(stop_context)},
    {"enabling", "WRMSR and MOV CR3 that enable tracing in the range stop it", TEST(stop_enable)},
    {"resuming", "TraceEn must be 0 before Stopped can be cleared", TEST(stop_resume)},
    {"overlap", "where ranges overlap, TraceStop counts", TEST(stop_overlap)},
    {"filter", "code that the filter excludes stops too", TEST(stop_filtered)},
    {"overflow", "it is not lost in an overflow", TEST(stop_overflow)},
    {0},
};

/* ---- Event Trace ---------------------------------------------------------------------------- */

static void if_flag(void)
{
    struct vpt_context on = at_cpl(0);
    struct fake *fake = fake_open("gracemont");

    on.interrupts = true;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &on);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_EVENTEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    SO_FAR(fake, "PSB+ MODE(64+IF) PGE(401000)");
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    SO_FAR(fake, "CFE(1,31) FUP(401010) MODE(64) TIP(402000)");
    end_quietly(fake);
}
static void if_quiet(void)
{
    struct fake *fake = begin("gracemont", TRACED);

    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    END(fake, "");
}
static void event_context(void)
{
    struct fake *fake = begin("gracemont", USER | VPT_CTL_EVENTEN);
    struct vpt_context user = at_cpl(3);

    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    vpt_shutdown(&fake->cpu, SOURCE);
    END(fake, "");
    fake = begin("gracemont", OS | VPT_CTL_EVENTEN);
    fake_transfer(fake, VPT_IRET, SOURCE, TARGET, &user);
    END(fake, "CFE(2,0)+ FUP(401010)");
}

static const struct rule section_event[] = {
    {"IF", "MODE.Exec says whether interrupts are masked", TEST(if_flag)},
    {"IF without EventEn", "a change of it gives no packet", TEST(if_quiet)},
    {"context", "CFE where ContextEn is 1 before or after the event", TEST(event_context)},
    {"TSX aborts", "a CFE", UNMET("no CFE type is defined for them (Table 33-50)")},
    {0},
};

const struct table filtering_tables[] = {
    {"33.2.4", "Event tracing", 0, section_event},
    {"33.2.5.1", "Filtering by CPL", 0, section_cpl},
    {"33.2.5.2", "Filtering by CR3", 0, section_cr3},
    {"33.2.5.3", "Filtering by IP", 0, section_ip},
    {"33-2", "IP filtering packet example", 1, table_2},
    {"33.2.5.3 TraceStop", "TraceStop", 0, section_stop},
    {0},
};
