/* SPDX-License-Identifier: BSD-3-Clause */
/* What causes each packet: the generation scenarios that Tables 33-16 to 33-51 name. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

#define EVENTS (OS | USER | VPT_CTL_EVENTEN)
#define INSIDE 0x401040ull

/* Everything that chapter 33 describes, at 401000H. */
static struct fake *all(uint64_t ctl)
{
    struct vpt_caps caps = rich_caps();

    caps.tsx = true;
    return begin_caps(&caps, ctl);
}
/* The same with an IP filter of 401000H to 401FFFH. */
static struct fake *filtered(uint64_t ctl)
{
    return begin_range("max", VPT_ADDR_CFG_FILTER, 0x401000, 0x401fff, ctl);
}

/* ---- TNT ------------------------------------------------------------------------------------ */

static void tnt_full(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake = begin_caps(&caps, TRACED);

    for (unsigned i = 0; i < 5; i++)
        vpt_cond_branch(&fake->cpu, 0x401010 + i, i & 1);
    SO_FAR(fake, "");
    vpt_cond_branch(&fake->cpu, 0x401020, false);
    SO_FAR(fake, "TNT(NTNTNN)");
    end_quietly(fake);

    caps.long_tnt = true;
    fake = begin_caps(&caps, TRACED);
    for (unsigned i = 0; i < 46; i++)
        vpt_cond_branch(&fake->cpu, 0x401010 + i, true);
    SO_FAR(fake, "");
    vpt_cond_branch(&fake->cpu, 0x401020, false);
    SO_FAR(fake, "TNT(TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTN)");
    end_quietly(fake);
}
static void tnt_ret(void)
{
    struct fake *fake = all(TRACED);

    vpt_call_direct(&fake->cpu, TARGET, 0x401005);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x402005);
    vpt_ret(&fake->cpu, 0x402005);
    vpt_ret(&fake->cpu, 0x401005);
    END(fake, "TIP(403000) TNT(TT)");
}

/* Everything that sends a packet, on a processor that has two branches in its buffer. */
static void force_pip(struct vpt_cpu *cpu)
{
    vpt_mov_cr3(cpu, 0x5000, SOURCE);
}
static void force_tip(struct vpt_cpu *cpu)
{
    vpt_jmp_indirect(cpu, TARGET);
}
static void force_fup(struct vpt_cpu *cpu)
{
    const struct vpt_transfer far = {
        .type = VPT_FAULT, .ip = SOURCE, .target = TARGET, .after = cpu->ctx};

    vpt_transfer(cpu, &far);
}
static void force_tsx(struct vpt_cpu *cpu)
{
    vpt_tx_begin(cpu, SOURCE);
}
static void force_exec(struct vpt_cpu *cpu)
{
    vpt_interrupt_flag(cpu, true, SOURCE);
}
static void force_cbr(struct vpt_cpu *cpu)
{
    vpt_set_core_ratio(cpu, 9);
}
static void force_vmcs(struct vpt_cpu *cpu)
{
    vpt_vmptrld(cpu, 0x88000);
}
static void force_mnt(struct vpt_cpu *cpu)
{
    vpt_maintenance(cpu, 1);
}
static void force_ptw(struct vpt_cpu *cpu)
{
    vpt_ptwrite(cpu, 0x55, 4, SOURCE);
}
static void force_exstop(struct vpt_cpu *cpu)
{
    vpt_exec_stop(cpu, SOURCE);
}
static void force_pwre(struct vpt_cpu *cpu)
{
    const struct vpt_power_entry entry = {.ip = SOURCE, .state = 0x10};

    vpt_power_entry(cpu, &entry);
}
static void force_bbp(struct vpt_cpu *cpu)
{
    static const struct vpt_block_item item = {0, 1};
    static const struct vpt_block block = {.type = 4, .count = 1, .items = &item};

    vpt_pebs(cpu, &block, 1, SOURCE);
}
static void force_cfe(struct vpt_cpu *cpu)
{
    vpt_shutdown(cpu, SOURCE);
}
static const struct {
    const char *pattern;
    void (*cause)(struct vpt_cpu *cpu);
} forces[] = {
    {"PIP(5000)", force_pip},
    {"TIP(402000)", force_tip},
    {"CFE(1,0) FUP(401010) TIP(402000)", force_fup},
    {"TSX(1) FUP(401010)", force_tsx},
    {"MODE(64+IF) FUP(401010)", force_exec},
    {"TSC(0) CBR(9)", force_cbr},
    {"VMCS(88000)", force_vmcs},
    {"MNT(1)", force_mnt},
    {"PTW4(55)", force_ptw},
    {"EXSTOP+ FUP(401010)", force_exstop},
    {"PWRE(10) EXSTOP+ FUP(401010)", force_pwre},
    {"BBP(4,8) BIP(0,1) BEP+ FUP(401010)", force_bbp},
    {"CFE(a,0)+ FUP(401010)", force_cfe},
};
static void tnt_partial(void)
{
    for (size_t i = 0; i < sizeof(forces) / sizeof(forces[0]); i++) {
        struct fake *fake =
            all(TRACED | VPT_CTL_TSCEN | VPT_CTL_EVENTEN | VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);
        char pattern[128] = "TNT(TN) ";

        vpt_vmxon(&fake->cpu, 0x400000);
        vpt_cond_branch(&fake->cpu, 0x401010, true);
        vpt_cond_branch(&fake->cpu, 0x401012, false);
        forces[i].cause(&fake->cpu);
        strncat(pattern, forces[i].pattern, sizeof(pattern) - strlen(pattern) - 1);
        SO_FAR(fake, pattern);
        vpt_cond_branch(&fake->cpu, 0x401014, true);
        END(fake, "TNT(T)"); /* the buffer was empty */
    }
}

/* ---- TIP, TIP.PGE, TIP.PGD ------------------------------------------------------------------ */

static void tip_near(void)
{
    struct fake *fake = all(TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x402002);
    vpt_ret(&fake->cpu, 0x404000);
    END(fake, "TIP(402000) TIP(403000) TIP(404000)");
    fake = all(TRACED);
    vpt_jmp_indirect(&fake->cpu, 0x1122334455667788);
    END(fake, "TIP(1122334455667788)"); /* all 8 bytes where no form is shorter */
}
static void tip_far(void)
{
    static const enum vpt_transfer_type without_fup[] = {VPT_FAR_BRANCH, VPT_IRET, VPT_UIRET};
    static const enum vpt_transfer_type with_fup[] = {
        VPT_SOFT_INTERRUPT, VPT_FAULT, VPT_TRAP, VPT_INTERRUPT, VPT_ENCLAVE, VPT_UINTR, VPT_INIT};

    for (size_t i = 0; i < sizeof(without_fup) / sizeof(without_fup[0]); i++) {
        struct fake *fake = all(TRACED);

        transfer(fake, without_fup[i], at_cpl(0));
        END(fake, "TIP(402000)");
    }
    for (size_t i = 0; i < sizeof(with_fup) / sizeof(with_fup[0]); i++) {
        struct fake *fake = all(TRACED);

        transfer(fake, with_fup[i], at_cpl(0));
        END(fake, "FUP(401010) TIP(402000)");
    }
}
static void tip_abort(void)
{
    struct fake *fake = all(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_abort(&fake->cpu, SOURCE + 4, TARGET);
    END(fake, "TSX(2) FUP(401014) TIP(402000)");
}

/* Outside of the filter. */
static struct fake *outside(void)
{
    struct fake *fake = filtered(TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x500000);
    fake_mark(fake);
    return fake;
}
static void pge_branch(void)
{
    struct fake *fake = outside();

    vpt_jmp_direct(&fake->cpu, INSIDE);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_call_direct(&fake->cpu, INSIDE, 0x500005);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_jmp_indirect(&fake->cpu, INSIDE);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_call_indirect(&fake->cpu, INSIDE, 0x500002);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_ret(&fake->cpu, INSIDE);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_cond_branch(&fake->cpu, INSIDE, true);
    END(fake, "PGE(401040)");
    fake = outside();
    vpt_cond_branch(&fake->cpu, INSIDE, false);
    END(fake, "");
}
static void pge_transfer(void)
{
    struct fake *fake = begin("max", USER | BRANCHEN);

    transfer(fake, VPT_IRET, at_cpl(3));
    END(fake, "MODE(64) PGE(402000)");
    fake = begin_range("max", VPT_ADDR_CFG_FILTER, TARGET, TARGET, TRACED);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, "MODE(64) PGE(402000)");
}

/* CR3Filter for 5000H. */
static struct fake *for_cr3(void)
{
    struct fake *fake = fake_open("max");

    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER);
    return fake;
}
static void pge_cr3(void)
{
    struct fake *fake = for_cr3();

    vpt_mov_cr3(&fake->cpu, 0x6000, SOURCE);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE + 3);
    END(fake, "PIP(5000) MODE(64) PGE(401013)");
}
static void pge_wrmsr(void)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = at_cpl(0);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_STATUS, 9ull << VPT_STATUS_BYTECNT_SHR);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    END(fake, "CBR(24) MODE(64) PGE(401000)");
}

static void pgd_branch(void)
{
    struct fake *fake = filtered(TRACED);

    vpt_jmp_direct(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    vpt_call_direct(&fake->cpu, TARGET, INSIDE);
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    vpt_call_indirect(&fake->cpu, TARGET, INSIDE);
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    vpt_ret(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    transfer(fake, VPT_FAR_BRANCH, at_cpl(0));
    END(fake, "PGD(402000)");
    fake = filtered(TRACED);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, "FUP(401010) PGD(402000)");
}
static void pgd_conditional(void)
{
    struct fake *fake = filtered(TRACED);

    vpt_cond_branch(&fake->cpu, INSIDE, true);
    vpt_cond_branch(&fake->cpu, TARGET, true);
    END(fake, "TNT(T) PGD()"); /* and no bit for the second */
}
/* A RET that could be compressed, out of the filter: there is no TNT bit for it. */
static void pgd_ret(void)
{
    struct fake *fake = begin_range("max", VPT_ADDR_CFG_FILTER, 0x401000, 0x401fff, TRACED);

    vpt_call_direct(&fake->cpu, INSIDE, 0x402000);
    vpt_ret(&fake->cpu, 0x402000);
    END(fake, "PGD(402000)");
}
static void pgd_context(void)
{
    struct fake *fake = begin("max", OS | BRANCHEN);

    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    END(fake, "PGD()");
    fake = begin("max", OS | BRANCHEN);
    transfer(fake, VPT_INTERRUPT, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
    fake = for_cr3();
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    fake_mark(fake);
    vpt_mov_cr3(&fake->cpu, 0x6000, SOURCE + 3);
    END(fake, "PGD()");
}
static void pgd_wrmsr(void)
{
    struct fake *fake = all(TRACED);

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    fake_stop(fake);
    CHECK(words_match("TNT(T) FUP(40fff0) PGD()", fake_words(fake, false)), "%s",
          fake_words(fake, false));
    fake_close(fake);
}

/* ---- FUP, PIP, MODE ------------------------------------------------------------------------- */

static void fup_never(void)
{
    static const enum vpt_transfer_type types[] = {VPT_FAR_BRANCH, VPT_IRET, VPT_UIRET};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct fake *fake = begin("max", OS | BRANCHEN);

        transfer(fake, types[i], at_cpl(3));
        END(fake, "PGD()");
    }
}
static void pip_transfer(void)
{
    static const enum vpt_transfer_type types[] = {VPT_FAR_BRANCH, VPT_INTERRUPT, VPT_INIT};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct fake *fake = all(OS);

        transfer(fake, types[i], at_cr3(0x5000));
        END(fake, "PIP(5000)");
        fake = all(OS);
        transfer(fake, types[i], at_cr3(0x1000));
        END(fake, "");
    }
}
static void pip_startup(void)
{
    struct fake *fake = all(OS);

    transfer(fake, VPT_INIT_WAIT, at_cr3(0));
    SO_FAR(fake, "PIP(0)");
    transfer(fake, VPT_SIPI, at_cr3(0));
    SO_FAR(fake, "");
    transfer(fake, VPT_INIT_WAIT, at_cr3(0));
    transfer(fake, VPT_SIPI, at_cr3(0x5000));
    END(fake, "PIP(5000)");
}
static void pip_smm(void)
{
    struct fake *fake = all(OS);
    const struct vpt_context smm = at_cr3(0x77000), back = at_cr3(0x5000);

    vpt_smi(&fake->cpu, SOURCE);
    vpt_set_context(&fake->cpu, &smm);
    vpt_rsm(&fake->cpu, true, SOURCE, &back);
    END(fake, "CBR(24)");
}
static void pip_bits(void)
{
    struct fake *fake = all(OS);
    struct vpt_context pae = at_cr3(0x5fe0);

    vpt_mov_cr3(&fake->cpu, 0xfffffffffffe7fffull, SOURCE);
    SO_FAR(fake, "PIP(ffffffffe7000)");
    pae.pae = true;
    transfer(fake, VPT_FAR_BRANCH, pae);
    END(fake, "PIP(5fe0)");
}
static void exec_modes(void)
{
    static const enum vpt_exec_mode modes[] = {VPT_EXEC_16, VPT_EXEC_32, VPT_EXEC_64};
    static const char *const patterns[3][3] = {
        {"TIP(402000)", "MODE(32) TIP(402000)", "MODE(64) TIP(402000)"},
        {"MODE(16) TIP(402000)", "TIP(402000)", "MODE(64) TIP(402000)"},
        {"MODE(16) TIP(402000)", "MODE(32) TIP(402000)", "TIP(402000)"}};

    for (unsigned from = 0; from < 3; from++)
        for (unsigned to = 0; to < 3; to++) {
            struct fake *fake = all(TRACED);

            transfer(fake, VPT_FAR_BRANCH, in_mode(modes[from]));
            fake_mark(fake);
            transfer(fake, VPT_FAR_BRANCH, in_mode(modes[to]));
            END(fake, patterns[from][to]);
        }
}
static void exec_resumes(void)
{
    struct fake *fake = begin("max", OS | BRANCHEN);
    struct vpt_context back = in_mode(VPT_EXEC_32);

    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    fake_mark(fake);
    transfer(fake, VPT_INTERRUPT, back);
    END(fake, "MODE(32) PGE(402000)");
}
static void exec_if(void)
{
    struct fake *fake = all(EVENTS | BRANCHEN);
    struct vpt_context handler = at_cpl(0);

    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    SO_FAR(fake, "MODE(64+IF) FUP(401010)");
    transfer(fake, VPT_INTERRUPT, handler);
    SO_FAR(fake, "CFE(1,31) FUP(401010) MODE(64) TIP(402000)");
    handler.interrupts = true;
    transfer(fake, VPT_IRET, handler);
    END(fake, "CFE(2,0)+ FUP(401010) MODE(64+IF) TIP(402000)");
    fake = all(TRACED);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    transfer(fake, VPT_FAR_BRANCH, handler);
    END(fake, "TIP(402000)");
}
static void tsx_changes(void)
{
    struct fake *fake = all(TRACED);

    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_begin(&fake->cpu, SOURCE + 2);
    SO_FAR(fake, "TSX(1) FUP(401010)");
    vpt_tx_commit(&fake->cpu, SOURCE + 4);
    vpt_tx_commit(&fake->cpu, SOURCE + 6);
    END(fake, "TSX(0) FUP(401014)");
}
static void tsx_filter(void)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, TRACED | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    fake_mark(fake);
    vpt_tx_begin(&fake->cpu, TARGET);
    vpt_tx_abort(&fake->cpu, TARGET + 4, TARGET + 8);
    END(fake, "TSX(1) TSX(2)");
}

/* ---- TraceStop ------------------------------------------------------------------------------ */

static struct fake *stopping(uint64_t ctl)
{
    return begin_range("max", VPT_ADDR_CFG_TRACESTOP, 0x600000, 0x600fff, ctl);
}
static void stop_branch(void)
{
    struct fake *fake = stopping(TRACED);

    vpt_cond_branch(&fake->cpu, 0x401020, true);
    vpt_jmp_direct(&fake->cpu, 0x600fff);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !vpt_trigger_en(&fake->cpu), "Stopped");
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "FilterEn is 0");
    SO_FAR(fake, "TNT(T) PGD(600fff) STOP");
    end_quietly(fake);
    fake = stopping(TRACED);
    vpt_cond_branch(&fake->cpu, 0x600000, false);
    CHECK(!fake_status(fake, VPT_STATUS_STOPPED), "a branch that is not taken");
    end_quietly(fake);
}
static void stop_cr3(void)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = at_cpl(0);

    fake_write(fake, VPT_MSR_ADDR0_A, SOURCE);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, SOURCE + 16);
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL,
               TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN | VPT_CTL_CR3FILTER |
                   (uint64_t)VPT_ADDR_CFG_TRACESTOP << VPT_CTL_ADDR_CFG_SHR);
    fake_mark(fake);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    END(fake, "PIP(5000) STOP");
}
static void stop_wrmsr(void)
{
    struct fake *fake = begin_range("max", VPT_ADDR_CFG_TRACESTOP, IP_START, IP_START, TRACED);

    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "where the WRMSR goes on");
    fake->mark = 0;
    SO_FAR(fake, "PSB+ STOP");
    end_quietly(fake);
}

/* ---- Timing --------------------------------------------------------------------------------- */

static void cbr_causes(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER, .core_ratio = 17};
    struct fake *fake = all(OS);

    vpt_set_core_ratio(&fake->cpu, 33);
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "CBR(33) CBR(17)");
    fake = all(OS);
    fake->mark = 0;
    CHECK(words_match("PSB PIP(1000) CBR(24) PSBEND", fake_words(fake, true)),
          "PSB+, and at enable: %s", fake_words(fake, true));
    end_quietly(fake);
}
static void tsc_causes(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct fake *fake = all(OS | VPT_CTL_TSCEN);

    fake->clocks.tsc = 0xfedcba9876543210;
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "TSC(dcba9876543210) CBR(9)");
    vpt_power_exit(&fake->cpu, &wake);
    SO_FAR(fake, "TSC(dcba9876543210) CBR(9)");
    fake_stop(fake);
    fake_mark(fake);
    fake->clocks.tsc++;
    fake_write(fake, VPT_MSR_CTL, OS | VPT_CTL_TSCEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    END(fake, "TSC(dcba9876543211) CBR(9)");
}
static void tma_follows(void)
{
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    struct fake *fake = all(OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN | 5ull << VPT_CTL_MTCFREQ_SHR);

    fake->clocks = (struct vpt_clocks){.tsc = 0x777, .art = 0x1f, .fast = 0x3ff};
    vpt_set_core_ratio(&fake->cpu, 9);
    SO_FAR(fake, "TSC(777) TMA(1f,1ff) CBR(9)");
    fake->clocks.art = 0x123456;
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "TSC(777) TMA(3456,1ff) CBR(9)");
}
/* An MTC with each change of the selected bit, none between; its payload are the 8 bits there. */
static void mtc_period(void)
{
    for (uint64_t freq = 0; freq < 16; freq++) {
        struct fake *fake = all(OS | VPT_CTL_MTCEN | freq << VPT_CTL_MTCFREQ_SHR);

        fake->clocks.art = (1ull << freq) - 1;
        vpt_time(&fake->cpu);
        SO_FAR(fake, "");
        fake->clocks.art = 1ull << freq;
        vpt_time(&fake->cpu);
        vpt_time(&fake->cpu);
        SO_FAR(fake, "MTC(1)");
        fake->clocks.art = 0x1feull << freq;
        vpt_time(&fake->cpu);
        SO_FAR(fake, "MTC(fe)");
        fake->clocks.art = 0x200ull << freq;
        vpt_time(&fake->cpu);
        END(fake, "MTC(0)");
    }
}
/* Sizes by value: 5 bits, then 7 more in each byte. */
static void cyc_sizes(void)
{
    static const struct {
        uint64_t cycles;
        uint8_t bytes[6];
        size_t count;
    } sizes[] = {
        {1, {0x0b}, 1},
        {31, {0xfb}, 1},
        {32, {0x07, 0x02}, 2},
        {4095, {0xff, 0xfe}, 2},
        {4096, {0x07, 0x01, 0x02}, 3},
        {0x7ffff, {0xff, 0xff, 0xfe}, 3},
        {0x80000, {0x07, 0x01, 0x01, 0x02}, 4},
        {0x87654321, {0x0f, 0x33, 0xa9, 0xd9, 0x42}, 5},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fake *fake = all(OS | VPT_CTL_CYCEN | VPT_CTL_PWREVTEN);

        fake->clocks.cycles += sizes[i].cycles;
        vpt_exec_stop(&fake->cpu, SOURCE);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_len - fake->mark > sizes[i].count &&
                  memcmp(fake->tap + fake->mark, sizes[i].bytes, sizes[i].count) == 0,
              "%llu cycles", (unsigned long long)sizes[i].cycles);
        CHECK(fake->tap[fake->mark + sizes[i].count] == 0x02, "of %zu bytes", sizes[i].count);
        end_quietly(fake);
    }
}
/* One CYC for all that is sent in a cycle; the next one counts from there. */
static void cyc_once(void)
{
    struct fake *fake = all(TRACED | VPT_CTL_CYCEN);

    fake->clocks.cycles += 5;
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    fake->clocks.cycles += 6;
    vpt_jmp_indirect(&fake->cpu, 0x404000);
    END(fake, "CYC(5) TIP(402000) TIP(403000) CYC(6) TIP(404000)");
}

/* ---- VMCS, OVF, PSB, MNT, PAD --------------------------------------------------------------- */

/* Whether the PSB+ that comes when enough bytes were sent has just these packets. */
static bool next_psb(struct fake *fake, const char *pattern)
{
    const char *words, *end;
    char psb[256];

    fake_mark(fake);
    for (unsigned i = 0; i < 190; i++)
        vpt_maintenance(&fake->cpu, i);
    words = strstr(fake_words(fake, true), "PSB ");
    end = words ? strstr(words, "PSBEND") : NULL;
    snprintf(psb, sizeof(psb), "%.*s", end ? (int)(end - words) : 0, words ? words : "");
    fake_mark(fake);
    return CHECK(words_match(pattern, psb), "expected [%s], got [%s]", pattern, psb);
}
static void vmcs_pointer(void)
{
    struct fake *fake = all(OS);

    vpt_vmxon(&fake->cpu, 0x400000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    vpt_vmptrld(&fake->cpu, 0x678abcde000);
    SO_FAR(fake, "VMCS(678abcde000)");
    vpt_vmclear(&fake->cpu, 0x99000);
    next_psb(fake, "PSB PIP(1000) VMCS(678abcde000) CBR(24)");
    vpt_vmclear(&fake->cpu, 0x678abcde000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    vpt_vmptrld(&fake->cpu, 0x88000);
    vpt_vmxoff(&fake->cpu);
    next_psb(fake, "PSB PIP(1000) CBR(24)");
    vpt_vmxon(&fake->cpu, 0x400000);
    next_psb(fake, "PSB PIP(1000) VMCS(ffffffffff000) CBR(24)");
    end_quietly(fake);
}
static void vmcs_misc(void)
{
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.vmx_misc_pt = false;
    fake = begin_caps(&caps, OS);
    vpt_vmxon(&fake->cpu, 0x400000);
    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "VMXON clears TraceEn");
    CHECK(wrmsr(fake, VPT_MSR_CTL, OS | VPT_CTL_TOPA | VPT_CTL_TRACEEN) == VPT_GP,
          "and it cannot be set again");
    vpt_vmptrld(&fake->cpu, 0x88000);
    SO_FAR(fake, "");
    fake_close(fake);
}
static void ovf_resolved(void)
{
    struct fake *fake = all(TRACED);
    const char *words;

    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 3000);
    words = fake_words(fake, false);
    CHECK(!strstr(words, "OVF"), "not before the way is free: %s", words);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_direct(&fake->cpu, 0x405000);
    words = strstr(fake_words(fake, false), "OVF");
    CHECK(words && words_match("OVF FUP(405000) PSB+", words), "%s", words ? words : "no OVF");
    end_quietly(fake);
}
/* Bytes from one PSB to the next, for each encoding up to 1 MiB. */
static void psb_period(void)
{
    for (uint64_t freq = 0; freq < 10; freq++) {
        const uint64_t period = 2048ull << freq;
        struct vpt_caps caps = plain_caps("skylake");
        struct fake *fake;
        uint64_t before;

        allow_all_encodings(&caps);
        fake = fake_open_caps(&caps);
        fake->tap_off = true;
        fake_start(fake, TRACED | freq << VPT_CTL_PSBFREQ_SHR);
        fake->tap_off = true;
        fake_noise(fake, 7 * (period / 7) - 70);
        before = fake->cpu.bytes_since_psb;
        CHECK(before > period / 2 && before < period, "%u: no PSB before %llu bytes",
              (unsigned)freq, (unsigned long long)before);
        fake_noise(fake, 140);
        CHECK(fake->cpu.bytes_since_psb < 200, "%u: a PSB at %llu", (unsigned)freq,
              (unsigned long long)period);
        end_quietly(fake);
    }
}
static void psb_enable(void)
{
    for (unsigned count = 0; count < 2; count++) {
        struct fake *fake = fake_open("max");

        fake_write(fake, VPT_MSR_STATUS, (uint64_t)count << VPT_STATUS_BYTECNT_SHR);
        fake_output(fake);
        fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
        END(fake, count ? "CBR(24) MODE(16) PGE(401000)" : "PSB+ MODE(16) PGE(401000)");
    }
}
static void mnt_payload(void)
{
    struct fake *fake = all(OS);

    vpt_maintenance(&fake->cpu, 0x1122334455667788);
    BYTES(fake, 0x02, 0xc3, 0x88, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11);
}
static void pad_aligns(void)
{
    for (unsigned align = 2; align <= 64; align *= 2) {
        struct vpt_caps caps = rich_caps();
        struct reader reader;
        struct packet packet;
        unsigned psbs = 0;
        struct fake *fake;

        caps.psb_align_bytes = (uint8_t)align;
        fake = begin_caps(&caps, TRACED);
        fake_noise(fake, 10000);
        vpt_flush(&fake->cpu);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet))
            if (packet.kind == PACKET_PSB) {
                psbs++;
                CHECK(packet.offset % align == 0, "a PSB at %zu of %u", packet.offset, align);
            }
        CHECK(psbs > 4 && !reader.bad, "%u PSBs", psbs);
        end_quietly(fake);
    }
}

/* ---- PTW, power ----------------------------------------------------------------------------- */

static void ptw_sizes(void)
{
    struct fake *fake = all(OS | VPT_CTL_PTWEN);

    vpt_ptwrite(&fake->cpu, 0x1122334455667788, 4, SOURCE);
    BYTES(fake, 0x02, 0x12, 0x88, 0x77, 0x66, 0x55);
    fake = all(OS | VPT_CTL_PTWEN);
    vpt_ptwrite(&fake->cpu, 0x1122334455667788, 8, SOURCE);
    BYTES(fake, 0x02, 0x32, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11);
}
static const struct vpt_power_entry deep = {
    .ip = SOURCE, .mwait = true, .hints = 0x20, .ext = 3, .state = 0x21};

static void exstop_causes(void)
{
    struct fake *fake = all(OS | VPT_CTL_PWREVTEN);

    vpt_power_entry(&fake->cpu, &deep);
    SO_FAR(fake, "MWAIT(20,3) PWRE(21) EXSTOP+ FUP(401010)");
    end_quietly(fake);
    fake = all(OS | VPT_CTL_PWREVTEN);
    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "EXSTOP+ FUP(401010)");
}
static void mwait_causes(void)
{
    struct vpt_power_entry halt = deep;
    struct fake *fake = all(OS | VPT_CTL_PWREVTEN);

    halt.mwait = false;
    vpt_power_entry(&fake->cpu, &halt);
    END(fake, "PWRE(21) EXSTOP+ FUP(401010)");
}
static void pwre_deeper(void)
{
    struct vpt_power_entry deeper = deep;
    const struct vpt_power_exit wake = {
        .last_core_state = 2, .deepest_core_state = 6, .reason = VPT_WAKE_STORE};
    struct fake *fake = all(OS | VPT_CTL_PWREVTEN);

    vpt_power_entry(&fake->cpu, &deep);
    fake_mark(fake);
    deeper.state = 0x60;
    deeper.hw = true;
    vpt_power_entry(&fake->cpu, &deeper);
    SO_FAR(fake, "PWRE(HW,60)");
    vpt_power_exit(&fake->cpu, &wake);
    SO_FAR(fake, "CBR(24) PWRX(2,6,4)");
    vpt_power_entry(&fake->cpu, &deep);
    END(fake, "MWAIT(20,3) PWRE(21) EXSTOP+ FUP(401010)");
}
static void pwrx_reasons(void)
{
    for (unsigned bit = 0; bit < 4; bit++) {
        const struct vpt_power_exit wake = {
            .last_core_state = 15, .deepest_core_state = 1, .reason = (uint8_t)(1u << bit)};
        char pattern[64] = "CBR(24) PWRX(f,1,0)";
        struct fake *fake = all(OS | VPT_CTL_PWREVTEN);

        pattern[strlen(pattern) - 2] = "1248"[bit];
        vpt_power_exit(&fake->cpu, &wake);
        END(fake, pattern);
    }
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static void block_sizes(void)
{
    static const struct vpt_block_item items[] = {{0, 0x1122334455667788}, {31, 2}};
    const struct vpt_block blocks[] = {
        {.type = 4, .count = 2, .items = items},
        {.type = 0x10, .four_byte_items = true, .count = 2, .items = items}};
    struct fake *fake = all(OS);

    vpt_pebs(&fake->cpu, blocks, 2, SOURCE);
    SO_FAR(fake, "BBP(4,8) BIP(0,1122334455667788) BIP(1f,2) BBP(10,4) BIP(0,55667788) BIP(1f,2) "
                 "BEP+ FUP(401010)");
    end_quietly(fake);
    fake = begin("skylake", OS);
    vpt_pebs(&fake->cpu, blocks, 2, SOURCE);
    END(fake, ""); /* no output of PEBS to the trace */
}

/* ---- Event Trace ---------------------------------------------------------------------------- */

static void cfe_causes(void)
{
    static const struct {
        enum vpt_transfer_type type;
        const char *pattern;
    } events[] = {
        {VPT_SOFT_INTERRUPT, "CFE(1,31)+ FUP(401010)"},
        {VPT_FAULT, "CFE(1,31)+ FUP(401010)"},
        {VPT_TRAP, "CFE(1,31)+ FUP(401010)"},
        {VPT_INTERRUPT, "CFE(1,31)+ FUP(401010)"},
        {VPT_IRET, "CFE(2,0)+ FUP(401010)"},
        {VPT_INIT, "CFE(6,0)+ FUP(401010)"},
        {VPT_INIT_WAIT, "CFE(6,0)+ FUP(401010)"},
        {VPT_UINTR, "CFE(c,31)+ FUP(401010)"},
        {VPT_UIRET, "CFE(d,0)+ FUP(401010)"},
        {VPT_FAR_BRANCH, ""},
        {VPT_ENCLAVE, ""},
    };

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct fake *fake = all(EVENTS);

        transfer(fake, events[i].type, at_cpl(0));
        END(fake, events[i].pattern);
    }
}
static void cfe_shares_fup(void)
{
    static const struct {
        enum vpt_transfer_type type;
        const char *pattern;
    } events[] = {
        {VPT_SOFT_INTERRUPT, "CFE(1,31) FUP(401010) TIP(402000)"},
        {VPT_INTERRUPT, "CFE(1,31) FUP(401010) TIP(402000)"},
        {VPT_INIT, "CFE(6,0) FUP(401010) TIP(402000)"},
        {VPT_UINTR, "CFE(c,31) FUP(401010) TIP(402000)"},
        {VPT_IRET, "CFE(2,0)+ FUP(401010) TIP(402000)"},
        {VPT_UIRET, "CFE(d,0)+ FUP(401010) TIP(402000)"},
    };

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct fake *fake = all(EVENTS | BRANCHEN);

        transfer(fake, events[i].type, at_cpl(0));
        END(fake, events[i].pattern);
    }
}
static void evd_types(void)
{
    const struct vpt_transfer fault = {.type = VPT_FAULT,
                                       .vector = 14,
                                       .ip = SOURCE,
                                       .target = TARGET,
                                       .cr2 = 0x1122334455667788,
                                       .after = at_cpl(0)};
    struct vpt_transfer other = fault;
    struct fake *fake = all(EVENTS);

    vpt_transfer(&fake->cpu, &fault);
    SO_FAR(fake, "EVD(0,1122334455667788) CFE(1,e)+ FUP(401010)");
    other.vector = 13;
    vpt_transfer(&fake->cpu, &other);
    SO_FAR(fake, "CFE(1,d)+ FUP(401010)");
    other.vector = 14; /* an interrupt of that number is no page fault */
    other.type = VPT_INTERRUPT;
    vpt_transfer(&fake->cpu, &other);
    END(fake, "CFE(1,e)+ FUP(401010)");
}

static const struct rule causes[] = {
    {"33-16 TNT, full", "the branch that fills it; 6 results, or 47", TEST(tnt_full)},
    {"33-16 TNT, RET", "a compressed RET is a taken branch", TEST(tnt_ret)},
    {"33-16 TNT, partial", "any other packet sends what is buffered, first", TEST(tnt_partial)},
    {"33-17 TIP, near", "indirect JMP and CALL, uncompressed RET", TEST(tip_near)},
    {"33-17 TIP, far",
     "far branches, interrupts, exceptions, INIT, enclaves; 33-22: which of them "
     "have a FUP",
     TEST(tip_far)},
    {"33-17 TIP, TSX", "an abort", TEST(tip_abort)},
    {"33-20 TIP.PGE, branch", "any taken near branch into the filter, with its target",
     TEST(pge_branch)},
    {"33-20 TIP.PGE, transfer", "into context, or into the filter", TEST(pge_transfer)},
    {"33-20 TIP.PGE, MOV CR3", "to the CR3 that is traced, with the next instruction",
     TEST(pge_cr3)},
    {"33-20 TIP.PGE, WRMSR", "that sets TraceEn, with the next instruction", TEST(pge_wrmsr)},
    {"33-21 TIP.PGD, branch", "replaces the TIP; its payload is the target", TEST(pgd_branch)},
    {"33-21 TIP.PGD, conditional", "without payload, and without a TNT bit", TEST(pgd_conditional)},
    {"33-21 TIP.PGD, RET", "replaces the bit of a compressed RET", TEST(pgd_ret)},
    {"33-21 TIP.PGD, context", "without payload", TEST(pgd_context)},
    {"33-21 TIP.PGD, WRMSR", "that clears TraceEn: behind a FUP, without payload", TEST(pgd_wrmsr)},
    {"33-22 FUP", "none for branches, whose address the code tells", TEST(fup_never)},
    {"33-24 PIP, transfers", "a task switch or INIT that changes CR3; none where CR3 stays",
     TEST(pip_transfer)},
    {"33-24 PIP, SIPI", "and INIT that waits for it, if CR3 changes", TEST(pip_startup)},
    {"33-24 PIP, SMM", "none on SMI and RSM, whatever CR3 becomes", TEST(pip_smm)},
    {"33-24 PIP, payload", "the new CR3[51:12]; 11:5 with PAE paging", TEST(pip_bits)},
    {"33-26 MODE.Exec, modes", "each change of CS.L and CS.D, before the TIP; else none",
     TEST(exec_modes)},
    {"33-26 MODE.Exec, resuming", "a change that was not told, before the TIP.PGE",
     TEST(exec_resumes)},
    {"33-26 MODE.Exec, RFLAGS.IF", "with EventEn: before the TIP of a transfer, or with a FUP",
     TEST(exec_if)},
    {"33-27 MODE.TSX", "begin and commit, where InTX changes, before the FUP", TEST(tsx_changes)},
    {"33-27 MODE.TSX, filtered", "sent without FUP", TEST(tsx_filter)},
    {"33-28 TraceStop, branch", "a taken branch into the range; FilterEn becomes 0",
     TEST(stop_branch)},
    {"33-28 TraceStop, MOV CR3", "that makes the range traced", TEST(stop_cr3)},
    {"33-28 TraceStop, WRMSR", "that sets TraceEn in the range", TEST(stop_wrmsr)},
    {"33-29 CBR", "changes of frequency, wake, PSB+, enabling", TEST(cbr_causes)},
    {"33-30 TSC", "changes of frequency, wake, enabling; the lower 7 bytes", TEST(tsc_causes)},
    {"33-31 MTC", "each toggle of the ART bit that MTCFreq selects; the 8 bits from there",
     TEST(mtc_period)},
    {"33-32 TMA", "right behind each TSC; 16 bits of the ART, 9 of the fast counter",
     TEST(tma_follows)},
    {"33-33 CYC, sizes", "5 bits, and 7 in each byte more", TEST(cyc_sizes)},
    {"33-33 CYC", "one in a cycle; counts from the last one", TEST(cyc_once)},
    {"33-34 VMCS", "VMPTRLD and PSB+; all ones without a pointer", TEST(vmcs_pointer)},
    {"33-34 VMCS without VMX_MISC[14]", "none", TEST(vmcs_misc)},
    {"33-35 OVF", "when the overflow is resolved, with a FUP of where it goes on",
     TEST(ovf_resolved)},
    {"33-36 PSB", "each time that the bytes of PSBFreq were sent", TEST(psb_period)},
    {"33-36 PSB, enabling", "if PacketByteCnt is 0", TEST(psb_enable)},
    {"33-38 MNT", "with its payload of 8 bytes", TEST(mnt_payload)},
    {"33-39 PAD", "where the implementation aligns PSBs", TEST(pad_aligns)},
    {"33-40 PTW", "the operand, 4 or 8 bytes", TEST(ptw_sizes)},
    {"33-41 EXSTOP", "sleep, and a clock that stops otherwise", TEST(exstop_causes)},
    {"33-42 MWAIT", "only if MWAIT or one of its kind asked, with hints and extensions",
     TEST(mwait_causes)},
    {"33-43 PWRE", "each deeper C-state; HW if hardware decided; one EXSTOP", TEST(pwre_deeper)},
    {"33-44 PWRX", "C-states and the one reason", TEST(pwrx_reasons)},
    {"33-45 BBP, 33-46 BIP, 33-48 BEP", "a PEBS record, with items of 4 or 8 bytes",
     TEST(block_sizes)},
    {"33-49 CFE", "each kind of event; none for branches and enclaves", TEST(cfe_causes)},
    {"33-49 CFE, IP bit", "0 where BranchEn gives the event a FUP", TEST(cfe_shares_fup)},
    {"33-51 EVD", "page faults, with CR2", TEST(evd_types)},
    {0},
};

const struct table generation_tables[] = {
    {"33.4.2 causes", "What packets are sent for", 0, causes},
    {0},
};
