/* SPDX-License-Identifier: BSD-3-Clause */
/* Power events and PTWRITE (33.7). The text's titles of the two tables are swapped. */
#include "conformance.h"

#define POWER (OS | VPT_CTL_PWREVTEN)

static const struct vpt_power_entry mwait = {
    .ip = SOURCE, .mwait = true, .hints = 0x20, .ext = 1, .state = 0x21};

static void sleep_with(uint64_t ctl, const struct vpt_power_entry *entry, const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl);

    vpt_power_entry(&fake->cpu, entry);
    END(fake, pattern);
}
static void case_3(void)
{
    sleep_with(USER | VPT_CTL_PWREVTEN, &mwait, "PWRE(21) EXSTOP");
}
static void case_4(void)
{
    sleep_with(POWER, &mwait, "MWAIT(20,1) PWRE(21) EXSTOP+ FUP(401010)");
}
static void case_5(void)
{
    const struct vpt_power_entry halt = {.ip = SOURCE, .state = 0x10};

    sleep_with(POWER, &halt, "PWRE(10) EXSTOP+ FUP(401010)");
}
static void case_6(void)
{
    const struct vpt_power_entry cycling = {.ip = SOURCE, .hw = true, .state = 0x50};
    const struct vpt_power_exit wake = {
        .last_core_state = 6, .deepest_core_state = 6, .reason = VPT_WAKE_HW};
    struct fake *fake = begin("gracemont", POWER | VPT_CTL_TSCEN | VPT_CTL_MTCEN);

    vpt_power_entry(&fake->cpu, &cycling);
    fake->clocks = (struct vpt_clocks){.tsc = 0x1000, .art = 0x20, .fast = 3, .cycles = 5};
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "PWRE(HW,50) EXSTOP+ FUP(401010) TSC(1000) TMA(20,3) CBR(28) PWRX(6,6,8)");
}
static void case_7(void)
{
    const struct vpt_power_exit wake = {
        .last_core_state = 1, .deepest_core_state = 3, .reason = VPT_WAKE_INTERRUPT};
    struct fake *fake = begin("gracemont", USER | VPT_CTL_PWREVTEN | VPT_CTL_TSCEN);

    fake->clocks.tsc = 0x1000;
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "TSC(1000) CBR(28) PWRX(1,3,1)");
}

static const struct rule table_57[] = {
    {"1 MWAIT faults or exits", "none",
     UNMET("the owner tells no sleep: vpt_power_entry() is for C-states that are entered")},
    {"2 MWAIT to C0", "none",
     UNMET("the owner tells no sleep: vpt_power_entry() is for C-states that are entered")},
    {"3 MWAIT", "out of context: PWRE, EXSTOP", TEST(case_3)},
    {"4 MWAIT", "in context: MWAIT, PWRE, EXSTOP with IP, FUP", TEST(case_4)},
    {"5 HLT, shutdown", "PWRE, EXSTOP with IP, FUP", TEST(case_5)},
    {"6 hardware duty cycling", "PWRE with HW, EXSTOP with IP, FUP, TSC, TMA, CBR, PWRX",
     TEST(case_6)},
    {"7 wake", "TSC, TMA, CBR, PWRX", TEST(case_7)},
    {0},
};

static void ptwrite(uint64_t ctl, uint8_t size, const char *pattern)
{
    struct fake *fake = begin("gracemont", ctl | VPT_CTL_PTWEN);

    vpt_ptwrite(&fake->cpu, 0x1122334455667788, size, SOURCE);
    END(fake, pattern);
}
static void ptw_1(void)
{
    struct fake *fake = fake_open("gracemont");

    ptwrite(USER, 8, "");
    fake_write(fake, VPT_MSR_ADDR0_A, 0x700000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x7fffff);
    fake_start(fake, OS | VPT_CTL_PTWEN | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_ptwrite(&fake->cpu, 1, 4, SOURCE);
    END(fake, "");
}
static void ptw_2(void)
{
    ptwrite(OS, 4, "PTW4(55667788)");
    ptwrite(OS | VPT_CTL_FUPONPTW, 4, "PTW4(55667788)+ FUP(401010)");
}
static void ptw_3(void)
{
    ptwrite(OS, 8, "PTW8(1122334455667788)");
    ptwrite(OS | VPT_CTL_FUPONPTW, 8, "PTW8(1122334455667788)+ FUP(401010)");
}

static const struct rule table_58[] = {
    {"1 PTWRITE", "out of context or filter: none", TEST(ptw_1)},
    {"2 PTWRITE, 32 bits", "PTW of 4 bytes; FUP if FUPonPTW", TEST(ptw_2)},
    {"3 PTWRITE, 64 bits", "PTW of 8 bytes; FUP if FUPonPTW", TEST(ptw_3)},
    {0},
};

const struct table power_tables[] = {
    {"33-57", "Power events", 7, table_57},
    {"33-58", "PTWRITE", 3, table_58},
    {0},
};
