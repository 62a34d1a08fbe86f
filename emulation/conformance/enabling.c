/* SPDX-License-Identifier: BSD-3-Clause */
/* Enabling, disabling, resets, contexts and the rules of the trace MSRs (33.2.8, 33.3.2 to 33.3.5).
 */
#include "conformance.h"

#include <string.h>

#define CTL (TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN)

static const uint32_t config_msrs[] = {0x560, 0x561, 0x571, 0x572, 0x580, 0x581, 0x582, 0x583};
#define CONFIG_MSRS (sizeof(config_msrs) / sizeof(config_msrs[0]))

/* ---- General considerations ----------------------------------------------------------------- */

static void general_unsupported(void)
{
    struct fake *fake = fake_open("silvermont");

    for (uint32_t msr = 0x560; msr < 0x5a0; msr++) {
        CHECK(!reads(fake, msr), "RDMSR %x", msr);
        CHECK(wrmsr(fake, msr, 0) == VPT_GP, "WRMSR %x", msr);
    }
    fake_close(fake);
}
static void general_locked(void)
{
    struct fake *fake = begin("gracemont", TRACED);

    for (size_t i = 0; i < CONFIG_MSRS; i++) {
        const uint64_t before = fake_read(fake, config_msrs[i]);

        CHECK(wrmsr(fake, config_msrs[i], 0x10000) == VPT_GP, "%x: another value", config_msrs[i]);
        CHECK(wrmsr(fake, config_msrs[i], before) == VPT_GP, "%x: the same", config_msrs[i]);
        CHECK(fake_read(fake, config_msrs[i]) == before, "%x: unchanged", config_msrs[i]);
    }
    fake_stop(fake);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        CHECK(wrmsr(fake, config_msrs[i], 0) == VPT_OK, "%x: with TraceEn 0", config_msrs[i]);
    fake_close(fake);
}
static void general_same(void)
{
    struct fake *fake = begin("gracemont", TRACED);
    const uint64_t ctl = fake_read(fake, 0x570);

    CHECK(wrmsr(fake, 0x570, ctl) == VPT_OK, "the same value");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "TIP(402000)");
    for (unsigned bit = 1; bit < 64; bit++)
        CHECK(wrmsr(fake, 0x570, ctl ^ 1ull << bit) == VPT_GP, "bit %u", bit);
    CHECK(fake_read(fake, 0x570) == ctl, "unchanged");
    CHECK(wrmsr(fake, 0x570, USER) == VPT_OK, "with TraceEn cleared everything may change");
    CHECK(fake_read(fake, 0x570) == USER, "and does");
    fake_close(fake);
}
static void general_two(void)
{
    struct fake *one = begin("gracemont", TRACED), *two = fake_open("gracemont");

    for (size_t i = 0; i < CONFIG_MSRS; i++)
        CHECK(wrmsr(two, config_msrs[i], config_msrs[i] == 0x571 ? 0 : 0x1000) == VPT_OK, "%x",
              config_msrs[i]);
    CHECK(fake_read(two, 0x570) == 0, "RTIT_CTL of the other processor");
    vpt_jmp_indirect(&one->cpu, TARGET);
    END(one, "TIP(402000)");
    fake_close(two);
}
static void reset_cold(void)
{
    struct fake *fake = begin("gracemont", TRACED);

    fake_noise(fake, 100);
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    CHECK(fake_read(fake, 0x570) == 0, "RTIT_CTL");
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        CHECK(fake_read(fake, config_msrs[i]) == (config_msrs[i] == 0x561 ? 0x7f : 0), "%x",
              config_msrs[i]);
    fake_close(fake);
}
static void reset_warm(void)
{
    uint64_t before[CONFIG_MSRS];
    struct fake *fake = fake_open("gracemont");

    fake_write(fake, 0x572, 0x5000);
    for (uint32_t msr = 0x580; msr < 0x584; msr++)
        fake_write(fake, msr, 0x1000 * msr);
    fake_start(fake, TRACED);
    fake_noise(fake, 300);
    vpt_flush(&fake->cpu);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        before[i] = fake_read(fake, config_msrs[i]);
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    CHECK(fake_read(fake, 0x570) == (TRACED | VPT_CTL_TOPA), "TraceEn alone is cleared");
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        CHECK(config_msrs[i] == 0x571 || fake_read(fake, config_msrs[i]) == before[i], "%x",
              config_msrs[i]);
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN), "and TriggerEn with it");
    fake_close(fake);

    fake = begin("broadwell", TRACED); /* no EBX[2] */
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    CHECK(fake_read(fake, 0x570) == 0 && fake_read(fake, 0x560) == 0, "without EBX[2] all of it");
    fake_close(fake);
}
/* What a processor was at before the reset is not in the trace behind it, nor in memory. */
static void reset_anew(void)
{
    for (unsigned warm = 0; warm < 2; warm++) {
        struct vpt_caps caps = plain_caps("gracemont");
        const struct vpt_context ctx = at_cpl(0);
        struct fake *fake;
        uint64_t sent;

        caps.tsx = true;
        fake = begin_caps(&caps, TRACED);
        vpt_vmxon(&fake->cpu, SOURCE);
        vpt_vmptrld(&fake->cpu, 0x88000);
        vpt_tx_begin(&fake->cpu, SOURCE);
        sent = fake->tap_total;
        vpt_reset(&fake->cpu, warm ? VPT_RESET_WARM : VPT_RESET_COLD);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_total == sent, "no output while TraceEn is 0");
        fake_mark(fake);
        fake_output(fake);
        fake_write(fake, 0x571, 0);
        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, 0x570, CTL);
        CHECK(words_match("PSB PIP(1000) CBR(28) TSX(0) PSBEND MODE(64) PGE(401000)",
                          fake_words(fake, true)),
              "neither VMX operation nor a transaction: %s", fake_words(fake, true));
        end_quietly(fake);
    }
}
static void general_ways(void)
{
    static const struct {
        uint64_t value;
        uint32_t msr;
        bool good;
    } cases[] = {{TRACED, 0x570, true},      {TRACED | 1ull << 18, 0x570, false},
                 {3ull << 32, 0x570, false}, {1ull << 3, 0x571, false},
                 {0x1000, 0x560, true},      {0x1040, 0x560, false},
                 {0x1000, 0x572, true},      {0x1010, 0x572, false},
                 {1ull << 47, 0x580, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint32_t msr = cases[i].msr;
        const uint64_t value = cases[i].value;
        const struct vpt_msr_load loaded = {msr, value};
        struct vpt_xsave_area area = {.output_mask_ptrs = 0x7f};
        struct vpt_vm_entry entry = vmx_entry();
        struct fake *fake = vmx_open("gracemont");

        if (msr == 0x580)
            area.addr[0][0] = value;
        else
            *(msr == 0x570   ? &area.ctl
              : msr == 0x571 ? &area.status
              : msr == 0x560 ? &area.output_base
                             : &area.cr3_match) = value;
        CHECK((wrmsr(fake, msr, value) == VPT_OK) == cases[i].good, "WRMSR, case %zu", i);
        CHECK((vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK) == cases[i].good,
              "XRSTORS, case %zu", i);
        entry.loads = &loaded;
        entry.load_count = 1;
        CHECK((vpt_vm_entry(&fake->cpu, &entry) == VPT_ENTRY_SUCCEEDS) == cases[i].good,
              "VM entry, case %zu", i);
        fake_close(fake);
    }
}

static const struct rule section_general[] = {
    {"no Intel PT", "RDMSR and WRMSR of 560H to 59FH are #GP", TEST(general_unsupported)},
    {"locked", "no configuration MSR can be written while TraceEn is 1", TEST(general_locked)},
    {"the same", "RTIT_CTL takes its own value; any other only with TraceEn cleared",
     TEST(general_same)},
    {"processors", "each has its own", TEST(general_two)},
    {"cold reset", "clears all of them", TEST(reset_cold)},
    {"warm reset", "clears TraceEn alone with EBX[2], all of them without", TEST(reset_warm)},
    {"reset", "nothing is sent behind it, and a new trace shows nothing of before",
     TEST(reset_anew)},
    {"ways", "WRMSR, XRSTORS and load areas of VMX obey the same rules", TEST(general_ways)},
    {0},
};

/* ---- TraceEn -------------------------------------------------------------------------------- */

static void enable_psb(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = at_cpl(0);

    for (unsigned count = 0; count < 3; count++) {
        const char *words;

        fake_output(fake);
        fake_write(fake, 0x571, (uint64_t)count << VPT_STATUS_BYTECNT_SHR);
        vpt_set_context(&fake->cpu, &ctx);
        fake->clocks.tsc = 0x77;
        fake_mark(fake);
        fake_write(fake, 0x570, CTL | VPT_CTL_TSCEN | VPT_CTL_MTCEN);
        words = fake_words(fake, false);
        CHECK(words_match(count ? "TSC(77) TMA(0,0) CBR(26) MODE(64) PGE(401000)"
                                : "PSB+ MODE(64) PGE(401000)",
                          words),
              "PacketByteCnt %u: %s", count, words);
        fake_stop(fake);
    }
    fake_close(fake);
}
static void enable_later(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = at_cpl(0);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, 0x570, USER | BRANCHEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    SO_FAR(fake, "PSB+");
    transfer(fake, VPT_IRET, at_cpl(3));
    END(fake, "MODE(64) PGE(402000)");
}
static void disable_flush(void)
{
    struct fake *fake = begin("skylake", TRACED);
    uint64_t base, mask_ptrs, status;
    const char *words;

    vpt_cond_branch(&fake->cpu, SOURCE, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_cond_branch(&fake->cpu, SOURCE, false);
    fake_stop(fake);
    words = fake_words(fake, false);
    CHECK(words_match("TNT(T) TIP(402000) TNT(N) FUP(40fff0) PGD()", words), "%s", words);
    base = fake_read(fake, 0x560);
    mask_ptrs = fake_read(fake, 0x561);
    status = fake_read(fake, 0x571);
    CHECK(mask_ptrs >> 32 == fake->tap_total, "the MSRs count every byte");
    for (unsigned i = 0; i < 1000; i++) {
        vpt_jmp_indirect(&fake->cpu, TARGET + i);
        transfer(fake, VPT_INTERRUPT, at_cpl(i & 3));
        vpt_mov_cr3(&fake->cpu, 0x1000 * i, SOURCE);
    }
    vpt_flush(&fake->cpu);
    CHECK(fake_read(fake, 0x560) == base && fake_read(fake, 0x561) == mask_ptrs &&
              fake_read(fake, 0x571) == status,
          "whatever runs, they are stable while TraceEn is 0");
    fake_close(fake);
}
static void disable_quiet(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    fake_stop(fake);
    CHECK(fake_words(fake, false)[0] == '\0', "PacketEn is 0: no packet at all");
    fake_close(fake);
}
static void disable_pmi(void)
{
    struct fake *fake = fake_open("skylake");
    const struct vpt_context ctx = at_cpl(0);

    fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_INT);
    fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, 0x560, TABLE_GPA);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, 0x570, CTL);
    fake_noise(fake, 0xf00);
    while (fake->cpu.buf_len + fake->cpu.output_bytes < 0x1000)
        vpt_jmp_indirect(&fake->cpu, TARGET + fake->cpu.packet_count);
    CHECK(fake->pmis == 0, "not yet");
    fake_stop(fake);
    CHECK(fake_read(fake, 0x38e) & VPT_PERF_TOPA_PMI, "Trace_ToPA_PMI when the flush is complete");
    fake_close(fake);
}

static const struct rule section_traceen[] = {
    {"set", "PSB+ if PacketByteCnt is 0, else TSC, TMA and CBR; then TIP.PGE", TEST(enable_psb)},
    {"set out of context", "TIP.PGE comes when PacketEn does", TEST(enable_later)},
    {"cleared", "everything is flushed; MSRs count it, and stay as they are", TEST(disable_flush)},
    {"cleared out of context", "no packets", TEST(disable_quiet)},
    {"cleared where a region is full", "Trace_ToPA_PMI is set", TEST(disable_pmi)},
    {0},
};

/* ---- The registers -------------------------------------------------------------------------- */

static void addr_canonical(void)
{
    static const struct {
        const char *profile;
        unsigned bits;
    } widths[] = {{"skylake", 48}, {"sapphire-rapids", 57}};

    for (unsigned i = 0; i < 2; i++) {
        struct fake *fake = fake_open(widths[i].profile);
        const uint64_t half = 1ull << (widths[i].bits - 1);

        for (uint32_t msr = 0x580; msr < 0x584; msr++) {
            CHECK(wrmsr(fake, msr, half - 1) == VPT_OK && wrmsr(fake, msr, -half) == VPT_OK,
                  "canonical: %x", msr);
            CHECK(wrmsr(fake, msr, half) == VPT_GP && wrmsr(fake, msr, -half - 1) == VPT_GP,
                  "not canonical: %x", msr);
            CHECK(fake_read(fake, msr) == -half, "all 64 bits, unchanged by the #GP");
        }
        fake_close(fake);
    }
}
/* Without 64-bit mode linear addresses have 32 bits. */
static void addr_32(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct fake *fake;

    caps.linear_bits = 32;
    fake = fake_open_caps(&caps);
    for (uint32_t msr = 0x580; msr < 0x584; msr++) {
        CHECK(wrmsr(fake, msr, 0) == VPT_OK && wrmsr(fake, msr, 0xffffffff) == VPT_OK, "%x", msr);
        for (unsigned bit = 32; bit < 64; bit++)
            CHECK(wrmsr(fake, msr, 1ull << bit) == VPT_GP, "%x, bit %u", msr, bit);
        CHECK(fake_read(fake, msr) == 0xffffffff, "%x is unchanged by the #GP", msr);
    }
    fake_close(fake);
}
static void match_reserved(void)
{
    struct fake *fake = fake_open("skylake");

    for (unsigned bit = 0; bit < 64; bit++)
        CHECK((wrmsr(fake, 0x572, 1ull << bit) == VPT_OK) == (bit > 4), "bit %u", bit);
    CHECK(fake_read(fake, 0x572) == 1ull << 63, "bits 63:5 are kept");
    fake_close(fake);
}

static const struct rule section_registers[] = {
    {"ADDRn_A, ADDRn_B", "64 bits, canonical or #GP", TEST(addr_canonical)},
    {"ADDRn_A, ADDRn_B, 32 bits", "63:32 are #GP where linear addresses have 32 bits",
     TEST(addr_32)},
    {"CR3_MATCH", "63:5, others #GP", TEST(match_reserved)},
    {0},
};

/* ---- Changing the context ------------------------------------------------------------------- */

static void switch_by_hand(void)
{
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_INJECT_PSB_PMI);
    uint64_t ctl, saved[CONFIG_MSRS];

    vpt_jmp_indirect(&fake->cpu, TARGET);
    ctl = fake_read(fake, 0x570);
    fake_write(fake, 0x570, ctl & ~VPT_CTL_TRACEEN);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        saved[i] = fake_read(fake, config_msrs[i]);
    for (size_t i = 0; i < CONFIG_MSRS; i++) /* another context */
        fake_write(fake, config_msrs[i], 0);
    fake_write(fake, 0x570, 0);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        fake_write(fake, config_msrs[i], saved[i]);
    fake_write(fake, 0x570, ctl);
    SO_FAR(fake, "TIP(402000) FUP(400ffe) PGD() CBR(28) MODE(64) PGE(401000)");
    end_quietly(fake);
}
static void switch_xsaves(void)
{
    struct fake *fake = begin("gracemont", TRACED);
    struct vpt_xsave_area area;

    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_xsaves(&fake->cpu, &area, SOURCE);
    CHECK(!(fake_read(fake, 0x570) & VPT_CTL_TRACEEN) && (area.ctl & VPT_CTL_TRACEEN),
          "XSAVES saves TraceEn, then clears it");
    CHECK(vpt_xrstors(&fake->cpu, NULL, IP_ON, IP_START) == VPT_OK, "the initial configuration");
    for (size_t i = 0; i < CONFIG_MSRS; i++) /* STATUS[2:0] are no part of it */
        CHECK((fake_read(fake, config_msrs[i]) & ~7ull) == (config_msrs[i] == 0x561 ? 0x78 : 0),
              "%x", config_msrs[i]);
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK, "XRSTORS");
    SO_FAR(fake, "TIP(402000) FUP(401010) PGD() CBR(28) MODE(64) PGE(401000)");
    end_quietly(fake);
}
/* What XSAVES saves while TraceEn is 0 is what RDMSR reads, and it changes nothing. */
static void xsaves_off(void)
{
    struct fake *fake = begin("gracemont", TRACED);
    uint64_t before[CONFIG_MSRS];
    struct vpt_xsave_area area;

    vpt_jmp_indirect(&fake->cpu, TARGET);
    fake_stop(fake);
    fake_write(fake, 0x571, 0x123ull << VPT_STATUS_BYTECNT_SHR | VPT_STATUS_STOPPED);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        before[i] = fake_read(fake, config_msrs[i]);
    vpt_xsaves(&fake->cpu, &area, SOURCE);
    for (size_t i = 0; i < CONFIG_MSRS; i++)
        CHECK(fake_read(fake, config_msrs[i]) == before[i], "%x", config_msrs[i]);
    CHECK(area.ctl == (TRACED | VPT_CTL_TOPA) && area.status == fake_read(fake, 0x571),
          "RTIT_CTL and RTIT_STATUS");
    fake_close(fake);
}
/* Component 8 is a supervisor component of 128 bytes, which exists with XSAVES only. */
static void xsave_component(void)
{
    struct vpt_caps caps = plain_caps("gracemont");

    for (unsigned has = 0; has < 2; has++) {
        struct vpt_cpuid regs = {1 << 3, 5, 1 << 8 | 1 << 11, 7};

        caps.xsaves = has;
        CHECK(vpt_cpuid(&caps, 0xd, 1, &regs) && regs.eax == 1 << 3 && regs.ebx == 5 &&
                  regs.edx == 7 && regs.ecx == (has ? 1 << 8 | 1 << 11 : 1 << 11),
              "CPUID.0DH.1:ECX[8]");
        regs = (struct vpt_cpuid){1, 2, 3, 4};
        CHECK(vpt_cpuid(&caps, 0xd, 8, &regs) && regs.eax == (has ? 128 : 0) && regs.ebx == 0 &&
                  regs.ecx == has && regs.edx == 0,
              "CPUID.0DH.8");
        regs = (struct vpt_cpuid){0, 0, 1 << 8, 0};
        CHECK(vpt_cpuid(&caps, 0xd, 1, &regs) && regs.ecx == 0, "without XSAVES itself");
    }
}

static const struct rule section_switch[] = {
    {"by hand", "what RDMSR gave, WRMSR brings back, RTIT_CTL last; the trace goes on",
     TEST(switch_by_hand)},
    {"XSAVES, XRSTORS", "the same in one instruction", TEST(switch_xsaves)},
    {"XSAVES with TraceEn = 0", "saves what RDMSR reads, and changes nothing", TEST(xsaves_off)},
    {"XSAVE component", "CPUID.0DH says that there is component 8, and its size",
     TEST(xsave_component)},
    {0},
};

const struct table enabling_tables[] = {
    {"33.2.8.1", "General considerations", 0, section_general},
    {"33.2.8.3", "Enabling and disabling", 0, section_traceen},
    {"33.2.8.5", "ADDRn and CR3_MATCH", 0, section_registers},
    {"33.3.5", "Context switches", 0, section_switch},
    {0},
};
