/* SPDX-License-Identifier: BSD-3-Clause */
/* What causes packets of PTWRITE, power, PEBS and events: Tables 33-40 to 33-51. */
#include "generation.h"

#include <string.h>

/* ---- PTW, power ----------------------------------------------------------------------------- */

static void ptw_sizes(void)
{
    struct fake *fake = all_packets(OS | VPT_CTL_PTWEN);

    vpt_ptwrite(&fake->cpu, 0x1122334455667788, 4, SOURCE);
    BYTES(fake, 0x02, 0x12, 0x88, 0x77, 0x66, 0x55);
    fake = all_packets(OS | VPT_CTL_PTWEN);
    vpt_ptwrite(&fake->cpu, 0x1122334455667788, 8, SOURCE);
    BYTES(fake, 0x02, 0x32, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11);
}
static const struct vpt_power_entry deep = {
    .ip = SOURCE, .mwait = true, .hints = 0x20, .ext = 3, .state = 0x21};

static void exstop_causes(void)
{
    struct fake *fake = all_packets(OS | VPT_CTL_PWREVTEN);

    vpt_power_entry(&fake->cpu, &deep);
    SO_FAR(fake, "MWAIT(20,3) PWRE(21) EXSTOP+ FUP(401010)");
    end_quietly(fake);
    fake = all_packets(OS | VPT_CTL_PWREVTEN);
    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "EXSTOP+ FUP(401010)");
}
static void mwait_causes(void)
{
    struct vpt_power_entry halt = deep;
    struct fake *fake = all_packets(OS | VPT_CTL_PWREVTEN);

    halt.mwait = false;
    vpt_power_entry(&fake->cpu, &halt);
    END(fake, "PWRE(21) EXSTOP+ FUP(401010)");
}
static void pwre_deeper(void)
{
    struct vpt_power_entry deeper = deep;
    const struct vpt_power_exit wake = {
        .last_core_state = 2, .deepest_core_state = 6, .reason = VPT_WAKE_STORE};
    struct fake *fake = all_packets(OS | VPT_CTL_PWREVTEN);

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
        struct fake *fake = all_packets(OS | VPT_CTL_PWREVTEN);

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
    struct fake *fake = all_packets(OS);

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
        struct fake *fake = all_packets(EVENTS);

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
        struct fake *fake = all_packets(EVENTS | BRANCHEN);

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
    struct fake *fake = all_packets(EVENTS);

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

const struct table generation_event_tables[] = {
    {"33.4.2 causes, events", "What packets are sent for: software, power, PEBS and events", 0,
     causes},
    {0},
};
