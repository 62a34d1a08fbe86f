/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet generation scenarios (33.7): Tables 33-55 and 33-56. */
#include "conformance.h"

/* ---- Table 33-55 ---------------------------------------------------------------------------- */

static void branches(struct fake *fake, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        vpt_cond_branch(&fake->cpu, 0x401010 + i, true);
}

static void case_1(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_time(&fake->cpu);
    END(fake, "");
}
static void case_2(void)
{
    struct fake *fake = begin("skylake", TRACED);

    branches(fake, 6);
    END(fake, "TNT(TTTTTT)");
}
static void case_3(void)
{
    struct fake *fake = begin("skylake", TRACED);

    branches(fake, 5);
    CHECK(fake_words(fake, false)[0] == '\0', "nothing yet");
    END(fake, "TNT(TTTTT)");
}
static void case_4(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_call_indirect(&fake->cpu, 0x403000, 0x402002);
    END(fake, "TIP(402000) TIP(403000)");
}
static void case_5(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_jmp_direct(&fake->cpu, TARGET);
    vpt_call_direct(&fake->cpu, 0x403000, 0x402005);
    END(fake, "");
}
static void case_6(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_ret(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}
static void case_7(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_call_direct(&fake->cpu, TARGET, 0x401005);
    branches(fake, 5);
    vpt_ret(&fake->cpu, 0x401005);
    END(fake, "TNT(TTTTTT)");
}

static void far(enum vpt_transfer_type type, uint64_t cr3, enum vpt_exec_mode mode,
                const char *pattern)
{
    struct fake *fake = begin("skylake", TRACED);
    struct vpt_context after = in_mode(mode);

    after.cr3 = cr3;
    transfer(fake, type, after);
    END(fake, pattern);
}
static void case_8(void)
{
    far(VPT_FAR_BRANCH, 0x1000, VPT_EXEC_64, "TIP(402000)");
}
static void case_9(void)
{
    far(VPT_FAR_BRANCH, 0x5000, VPT_EXEC_64, "PIP(5000) TIP(402000)");
}
static void case_10(void)
{
    far(VPT_FAR_BRANCH, 0x5000, VPT_EXEC_32, "PIP(5000) MODE(32) TIP(402000)");
}
static void case_11(void)
{
    far(VPT_INTERRUPT, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
}
static void case_12(void)
{
    far(VPT_INTERRUPT, 0x5000, VPT_EXEC_32, "FUP(401010) PIP(5000) MODE(32) TIP(402000)");
}
static void case_13(void)
{
    far(VPT_FAULT, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
    far(VPT_SOFT_INTERRUPT, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
}
static void case_14(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    END(fake, "PIP(5000)");
}
static struct fake *in_vmx(void)
{
    struct fake *fake = fake_open("skylake");

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, TRACED);
    return fake;
}
static void case_16(void)
{
    const struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cr3(0x9000)};
    struct fake *fake = in_vmx();

    vpt_vm_entry(&fake->cpu, &entry);
    END(fake, "PIP(9000,NR) TIP(402000)");
}
static void case_15(void)
{
    const struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cr3(0x9000)};
    const struct vpt_vm_exit exit = {.ip = 0x402010, .host_ip = 0x500000, .host = at_cr3(0x1000)};
    struct fake *fake = in_vmx();

    vpt_vm_entry(&fake->cpu, &entry);
    fake_mark(fake);
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, "FUP(402010) PIP(1000) TIP(500000)");
}
static void case_17(void)
{
    far(VPT_ENCLAVE, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
}

static struct fake *tsx(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.tsx = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, TRACED);
    return fake;
}
static void case_18(void)
{
    struct fake *fake = tsx();

    vpt_tx_commit(&fake->cpu, SOURCE);
    END(fake, "");
}
static void case_19(void)
{
    struct fake *fake = tsx();

    vpt_tx_begin(&fake->cpu, SOURCE);
    END(fake, "TSX(1) FUP(401010)");
}
static void case_20(void)
{
    struct fake *fake = tsx();

    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_commit(&fake->cpu, SOURCE + 9);
    END(fake, "TSX(0) FUP(401019)");
}
static void case_21(void)
{
    struct fake *fake = tsx();

    vpt_tx_begin(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_tx_abort(&fake->cpu, SOURCE + 9, TARGET);
    END(fake, "TSX(2) FUP(401019) TIP(402000)");
}
static void case_22(void)
{
    far(VPT_INIT, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
}
static void case_23(void)
{
    far(VPT_INIT_WAIT, 0x1000, VPT_EXEC_64, "FUP(401010) PGD()");
}
static void case_24(void)
{
    struct fake *fake = begin("skylake", TRACED);

    transfer(fake, VPT_INIT_WAIT, at_cpl(0));
    fake_mark(fake);
    transfer(fake, VPT_SIPI, at_cpl(0));
    END(fake, "PGE(402000)");
}
static void case_25(void)
{
    const struct vpt_power_exit wake = {.reason = 1, .core_ratio = 11};
    struct fake *fake = begin("skylake", TRACED | VPT_CTL_TSCEN | VPT_CTL_MTCEN);

    fake->clocks = (struct vpt_clocks){.tsc = 0x1000, .art = 0x20, .fast = 3, .cycles = 5};
    vpt_power_exit(&fake->cpu, &wake);
    END(fake, "TSC(1000) TMA(20,3) CBR(11)");
    fake = begin("skylake", TRACED);
    vpt_set_core_ratio(&fake->cpu, 12);
    END(fake, "CBR(12)");
}
static void case_26(void)
{
    far(VPT_UINTR, 0x1000, VPT_EXEC_64, "FUP(401010) TIP(402000)");
}

static const struct rule table_55[] = {
    {"1 no jump", "none", TEST(case_1)},
    {"2 sixth conditional branch", "TNT", TEST(case_2)},
    {"3 first to fifth conditional branch", "none", TEST(case_3)},
    {"4 near indirect JMP or CALL", "TIP", TEST(case_4)},
    {"5 direct near JMP or CALL", "none", TEST(case_5)},
    {"6 near RET", "uncompressed: TIP", TEST(case_6)},
    {"7 near RET", "compressed, sixth in TNT: TNT", TEST(case_7)},
    {"8 far branch", "TIP", TEST(case_8)},
    {"9 far branch", "new CR3: PIP, TIP", TEST(case_9)},
    {"10 far branch", "new CR3 and mode: PIP, MODE.Exec, TIP", TEST(case_10)},
    {"11 interrupt, NMI", "FUP, TIP", TEST(case_11)},
    {"12 interrupt, NMI", "new CR3 and mode: FUP, PIP, MODE.Exec, TIP", TEST(case_12)},
    {"13 fault, software interrupt", "FUP, TIP", TEST(case_13)},
    {"14 MOV CR3", "PIP", TEST(case_14)},
    {"15 VM exit", "as Table 33-53", TEST(case_15)},
    {"16 VM entry", "as Table 33-53", TEST(case_16)},
    {"17 enclaves", "debug enclaves: FUP, TIP", TEST(case_17)},
    {"18 TSX", "no change of the mode: none", TEST(case_18)},
    {"19 TSX", "begin: MODE.TSX, FUP", TEST(case_19)},
    {"20 TSX", "commit: MODE.TSX, FUP", TEST(case_20)},
    {"21 TSX", "abort: MODE.TSX, FUP, TIP", TEST(case_21)},
    {"22 INIT", "bootstrap processor: FUP, TIP", TEST(case_22)},
    {"23 INIT", "other processors: FUP; TIP.PGD, since PacketEn becomes 0", TEST(case_23)},
    {"24 SIPI", "TIP.PGE", TEST(case_24)},
    {"25 wake, P-state", "TSC, TMA, CBR as enabled", TEST(case_25)},
    {"26 UINTR", "FUP (and the TIP that any transfer ends in)", TEST(case_26)},
    {"27 UIRET", "FUP",
     UNMET(
         "the address behind UIRET never runs; UIRET ends in a TIP as other indirect transfers do "
         "(docs/design.md)")},
    {0},
};

/* ---- Table 33-56 ---------------------------------------------------------------------------- */

static void enable(uint8_t cpl, uint64_t ctl, const char *pattern)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context ctx = at_cpl(cpl);
    const char *words;

    fake_write(fake, VPT_MSR_STATUS, 100ull << VPT_STATUS_BYTECNT_SHR); /* no PSB+ */
    fake_output(fake);
    fake->clocks = (struct vpt_clocks){.tsc = 0x1000, .art = 0x20, .fast = 3, .cycles = 5};
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    words = fake_words(fake, false);
    CHECK(words_match(pattern, words), "expected [%s], got [%s]", pattern, words);
    fake_stop(fake);
    fake_close(fake);
}
static void pkt_1(void)
{
    enable(0, USER | BRANCHEN | VPT_CTL_TSCEN | VPT_CTL_MTCEN, "TSC(1000) TMA(20,3) CBR(26)");
}
static void pkt_2(void)
{
    enable(0, TRACED | VPT_CTL_TSCEN | VPT_CTL_MTCEN,
           "TSC(1000) TMA(20,3) CBR(26) MODE(64) PGE(401000)");
    enable(0, TRACED, "CBR(26) MODE(64) PGE(401000)");
}
static void pkt_3(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const char *words;

    fake_stop(fake);
    words = fake_words(fake, false);
    CHECK(words_match("FUP(40fff0) PGD()", words), "%s", words);
    fake_close(fake);
}

static struct fake *ranged(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x401000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x401fff);
    fake_start(fake, TRACED | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    return fake;
}
static void pkt_4(void)
{
    struct fake *fake = ranged();

    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = ranged();
    vpt_jmp_direct(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
}
static void pkt_5(void)
{
    struct fake *fake = ranged();

    vpt_jmp_indirect(&fake->cpu, TARGET);
    fake_mark(fake);
    vpt_jmp_indirect(&fake->cpu, 0x401040);
    END(fake, "PGE(401040)");
}
static void pkt_6(void)
{
    struct fake *fake = begin("skylake", OS | BRANCHEN);

    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    END(fake, "PGD()");
}
/* A VM exit or VM entry of a trace of one privilege level, which the other side does not have. */
static void leaves_guest(uint64_t ip, bool by_event, const char *pattern)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cpl(3)};
    const struct vpt_vm_exit exit = {
        .ip = ip, .by_event = by_event, .host_ip = 0x500000, .host = at_cpl(0)};

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, USER | BRANCHEN);
    vpt_vm_entry(&fake->cpu, &entry);
    SO_FAR(fake, "MODE(64) PGE(402000)");
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, pattern);
}
static void enters_guest(const char *pattern)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cpl(3)};

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, OS | BRANCHEN);
    vpt_vm_entry(&fake->cpu, &entry);
    END(fake, pattern);
}
/* TraceEn is changed by the MSR-load area of a VM entry, or of the VM exit behind one. */
static void area(bool exits, uint64_t before, uint64_t after, const char *pattern)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_msr_load load = {VPT_MSR_CTL, after};
    struct vpt_vm_entry entry = {
        .ip = SOURCE, .next_ip = SOURCE + 3, .guest_ip = TARGET, .guest = at_cr3(0x9000)};
    struct vpt_vm_exit exit = {.ip = 0x402010, .host_ip = 0x500000, .host = at_cr3(0x1000)};

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, TRACED);
    if (!(before & VPT_CTL_TRACEEN))
        fake_stop(fake);
    entry.loads = exits ? NULL : &load;
    entry.load_count = !exits;
    exit.loads = &load;
    exit.load_count = 1;
    fake_mark(fake);
    vpt_vm_entry(&fake->cpu, &entry);
    if (exits) {
        fake_mark(fake);
        vpt_vm_exit(&fake->cpu, &exit);
    }
    CHECK(fake_read(fake, VPT_MSR_CTL) == after, "the area is loaded");
    END(fake, pattern);
}
#define TRACE_OFF (TRACED | VPT_CTL_TOPA)
#define TRACE_ON  (TRACE_OFF | VPT_CTL_TRACEEN)

static void pkt_7(void)
{
    struct fake *fake = begin("skylake", OS | BRANCHEN);

    transfer(fake, VPT_INTERRUPT, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
    fake = begin("skylake", OS | BRANCHEN);
    transfer(fake, VPT_TRAP, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
    leaves_guest(0x402014, true, "FUP(402014) PGD()");
}
static void pkt_8(void)
{
    struct fake *fake = begin("skylake", OS | BRANCHEN);

    transfer(fake, VPT_FAULT, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
    fake = begin("skylake", OS | BRANCHEN);
    transfer(fake, VPT_SOFT_INTERRUPT, at_cpl(3));
    END(fake, "FUP(401010) PGD()");
    leaves_guest(0x402010, false, "FUP(402010) PGD()");
    enters_guest("FUP(401010) PGD()");
}
static void pkt_9(void)
{
    struct fake *fake = begin("skylake", TRACED);

    vpt_smi(&fake->cpu, SOURCE);
    END(fake, "FUP(401010) PGD()");
    area(true, TRACE_ON, TRACE_OFF, "FUP(402010) PIP(1000) PGD()");
    area(false, TRACE_ON, TRACE_OFF, "FUP(401013) PIP(9000,NR) PGD()");
}
static void pkt_10(void)
{
    struct fake *fake = begin("skylake", TRACED);
    const struct vpt_context back = at_cpl(0);

    vpt_smi(&fake->cpu, SOURCE);
    fake_mark(fake);
    vpt_rsm(&fake->cpu, true, SOURCE, &back);
    END(fake, "CBR(26) MODE(64) PGE(401010)");
    area(true, TRACE_OFF, TRACE_ON, "CBR(26) MODE(64) PGE(500000)");
    area(false, TRACE_OFF, TRACE_ON, "CBR(26) MODE(64) PGE(402000)");
}
static struct fake *guest_only(struct vpt_vm_entry *entry)
{
    struct fake *fake = fake_open("skylake");

    *entry = (struct vpt_vm_entry){.ip = SOURCE,
                                   .next_ip = SOURCE + 3,
                                   .entry = VPT_ENTRY_LOAD_CTL | VPT_ENTRY_CONCEAL,
                                   .exit = VPT_EXIT_CLEAR_CTL | VPT_EXIT_CONCEAL,
                                   .secondary = VPT_SECONDARY_CONCEAL,
                                   .guest_ctl = TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN,
                                   .guest_ip = TARGET,
                                   .guest = at_cr3(0x9000)};
    vpt_vmxon(&fake->cpu, 0x400000);
    fake_output(fake);
    return fake;
}
static void pkt_11(void)
{
    const struct vpt_vm_exit exit = {.ip = 0x402010,
                                     .exit = VPT_EXIT_CLEAR_CTL | VPT_EXIT_CONCEAL,
                                     .host_ip = 0x500000,
                                     .host = at_cr3(0x1000)};
    struct vpt_vm_entry entry;
    struct fake *fake = guest_only(&entry);

    vpt_vm_entry(&fake->cpu, &entry);
    fake_mark(fake);
    vpt_vm_exit(&fake->cpu, &exit);
    END(fake, "FUP(402010) PGD()");
}
static void pkt_12(void)
{
    struct vpt_vm_entry entry;
    struct fake *fake = guest_only(&entry);

    vpt_vm_entry(&fake->cpu, &entry);
    END(fake, "PSB+ MODE(64) PGE(402000)");
}

static const struct rule table_56[] = {
    {"1 TraceEn set", "out of context: TSC, TMA, CBR as enabled", TEST(pkt_1)},
    {"2 TraceEn set", "in context: TSC, TMA, CBR, MODE.Exec, TIP.PGE", TEST(pkt_2)},
    {"3 TraceEn cleared", "FUP, TIP.PGD without IP", TEST(pkt_3)},
    {"4 taken branch", "out of the range: TIP.PGD with the target", TEST(pkt_4)},
    {"5 taken branch", "into the range: TIP.PGE", TEST(pkt_5)},
    {"6 far branch", "out of context: TIP.PGD without IP", TEST(pkt_6)},
    {"7 trap-like event, VM exit", "out of context: FUP of the next, TIP.PGD without IP",
     TEST(pkt_7)},
    {"8 fault-like event, VM exit, VM entry",
     "out of context: FUP of the current, TIP.PGD without IP", TEST(pkt_8)},
    {"9 SMI, VM exit, VM entry", "TraceEn is cleared: FUP, TIP.PGD without IP", TEST(pkt_9)},
    {"10 RSM, VM exit, VM entry", "TraceEn is set: as case 2", TEST(pkt_10)},
    {"11 VM exit", "guest-only: FUP of the guest, TIP.PGD without IP", TEST(pkt_11)},
    {"12 VM entry", "guest-only: TIP.PGE of the guest", TEST(pkt_12)},
    {0},
};

const struct table scenario_tables[] = {
    {"33-55", "Packets of operations", 27, table_55},
    {"33-56", "Packets where PacketEn changes", 12, table_56},
    {0},
};
