/* SPDX-License-Identifier: BSD-3-Clause */
/* Cycle-accurate mode (33.3.6). */
#include "conformance.h"

#include <string.h>

#define CYCLES (TRACED | VPT_CTL_CYCEN)

static struct fake *counting(uint64_t ctl)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, ctl);
    return fake;
}
static void tick(struct fake *fake, uint64_t cycles)
{
    fake->clocks.cycles += cycles;
}

/* ---- Eligible packets ----------------------------------------------------------------------- */

static void eligible(void)
{
    const struct vpt_power_entry sleep = {.ip = SOURCE, .mwait = true, .state = 0x20};
    struct fake *fake =
        counting(CYCLES | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);

    tick(fake, 3);
    vpt_cond_branch(&fake->cpu, SOURCE, true);
    tick(fake, 3);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "CYC(3) TNT(T) CYC(3) TIP(402000)");
    tick(fake, 4);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    SO_FAR(fake, "CYC(4) PIP(5000)");
    tick(fake, 5);
    vpt_vmptrld(&fake->cpu, 0x88000);
    SO_FAR(fake, "CYC(5) VMCS(88000)");
    tick(fake, 6);
    vpt_tx_begin(&fake->cpu, SOURCE);
    SO_FAR(fake, "CYC(6) TSX(1) FUP(401010)");
    tick(fake, 7);
    vpt_ptwrite(&fake->cpu, 1, 4, SOURCE);
    SO_FAR(fake, "CYC(7) PTW4(1)");
    tick(fake, 8);
    vpt_exec_stop(&fake->cpu, SOURCE);
    SO_FAR(fake, "CYC(8) EXSTOP+ FUP(401010)");
    tick(fake, 8);
    vpt_power_entry(&fake->cpu, &sleep);
    SO_FAR(fake, "CYC(8) MWAIT(0,0) PWRE(20) EXSTOP+ FUP(401010)"); /* by Table 33-42 */
    tick(fake, 9);
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    SO_FAR(fake, "CYC(9) MTC(1)");
    tick(fake, 10);
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "CYC(10) TSC(0) TMA(1,0) CBR(9)");
    tick(fake, 11);
    transfer(fake, VPT_FAR_BRANCH, in_mode(VPT_EXEC_32));
    SO_FAR(fake, "CYC(11) PIP(1000) MODE(32) TIP(402000)");
    end_quietly(fake);
}
static void eligible_enables(void)
{
    struct fake *fake = counting(OS | BRANCHEN | VPT_CTL_CYCEN);

    tick(fake, 3);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    SO_FAR(fake, "CYC(3) PGD()");
    tick(fake, 4);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(0));
    SO_FAR(fake, "CYC(4) PGE(402000)");
    end_quietly(fake);
}
/* These are not: FUP, CBR, PWRE, CFE, MNT, BBP. */
static void ineligible(void)
{
    struct fake *fake = counting(OS | USER | VPT_CTL_CYCEN | VPT_CTL_EVENTEN | VPT_CTL_PWREVTEN);
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    static const struct vpt_block_item item = {0, 1};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};

    tick(fake, 3);
    vpt_set_core_ratio(&fake->cpu, 9);
    vpt_maintenance(&fake->cpu, 1);
    vpt_shutdown(&fake->cpu, SOURCE);
    vpt_power_exit(&fake->cpu, &wake);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    END(fake, "CBR(9) MNT(1) CFE(a,0)+ FUP(401010) CBR(9) PWRX(0,0,2) BBP(4,8) BIP(0,1) BEP+ "
              "FUP(401010)");
}
static void once_a_cycle(void)
{
    struct fake *fake = counting(CYCLES);
    struct vpt_context after = in_mode(VPT_EXEC_32);

    after.cr3 = 0x5000;
    tick(fake, 5);
    transfer(fake, VPT_FAR_BRANCH, after);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "CYC(5) PIP(5000) MODE(32) TIP(402000) TIP(402000)");
    tick(fake, 1);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "CYC(1) TIP(402000)");
}
static void overflow_cyc(void)
{
    struct fake *fake = counting(CYCLES);
    const char *words;

    tick(fake, 2);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 2000);
    for (unsigned i = 0; i < 100; i++) {
        tick(fake, 1000);
        vpt_jmp_indirect(&fake->cpu, TARGET);
    }
    vpt_stall(&fake->cpu, false);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    words = strstr(fake_words(fake, false), "CYC(100000)");
    CHECK(words && words_match("CYC(100000) OVF FUP(402000) PSB+", words),
          "none in it, and one with OVF that tells its length: %s", words ? words : "none");
    end_quietly(fake);
}

static const struct rule section_cycles[] = {
    {"eligible", "a CYC precedes TNT, TIP, MODE, PIP, VMCS, MTC, TSC, PTW, EXSTOP, MWAIT",
     TEST(eligible)},
    {"eligible, enables", "and TIP.PGE, TIP.PGD", TEST(eligible_enables)},
    {"not eligible", "FUP, CBR, MNT, CFE, PWRE, PWRX, BBP, BIP, BEP", TEST(ineligible)},
    {"once", "one CYC for all packets of a cycle", TEST(once_a_cycle)},
    {"OVF", "no CYC in an overflow, one at its end with its length", TEST(overflow_cyc)},
    {0},
};

/* ---- The counter ---------------------------------------------------------------------------- */

/* Three ways to clear TriggerEn and set it again: WRMSR, SMI with RSM, a module (33.2.9.6). */
static void counter_reset(void)
{
    for (unsigned way = 0; way < 3; way++) {
        const struct vpt_context back = at_cpl(0);
        struct fake *fake = counting(CYCLES);

        tick(fake, 5);
        vpt_jmp_indirect(&fake->cpu, TARGET);
        if (way == 0)
            fake_stop(fake);
        else if (way == 1)
            vpt_smi(&fake->cpu, SOURCE);
        else
            vpt_acm_begin(&fake->cpu);
        tick(fake, 1000);
        if (way == 0)
            fake_write(fake, VPT_MSR_CTL, CYCLES | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        else if (way == 1)
            vpt_rsm(&fake->cpu, true, SOURCE, &back);
        else
            vpt_acm_end(&fake->cpu, SOURCE);
        fake_mark(fake);
        tick(fake, 7);
        vpt_jmp_indirect(&fake->cpu, TARGET);
        END(fake, "CYC(7) TIP(402000)");
    }
}
static void counter_goes_on(void)
{
    struct fake *fake = counting(OS | BRANCHEN | VPT_CTL_CYCEN);

    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    fake_mark(fake);
    tick(fake, 30);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    tick(fake, 4);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(0));
    END(fake, "CYC(34) PGE(402000)");
}
static void counter_stops(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct fake *fake = counting(OS | VPT_CTL_CYCEN | VPT_CTL_TSCEN);

    tick(fake, 20);
    fake->clocks.tsc = 5000;
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "CYC(20) TSC(1388) CBR(24)");
}

static const struct rule section_counter[] = {
    {"reset", "TriggerEn = 0 sets it to 0", TEST(counter_reset)},
    {"context", "it counts on while ContextEn is 0", TEST(counter_goes_on)},
    {"stops", "behind a stop of the clock: CYC, TSC", TEST(counter_stops)},
    {0},
};

/* ---- What a CYC applies to ------------------------------------------------------------------ */

static void first_branch(void)
{
    struct fake *fake = counting(CYCLES | VPT_CTL_MTCEN);

    tick(fake, 3);
    vpt_cond_branch(&fake->cpu, SOURCE, true);
    tick(fake, 4);
    vpt_cond_branch(&fake->cpu, SOURCE, false);
    tick(fake, 5);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "CYC(3) TNT(TN) CYC(9) TIP(402000)");
    tick(fake, 6);
    fake->clocks.art++;
    vpt_cond_branch(&fake->cpu, SOURCE, true); /* in the cycle of an MTC */
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "CYC(6) MTC(1) TNT(T) TIP(402000)");
}
static void several_in_one(void)
{
    const struct vpt_transfer task = {.type = VPT_SOFT_INTERRUPT,
                                      .vector = 3,
                                      .ip = SOURCE,
                                      .target = TARGET,
                                      .after = in_mode(VPT_EXEC_32)};
    struct vpt_transfer other = task;
    struct fake *fake = counting(CYCLES);

    other.after.cr3 = 0x5000;
    vpt_cond_branch(&fake->cpu, SOURCE, false);
    tick(fake, 20);
    vpt_transfer(&fake->cpu, &other);
    END(fake, "TNT(N) FUP(401010) CYC(20) PIP(5000) MODE(32) TIP(402000)");
}
static void threshold(void)
{
    for (uint64_t field = 0; field < 16; field++) {
        const uint64_t n = field ? 1ull << (field - 1) : 0;
        struct fake *fake = counting(CYCLES | field << VPT_CTL_CYCTHRESH_SHR);

        if (n > 1) {
            tick(fake, n - 1);
            vpt_jmp_indirect(&fake->cpu, TARGET);
            SO_FAR(fake, "TIP(402000)");
            tick(fake, 1);
        } else {
            tick(fake, 1);
        }
        vpt_time(&fake->cpu); /* passing it does nothing by itself */
        SO_FAR(fake, "");
        vpt_jmp_indirect(&fake->cpu, TARGET);
        vpt_flush(&fake->cpu);
        CHECK(strncmp(fake_words(fake, false), "CYC(", 4) == 0, "field %u", (unsigned)field);
        end_quietly(fake);
    }
}

static const struct rule section_semantics[] = {
    {"TNT", "the CYC is that of its first branch, and of an MTC in the same cycle",
     TEST(first_branch)},
    {"several packets", "each eligible packet of an operation may have one; FUP has none",
     TEST(several_in_one)},
    {0},
};
static const struct rule section_threshold[] = {
    {"CycThresh", "no CYC before so many cycles; then with the next eligible packet",
     TEST(threshold)},
    {0},
};

const struct table cycle_tables[] = {
    {"33.3.6", "Cycle-accurate mode", 0, section_cycles},
    {"33.3.6.1", "The cycle counter", 0, section_counter},
    {"33.3.6.2", "What CYC packets mean", 0, section_semantics},
    {"33.3.6.3", "Cycle thresholds", 0, section_threshold},
    {0},
};
