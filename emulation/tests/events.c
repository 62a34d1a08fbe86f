/* SPDX-License-Identifier: BSD-3-Clause */
/* Event Trace, as far as far transfers and RFLAGS.IF go (33.2.4, Tables 33-49 to 33-51, 33-59). */
#include "harness.h"

#define BOTH  (VPT_CTL_OS | VPT_CTL_USER)
#define EVENT (BOTH | VPT_CTL_EVENTEN)

static void event(struct fake *fake, enum vpt_transfer_type type, uint8_t vector, uint8_t cpl)
{
    struct vpt_transfer transfer = {
        .type = type, .vector = vector, .ip = 0x401010, .target = 0x402000, .cr2 = 0xdeadbeef000};

    transfer.after = context_of(cpl);
    vpt_transfer(&fake->cpu, &transfer);
}

static const struct {
    const char *rule;
    uint64_t ctl;
    enum vpt_transfer_type type;
    uint8_t vector;
    uint8_t cpl; /* after */
    const char *pattern;
} cases[] = {
    {"case 1", EVENT, VPT_IRET, 0, 0, "CFE(2,0)+ FUP(401010)"},
    {"case 1, BranchEn", EVENT | VPT_CTL_BRANCHEN, VPT_IRET, 0, 0,
     "CFE(2,0)+ FUP(401010) TIP(402000)"},
    {"case 3", EVENT, VPT_INTERRUPT, 0xef, 0, "CFE(1,ef)+ FUP(401010)"},
    {"case 4", EVENT | VPT_CTL_BRANCHEN, VPT_INTERRUPT, 0xef, 0,
     "CFE(1,ef) FUP(401010) TIP(402000)"},
    {"case 3, NMI", EVENT, VPT_INTERRUPT, 2, 0, "CFE(1,2)+ FUP(401010)"},
    {"case 5, fault", EVENT, VPT_FAULT, 13, 0, "CFE(1,d)+ FUP(401010)"},
    {"case 5, fault, BranchEn", EVENT | VPT_CTL_BRANCHEN, VPT_FAULT, 13, 0,
     "CFE(1,d) FUP(401010) TIP(402000)"},
    {"case 5, software interrupt", EVENT, VPT_SOFT_INTERRUPT, 0x80, 0, "CFE(1,80)+ FUP(401010)"},
    {"case 5, trap", EVENT, VPT_TRAP, 1, 0, "CFE(1,1)+ FUP(401010)"},
    {"case 6", EVENT, VPT_FAULT, 14, 0, "EVD(0,deadbeef000) CFE(1,e)+ FUP(401010)"},
    {"case 6, BranchEn", EVENT | VPT_CTL_BRANCHEN, VPT_FAULT, 14, 0,
     "EVD(0,deadbeef000) CFE(1,e) FUP(401010) TIP(402000)"},
    {"vector 14 of an interrupt is no page fault", EVENT, VPT_INTERRUPT, 14, 0,
     "CFE(1,e)+ FUP(401010)"},
    {"a far branch is no event", EVENT, VPT_FAR_BRANCH, 0, 0, ""},
    {"EventEn = 0", BOTH, VPT_INTERRUPT, 0xef, 0, ""},
    {"Table 33-49: ContextEn 1 to 0", VPT_CTL_OS | VPT_CTL_EVENTEN, VPT_IRET, 0, 3,
     "CFE(2,0)+ FUP(401010)"},
    {"Table 33-49: 1 to 0, BranchEn", VPT_CTL_OS | VPT_CTL_EVENTEN | VPT_CTL_BRANCHEN,
     VPT_INTERRUPT, 0x21, 3, "CFE(1,21) FUP(401010) PGD()"},
    {"case 2: ContextEn 0 to 1", VPT_CTL_USER | VPT_CTL_EVENTEN, VPT_IRET, 0, 3, "CFE(2,0)"},
    {"case 7: ContextEn 0 before", VPT_CTL_USER | VPT_CTL_EVENTEN, VPT_FAULT, 14, 3, ""},
    {"ContextEn 0 throughout", VPT_CTL_USER | VPT_CTL_EVENTEN, VPT_INTERRUPT, 0x21, 0, ""},
};

static void test_table_33_59(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = fake_open("gracemont");

        fake_start(fake, cases[i].ctl);
        event(fake, cases[i].type, cases[i].vector, cases[i].cpl);
        EXPECT(fake, cases[i].pattern, cases[i].rule);
        fake_close(fake);
    }
}

/* Outside the IP filter BranchEn gives no FUP, so that the CFE brings its own. */
static void test_outside_filter(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_write(fake, VPT_MSR_ADDR0_A, 0x7000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x7fff);
    fake_start(fake,
               EVENT | VPT_CTL_BRANCHEN | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    event(fake, VPT_INTERRUPT, 0x30, 0);
    EXPECT(fake, "CFE(1,30)+ FUP(401010)", "Table 33-49, IP bit");
    fake_close(fake);
}

/* Case 22: STI, CLI, POPF. */
static void test_interrupt_flag(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, EVENT | VPT_CTL_BRANCHEN);
    vpt_interrupt_flag(&fake->cpu, true, 0x401010);
    vpt_interrupt_flag(&fake->cpu, true, 0x401011);
    vpt_interrupt_flag(&fake->cpu, false, 0x401012);
    EXPECT(fake, "MODE(64+IF) FUP(401010) MODE(64) FUP(401012)", "Table 33-59 case 22");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_start(fake, BOTH | VPT_CTL_BRANCHEN);
    vpt_interrupt_flag(&fake->cpu, true, 0x401010);
    EXPECT(fake, "", "case 22 with EventEn = 0");
    fake_close(fake);
}

/* MODE.Exec has the cycles of now (33.3.6). */
static void test_interrupt_flag_in_cycles(void)
{
    struct fake *fake = fake_open("gracemont");

    fake_start(fake, EVENT | VPT_CTL_BRANCHEN | VPT_CTL_CYCEN);
    fake->clocks.cycles += 50;
    vpt_interrupt_flag(&fake->cpu, true, 0x401010);
    EXPECT(fake, "CYC(50) MODE(64+IF) FUP(401010)", "33.3.6");
    fake_close(fake);
}

/* An interrupt gate clears RFLAGS.IF: MODE.Exec among the packets of the event (Table 33-26). */
static void test_interrupt_flag_by_transfer(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context on = context_of(0), off = context_of(0);

    on.interrupts = true;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &on);
    fake_write(fake, VPT_MSR_CTL, EVENT | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x401010, 0x402000, &off);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x402010, 0x403000, &off);
    fake_transfer(fake, VPT_FAR_BRANCH, 0x403010, 0x404000, &on);
    EXPECT(fake, "MODE(64) TIP(402000) TIP(403000) MODE(64+IF) TIP(404000)", "Table 33-26");
    fake_close(fake);
}

/* MODE.Exec depends on FilterEn, not on PacketEn: without BranchEn it stands alone or with a FUP.
 */
static void test_interrupt_flag_without_branches(void)
{
    struct fake *fake = fake_open("gracemont");
    const struct vpt_context off = context_of(0);

    fake_start(fake, EVENT);
    vpt_interrupt_flag(&fake->cpu, true, 0x401010);
    fake_transfer(fake, VPT_INTERRUPT, 0x401012, 0x402000, &off);
    vpt_interrupt_flag(&fake->cpu, true, 0x402010);
    EXPECT(fake, "MODE(64+IF) FUP(401010) CFE(1,0)+ FUP(401012) MODE(64) MODE(64+IF) FUP(402010)",
           "Table 33-26, Table 33-59 cases 3 and 22");
    fake_close(fake);

    fake = fake_open("gracemont");
    fake_write(fake, VPT_MSR_ADDR0_A, 0x7000);
    fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x7fff);
    fake_start(fake, EVENT | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR);
    vpt_interrupt_flag(&fake->cpu, true, 0x401010);
    vpt_jmp_direct(&fake->cpu, 0x7000);
    vpt_jmp_direct(&fake->cpu, 0x401000);
    vpt_jmp_direct(&fake->cpu, 0x7000);
    EXPECT(fake, "MODE(64+IF)", "Table 33-26: what changed outside the filter is told inside");
    fake_close(fake);
}

/* The flag may change without an event where tracing is off; its next change is told all the same.
 */
static void test_interrupt_flag_in_a_module(void)
{
    struct fake *fake = fake_open("gracemont");
    struct vpt_context on = context_of(0);

    on.interrupts = true;
    fake_start(fake, EVENT | VPT_CTL_BRANCHEN);
    vpt_acm_begin(&fake->cpu);
    vpt_set_context(&fake->cpu, &on);
    vpt_acm_end(&fake->cpu, 0x401010);
    fake_mark(fake);
    vpt_interrupt_flag(&fake->cpu, false, 0x401012);
    EXPECT(fake, "CBR(*)? MODE(64) FUP(401012)", "Table 33-59 case 22");
    fake_close(fake);
}

/* Processors without Event Trace never report IF. */
static void test_no_flag_without_event_trace(void)
{
    struct fake *fake = fake_open("skylake");
    struct vpt_context on = context_of(0);

    on.interrupts = true;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &on);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    EXPECT(fake, "PSB+ MODE(64) PGE(401000)", "Table 33-26, CPUID.14H.0:EBX[7] = 0");
    fake_close(fake);
}

void suite_events(void)
{
    static const struct test tests[] = {
        {"Table 33-59", test_table_33_59},
        {"outside the IP filter", test_outside_filter},
        {"RFLAGS.IF", test_interrupt_flag},
        {"RFLAGS.IF in cycles", test_interrupt_flag_in_cycles},
        {"RFLAGS.IF by a transfer", test_interrupt_flag_by_transfer},
        {"RFLAGS.IF without BranchEn", test_interrupt_flag_without_branches},
        {"RFLAGS.IF in a module", test_interrupt_flag_in_a_module},
        {"RFLAGS.IF without Event Trace", test_no_flag_without_event_trace},
        {NULL, NULL},
    };

    add_suite("Event Trace (Table 33-59)", tests);
}
