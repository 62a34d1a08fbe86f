/* SPDX-License-Identifier: BSD-3-Clause */
/* IP filtering (33.2.5.3). */
#include "conformance.h"

static void example(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x500000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x500fff);
    fake_start(fake, TRACED | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_direct(&fake->cpu, 0x500000);
    vpt_cond_branch(&fake->cpu, 0x500002, false);
    vpt_jmp_direct(&fake->cpu, 0x501000);
    vpt_cond_branch(&fake->cpu, 0x400100, true);
    END(fake, "MODE(64) PGE(500000) TNT(N) PGD(501000)");
}

static const struct rule table_2[] = {
    {"example",
     "a jump into the range gives TIP.PGE, branches in it TNT, a jump out TIP.PGD with the target",
     TEST(example)},
    {0},
};

const struct table filtering_tables[] = {
    {"33-2", "IP filtering packet example", 1, table_2},
    {0},
};
