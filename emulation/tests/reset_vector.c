/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * INIT, SIPI, shutdown and user interrupts (Table 33-55 cases 22 to 27, Table 33-59 cases 12, 20
 * and 21, Table 33-50).
 */
#include "harness.h"

#define BRANCHES (VPT_CTL_OS | VPT_CTL_BRANCHEN)
#define EVENTS   (VPT_CTL_OS | VPT_CTL_EVENTEN)

static const struct vpt_context after_init = {.cr3 = 0, .exec_mode = VPT_EXEC_16};

static void sipi(struct fake *fake, uint8_t vector)
{
    const struct vpt_transfer transfer = {
        .type = VPT_SIPI, .vector = vector, .target = (uint64_t)vector << 12, .after = after_init};

    vpt_transfer(&fake->cpu, &transfer);
}

static void test_init_bsp(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context same = context_of(0);

    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_INIT, 0x401010, 0xfffffff0, &same);
    EXPECT(fake, "FUP(401010) TIP(fffffff0)", "Table 33-55 case 22");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_INIT, 0x401010, 0xfffffff0, &after_init);
    EXPECT(fake, "FUP(401010) PIP(0) MODE(16) TIP(fffffff0)", "case 22, CR3 and mode change");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, EVENTS);
    fake_transfer(fake, VPT_INIT, 0x401010, 0xfffffff0, &same);
    EXPECT(fake, "CFE(6,0)+ FUP(401010)", "Table 33-59 case 20");
    fake_close(fake);
}

static void test_init_ap(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &after_init);
    CHECK(!vpt_packet_en(&fake->cpu), "nothing runs between INIT and SIPI");
    EXPECT(fake, "FUP(401010) PIP(0) PGD()", "Tables 33-21 and 33-55 case 23");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN);
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &after_init);
    EXPECT(fake, "", "no TIP.PGD where PacketEn was 0");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &after_init);
    fake_mark(fake);
    sipi(fake, 0x9a);
    EXPECT(fake, "MODE(16) PGE(9a000)", "Table 33-55 case 24");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, EVENTS);
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &after_init);
    sipi(fake, 0x9a);
    EXPECT(fake, "CFE(6,0)+ FUP(401010) PIP(0) CFE(5,9a)", "Table 33-59 cases 20 and 21");
    fake_close(fake);
}

/* INIT brings the processor into context: that is seen while it waits. */
static void test_init_into_context(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context user = context_of(3);

    fake_start(fake, BRANCHES);
    fake_transfer(fake, VPT_IRET, 0x401000, 0x7000, &user);
    fake_mark(fake);
    fake_transfer(fake, VPT_INIT_WAIT, 0x7010, 0, &after_init);
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "ContextEn");
    EXPECT(fake, "PIP(0)", "33.4.2.7");
    fake_close(fake);
}

/* A PSB+ that falls due while the processor waits names no IP. */
static void test_waiting(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, BRANCHES | VPT_CTL_TSCEN);
    fake_transfer(fake, VPT_INIT_WAIT, 0x401010, 0, &after_init);
    for (unsigned i = 0; i < 200; i++)
        vpt_set_core_ratio(&fake->cpu, 20);
    CHECK(!vpt_packet_en(&fake->cpu), "PacketEn while waiting for SIPI");
    fake_mark(fake);
    sipi(fake, 1);
    vpt_jmp_indirect(&fake->cpu, 0x1200);
    EXPECT(fake, "MODE(16) PGE(1000) TIP(1200)", "case 24 after a PSB");
    fake_close(fake);
}

static void test_shutdown(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, EVENTS | VPT_CTL_BRANCHEN);
    vpt_shutdown(&fake->cpu, 0x401010);
    EXPECT(fake, "CFE(a,0)+ FUP(401010)", "Table 33-59 case 12");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, VPT_CTL_USER | VPT_CTL_EVENTEN);
    vpt_shutdown(&fake->cpu, 0x401010);
    EXPECT(fake, "", "ContextEn = 0");
    fake_close(fake);
}

static void test_user_interrupts(void)
{
    const struct vpt_transfer uintr = {.type = VPT_UINTR,
                                       .vector = 0x3f,
                                       .ip = 0x401010,
                                       .target = 0x402000,
                                       .after = context_of(3)};
    struct fake *fake = fake_open("gracemont");
    struct vpt_context user = context_of(3);

    fake_start(fake, BRANCHES | VPT_CTL_USER);
    vpt_transfer(&fake->cpu, &uintr);
    fake_transfer(fake, VPT_UIRET, 0x402010, 0x401010, &user);
    EXPECT(fake, "FUP(401010) TIP(402000) TIP(401010)", "Table 33-55 cases 26 and 27");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, EVENTS | VPT_CTL_USER);
    vpt_transfer(&fake->cpu, &uintr);
    fake_transfer(fake, VPT_UIRET, 0x402010, 0x401010, &user);
    EXPECT(fake, "CFE(c,3f)+ FUP(401010) CFE(d,0)+ FUP(402010)", "Table 33-50, UINTR and UIRET");
    fake_close(fake);
}

void suite_reset_vector(void)
{
    static const struct test tests[] = {
        {"INIT on the bootstrap processor", test_init_bsp},
        {"INIT and SIPI on another one", test_init_ap},
        {"INIT into context", test_init_into_context},
        {"waiting for SIPI", test_waiting},
        {"shutdown", test_shutdown},
        {"user interrupts", test_user_interrupts},
        {NULL, NULL},
    };

    add_suite("INIT, SIPI, shutdown, user interrupts (Table 33-55)", tests);
}
