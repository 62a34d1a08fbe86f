/* SPDX-License-Identifier: BSD-3-Clause */
/* On which enables each packet depends: the dependencies that Tables 33-16 to 33-51 name. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

/* What is missing while the cause of a packet occurs. */
enum missing { NOTHING, TRIGGEREN, CONTEXTEN, FILTEREN };

/* Which of them a packet needs besides TriggerEn, which all need. */
#define CONTEXT 1u
#define FILTER  2u

/* Everything that chapter 33 describes. At CPL 0, or at CPL 3 where ContextEn shall be missing. */
static struct fake *with(uint64_t ctl, enum missing missing)
{
    const struct vpt_context ctx = at_cpl(missing == CONTEXTEN ? 3 : 0);
    struct vpt_caps caps = rich_caps();
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_write(fake, VPT_MSR_ADDR0_A, 0x700000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x700fff);
    fake_write(fake, VPT_MSR_ADDR0_A + 2, 0x600000);
    fake_write(fake, VPT_MSR_ADDR0_A + 3, 0x600fff);
    if (missing == TRIGGEREN)
        fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    if (missing == FILTEREN)
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR;
    ctl |= (uint64_t)VPT_ADDR_CFG_TRACESTOP << (VPT_CTL_ADDR_CFG_SHR + 4);
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    return fake;
}

/* Whether the cause gives a packet whose word begins so. */
static bool sends(uint64_t ctl, enum missing missing, void (*cause)(struct fake *),
                  const char *word)
{
    struct fake *fake = with(ctl, missing);
    const char *words;
    bool found;

    cause(fake);
    words = fake_words(fake, true);
    found = strncmp(words, word, strlen(word)) == 0;
    while (!found && (words = strchr(words, ' ')))
        found = strncmp(++words, word, strlen(word)) == 0;
    fake_stop(fake);
    fake_close(fake);
    return found;
}

/*
 * The packet comes if all is there. It does not without TriggerEn, without what it needs, nor
 * without one of these bits of RTIT_CTL; and what else is missing does not matter.
 */
static void depends(const char *word, void (*cause)(struct fake *), uint64_t bits, unsigned needs)
{
    const uint64_t ctl = OS | BRANCHEN | bits;

    CHECK(sends(ctl, NOTHING, cause, word), "%s", word);
    CHECK(!sends(ctl, TRIGGEREN, cause, word), "%s without TriggerEn", word);
    CHECK(sends(ctl, CONTEXTEN, cause, word) == !(needs & CONTEXT), "%s: ContextEn", word);
    CHECK(sends(ctl, FILTEREN, cause, word) == !(needs & FILTER), "%s: FilterEn", word);
    if (!(bits & BRANCHEN))
        CHECK(sends(ctl & ~BRANCHEN, NOTHING, cause, word), "%s without BranchEn", word);
    for (uint64_t bit = 1; bit; bit <<= 1)
        if (bits & bit)
            CHECK(!sends(ctl & ~bit, NOTHING, cause, word), "%s without bit %llx", word,
                  (unsigned long long)bit);
}

/* ---- What causes packets -------------------------------------------------------------------- */

static void six_branches(struct fake *fake)
{
    for (unsigned i = 0; i < 6; i++)
        vpt_cond_branch(&fake->cpu, 0x401010 + i, true);
}
static void indirect(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, TARGET);
}
static void interrupt(struct fake *fake)
{
    transfer(fake, VPT_INTERRUPT, fake->cpu.ctx);
}
static void page_fault(struct fake *fake)
{
    const struct vpt_transfer far = {.type = VPT_FAULT,
                                     .vector = 14,
                                     .ip = SOURCE,
                                     .target = TARGET,
                                     .cr2 = 0x7000,
                                     .after = fake->cpu.ctx};

    vpt_transfer(&fake->cpu, &far);
}
static void other_cr3(struct fake *fake)
{
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
}
static void other_mode(struct fake *fake)
{
    struct vpt_context after = fake->cpu.ctx;

    after.exec_mode = VPT_EXEC_32;
    transfer(fake, VPT_FAR_BRANCH, after);
}
static void sti(struct fake *fake)
{
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
}
static void transaction(struct fake *fake)
{
    vpt_tx_begin(&fake->cpu, SOURCE);
}
static void into_tracestop(struct fake *fake)
{
    vpt_jmp_indirect(&fake->cpu, 0x600010);
}
static void frequency(struct fake *fake)
{
    vpt_set_core_ratio(&fake->cpu, 9);
}
static void crystal(struct fake *fake)
{
    fake->clocks.art++;
    vpt_time(&fake->cpu);
}
static void cycles(struct fake *fake)
{
    fake->clocks.cycles += 9;
    vpt_exec_stop(&fake->cpu, SOURCE);
}
static void vmptrld(struct fake *fake)
{
    vpt_vmptrld(&fake->cpu, 0x88000);
}
static void maintenance(struct fake *fake)
{
    vpt_maintenance(&fake->cpu, 0x55);
}
/* More bytes than a PSB period; then something with an IP. */
static void many_bytes(struct fake *fake)
{
    for (unsigned i = 0; i < 200; i++)
        vpt_maintenance(&fake->cpu, i);
    vpt_jmp_direct(&fake->cpu, TARGET);
}
static void overflow(struct fake *fake)
{
    vpt_stall(&fake->cpu, true);
    many_bytes(fake);
    vpt_stall(&fake->cpu, false);
    vpt_jmp_direct(&fake->cpu, TARGET);
}
static void ptwrite(struct fake *fake)
{
    vpt_ptwrite(&fake->cpu, 0x55, 4, SOURCE);
}
static void clock_stops(struct fake *fake)
{
    vpt_exec_stop(&fake->cpu, SOURCE);
}
static void mwait(struct fake *fake)
{
    const struct vpt_power_entry entry = {
        .ip = SOURCE, .mwait = true, .hints = 0x20, .state = 0x21};

    vpt_power_entry(&fake->cpu, &entry);
}
static void wake(struct fake *fake)
{
    const struct vpt_power_exit exit = {.reason = VPT_WAKE_INTERRUPT};

    vpt_power_exit(&fake->cpu, &exit);
}
static void pebs(struct fake *fake)
{
    static const struct vpt_block_item items[] = {{0, 1}};
    static const struct vpt_block block = {.type = 4, .count = 1, .items = items};

    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
}

/* ---- Rules ---------------------------------------------------------------------------------- */

static void needs_tnt(void)
{
    depends("TNT(TTTTTT)", six_branches, BRANCHEN, CONTEXT | FILTER);
    CHECK(!sends(OS | BRANCHEN | VPT_CTL_DISTNT, NOTHING, six_branches, "TNT("), "with DisTNT");
}
static void needs_tip(void)
{
    depends("TIP(402000)", indirect, BRANCHEN, CONTEXT | FILTER);
    depends("TIP(402000)", interrupt, BRANCHEN, CONTEXT | FILTER);
}
static void needs_pge(void)
{
    const uint64_t ctl = OS | BRANCHEN;

    CHECK(!sends(ctl, NOTHING, indirect, "PGE("), "PacketEn stays 1");
    CHECK(!sends(ctl, FILTEREN, indirect, "PGE("), "PacketEn stays 0");
    CHECK(!sends(ctl, CONTEXTEN, interrupt, "PGE("), "ContextEn stays 0");
    CHECK(!sends(ctl, TRIGGEREN, interrupt, "PGE("), "TriggerEn stays 0");
}
static void needs_pgd(void)
{
    const uint64_t ctl = OS | BRANCHEN;

    CHECK(sends(ctl, NOTHING, into_tracestop, "PGD(600010)"), "PacketEn becomes 0");
    CHECK(!sends(ctl, FILTEREN, into_tracestop, "PGD("), "it was 0");
    CHECK(!sends(ctl & ~BRANCHEN, NOTHING, into_tracestop, "PGD("), "it was 0 without BranchEn");
    CHECK(!sends(ctl, NOTHING, interrupt, "PGD("), "it stays 1");
}
static void needs_fup(void)
{
    depends("FUP(401010)", interrupt, BRANCHEN, CONTEXT | FILTER);
    depends("FUP(401010)", transaction, BRANCHEN, CONTEXT | FILTER);
    depends("FUP(401010)", ptwrite, VPT_CTL_PTWEN | VPT_CTL_FUPONPTW, CONTEXT | FILTER);
    depends("FUP(401010)", sti, VPT_CTL_EVENTEN, CONTEXT | FILTER);
    depends("FUP(401010)", clock_stops, VPT_CTL_PWREVTEN, CONTEXT);
    depends("FUP(401010)", pebs, 0, CONTEXT);
}
static void needs_pip(void)
{
    struct fake *fake = begin("max", USER | BRANCHEN);

    depends("PIP(5000)", other_cr3, 0, CONTEXT);
    transfer(fake, VPT_IRET, at_cpl(3));
    fake_mark(fake);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    END(fake, "");
}
static void needs_exec(void)
{
    depends("MODE(32)", other_mode, BRANCHEN, CONTEXT | FILTER);
    depends("MODE(64+IF)", sti, VPT_CTL_EVENTEN, CONTEXT | FILTER);
}
static void needs_tsx(void)
{
    depends("TSX(1)", transaction, BRANCHEN, CONTEXT);
}
static void needs_stop(void)
{
    depends("STOP", into_tracestop, 0, CONTEXT);
}
static void needs_cbr(void)
{
    depends("CBR(9)", frequency, 0, 0);
}
static void needs_tsc(void)
{
    depends("TSC(", frequency, VPT_CTL_TSCEN, 0);
}
static void needs_mtc(void)
{
    depends("MTC(1)", crystal, VPT_CTL_MTCEN, 0);
}
static void needs_tma(void)
{
    depends("TMA(", frequency, VPT_CTL_TSCEN | VPT_CTL_MTCEN, 0);
}
static void needs_cyc(void)
{
    depends("CYC(9)", cycles, VPT_CTL_CYCEN | VPT_CTL_PWREVTEN, 0);
}
static void needs_vmcs(void)
{
    struct fake *fake = begin("max", TRACED);

    depends("VMCS(88000)", vmptrld, 0, CONTEXT);
    vpt_vmptrld(&fake->cpu, 0x88000);
    END(fake, "");
}
static void needs_ovf(void)
{
    depends("OVF", overflow, 0, 0);
}
static void needs_psb(void)
{
    depends("PSB ", many_bytes, 0, 0);
}
static void needs_psbend(void)
{
    depends("PSBEND", many_bytes, 0, 0);
}
static void needs_mnt(void)
{
    depends("MNT(55)", maintenance, 0, 0);
}

/* PADs are no words: the bytes say it. */
static void needs_pad(void)
{
    for (unsigned trigger = 0; trigger < 2; trigger++) {
        struct vpt_caps caps = rich_caps();
        struct vpt_context ctx = context_of(3);
        struct reader reader;
        struct packet packet;
        struct fake *fake;
        unsigned pads = 0;

        caps.psb_align_bytes = 64;
        fake = fake_open_caps(&caps);
        if (!trigger)
            fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
        vpt_set_context(&fake->cpu, &ctx);
        fake_start(fake, OS);
        many_bytes(fake);
        vpt_flush(&fake->cpu);
        reader_open(&reader, fake->tap, fake->tap_len);
        while (reader_next(&reader, &packet))
            pads += packet.kind == PACKET_PAD;
        CHECK((pads > 0) == trigger && !reader.bad, "%u PADs", pads);
        end_quietly(fake);
    }
}
/* What an implementation puts PADs around stays what it is. */
static void pads_change_nothing(void)
{
    static char dense[8192];

    for (unsigned layout = VPT_LAYOUT_DENSE; layout <= VPT_LAYOUT_WHOLE; layout++) {
        struct vpt_caps caps = rich_caps();
        struct fake *fake;
        const char *words;

        caps.tsx = true;
        caps.choices.layout = (uint8_t)layout;
        fake = begin_caps(&caps, TRACED | VPT_CTL_CYCEN | VPT_CTL_TSCEN | VPT_CTL_MTCEN |
                                     VPT_CTL_PTWEN | VPT_CTL_FUPONPTW | VPT_CTL_PWREVTEN);
        for (unsigned n = 0; n < 8; n++) {
            fake->clocks.cycles += (uint64_t)n << 4 * n;
            fake->clocks.art += n % 3 == 0;
            for (unsigned bits = 0; bits < n; bits++)
                vpt_cond_branch(&fake->cpu, SOURCE, bits & 1);
            vpt_jmp_indirect(&fake->cpu, TARGET + (0x10001ull << 4 * (n % 8)));
            other_cr3(fake);
            transfer(fake, VPT_INTERRUPT, in_mode(n & 1 ? VPT_EXEC_32 : VPT_EXEC_64));
            ptwrite(fake);
            mwait(fake);
            wake(fake);
            maintenance(fake);
            pebs(fake);
        }
        words = fake_words(fake, true);
        if (layout == VPT_LAYOUT_DENSE)
            snprintf(dense, sizeof(dense), "%s", words);
        CHECK(strlen(words) < sizeof(dense) && strcmp(words, dense) == 0, "layout %u: %s", layout,
              words);
        end_quietly(fake);
    }
}
static void needs_ptw(void)
{
    depends("PTW4(55)", ptwrite, VPT_CTL_PTWEN, CONTEXT | FILTER);
}
static void needs_exstop(void)
{
    depends("EXSTOP", clock_stops, VPT_CTL_PWREVTEN, 0);
    depends("EXSTOP+", clock_stops, VPT_CTL_PWREVTEN, CONTEXT);
}
static void needs_mwait(void)
{
    depends("MWAIT(20,0)", mwait, VPT_CTL_PWREVTEN, CONTEXT);
}
static void needs_pwre(void)
{
    depends("PWRE(21)", mwait, VPT_CTL_PWREVTEN, 0);
}
static void needs_pwrx(void)
{
    depends("PWRX(0,0,1)", wake, VPT_CTL_PWREVTEN, 0);
}
static void needs_bbp(void)
{
    depends("BBP(4,8)", pebs, 0, 0);
}
static void needs_bip(void)
{
    depends("BIP(0,1)", pebs, 0, 0);
}
static void needs_bep(void)
{
    depends("BEP", pebs, 0, 0);
    depends("BEP+", pebs, 0, CONTEXT);
}
static void needs_cfe(void)
{
    depends("CFE(1,31)", interrupt, VPT_CTL_EVENTEN, CONTEXT);
}
static void context_changes(uint64_t ctl, uint8_t from, uint8_t to, const char *pattern)
{
    struct fake *fake = fake_open("max");
    const struct vpt_context ctx = at_cpl(from);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    transfer(fake, VPT_INTERRUPT, at_cpl(to));
    END(fake, pattern);
}
static void cfe_either_way(void)
{
    const uint64_t ctl = OS | VPT_CTL_EVENTEN;

    context_changes(ctl, 0, 3, "CFE(1,31)+ FUP(401010)");
    context_changes(ctl, 3, 0, "CFE(1,31)");
    context_changes(ctl, 3, 3, "");
    context_changes(ctl | BRANCHEN, 0, 3, "CFE(1,31) FUP(401010) PGD()");
    context_changes(ctl | BRANCHEN, 3, 0, "CFE(1,31) MODE(64) PGE(402000)");
}
static void needs_evd(void)
{
    depends("EVD(0,7000)", page_fault, VPT_CTL_EVENTEN, CONTEXT);
}

static const char cfe_of_exit[] =
    "Table 33-59 case 15 has the CFE of a VM exit into context; the table is followed";
static const struct rule dependencies[] = {
    {"33-16 TNT", "PacketEn, and DisTNT is 0", TEST(needs_tnt)},
    {"33-17 TIP", "PacketEn", TEST(needs_tip)},
    {"33-20 TIP.PGE", "only where PacketEn becomes 1", TEST(needs_pge)},
    {"33-21 TIP.PGD", "only where PacketEn becomes 0", TEST(needs_pgd)},
    {"33-22 FUP", "ContextEn; FilterEn and BranchEn as the packet needs that it goes with",
     TEST(needs_fup)},
    {"33-24 PIP", "ContextEn and OS", TEST(needs_pip)},
    {"33-26 MODE.Exec", "ContextEn and FilterEn; BranchEn for modes, EventEn for RFLAGS.IF",
     TEST(needs_exec)},
    {"33-27 MODE.TSX", "ContextEn (and BranchEn, Table 33-6)", TEST(needs_tsx)},
    {"33-28 TraceStop", "ContextEn", TEST(needs_stop)},
    {"33-29 CBR", "TriggerEn alone", TEST(needs_cbr)},
    {"33-30 TSC", "TSCEn", TEST(needs_tsc)},
    {"33-31 MTC", "MTCEn", TEST(needs_mtc)},
    {"33-32 TMA", "MTCEn and TSCEn", TEST(needs_tma)},
    {"33-33 CYC", "CYCEn", TEST(needs_cyc)},
    {"33-34 VMCS", "ContextEn, in VMX operation", TEST(needs_vmcs)},
    {"33-35 OVF", "TriggerEn alone", TEST(needs_ovf)},
    {"33-36 PSB", "TriggerEn alone", TEST(needs_psb)},
    {"33-37 PSBEND", "TriggerEn alone", TEST(needs_psbend)},
    {"33-38 MNT", "TriggerEn alone", TEST(needs_mnt)},
    {"33-39 PAD", "TriggerEn alone", TEST(needs_pad)},
    {"33-39 PAD, other packets", "are the same with PADs and without", TEST(pads_change_nothing)},
    {"33-40 PTW", "ContextEn, FilterEn and PTWEn", TEST(needs_ptw)},
    {"33-41 EXSTOP", "PwrEvtEn", TEST(needs_exstop)},
    {"33-42 MWAIT", "PwrEvtEn and ContextEn", TEST(needs_mwait)},
    {"33-43 PWRE", "PwrEvtEn", TEST(needs_pwre)},
    {"33-44 PWRX", "PwrEvtEn", TEST(needs_pwrx)},
    {"33-45 BBP", "TriggerEn alone", TEST(needs_bbp)},
    {"33-46 BIP", "TriggerEn alone", TEST(needs_bip)},
    {"33-48 BEP", "TriggerEn alone", TEST(needs_bep)},
    {"33-49 CFE", "EventEn and ContextEn", TEST(needs_cfe)},
    {"33-49 CFE, ContextEn changes", "a CFE in either direction", TEST(cfe_either_way)},
    {"33-49 CFE of a VM exit", "ContextEn before it", UNMET(cfe_of_exit)},
    {"33-51 EVD", "EventEn and ContextEn", TEST(needs_evd)},
    {0},
};

const struct table depends_tables[] = {
    {"33.4.2 dependencies", "What packets depend on, besides TriggerEn", 0, dependencies},
    {0},
};
