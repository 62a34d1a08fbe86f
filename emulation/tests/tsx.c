/* SPDX-License-Identifier: BSD-3-Clause */
/* Transactions (33.2.9.1, 33.2.9.2; Tables 33-10, 33-27 and 33-55, cases 18 to 21). */
#include "harness.h"

#include <string.h>

#define BRANCHES (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)
#define RANGE    ((uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR)

static struct fake *open_tsx(void)
{
    struct vpt_caps caps = plain_caps("skylake");

    caps.tsx = true;
    return fake_open_caps(&caps);
}

static void test_table_33_10(void)
{
    struct fake *fake = open_tsx();

    fake_start(fake, BRANCHES);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_cond_branch(&fake->cpu, 0x401020, true);
    vpt_tx_commit(&fake->cpu, 0x401030);
    EXPECT(fake, "TSX(1) FUP(401010) TNT(T) TSX(0) FUP(401030)", "Table 33-55 cases 19 and 20");
    fake_close(fake);

    fake = open_tsx();
    fake_start(fake, BRANCHES);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401024, 0x401060);
    EXPECT(fake, "TSX(1) FUP(401010) TSX(2) FUP(401024) TIP(401060)", "Table 33-55 case 21");
    fake_close(fake);
}

/* What changes no mode bit gives no packet. */
static void test_no_change(void)
{
    struct fake *fake = open_tsx();

    fake_start(fake, BRANCHES);
    vpt_tx_commit(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401010, 0x401060);
    vpt_tx_begin(&fake->cpu, 0x401020);
    vpt_tx_begin(&fake->cpu, 0x401030);
    EXPECT(fake, "TSX(1) FUP(401020)", "Table 33-55 case 18");
    fake_close(fake);
}

static void test_dependencies(void)
{
    struct fake *fake = open_tsx();

    fake_start(fake, VPT_CTL_OS);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401010, 0x401060);
    EXPECT(fake, "", "33.2.9.1: BranchEn = 0");
    fake_close(fake);

    fake = open_tsx();
    fake_start(fake, VPT_CTL_USER | VPT_CTL_BRANCHEN);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_commit(&fake->cpu, 0x401010);
    EXPECT(fake, "", "Table 33-27: ContextEn = 0");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BRANCHES);
    vpt_tx_begin(&fake->cpu, 0x401010);
    EXPECT(fake, "", "a processor without transactions");
    fake_close(fake);

    fake = open_tsx();
    vpt_tx_begin(&fake->cpu, 0x401010);
    fake_start(fake, BRANCHES);
    vpt_tx_commit(&fake->cpu, 0x401010);
    EXPECT(fake, "TSX(0) FUP(401010)", "a transaction that began before tracing");
    fake_close(fake);
}

/* 33.2.9.2: with FilterEn 0 the packet comes without a FUP. */
static void test_ip_filter(void)
{
    struct fake *fake = open_tsx();

    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, BRANCHES | RANGE);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_jmp_direct(&fake->cpu, 0x500000);
    vpt_tx_commit(&fake->cpu, 0x500010);
    vpt_tx_begin(&fake->cpu, 0x500020);
    vpt_tx_abort(&fake->cpu, 0x500030, 0x401080);
    EXPECT(fake, "TSX(1) FUP(401010) PGD(500000) TSX(0) TSX(1) TSX(2) PGE(401080)",
           "33.2.9.2, leaving and coming back");
    fake_close(fake);

    fake = open_tsx();
    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, BRANCHES | RANGE);
    vpt_tx_begin(&fake->cpu, 0x401010);
    vpt_tx_abort(&fake->cpu, 0x401030, 0x600000);
    EXPECT(fake, "TSX(1) FUP(401010) TSX(2) FUP(401030) PGD(600000)",
           "33.2.9.2, an abort that leaves the range");
    fake_close(fake);
}

/* 33.3.7: PSB+ says whether there is a transaction. */
static void test_psb(void)
{
    struct fake *fake = open_tsx();
    const char *words;

    fake_start(fake, BRANCHES);
    vpt_tx_begin(&fake->cpu, 0x401010);
    fake_mark(fake);
    fake_noise(fake, 2200);
    words = fake_words(fake, true);
    words = words ? strstr(words, "PSB ") : NULL;
    CHECK(words && strstr(words, " TSX(1) "), "InTX in PSB+: [%s]", words ? words : "no PSB");
    fake_stop(fake);
    fake_close(fake);
}

void suite_tsx(void)
{
    static const struct test tests[] = {
        {"Table 33-10", test_table_33_10},
        {"no change of the mode", test_no_change},
        {"dependencies", test_dependencies},
        {"IP filter", test_ip_filter},
        {"PSB+", test_psb},
        {NULL, NULL},
    };

    add_suite("transactions (33.2.9.1)", tests);
}
