/* SPDX-License-Identifier: BSD-3-Clause */
/* The enables: PacketEn, TriggerEn, ContextEn, BranchEn, FilterEn (33.2.6). */
#include "enables.h"

#include <string.h>

/* ---- Setting them --------------------------------------------------------------------------- */

struct fake *enabled(const struct vpt_caps *caps, uint64_t ctl, unsigned enables)
{
    struct fake *fake = fake_open_caps(caps);
    struct vpt_context ctx = context_as(enables, 0);

    if (!(enables & EN_TRIGGER))
        fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    if (!(enables & EN_FILTER)) {
        fake_write(fake, VPT_MSR_ADDR0_A, 0x700000);
        fake_write(fake, VPT_MSR_ADDR0_A + 1, 0x700fff);
        ctl |= (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR;
    }
    if (enables & EN_BRANCH)
        ctl |= BRANCHEN;
    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl | OS | USER | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    return fake;
}

struct vpt_context context_as(unsigned enables, uint8_t cpl)
{
    struct vpt_context ctx = context_of(cpl);

    ctx.enclave = !(enables & EN_CONTEXT);
    return ctx;
}

unsigned count_kind(struct fake *fake, enum packet_kind kind)
{
    struct reader reader;
    struct packet packet;
    bool in_psb = false;
    unsigned found = 0;

    vpt_flush_branches(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet)) {
        if (packet.kind == PACKET_PSBEND || packet.kind == PACKET_OVF)
            in_psb = kind == PACKET_PSBEND ? in_psb : false;
        if (packet.offset >= fake->mark && packet.kind == kind && !in_psb)
            found++;
        if (packet.kind == PACKET_PSB && kind != PACKET_PSBEND)
            in_psb = true;
    }
    CHECK(!reader.bad, "a packet that cannot be read");
    return found;
}

/* Branches, transfers and modes of every kind, which change no enable. */
static void control_flow(struct fake *fake, unsigned enables)
{
    struct vpt_context other = context_as(enables, 0);

    other.exec_mode = VPT_EXEC_32;
    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_cond_branch(&fake->cpu, SOURCE, false);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_call_indirect(&fake->cpu, TARGET, SOURCE + 2);
    vpt_ret(&fake->cpu, TARGET + 8);
    transfer(fake, VPT_INTERRUPT, context_as(enables, 0));
    transfer(fake, VPT_FAR_BRANCH, other);
    transfer(fake, VPT_FAR_BRANCH, context_as(enables, 0));
}

static const enum packet_kind flow_kinds[] = {PACKET_TNT, PACKET_TIP, PACKET_PGE,
                                              PACKET_PGD, PACKET_FUP, PACKET_EXEC};

static unsigned count_flow(struct fake *fake)
{
    unsigned found = 0;

    for (size_t i = 0; i < sizeof(flow_kinds) / sizeof(flow_kinds[0]); i++)
        found += count_kind(fake, flow_kinds[i]);
    return found;
}

/* What does not depend on the flow: a PIP, time, a PSB. */
static void other_packets(struct fake *fake, const char *pattern)
{
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    SO_FAR(fake, pattern);
    for (unsigned i = 0; i < 600; i++)
        vpt_set_core_ratio(&fake->cpu, 20);
    vpt_jmp_indirect(&fake->cpu, TARGET); /* where the next instruction is known */
    CHECK(count_kind(fake, PACKET_PSB) > 0 && count_kind(fake, PACKET_CBR) > 500, "PSB and CBR");
    end_quietly(fake);
}

/* ---- PacketEn ------------------------------------------------------------------------------- */

static void packet_en(void)
{
    const struct vpt_caps caps = plain_caps("gracemont");

    for (unsigned enables = 0; enables <= EN_ALL; enables++) {
        struct fake *fake = enabled(&caps, 0, enables);

        CHECK(vpt_packet_en(&fake->cpu) == (enables == EN_ALL), "enables %x", enables);
        control_flow(fake, enables);
        for (size_t i = 0; i < sizeof(flow_kinds) / sizeof(flow_kinds[0]); i++) {
            const bool toggles = flow_kinds[i] == PACKET_PGE || flow_kinds[i] == PACKET_PGD;
            const unsigned found = count_kind(fake, flow_kinds[i]);

            CHECK((found > 0) == (enables == EN_ALL && !toggles), "enables %x: %u of kind %d",
                  enables, found, (int)flow_kinds[i]);
        }
        end_quietly(fake);
    }
}
static void packet_others(void)
{
    const struct vpt_caps caps = plain_caps("gracemont");

    for (unsigned enables = 0; enables <= EN_ALL; enables++)
        if ((enables & EN_TRIGGER) && (enables & EN_CONTEXT))
            other_packets(enabled(&caps, VPT_CTL_MTCEN, enables), "MTC(1) PIP(5000)");
}
static void filter_always(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.leaf14_0_ebx &= ~VPT_CAP_IPFILTER;
    caps.leaf14_1_eax &= ~7u;
    fake = enabled(&caps, 0, EN_ALL);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "FilterEn");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

/* RTIT_STATUS is the same with PacketEn and without, where the other enables are. */
static void packet_hidden(void)
{
    uint64_t status[2];

    for (unsigned on = 0; on < 2; on++) {
        struct fake *fake = begin("gracemont", on ? OS | BRANCHEN : OS);

        CHECK(vpt_packet_en(&fake->cpu) == on, "PacketEn");
        status[on] = fake_read(fake, VPT_MSR_STATUS);
        end_quietly(fake);
    }
    CHECK(status[0] == status[1], "%llx, %llx", (unsigned long long)status[0],
          (unsigned long long)status[1]);
}

static const struct rule section_packet[] = {
    {"formula",
     "PacketEn is TriggerEn, ContextEn, FilterEn and BranchEn; with it all packets of "
     "the flow appear, without it none",
     TEST(packet_en)},
    {"others", "timing and bookkeeping packets do not need it", TEST(packet_others)},
    {"software", "cannot see it", TEST(packet_hidden)},
    {"without IP filtering", "FilterEn counts as 1", TEST(filter_always)},
    {0},
};

/* ---- TriggerEn ------------------------------------------------------------------------------ */

static void trigger_set(void)
{
    struct fake *fake = begin("skylake", TRACED);

    CHECK(fake_status(fake, VPT_STATUS_TRIGGEREN), "set with TraceEn");
    fake_stop(fake);
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN), "cleared with it");
    fake_close(fake);
    fake = fake_open("skylake");
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA + 0x80); /* not on a page */
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN) && fake_status(fake, VPT_STATUS_ERROR),
          "cleared by an error");
    end_quietly(fake);
}
/* Everything that an owner can tell, to a processor that is not triggered. */
static void trigger_clear(void)
{
    static const struct vpt_block_item item = {0, 1};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};
    const struct vpt_power_entry sleep = {.ip = SOURCE, .mwait = true, .state = 0x20};
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_TIMER};
    const struct vpt_caps caps = rich_caps();
    struct fake *fake = enabled(&caps,
                                VPT_CTL_CYCEN | VPT_CTL_MTCEN | VPT_CTL_TSCEN | VPT_CTL_EVENTEN |
                                    VPT_CTL_PTWEN | VPT_CTL_PWREVTEN,
                                EN_ALL & ~EN_TRIGGER);

    control_flow(fake, EN_ALL);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    vpt_ptwrite(&fake->cpu, 1, 8, SOURCE);
    fake->clocks = (struct vpt_clocks){.tsc = 1 << 20, .art = 1 << 16, .cycles = 1 << 20};
    vpt_time(&fake->cpu);
    vpt_set_core_ratio(&fake->cpu, 9);
    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_abort(&fake->cpu, SOURCE, TARGET);
    vpt_power_entry(&fake->cpu, &sleep);
    vpt_power_exit(&fake->cpu, &wake);
    vpt_exec_stop(&fake->cpu, SOURCE);
    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
    vpt_shutdown(&fake->cpu, SOURCE);
    vpt_maintenance(&fake->cpu, 1);
    END(fake, "");
}

static const struct rule section_trigger[] = {
    {"set and cleared", "as TraceEn, and cleared by an error", TEST(trigger_set)},
    {"clear", "no packet of any kind", TEST(trigger_clear)},
    {0},
};

/* ---- ContextEn ------------------------------------------------------------------------------ */

static void context_formula(void)
{
    for (unsigned bits = 0; bits < 64; bits++) {
        const bool os = bits & 1, user = bits & 2, filter = bits & 4, match = bits & 8;
        const bool enclave = bits & 16;
        const uint8_t cpl = bits & 32 ? 3 : 0;
        const bool expected =
            !((!os && cpl == 0) || (!user && cpl > 0) || enclave || (filter && !match));
        struct fake *fake = fake_open("skylake");
        struct vpt_context ctx = at_cpl(cpl);

        ctx.enclave = enclave;
        fake_output(fake);
        fake_write(fake, VPT_MSR_CR3_MATCH, match ? 0x1000 : 0x2000);
        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, VPT_MSR_CTL,
                   BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN | (os ? OS : 0) | (user ? USER : 0) |
                       (filter ? VPT_CTL_CR3FILTER : 0));
        CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN) == expected, "combination %x", bits);
        end_quietly(fake);
    }
}
static void context_sets(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    transfer(fake, VPT_IRET, at_cpl(3));
    SO_FAR(fake, "MODE(64) PGE(402000)");
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    SO_FAR(fake, "FUP(401010) PGD()");
    transfer(fake, VPT_IRET, at_cpl(3));
    END(fake, "PGE(402000)");
}
static void context_clear(void)
{
    const struct vpt_caps caps = rich_caps();
    struct fake *fake =
        enabled(&caps, VPT_CTL_EVENTEN | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW, EN_ALL & ~EN_CONTEXT);

    control_flow(fake, EN_ALL & ~EN_CONTEXT);
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
    vpt_ptwrite(&fake->cpu, 1, 8, SOURCE);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "");
}
static void context_others(void)
{
    const struct vpt_caps caps = plain_caps("gracemont");

    other_packets(enabled(&caps, VPT_CTL_MTCEN, EN_ALL & ~EN_CONTEXT), "MTC(1)");
}
static void context_frozen(void)
{
    struct fake *fake = begin("skylake", OS | BRANCHEN);

    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "as it was when TriggerEn became 0");
    transfer(fake, VPT_IRET, at_cpl(3));
    CHECK(fake_status(fake, VPT_STATUS_CONTEXTEN), "TriggerEn is 0: it stays");
    fake_write(fake, VPT_MSR_CTL, OS | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(!fake_status(fake, VPT_STATUS_CONTEXTEN), "TriggerEn is 1: it is looked at");
    end_quietly(fake);
}

static const struct rule section_context[] = {
    {"formula", "every combination of OS, User, CR3Filter, CR3 and enclave", TEST(context_formula)},
    {"toggles", "TIP.PGE when it sets PacketEn, TIP.PGD without IP when it clears it",
     TEST(context_sets)},
    {"clear", "no packet of the flow, and no IP", TEST(context_clear)},
    {"others", "MTC, CBR and PSB go on", TEST(context_others)},
    {"frozen", "it does not change while TriggerEn is 0", TEST(context_frozen)},
    {0},
};

/* ---- BranchEn ------------------------------------------------------------------------------- */

static void branch_clear(void)
{
    const struct vpt_caps caps = rich_caps();
    struct fake *fake = enabled(&caps, 0, EN_ALL & ~EN_BRANCH);

    control_flow(fake, EN_ALL);
    CHECK(count_flow(fake) == 0, "packets of the flow");
    END(fake, "");
    fake = enabled(&caps, 0, EN_ALL & ~EN_BRANCH);
    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_tx_commit(&fake->cpu, SOURCE);
    END(fake, "");
}
static void branch_timing(void)
{
    const struct vpt_caps caps = rich_caps();
    struct fake *fake =
        enabled(&caps, VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN, EN_ALL & ~EN_BRANCH);

    fake->clocks.art++;
    fake->clocks.cycles = 40;
    vpt_time(&fake->cpu);
    fake->clocks.tsc = 0x1000;
    vpt_set_core_ratio(&fake->cpu, 20);
    SO_FAR(fake, "CYC(40) MTC(1) TSC(1000) TMA(1,0) CBR(20)");
    for (unsigned i = 0; i < 600; i++)
        vpt_set_core_ratio(&fake->cpu, 20);
    CHECK(count_kind(fake, PACKET_PSB) > 0, "PSB");
    end_quietly(fake);
}
static void branch_pip(void)
{
    struct fake *fake = fake_open("gracemont");

    vpt_vmxon(&fake->cpu, 0x400000);
    fake_start(fake, OS | USER);
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    vpt_vmptrld(&fake->cpu, 0x88000);
    END(fake, "PIP(5000) VMCS(88000)");
}

static const struct rule section_branch[] = {
    {"clear", "no TNT, TIP, FUP or MODE of branches and transactions", TEST(branch_clear)},
    {"timing", "TSC, TMA, MTC, CYC and PSB all the same", TEST(branch_timing)},
    {"PIP, VMCS", "these as well", TEST(branch_pip)},
    {0},
};

/* ---- FilterEn ------------------------------------------------------------------------------- */

static struct fake *inside(uint64_t ctl)
{
    return begin_range("skylake", VPT_ADDR_CFG_FILTER, 0x401000, 0x401fff, ctl);
}
static void filter_targets(void)
{
    struct fake *fake = inside(TRACED);

    vpt_jmp_direct(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = inside(TRACED);
    vpt_call_indirect(&fake->cpu, TARGET, SOURCE + 2);
    END(fake, "PGD(402000)");
    fake = inside(TRACED);
    vpt_ret(&fake->cpu, TARGET);
    END(fake, "PGD(402000)");
    fake = inside(TRACED);
    vpt_cond_branch(&fake->cpu, TARGET, true);
    END(fake, "PGD()");
}
static void filter_context(void)
{
    struct fake *fake = inside(OS | BRANCHEN);

    transfer(fake, VPT_FAR_BRANCH, at_cpl(3));
    END(fake, "PGD()");
}
static void filter_clear(void)
{
    const struct vpt_caps caps = plain_caps("gracemont");
    struct fake *fake = enabled(&caps, 0, EN_ALL & ~EN_FILTER);

    control_flow(fake, EN_ALL);
    END(fake, "");
    other_packets(enabled(&caps, VPT_CTL_MTCEN, EN_ALL & ~EN_FILTER), "MTC(1) PIP(5000)");
}
static void filter_default(void)
{
    const struct vpt_context user = at_cpl(3);
    struct fake *fake = begin("skylake", TRACED);

    for (unsigned i = 0; i < 64; i++) {
        vpt_jmp_indirect(&fake->cpu, 1ull << (i % 47));
        CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "no range");
    }
    end_quietly(fake);
    fake = begin_range("skylake", VPT_ADDR_CFG_TRACESTOP, 0x700000, 0x700fff, TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "a range of TraceStop is no filter");
    END(fake, "TIP(402000)");
    fake = begin_range("skylake", VPT_ADDR_CFG_FILTER, 0x700000, 0x700fff, OS | BRANCHEN);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "a filter, and code outside of it");
    fake_stop(fake);
    vpt_set_context(&fake->cpu, &user);
    fake_write(fake, VPT_MSR_CTL, OS | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "none any more, and no code looked at yet");
    end_quietly(fake);
}
static void filter_frozen(void)
{
    const struct vpt_context user = at_cpl(3), kernel = at_cpl(0);
    struct fake *fake = inside(OS | BRANCHEN);

    fake_transfer(fake, VPT_IRET, SOURCE, TARGET, &user);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "ContextEn is 0: it stays");
    vpt_jmp_indirect(&fake->cpu, 0x700000);
    CHECK(fake_status(fake, VPT_STATUS_FILTEREN), "whatever runs");
    fake_transfer(fake, VPT_INTERRUPT, 0x700000, TARGET, &kernel);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "ContextEn is 1: it is looked at");
    fake_stop(fake);
    vpt_jmp_indirect(&fake->cpu, 0x401000);
    CHECK(!fake_status(fake, VPT_STATUS_FILTEREN), "TraceEn is 0: it stays");
    fake_close(fake);
}

static const struct rule section_filter[] = {
    {"targets", "TIP.PGD has the target, but for conditional branches", TEST(filter_targets)},
    {"context", "not if ContextEn is cleared as well", TEST(filter_context)},
    {"clear", "no packet of the flow; PIP, MTC, CBR and PSB go on", TEST(filter_clear)},
    {"default", "1 at all times if no range is a filter", TEST(filter_default)},
    {"frozen", "it changes only while TraceEn and ContextEn are 1", TEST(filter_frozen)},
    {0},
};

const struct table enable_tables[] = {
    {"33.2.6.1", "PacketEn", 0, section_packet},   {"33.2.6.2", "TriggerEn", 0, section_trigger},
    {"33.2.6.3", "ContextEn", 0, section_context}, {"33.2.6.4", "BranchEn", 0, section_branch},
    {"33.2.6.5", "FilterEn", 0, section_filter},   {0},
};
