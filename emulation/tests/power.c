/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power events (33.2.3, Tables 33-41 to 33-44). The cases are those of the table of power events,
 * which the text heads 33-57; Table 33-55 case 25.
 */
#include "harness.h"

#define POWER (VPT_CTL_OS | VPT_CTL_PWREVTEN)

static const struct vpt_power_entry mwait_c6 = {
    .ip = 0x401010, .mwait = true, .hints = 0x20, .ext = 1, .state = 0x21};
static const struct vpt_power_entry halt = {.ip = 0x401010, .state = 0x10};
static const struct vpt_power_exit by_interrupt = {
    .last_core_state = 2, .deepest_core_state = 5, .reason = VPT_WAKE_INTERRUPT};

static void test_entry(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, VPT_CTL_USER | VPT_CTL_PWREVTEN);
    vpt_power_entry(&fake->cpu, &mwait_c6);
    EXPECT(fake, "PWRE(21) EXSTOP", "case 3: ContextEn = 0");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, POWER);
    vpt_power_entry(&fake->cpu, &mwait_c6);
    EXPECT(fake, "MWAIT(20,1) PWRE(21) EXSTOP+ FUP(401010)", "case 4");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, POWER);
    vpt_power_entry(&fake->cpu, &halt);
    EXPECT(fake, "PWRE(10) EXSTOP+ FUP(401010)", "case 5");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_OS);
    vpt_power_entry(&fake->cpu, &mwait_c6);
    EXPECT(fake, "", "PwrEvtEn = 0");
    fake_close(fake);
}

/* Table 33-43: a deeper state is one more PWRE, which binds to the same IP. */
static void test_deeper(void)
{
    const struct vpt_power_entry deeper = {.ip = 0x401010, .hw = true, .state = 0x50};
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, POWER);
    vpt_power_entry(&fake->cpu, &mwait_c6);
    vpt_power_entry(&fake->cpu, &deeper);
    vpt_power_exit(&fake->cpu, &by_interrupt);
    vpt_power_entry(&fake->cpu, &halt);
    EXPECT(fake,
           "MWAIT(20,1) PWRE(21) EXSTOP+ FUP(401010) PWRE(HW,50) CBR(28) PWRX(2,5,1) "
           "PWRE(10) EXSTOP+ FUP(401010)",
           "Table 33-43");
    fake_close(fake);
}

static void test_wake(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_power_exit wake = by_interrupt;

    fake_start(fake, POWER);
    wake.core_ratio = 17;
    vpt_power_exit(&fake->cpu, &wake);
    EXPECT(fake, "CBR(17) PWRX(2,5,1)", "case 7, no TSCEn");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake->clocks = (struct vpt_clocks){.tsc = 0x5000, .art = 0x100, .cycles = 0x100};
    fake_start(fake, POWER | VPT_CTL_TSCEN | VPT_CTL_MTCEN);
    /* 200 periods of the crystal pass: the TSC and TMA tell, no MTC is due. */
    fake->clocks = (struct vpt_clocks){.tsc = 0x9000, .art = 0x1c8, .fast = 7, .cycles = 0x120};
    vpt_power_exit(&fake->cpu, &wake);
    EXPECT(fake, "TSC(9000) TMA(1c8,7) CBR(17) PWRX(2,5,1)", "case 7");
    fake_close(fake);

    fake = fake_open("skylake");
    fake_start(fake, VPT_CTL_OS);
    vpt_power_exit(&fake->cpu, &wake);
    EXPECT(fake, "CBR(17)", "Table 33-55 case 25, whatever PwrEvtEn says");
    fake_close(fake);
}

/* Case 6: hardware duty cycling. */
static void test_duty_cycling(void)
{
    const struct vpt_power_entry entry = {.ip = 0x401010, .hw = true, .state = 0x50};
    const struct vpt_power_exit wake = {
        .last_core_state = 5, .deepest_core_state = 5, .reason = VPT_WAKE_HW};
    struct fake *fake = fake_open("max");

    fake->clocks.tsc = 0x1234;
    fake_start(fake, POWER | VPT_CTL_TSCEN);
    vpt_power_entry(&fake->cpu, &entry);
    vpt_power_exit(&fake->cpu, &wake);
    EXPECT(fake, "PWRE(HW,50) EXSTOP+ FUP(401010) TSC(1234) CBR(24) PWRX(5,5,8)", "case 6");
    fake_close(fake);
}

/* Table 33-41: the clock stops without a C-state. */
static void test_exstop(void)
{
    struct fake *fake = fake_open("goldmont-plus");

    fake_start(fake, POWER);
    vpt_exec_stop(&fake->cpu, 0x401010);
    vpt_set_core_ratio(&fake->cpu, 9);
    EXPECT(fake, "EXSTOP+ FUP(401010) CBR(9)", "Table 33-41, in context");
    fake_close(fake);

    fake = fake_open("goldmont-plus");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_PWREVTEN);
    vpt_exec_stop(&fake->cpu, 0x401010);
    EXPECT(fake, "EXSTOP", "Table 33-41, out of context");
    fake_close(fake);
}

/* EXSTOP and MWAIT are CYC-eligible; PWRE and PWRX are not (33.3.6, Tables 33-41, 33-42). */
static void test_cyc(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, POWER | VPT_CTL_CYCEN);
    fake->clocks.cycles += 100;
    vpt_power_entry(&fake->cpu, &mwait_c6);
    fake->clocks.cycles += 50;
    vpt_power_entry(&fake->cpu, &halt);
    fake->clocks.cycles += 7;
    vpt_exec_stop(&fake->cpu, 0x401020);
    EXPECT(fake,
           "CYC(100) MWAIT(20,1) PWRE(21) EXSTOP+ FUP(401010) PWRE(10) CYC(57) EXSTOP+ "
           "FUP(401020)",
           "CYC-eligible packets");
    fake_close(fake);
}

void suite_power(void)
{
    static const struct test tests[] = {
        {"entry", test_entry},
        {"deeper and deeper", test_deeper},
        {"wake", test_wake},
        {"hardware duty cycling", test_duty_cycling},
        {"EXSTOP alone", test_exstop},
        {"CYC", test_cyc},
        {NULL, NULL},
    };

    add_suite("power events (33.2.3)", tests);
}
