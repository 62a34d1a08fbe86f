/* SPDX-License-Identifier: BSD-3-Clause */
/* What the trace tells of branches, transfers, PTWRITE and power (33.2.1 to 33.2.3). */
#include "conformance.h"

#include <string.h>

/* ---- Direct transfers ----------------------------------------------------------------------- */

static void cond_bits(void)
{
    struct fake *fake = begin("skylake", TRACED);

    for (unsigned i = 0; i < 8; i++)
        vpt_cond_branch(&fake->cpu, SOURCE + i, i % 3 == 0);
    END(fake, "TNT(TNNTNN) TNT(TN)");
}
static void direct_toggles(void)
{
    struct fake *fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, 0x500000, 0x500fff, TRACED);

    vpt_jmp_direct(&fake->cpu, 0x500000);
    vpt_jmp_direct(&fake->cpu, 0x500100);
    vpt_call_direct(&fake->cpu, TARGET, 0x500105);
    vpt_call_direct(&fake->cpu, 0x500200, 0x402005);
    END(fake, "MODE(64) PGE(500000) PGD(402000) PGE(500200)");
}

static const struct rule direct[] = {
    {"TNT", "one bit for each conditional branch, several in a packet", TEST(cond_bits)},
    {"enables", "a direct jump that toggles PacketEn gives TIP.PGE or TIP.PGD",
     TEST(direct_toggles)},
    {0},
};

/* ---- Far transfers -------------------------------------------------------------------------- */

static void far_tip(void)
{
    static const enum vpt_transfer_type types[] = {
        VPT_FAR_BRANCH, VPT_IRET,    VPT_SOFT_INTERRUPT, VPT_FAULT, VPT_TRAP,
        VPT_INTERRUPT,  VPT_ENCLAVE, VPT_UINTR,          VPT_UIRET, VPT_INIT};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct fake *fake = begin("gracemont", TRACED);
        const char *words;

        transfer(fake, types[i], at_cpl(0));
        words = fake_words(fake, false);
        words = strstr(words, "TIP(");
        CHECK(words && words_match("TIP(402000)", words), "type %d: %s", (int)types[i],
              words ? words : "no TIP");
        end_quietly(fake);
    }
}
static void far_fup(void)
{
    static const enum vpt_transfer_type told[] = {
        VPT_SOFT_INTERRUPT, VPT_FAULT, VPT_TRAP, VPT_INTERRUPT, VPT_ENCLAVE, VPT_UINTR, VPT_INIT};
    static const enum vpt_transfer_type known[] = {VPT_FAR_BRANCH, VPT_IRET, VPT_UIRET};

    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        struct fake *fake = begin("gracemont", TRACED);

        transfer(fake, told[i], at_cpl(0));
        END(fake, "FUP(401010) TIP(402000)");
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct fake *fake = begin("gracemont", TRACED);

        transfer(fake, known[i], at_cpl(0));
        END(fake, "TIP(402000)");
    }
}

static const struct rule far[] = {
    {"TIP", "every far transfer gives one, with the destination", TEST(far_tip)},
    {"FUP", "it precedes the TIP where the binary does not show the source, and only there",
     TEST(far_fup)},
    {0},
};

/* ---- Power ---------------------------------------------------------------------------------- */

#define POWER (OS | VPT_CTL_PWREVTEN)

static void power_stops(void)
{
    const struct vpt_power_entry sleep = {.ip = SOURCE, .state = 0x10};
    struct fake *fake = begin("gracemont", POWER);

    vpt_exec_stop(&fake->cpu, SOURCE + 4);
    SO_FAR(fake, "EXSTOP+ FUP(401014)");
    vpt_power_entry(&fake->cpu, &sleep);
    END(fake, "PWRE(10) EXSTOP+ FUP(401010)");
}
static void power_ip(void)
{
    struct fake *fake = begin("gracemont", USER | VPT_CTL_PWREVTEN);

    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "EXSTOP");
}
static void power_reasons(void)
{
    for (unsigned bit = 0; bit < 4; bit++) {
        static const char *const patterns[4] = {"CBR(28) PWRX(2,5,1)", "CBR(28) PWRX(2,5,2)",
                                                "CBR(28) PWRX(2,5,4)", "CBR(28) PWRX(2,5,8)"};
        const struct vpt_power_exit wake = {
            .last_core_state = 2, .deepest_core_state = 5, .reason = (uint8_t)(1u << bit)};
        struct fake *fake = begin("gracemont", POWER);

        vpt_power_exit(&fake->cpu, &wake);
        END(fake, patterns[bit]);
    }
}
static void power_besides(void)
{
    const struct vpt_power_entry sleep = {.ip = SOURCE, .state = 0x10};
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_INTERRUPT};
    struct fake *fake = begin("gracemont", OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN);

    vpt_power_entry(&fake->cpu, &sleep);
    fake->clocks = (struct vpt_clocks){.tsc = 0x1000, .art = 0x20, .fast = 3, .cycles = 5};
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "TSC(1000) TMA(20,3) CBR(28)");
}

static const struct rule power[] = {
    {"stops", "EXSTOP where execution stops: sleep, and a change of frequency", TEST(power_stops)},
    {"IP", "none out of context", TEST(power_ip)},
    {"wake", "PWRX with the last and the deepest C-state and each reason", TEST(power_reasons)},
    {"other packets", "CBR and timing packets at a wake do not depend on PwrEvtEn",
     TEST(power_besides)},
    {0},
};

const struct table flow_tables[] = {
    {"33.2.1.1", "Direct transfers", 0, direct},
    {"33.2.1.3", "Far transfers", 0, far},
    {"33.2.3", "Power event tracing", 0, power},
    {0},
};
