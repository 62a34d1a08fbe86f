/* SPDX-License-Identifier: BSD-3-Clause */
/* What causes the packets of the flow: the generation scenarios of Tables 33-16 to 33-28. */
#include "generation.h"

#include <string.h>

#define INSIDE 0x401040ull

struct fake *all_packets(uint64_t ctl)
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
    struct fake *fake = all_packets(TRACED);

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
        struct fake *fake = all_packets(TRACED | VPT_CTL_TSCEN | VPT_CTL_EVENTEN | VPT_CTL_PTWEN |
                                        VPT_CTL_PWREVTEN);
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
    struct fake *fake = all_packets(TRACED);

    vpt_jmp_indirect(&fake->cpu, 0x402000);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x402002);
    vpt_ret(&fake->cpu, 0x404000);
    END(fake, "TIP(402000) TIP(403000) TIP(404000)");
    fake = all_packets(TRACED);
    vpt_jmp_indirect(&fake->cpu, 0x1122334455667788);
    END(fake, "TIP(1122334455667788)"); /* all 8 bytes where no form is shorter */
}
static void tip_far(void)
{
    static const enum vpt_transfer_type without_fup[] = {VPT_FAR_BRANCH, VPT_IRET, VPT_UIRET};
    static const enum vpt_transfer_type with_fup[] = {
        VPT_SOFT_INTERRUPT, VPT_FAULT, VPT_TRAP, VPT_INTERRUPT, VPT_ENCLAVE, VPT_UINTR, VPT_INIT};

    for (size_t i = 0; i < sizeof(without_fup) / sizeof(without_fup[0]); i++) {
        struct fake *fake = all_packets(TRACED);

        transfer(fake, without_fup[i], at_cpl(0));
        END(fake, "TIP(402000)");
    }
    for (size_t i = 0; i < sizeof(with_fup) / sizeof(with_fup[0]); i++) {
        struct fake *fake = all_packets(TRACED);

        transfer(fake, with_fup[i], at_cpl(0));
        END(fake, "FUP(401010) TIP(402000)");
    }
}
static void tip_abort(void)
{
    struct fake *fake = all_packets(TRACED);

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
    struct fake *fake = all_packets(TRACED);

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
        struct fake *fake = all_packets(OS);

        transfer(fake, types[i], at_cr3(0x5000));
        END(fake, "PIP(5000)");
        fake = all_packets(OS);
        transfer(fake, types[i], at_cr3(0x1000));
        END(fake, "");
    }
}
static void pip_startup(void)
{
    struct fake *fake = all_packets(OS);

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
    struct fake *fake = all_packets(OS);
    const struct vpt_context smm = at_cr3(0x77000), back = at_cr3(0x5000);

    vpt_smi(&fake->cpu, SOURCE);
    vpt_set_context(&fake->cpu, &smm);
    vpt_rsm(&fake->cpu, true, SOURCE, &back);
    END(fake, "CBR(24)");
}
static void pip_bits(void)
{
    struct fake *fake = all_packets(OS);
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
            struct fake *fake = all_packets(TRACED);

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
    struct fake *fake = all_packets(EVENTS | BRANCHEN);
    struct vpt_context handler = at_cpl(0);

    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    SO_FAR(fake, "MODE(64+IF) FUP(401010)");
    transfer(fake, VPT_INTERRUPT, handler);
    SO_FAR(fake, "CFE(1,31) FUP(401010) MODE(64) TIP(402000)");
    handler.interrupts = true;
    transfer(fake, VPT_IRET, handler);
    END(fake, "CFE(2,0)+ FUP(401010) MODE(64+IF) TIP(402000)");
    fake = all_packets(TRACED);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    transfer(fake, VPT_FAR_BRANCH, handler);
    END(fake, "TIP(402000)");
}
static void tsx_changes(void)
{
    struct fake *fake = all_packets(TRACED);

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
    {0},
};

const struct table generation_tables[] = {
    {"33.4.2 causes", "What packets are sent for: the flow", 0, causes},
    {0},
};
