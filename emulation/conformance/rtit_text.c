/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTIT: what chapters 2 and 3 of "Real Time Instruction Trace Programming Reference" v1.05 say and
 * no table does.
 */
#include "rtit.h"

#include <string.h>

#define TRIGGER (VPT_RTIT_CTL_TRACE_EN | VPT_RTIT_CTL_TRACE_ACTIVE)

/* ---- 2.1 ------------------------------------------------------------------------------------ */

static void trigger_en(void)
{
    static const uint32_t ctl[] = {0, VPT_RTIT_CTL_TRACE_EN, VPT_RTIT_CTL_TRACE_ACTIVE, TRIGGER};

    for (unsigned i = 0; i < 4; i++) {
        struct rtit_fake *fake = rtit_open(0);
        const struct vpt_rtit_context ctx = rtit_context(0);

        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
        vpt_rtit_set_context(&fake->cpu, &ctx);
        rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | ctl[i]);
        CHECK(rtit_status(fake, VPT_RTIT_STATUS_TRIGGEREN) == (i == 3), "CTL %x", ctl[i]);
        rtit_mark(fake);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        END_RTIT(fake, i == 3 ? "TIP(402000)" : "");
    }
}
static void context_en(void)
{
    static const struct {
        struct vpt_rtit_context ctx;
        uint32_t ctl;
        bool enabled;
    } cases[] = {
        {{.cr3 = 0x1000}, VPT_RTIT_CTL_OS, true},
        {{.cr3 = 0x1000}, VPT_RTIT_CTL_USER, false},
        {{.cr3 = 0x1000, .cpl = 1}, VPT_RTIT_CTL_USER, true},
        {{.cr3 = 0x1000, .cpl = 2}, VPT_RTIT_CTL_USER, true},
        {{.cr3 = 0x1000, .cpl = 3}, VPT_RTIT_CTL_USER, true},
        {{.cr3 = 0x1000, .cpl = 3}, VPT_RTIT_CTL_OS, false},
        {{.cr3 = 0x7000}, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_CR3EN, true},
        {{.cr3 = 0x701f}, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_CR3EN, true},
        {{.cr3 = 0x7020}, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_CR3EN, false},
        {{.cr3 = 0x80007000}, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_CR3EN, false},
        {{.cr3 = 0x1000, .smm = true}, VPT_RTIT_CTL_OS, false},
        {{.cr3 = 0x1000, .vmx_root = true}, VPT_RTIT_CTL_OS, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rtit_fake *fake = rtit_open(0);

        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
        rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x7000);
        vpt_rtit_set_context(&fake->cpu, &cases[i].ctx);
        rtit_write(fake, VPT_RTIT_CTL, cases[i].ctl | TRIGGER);
        CHECK(rtit_status(fake, VPT_RTIT_STATUS_CONTEXTEN) == cases[i].enabled, "case %zu", i);
        rtit_mark(fake);
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
        END_RTIT(fake, cases[i].enabled ? "TIP(402000)" : "");
    }
}
static void filter_frozen(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x500000, 0x501000);
    uint64_t ctl;

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    ctl = rtit_read(fake, VPT_RTIT_CTL);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)TRIGGER);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x600000);
    CHECK(rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "Trace_En is 0");
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x600000);
    CHECK(!rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "TraceActive does not matter");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x500010);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x600000, rtit_context(3));
    CHECK(rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "ContextEn is 0");
    rtit_close(fake);
}

static const struct rule enables[] = {
    {"2.1.1 TriggerEn", "Trace_En and TraceActive; nothing is sent without both", TEST(trigger_en)},
    {"2.1.2 ContextEn", "OS, USER, CR3 31:5, not in SMM, not in VMX root operation",
     TEST(context_en)},
    {"2.1.3 FilterEn", "is frozen while Trace_En or ContextEn is 0", TEST(filter_frozen)},
    {0},
};

/* ---- 2.2, Table 2 --------------------------------------------------------------------------- */

static void t2_jcc(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_branch(fake, true);
    rtit_branch(fake, false);
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x403000);
    RTIT_EXPECT(fake, "", "they wait; direct jumps and calls give nothing");
    for (unsigned i = 0; i < 4; i++)
        rtit_branch(fake, i & 1);
    END_RTIT(fake, "TNT(TNNTNT)");
}
static void t2_near(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_do(fake, VPT_RTIT_CALL_INDIRECT, 0x403000);
    rtit_do(fake, VPT_RTIT_RET, 0x404000);
    END_RTIT(fake, "TIP(402000) TIP(403000) TIP(404000)");
}
static void t2_far(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    far_from(fake, 0x401007, 0x500000);
    END_RTIT(fake, "FAR(401007) TIP(500000)");
}

static const struct rule table_2[] = {
    {"Jcc, LOOP", "TNT", TEST(t2_jcc)},
    {"near indirect JMP and CALL, RET", "TIP with the target", TEST(t2_near)},
    {"far transfers", "FUP of where it came from, TIP with the target", TEST(t2_far)},
    {0},
};

/* ---- 2.3 ------------------------------------------------------------------------------------ */

static void output_address(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_BASE_ADDR, RTIT_BASE + 0x4c0);
    rtit_write(fake, VPT_RTIT_LIMIT_MASK, 0x7ff);
    rtit_write(fake, VPT_RTIT_OFFSET, 0x1850);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    vpt_rtit_drain(&fake->cpu);
    CHECK(fake->last_gpa == RTIT_BASE + 0x50,
          "the base without the mask's bits, and the offset's bits in the mask: %llx",
          (unsigned long long)fake->last_gpa);
    rtit_close(fake);
}
static void output_wraps(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_LIMIT_MASK, 0xff);
    rtit_write(fake, VPT_RTIT_OFFSET, 0xfd);
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456789abc);
    vpt_rtit_drain(&fake->cpu);
    CHECK(memcmp(fake->ram + RTIT_BASE + 0xfd, "\xb2\xbc\x9a", 3) == 0 &&
              memcmp(fake->ram + RTIT_BASE, "\x78\x56\x34\x12", 4) == 0,
          "at the end, then at the start");
    CHECK(rtit_read(fake, VPT_RTIT_OFFSET) == 4, "the offset");
    rtit_close(fake);
}

static const struct rule output[] = {
    {"address", "base without the bits of the mask, plus the offset's bits in it",
     TEST(output_address)},
    {"ring", "behind the mask's end it goes on at offset 0", TEST(output_wraps)},
    {0},
};

/* ---- 2.4 ------------------------------------------------------------------------------------ */

static void fault_out_of_user(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context user = rtit_context(3);

    rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 7);
    vpt_rtit_set_context(&fake->cpu, &user);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_USER | VPT_RTIT_CTL_TRACE_EN);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_USER | TRIGGER);
    rtit_mark(fake);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x500000, rtit_context(0));
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x500100);
    rtit_event_to(fake, VPT_RTIT_FAR, 0x401000, user);
    END_RTIT(fake, "PGD(401000) PGE(401000)");
}
static void paging_off(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    struct vpt_rtit_context off = rtit_context(0);

    off.paging = false;
    rtit_event_to(fake, VPT_RTIT_PAGING, 0x401004, off);
    CHECK(rtit_status(fake, VPT_RTIT_STATUS_CONTEXTEN), "ContextEn stays");
    END_RTIT(fake, "PIP(1000,0)");
}
static void ranges(void)
{
    static const struct {
        uint64_t target;
        bool inside;
    } jumps[] = {{0x4fffff, false}, {0x500000, true}, {0x500fff, true}, {0x501000, false},
                 {0x6fffff, false}, {0x700000, true}, {0x700fff, true}, {0x701000, false}};

    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        struct rtit_fake *fake = rtit_open(0);
        const struct vpt_rtit_context ctx = rtit_context(0);

        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 2);
        rtit_write(fake, VPT_RTIT_LIP0, 0x500000);
        rtit_write(fake, VPT_RTIT_LIP0 + 2, 0x501000);
        rtit_write(fake, VPT_RTIT_LIP0 + 1, 0x700000);
        rtit_write(fake, VPT_RTIT_LIP0 + 3, 0x701000);
        vpt_rtit_set_context(&fake->cpu, &ctx);
        rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_TRACE_EN);
        rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | TRIGGER);
        rtit_do(fake, VPT_RTIT_JMP_DIRECT, jumps[i].target);
        CHECK(rtit_status(fake, VPT_RTIT_STATUS_FILTEREN) == jumps[i].inside, "%llx",
              (unsigned long long)jumps[i].target);
        rtit_close(fake);
    }
}
static void periodic_outside(void)
{
    struct rtit_fake *fake = rtit_ranged(VPT_RTIT_CTL_MTC_EN, 0x500000, 0x501000);

    fake->clocks.tsc = 0x80;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    END_RTIT(fake, "MTC(0,1) PSB");
}

static const struct rule filters[] = {
    {"2.4.1 page fault of CPL 3", "FUP.PGD and no TIP where only CPL 3 is traced",
     TEST(fault_out_of_user)},
    {"2.4.2 paging is switched off", "a PIP; ContextEn stays", TEST(paging_off)},
    {"2.4.3 ranges", "two, from the base to before the limit", TEST(ranges)},
    {"2.4.3 FilterEn = 0", "MTC and PSB are sent", TEST(periodic_outside)},
    {0},
};

/* ---- 2.6 ------------------------------------------------------------------------------------ */

/* Into SMM or VMX root operation, and back to target in the state after. */
static void away(bool smm, uint64_t target, struct vpt_rtit_context after, const char *pattern)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x400000, 0x500000);
    struct vpt_rtit_context there = rtit_context(0);

    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401000);
    rtit_mark(fake);
    there.smm = smm;
    there.vmx_root = !smm;
    rtit_event_to(fake, VPT_RTIT_LEAVE, 0x38000, there);
    RTIT_EXPECT(fake, "PGD(401000)", "no TIP");
    CHECK(!rtit_status(fake, VPT_RTIT_STATUS_CONTEXTEN), "ContextEn is 0");
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    rtit_event_to(fake, VPT_RTIT_ENTER, target, after);
    rtit_do(fake, VPT_RTIT_OTHER, target);
    END_RTIT(fake, pattern);
}
static void smm_and_back(void)
{
    away(true, 0x401000, rtit_context(0), "PGD(401000) PGE(401000)");
}
static void smm_elsewhere(void)
{
    away(true, 0x600000, rtit_context(0), "PGD(401000)");
    away(true, 0x401000, rtit_context(3), "PGD(401000)");
}
static void vmx_and_back(void)
{
    away(false, 0x401000, rtit_context(0), "PGD(401000) PGE(401000)");
    away(false, 0x600000, rtit_context(0), "PGD(401000)");
}
static void other_cr3_on_return(void)
{
    for (unsigned smm = 0; smm < 2; smm++)
        for (uint64_t cr3 = 0x1000; cr3 <= 0x2000; cr3 += 0x1000) {
            struct rtit_fake *fake = rtit_start(0, 0);
            struct vpt_rtit_context there = rtit_context(0), back = rtit_context(0);

            rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x1000);
            rtit_write(fake, VPT_RTIT_CTL, rtit_read(fake, VPT_RTIT_CTL) | VPT_RTIT_CTL_CR3EN);
            there.smm = smm;
            there.vmx_root = !smm;
            rtit_event_to(fake, VPT_RTIT_LEAVE, 0x38000, there);
            rtit_mark(fake);
            back.cr3 = cr3;
            rtit_event_to(fake, VPT_RTIT_ENTER, 0x401000, back);
            END_RTIT(fake, cr3 == 0x1000 ? "PGE(401000)" : "");
        }
}

static const struct rule interaction[] = {
    {"2.6.1 SMI and RSM", "FUP.PGD without TIP; FUP.PGE of where RSM goes", TEST(smm_and_back)},
    {"2.6.1 RSM elsewhere", "filter and CPL are looked at again", TEST(smm_elsewhere)},
    {"2.6.2 VM exit and VM entry", "as SMI and RSM", TEST(vmx_and_back)},
    {"2.6 CR3", "is compared again on the return", TEST(other_cr3_on_return)},
    {0},
};

/* ---- 3.1, 3.3 ------------------------------------------------------------------------------- */

static void signature(void)
{
    struct vpt_cpuid regs = {1, 2, 3, 4};
    struct vpt_caps caps = plain_caps("silvermont");

    CHECK(vpt_cpuid(&caps, 1, 0, &regs) && regs.eax == 0x30678 && regs.ebx == 2,
          "06_37H, stepping 8");
    regs.eax = 1;
    CHECK(vpt_cpuid(&caps, 7, 0, &regs) && !(regs.ebx & 1u << 25), "and no Intel PT");
    caps = plain_caps("skylake");
    regs.eax = 1;
    CHECK(!vpt_cpuid(&caps, 1, 0, &regs) && regs.eax == 1, "others stay");
}
static void locked(void)
{
    struct rtit_fake *fake = rtit_open(0);
    uint64_t value = 5;

    CHECK(vpt_rtit_init(&fake->cpu, 0, fake->cpu.ops, fake), "as after reset");
    for (uint32_t msr = 0x760; msr <= 0x77f; msr++) {
        CHECK(vpt_rtit_wrmsr(&fake->cpu, msr, 1, 0) == VPT_GP, "WRMSR %x", msr);
        CHECK(msr == VPT_RTIT_CTL || vpt_rtit_rdmsr(&fake->cpu, msr, &value) == VPT_GP, "RDMSR %x",
              msr);
    }
    CHECK(value == 5 && vpt_rtit_rdmsr(&fake->cpu, VPT_RTIT_CTL, &value) == VPT_OK && value == 0,
          "RDMSR of RTIT_CTL");
    CHECK(vpt_rtit_wrmsr(&fake->cpu, VPT_RTIT_CTL, VPT_RTIT_CTL_OS, 0) == VPT_OK, "unlocks");
    rtit_close(fake);
}
static void which_msrs(void)
{
    static const uint32_t msrs[] = {0x760, 0x761, 0x762, 0x763, 0x768, 0x769, 0x76b, 0x76c,
                                    0x76e, 0x76f, 0x770, 0x771, 0x772, 0x777, 0x77c, 0x77d};
    struct rtit_fake *fake = rtit_open(0);

    for (uint32_t msr = 0x700; msr < 0x800; msr++) {
        uint64_t value;
        bool exists = false;

        for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++)
            exists |= msrs[i] == msr;
        CHECK(vpt_rtit_msr_owned(msr) == (msr >= 0x760 && msr < 0x780), "%x is the model's", msr);
        if (vpt_rtit_msr_owned(msr))
            CHECK((vpt_rtit_rdmsr(&fake->cpu, msr, &value) == VPT_OK) == exists &&
                      (exists || vpt_rtit_wrmsr(&fake->cpu, msr, 0, 0) == VPT_GP),
                  "%x exists", msr);
    }
    rtit_close(fake);
}
static void reset_values(void)
{
    static const struct {
        uint32_t msr;
        uint64_t value;
    } resets[] = {
        {VPT_RTIT_LIP0, 0},          {VPT_RTIT_LIP0 + 3, 0},       {VPT_RTIT_CTL, 0},
        {VPT_RTIT_STATUS, 0},        {VPT_RTIT_CNTP, 0},           {VPT_RTIT_EVENTS, 0},
        {VPT_RTIT_LAST_LIP, 0},      {VPT_RTIT_LAST_CALL_NLIP, 0}, {VPT_RTIT_BASE_ADDR, 0xfdc00000},
        {VPT_RTIT_LIMIT_MASK, 0x7f}, {VPT_RTIT_OFFSET, 0},         {VPT_RTIT_CR3_MATCH, 0},
        {VPT_RTIT_PKT_CNT, 0x20000}, {VPT_RTIT_TNT_BUFF, 1}};
    struct rtit_fake *fake = rtit_open(0);
    uint64_t value;

    vpt_rtit_init(&fake->cpu, 0, fake->cpu.ops, fake);
    vpt_rtit_rdmsr(&fake->cpu, VPT_RTIT_CTL, &value);
    for (size_t i = 0; i < sizeof(resets) / sizeof(resets[0]); i++)
        CHECK(rtit_read(fake, resets[i].msr) == resets[i].value, "MSR %x", resets[i].msr);
    rtit_close(fake);
}

static const struct rule accessibility[] = {
    {"3.1 enumeration", "by family, model and stepping only", TEST(signature)},
    {"3.3.1 lock", "all MSRs raise #GP until RTIT_CTL was read", TEST(locked)},
    {"3.3.1 MSRs", "these exist, and no others", TEST(which_msrs)},
    {"3.3.2 to 3.3.14 reset", "each MSR has its value", TEST(reset_values)},
    {0},
};

/* ---- 3.3.2 to 3.3.5 ------------------------------------------------------------------------- */

static void ctl_drains(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(fake->cpu.buf_len > 0, "buffered");
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    CHECK(fake->cpu.buf_len == 0, "nothing is left");
    CHECK(rtit_read(fake, VPT_RTIT_OFFSET) == fake->tap_len, "the offset is constant");
    rtit_close(fake);
}
static void ctl_enables(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_USER);
    const uint64_t ctl = rtit_read(fake, VPT_RTIT_CTL);

    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_OS);
    RTIT_EXPECT(fake, "PGD(401000)", "OS is cleared");
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    RTIT_EXPECT(fake, "PGD(401000) PGE(401000)", "OS is set");
    rtit_write(fake, VPT_RTIT_CR3_MATCH, 0x7000);
    rtit_mark(fake);
    rtit_write(fake, VPT_RTIT_CTL, ctl | VPT_RTIT_CTL_CR3EN);
    RTIT_EXPECT(fake, "PGD(401000)", "CR3En is set");
    rtit_write(fake, VPT_RTIT_CTL, ctl);
    rtit_mark(fake);
    rtit_write(fake, VPT_RTIT_CTL, ctl & ~(uint64_t)VPT_RTIT_CTL_TRACE_ACTIVE);
    END_RTIT(fake, "");
}
static void status_bits(void)
{
    struct rtit_fake *fake = rtit_open(0);

    for (unsigned bit = 4; bit < 64; bit++)
        CHECK(!rtit_takes(fake, VPT_RTIT_STATUS, 1ull << bit), "bit %u", bit);
    rtit_write(fake, VPT_RTIT_STATUS, 15);
    CHECK(rtit_read(fake, VPT_RTIT_STATUS) == 9, "2:1 cannot be written");
    rtit_write(fake, VPT_RTIT_STATUS, 0);
    CHECK(rtit_read(fake, VPT_RTIT_STATUS) == 0, "3 and 0 can");
    rtit_close(fake);
}
static void cntp_counts(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CYCLE_ACC);

    fake->clocks.cycles += 100;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 100, "core cycles");
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 0, "a count was sent");
    rtit_close(fake);
    fake = rtit_start(0, 0);
    rtit_write(fake, VPT_RTIT_CNTP, 0x3fffff);
    fake->clocks.cycles += 3;
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 2, "22 bits");
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_CNTP) == 2, "packets without count leave it");
    rtit_close(fake);
}
/* An IP that is not the base, in the range, without a branch: nothing (3.3.5). */
static void enabled_inside(void)
{
    struct rtit_fake *fake = rtit_ranged(0, 0x400800, 0x401010);

    CHECK(!rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "enabling inside does not count");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "", "nor does going on there");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401010);
    RTIT_EXPECT(fake, "", "nor the limit");
    rtit_do(fake, VPT_RTIT_OTHER, 0x400800);
    RTIT_EXPECT(fake, "PGE(400800)", "the base does");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401010);
    RTIT_EXPECT(fake, "PGE(400800) PGD(401004)", "the limit ends it");
    rtit_do(fake, VPT_RTIT_JMP_DIRECT, 0x401008);
    END_RTIT(fake, "PGE(400800) PGD(401004) PGE(401008)");
}
/* Event 2: each of the two ranges by itself, walked into, through and out of. */
static void either_range(void)
{
    static const char *const patterns[] = {"PGE(401008) PGD(401004)", "PGE(401108) PGD(401004)"};

    for (unsigned n = 0; n < 2; n++) {
        const uint64_t base = n ? 0x401108 : 0x401008;
        struct rtit_fake *fake = rtit_ranged(0, 0x401008, 0x401020);

        rtit_write(fake, VPT_RTIT_LIP0 + 1, 0x401108);
        rtit_write(fake, VPT_RTIT_LIP0 + 3, 0x401120);
        rtit_write(fake, VPT_RTIT_EVENTS, 6 << 3 | 2);
        rtit_do(fake, VPT_RTIT_OTHER, base);
        CHECK(rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "range %u is entered", n);
        rtit_do(fake, VPT_RTIT_OTHER, base + 4);
        CHECK(rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "range %u goes on", n);
        rtit_do(fake, VPT_RTIT_OTHER, base + 0x18);
        CHECK(!rtit_status(fake, VPT_RTIT_STATUS_FILTEREN), "range %u is left", n);
        END_RTIT(fake, patterns[n]);
    }
}
static void stop_by_walking(void)
{
    struct rtit_fake *fake = rtit_open(0);
    const struct vpt_rtit_context ctx = rtit_context(0);

    rtit_write(fake, VPT_RTIT_EVENTS, 1 << 3 | 7);
    rtit_write(fake, VPT_RTIT_LIP0 + 1, 0x401008);
    rtit_write(fake, VPT_RTIT_LIP0 + 3, 0x401020);
    vpt_rtit_set_context(&fake->cpu, &ctx);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_DEST | VPT_RTIT_CTL_TRACE_EN);
    rtit_write(fake, VPT_RTIT_CTL, VPT_RTIT_CTL_OS | VPT_RTIT_CTL_DEST | TRIGGER);
    rtit_mark(fake);
    rtit_do(fake, VPT_RTIT_OTHER, 0x401004);
    RTIT_EXPECT(fake, "", "before the base");
    rtit_do(fake, VPT_RTIT_OTHER, 0x401008);
    CHECK(!(rtit_read(fake, VPT_RTIT_CTL) & VPT_RTIT_CTL_TRACE_ACTIVE), "TraceActive is cleared");
    END_RTIT(fake, "STOP");
}

static const struct rule control[] = {
    {"3.3.2 WRMSR of RTIT_CTL", "drains; the offset is then constant", TEST(ctl_drains)},
    {"3.3.2 PacketEn", "FUP.PGD or FUP.PGE if the write changes it; none with TraceActive",
     TEST(ctl_enables)},
    {"3.3.3 RTIT_STATUS", "2:1 are read-only without fault, 31:4 reserved", TEST(status_bits)},
    {"3.3.4 CNTP", "counts core cycles in 22 bits; sending a count resets it", TEST(cntp_counts)},
    {"3.3.5 ranges", "are entered at the base or by a branch, and left at the limit",
     TEST(enabled_inside)},
    {"3.3.5 either range", "is walked into and out of as one alone", TEST(either_range)},
    {"3.3.5 TraceStop", "so are those of TraceStop", TEST(stop_by_walking)},
    {0},
};

/* ---- 3.3.7 to 3.3.14 ------------------------------------------------------------------------ */

static void last_lip_follows(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456789abc);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == 0x112345678, "47:16 and valid");
    rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456780000);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == 0x112345678, "compressed packets as well");
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_LIP) == 0, "a PSB clears it");
    rtit_close(fake);
}
static void byte_count(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x10ffc);
    rtit_write(fake, VPT_RTIT_LAST_LIP, 0);
    rtit_mark(fake);
    far_from(fake, 0x7f1234567890, 0x12345678);
    CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == 0x1000e, "9 of the PSB and 5 of the TIP: %llx",
          (unsigned long long)rtit_read(fake, VPT_RTIT_PKT_CNT));
    END_RTIT(fake, "FAR(7f1234567890) PSB TIP(12345678)");
}
static void byte_count_periods(void)
{
    for (uint64_t mask = 0; mask < 4; mask++) {
        struct rtit_fake *fake = rtit_start(0, 0);
        const uint64_t period = 0x800ull << mask;

        rtit_write(fake, VPT_RTIT_PKT_CNT, mask << 16 | (period - 8));
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456789abc);
        RTIT_EXPECT(fake, "TIP(123456789abc)", "one byte is missing");
        rtit_do(fake, VPT_RTIT_JMP_INDIRECT, 0x123456789abd);
        CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == (mask << 16 | 9), "period %u", (unsigned)mask);
        END_RTIT(fake, "TIP(123456789abc) TIP(123456789abd) PSB");
    }
}
static void byte_count_written(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_write(fake, VPT_RTIT_PKT_CNT, 1 << 16 | 0x800);
    RTIT_EXPECT(fake, "", "not the bit that the mask watches");
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    CHECK(rtit_read(fake, VPT_RTIT_PKT_CNT) == 9, "the PSB alone");
    END_RTIT(fake, "PSB");
}
static void tnt_buffer(void)
{
    struct rtit_fake *fake = rtit_start(0, 0);

    rtit_branch(fake, true);
    rtit_branch(fake, false);
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 6, "a leading 1 and two results");
    rtit_write(fake, VPT_RTIT_TNT_BUFF, 0x2d); /* another context's */
    rtit_branch(fake, true);
    CHECK(rtit_read(fake, VPT_RTIT_TNT_BUFF) == 1, "sent, and empty");
    END_RTIT(fake, "TNT(NTTNTT)");
}
static void call_nlip_cleared(void)
{
    struct rtit_fake *fake = rtit_start(0, VPT_RTIT_CTL_CMPRS_RET);

    rtit_do(fake, VPT_RTIT_CALL_DIRECT, 0x402000);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == (1ull << 48 | 0x401004), "the NLIP, valid");
    rtit_write(fake, VPT_RTIT_PKT_CNT, 0x800);
    CHECK(rtit_read(fake, VPT_RTIT_LAST_CALL_NLIP) == 0, "a PSB clears it");
    rtit_do(fake, VPT_RTIT_RET, 0x401004);
    END_RTIT(fake, "PSB TIP(401004)");
}

static const struct rule registers[] = {
    {"3.3.7 LAST_LIP", "follows each LIP that is sent; a PSB clears it", TEST(last_lip_follows)},
    {"3.3.9 PKT_CNT", "the example: a PSB between the packets of one instruction",
     TEST(byte_count)},
    {"3.3.9 Pkt_Mask", "2, 4, 8 or 16 KiB from PSB to PSB", TEST(byte_count_periods)},
    {"3.3.9 WRMSR", "is looked at as well", TEST(byte_count_written)},
    {"3.3.13 TNT_BUFF", "collects results behind a leading 1; can be saved and restored",
     TEST(tnt_buffer)},
    {"3.3.14 LAST_CALL_NLIP", "of the last CALL; a PSB clears it", TEST(call_nlip_cleared)},
    {0},
};

const struct table rtit_text_tables[] = {
    {"RTIT 2.1", "Enables", 0, enables},
    {"RTIT 2", "Branches and their packets", 3, table_2},
    {"RTIT 2.3", "Trace output", 0, output},
    {"RTIT 2.4", "Trace filtering", 0, filters},
    {"RTIT 2.6", "SMM and VMX", 0, interaction},
    {"RTIT 3.1", "Enumeration, access and reset", 0, accessibility},
    {"RTIT 3.3.2", "RTIT_CTL to RTIT_EVENTS", 0, control},
    {"RTIT 3.3.7", "RTIT_LAST_LIP to RTIT_LAST_CALL_NLIP", 0, registers},
    {0},
};
