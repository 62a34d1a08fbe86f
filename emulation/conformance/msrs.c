/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace MSRs, bit by bit (33.2.8). */
#include "conformance.h"

#include <stdio.h>

#define OUTPUT (VPT_CTL_TOPA)

/* ---- RTIT_CTL ------------------------------------------------------------------------------- */

static bool ebx(const struct fake *fake, uint32_t bit)
{
    return fake->caps.leaf14_0_ebx & bit;
}

static bool ecx(const struct fake *fake, uint32_t bit)
{
    return fake->caps.leaf14_0_ecx & bit;
}

/* RTIT_CTL takes these bits on the processors that have them; the others raise #GP. */
static void bits_need(uint64_t bits, uint32_t ebx_bit, uint32_t ecx_bit, unsigned ranges)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct fake *fake = open_profile(i);
        bool has;

        if (!fake)
            continue;
        has = (!ebx_bit || ebx(fake, ebx_bit)) && (!ecx_bit || ecx(fake, ecx_bit)) &&
              (fake->caps.leaf14_1_eax & 7) >= ranges;
        CHECK((wrmsr(fake, VPT_MSR_CTL, bits) == VPT_OK) == has, "%s: %llx", vpt_profile_name(i),
              (unsigned long long)bits);
        CHECK(fake_read(fake, VPT_MSR_CTL) == (has ? bits : 0), "%s: what RDMSR says",
              vpt_profile_name(i));
        fake_close(fake);
    }
}

static void reserved(unsigned low, unsigned high)
{
    struct vpt_caps caps = rich_caps();

    for (unsigned bit = low; bit <= high; bit++) {
        struct fake *fake = fake_open_caps(&caps);

        CHECK(wrmsr(fake, VPT_MSR_CTL, 1ull << bit) == VPT_GP, "bit %u", bit);
        fake_close(fake);
    }
}

/* A field takes the encodings of its bitmap; without the feature it must be 0. */
static void encodings(unsigned shift, uint64_t enable, uint32_t ebx_bit, unsigned bitmap_at)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct fake *fake = open_profile(i);
        uint32_t map;

        if (!fake)
            continue;
        map = bitmap_at == 0   ? fake->caps.leaf14_1_eax >> 16
              : bitmap_at == 1 ? fake->caps.leaf14_1_ebx & 0xffff
                               : fake->caps.leaf14_1_ebx >> 16;
        for (uint64_t value = 1; value < 16; value++) {
            const uint64_t ctl = value << shift | (ebx(fake, ebx_bit) ? enable : 0);
            const bool good = ebx(fake, ebx_bit) && (map >> value & 1);

            CHECK((wrmsr(fake, VPT_MSR_CTL, ctl) == VPT_OK) == good, "%s: encoding %u",
                  vpt_profile_name(i), (unsigned)value);
        }
        fake_close(fake);
    }
}

/* Overflow, sleep, a transaction, VMX operation, waiting for SIPI: none of it survives a reset. */
static void reset_forgets(enum vpt_reset kind)
{
    const struct vpt_power_entry halt = {.ip = SOURCE, .state = 0x10};
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.tsx = true;
    fake = begin_caps(&caps, TRACED | VPT_CTL_PWREVTEN);
    vpt_vmxon(&fake->cpu, 0x400000);
    vpt_vmptrld(&fake->cpu, 0x88000);
    vpt_tx_begin(&fake->cpu, SOURCE);
    vpt_power_entry(&fake->cpu, &halt);
    transfer(fake, VPT_INIT_WAIT, at_cpl(0));
    vpt_stall(&fake->cpu, true);
    for (unsigned i = 0; i < 200; i++)
        vpt_maintenance(&fake->cpu, i);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_FAULT, NULL, false);
    vpt_stall(&fake->cpu, false);
    CHECK(vpt_output_blocked(&fake->cpu), "an EPT violation");
    fake_unmap(fake);
    vpt_reset(&fake->cpu, kind);
    CHECK(!vpt_output_blocked(&fake->cpu), "nothing waits for it");
    CHECK(kind == VPT_RESET_WARM || fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "no PMI");
    fake_start(fake, TRACED | VPT_CTL_PWREVTEN);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_tx_commit(&fake->cpu, TARGET);
    vpt_power_entry(&fake->cpu, &halt);
    vpt_vmptrld(&fake->cpu, 0x88000);
    END(fake, "TIP(402000) PWRE(10) EXSTOP+ FUP(401010)");
}
static void traceen(void)
{
    struct fake *fake = begin("skylake", TRACED);

    CHECK(vpt_trigger_en(&fake->cpu), "tracing");
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    fake_stop(fake);
    CHECK(fake->cpu.buf_len == 0 && !vpt_trigger_en(&fake->cpu), "everything is flushed");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    SO_FAR(fake, "TNT(T) FUP(40fff0) PGD()");
    fake_close(fake);
    fake = begin("skylake", TRACED);
    vpt_smi(&fake->cpu, SOURCE);
    CHECK(fake_read(fake, VPT_MSR_CTL) == (TRACED | OUTPUT), "SMI clears it, and nothing else");
    fake_close(fake);
    fake = begin("skylake", TRACED);
    vpt_reset(&fake->cpu, VPT_RESET_WARM);
    CHECK(fake_read(fake, VPT_MSR_CTL) == (TRACED | OUTPUT), "so does a warm reset");
    CHECK(!vpt_trigger_en(&fake->cpu), "and nothing is traced");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    CHECK(fake_read(fake, VPT_MSR_CTL) == 0, "all is 0 at a cold reset");
    fake_close(fake);
    reset_forgets(VPT_RESET_WARM);
    reset_forgets(VPT_RESET_COLD);
}

static void cycen(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_CYCEN, VPT_CAP_PSB_CYC, 0, 0);
    fake = begin("skylake", TRACED | VPT_CTL_CYCEN);
    fake->clocks.cycles += 7;
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "CYC(7) TIP(402000)");
    fake = begin("skylake", TRACED);
    fake->clocks.cycles += 7;
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

static void os(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "");
    fake = begin("skylake", OS | BRANCHEN);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

static void user(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    transfer(fake, VPT_IRET, at_cpl(3));
    vpt_jmp_indirect(&fake->cpu, 0x403000);
    END(fake, "MODE(64) PGE(402000) TIP(403000)");
    fake = begin("skylake", OS | BRANCHEN);
    transfer(fake, VPT_IRET, at_cpl(3));
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "PGD()");
}

static void pwrevten(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_PWREVTEN, VPT_CAP_POWER, 0, 0);
    fake = begin("gracemont", OS);
    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "");
    fake = begin("gracemont", OS | VPT_CTL_PWREVTEN);
    vpt_exec_stop(&fake->cpu, SOURCE);
    END(fake, "EXSTOP+ FUP(401010)");
}

static void fuponptw(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_FUPONPTW, VPT_CAP_PTWRITE, 0, 0);
    fake = begin("gracemont", OS | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW);
    vpt_ptwrite(&fake->cpu, 0x55, 4, SOURCE);
    END(fake, "PTW4(55)+ FUP(401010)");
    fake = begin("gracemont", OS | VPT_CTL_PTWEN);
    vpt_ptwrite(&fake->cpu, 0x55, 4, SOURCE);
    END(fake, "PTW4(55)");
}

static void fabricen(void)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_FABRICEN | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_stop(fake);
    CHECK(fake->other_len > 0 && fake->tap_total == 0 && fake->table_reads == 0,
          "to the transport, whatever ToPA says");
    fake_close(fake);
    bits_need(VPT_CTL_FABRICEN, 0, VPT_CAP_FABRIC, 0);
}

static void cr3filter(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_CR3FILTER, VPT_CAP_CR3FILTER, 0, 0);
    fake = fake_open("skylake");
    fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
    fake_start(fake, TRACED | VPT_CTL_CR3FILTER);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x402003);
    END(fake, "PIP(5000) MODE(64) PGE(402003)");
}

static void topa(void)
{
    bits_need(VPT_CTL_TOPA, 0, VPT_CAP_TOPA, 0);
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct fake *fake = open_profile(i);

        if (!fake)
            continue;
        fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
        CHECK((wrmsr(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN) == VPT_OK) ==
                  ecx(fake, VPT_CAP_SNGLRGN),
              "%s: single range", vpt_profile_name(i));
        vpt_reset(&fake->cpu, VPT_RESET_COLD);
        fake_close(fake);
    }
}

static void mtcen(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_MTCEN, VPT_CAP_MTC, 0, 0);
    fake = begin("skylake", OS | VPT_CTL_MTCEN);
    fake->clocks.art += 1;
    vpt_time(&fake->cpu);
    END(fake, "MTC(1)");
}

static void tscen(void)
{
    struct fake *fake = begin("skylake", OS | VPT_CTL_TSCEN);

    bits_need(VPT_CTL_TSCEN, 0, 0, 0);
    fake->clocks.tsc = 0x777;
    vpt_set_core_ratio(&fake->cpu, 30);
    END(fake, "TSC(777) CBR(30)");
    fake = begin("skylake", OS);
    vpt_set_core_ratio(&fake->cpu, 30);
    END(fake, "CBR(30)");
}

static void disretc(void)
{
    struct fake *fake = begin("skylake", TRACED | VPT_CTL_DISRETC);

    bits_need(VPT_CTL_DISRETC, 0, 0, 0);
    vpt_call_direct(&fake->cpu, TARGET, 0x401005);
    vpt_ret(&fake->cpu, 0x401005);
    END(fake, "TIP(401005)");
    fake = begin("skylake", TRACED);
    vpt_call_direct(&fake->cpu, TARGET, 0x401005);
    vpt_ret(&fake->cpu, 0x401005);
    END(fake, "TNT(T)");
}

static void ptwen(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_PTWEN, VPT_CAP_PTWRITE, 0, 0);
    fake = begin("gracemont", OS);
    vpt_ptwrite(&fake->cpu, 0x55, 4, SOURCE);
    END(fake, "");
}

static void branchen(void)
{
    struct fake *fake = begin("skylake", OS | USER);

    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    transfer(fake, VPT_INTERRUPT, in_mode(VPT_EXEC_32));
    END(fake, "");
    fake = begin("skylake", TRACED);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

static void mtcfreq(void)
{
    encodings(VPT_CTL_MTCFREQ_SHR, VPT_CTL_MTCEN, VPT_CAP_MTC, 0);
}
static void cycthresh(void)
{
    const struct vpt_caps caps = rich_caps();

    encodings(VPT_CTL_CYCTHRESH_SHR, VPT_CTL_CYCEN, VPT_CAP_PSB_CYC, 1);
    for (uint64_t field = 1; field < 16; field++) {
        struct fake *fake =
            begin_caps(&caps, TRACED | VPT_CTL_CYCEN | field << VPT_CTL_CYCTHRESH_SHR);
        char pattern[32];

        fake->clocks.cycles += (1ull << (field - 1)) - 1;
        vpt_jmp_indirect(&fake->cpu, 0x402000);
        SO_FAR(fake, "TIP(402000)");
        fake->clocks.cycles++;
        vpt_jmp_indirect(&fake->cpu, 0x403000);
        snprintf(pattern, sizeof(pattern), "CYC(%u) TIP(403000)", 1u << (field - 1));
        END(fake, pattern);
    }
}
static void psbfreq(void)
{
    encodings(VPT_CTL_PSBFREQ_SHR, 0, VPT_CAP_PSB_CYC, 2);
}
static void bit_18(void)
{
    reserved(18, 18);
}
static void bit_23(void)
{
    reserved(23, 23);
}
static void bits_28_30(void)
{
    reserved(28, 30);
}
static void bits_48_54(void)
{
    reserved(48, 54);
}
static void bits_57_59(void)
{
    reserved(57, 59);
}
static void bits_60_63(void)
{
    reserved(60, 63);
}

static void eventen(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_EVENTEN, VPT_CAP_EVENT, 0, 0);
    fake = begin("gracemont", OS | VPT_CTL_EVENTEN);
    transfer(fake, VPT_INTERRUPT, at_cpl(0));
    END(fake, "CFE(1,31)+ FUP(401010)");
}

static void addr_cfg(unsigned n)
{
    const unsigned shift = VPT_CTL_ADDR_CFG_SHR + 4 * n;
    struct fake *fake;

    bits_need(1ull << shift, VPT_CAP_IPFILTER, 0, n + 1);
    bits_need(2ull << shift, VPT_CAP_IPFILTER, 0, n + 1);
    for (uint64_t value = 3; value < 16; value++) {
        fake = fake_open("max");
        CHECK(wrmsr(fake, VPT_MSR_CTL, value << shift) == VPT_GP, "encoding %u", (unsigned)value);
        fake_close(fake);
    }
    for (uint64_t value = 0; value < 3; value++) {
        fake = fake_open("max");
        fake_write(fake, VPT_MSR_ADDR0_A + 2 * n, 0x500000);
        fake_write(fake, VPT_MSR_ADDR0_A + 2 * n + 1, 0x500fff);
        fake_start(fake, TRACED | value << shift);
        vpt_jmp_indirect(&fake->cpu, 0x500010);
        vpt_jmp_indirect(&fake->cpu, 0x600000);
        END(fake, value == 0   ? "TIP(500010) TIP(600000)"
                  : value == 1 ? "MODE(64) PGE(500010) PGD(600000)"
                               : "PGD(500010) STOP");
    }
}

static void addr0(void)
{
    addr_cfg(0);
}
static void addr1(void)
{
    addr_cfg(1);
}
static void addr2(void)
{
    addr_cfg(2);
}
static void addr3(void)
{
    addr_cfg(3);
}

static void distnt(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_DISTNT, VPT_CAP_DISTNT, 0, 0);
    fake = begin("gracemont", TRACED | VPT_CTL_DISTNT);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "TIP(402000)");
}

static void inject(void)
{
    struct fake *fake;

    bits_need(VPT_CTL_INJECT_PSB_PMI, VPT_CAP_PRESERVE, 0, 0);
    fake = fake_open("gracemont");
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_PENDTOPAPMI);
    fake_start(fake, TRACED);
    CHECK(fake->pmis == 0, "0: STATUS[7:6] are ignored");
    fake_stop(fake);
    fake_close(fake);
    fake = fake_open("gracemont");
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_PENDTOPAPMI);
    fake_start(fake, TRACED | VPT_CTL_INJECT_PSB_PMI);
    CHECK(fake->pmis == 1, "1: the PMI is pended");
    fake_stop(fake);
    fake_close(fake);
}

static const struct rule table_6[] = {
    {"0 TraceEn", "1 enables tracing; clearing it flushes; warm reset clears it", TEST(traceen)},
    {"1 CYCEn", "enables CYC; reserved without EBX[1]", TEST(cycen)},
    {"2 OS", "0: nothing is generated at CPL 0", TEST(os)},
    {"3 User", "0: nothing is generated at CPL above 0", TEST(user)},
    {"4 PwrEvtEn", "enables power events", TEST(pwrevten)},
    {"5 FUPonPTW", "1: a FUP follows PTW; reserved without EBX[4]", TEST(fuponptw)},
    {"6 FabricEn", "1: output to the transport, ToPA is ignored; reserved without ECX[3]",
     TEST(fabricen)},
    {"7 CR3Filter", "1: only where CR3 matches; reserved without EBX[0]", TEST(cr3filter)},
    {"8 ToPA", "chooses the scheme; #GP without the scheme that is chosen", TEST(topa)},
    {"9 MTCEn", "enables MTC; reserved without EBX[3]", TEST(mtcen)},
    {"10 TSCEn", "enables TSC", TEST(tscen)},
    {"11 DisRETC", "1: no RET is compressed", TEST(disretc)},
    {"12 PTWEn", "enables PTW; reserved without EBX[4]", TEST(ptwen)},
    {"13 BranchEn", "0: no FUP, TIP, TNT or MODE", TEST(branchen)},
    {"17:14 MTCFreq", "encodings of the bitmap, else #GP; reserved without EBX[3]", TEST(mtcfreq)},
    {"18", "must be 0", TEST(bit_18)},
    {"22:19 CycThresh", "encodings of the bitmap, else #GP; reserved without EBX[1]",
     TEST(cycthresh)},
    {"23", "must be 0", TEST(bit_23)},
    {"27:24 PSBFreq", "encodings of the bitmap, else #GP; reserved without EBX[1]", TEST(psbfreq)},
    {"30:28", "must be 0", TEST(bits_28_30)},
    {"31 EventEn", "enables Event Trace; reserved without EBX[7]", TEST(eventen)},
    {"35:32 ADDR0_CFG",
     "0 unused, 1 filter, 2 TraceStop, others #GP; reserved with fewer than 1 range", TEST(addr0)},
    {"39:36 ADDR1_CFG", "the same; reserved with fewer than 2 ranges", TEST(addr1)},
    {"43:40 ADDR2_CFG", "the same; reserved with fewer than 3 ranges", TEST(addr2)},
    {"47:44 ADDR3_CFG", "the same; reserved with fewer than 4 ranges", TEST(addr3)},
    {"54:48", "must be 0", TEST(bits_48_54)},
    {"55 DisTNT", "1: no TNT; reserved without EBX[8]", TEST(distnt)},
    {"56 InjectPsbPmiOnEnable", "1: STATUS[7:6] count; reserved without EBX[6]", TEST(inject)},
    {"59:57", "must be 0", TEST(bits_57_59)},
    {"63:60", "must be 0", TEST(bits_60_63)},
    {0},
};

/* ---- RTIT_STATUS ---------------------------------------------------------------------------- */

static void status_enable(uint64_t bit)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_STATUS, bit);
    CHECK(fake_read(fake, VPT_MSR_STATUS) == 0, "a write is ignored");
    fake_start(fake, TRACED);
    CHECK(fake_read(fake, VPT_MSR_STATUS) & bit, "1 while tracing");
    fake_stop(fake);
    fake_close(fake);
}

static void filteren(void)
{
    status_enable(VPT_STATUS_FILTEREN);
}
static void contexten(void)
{
    struct fake *fake = begin("skylake", USER | BRANCHEN);

    CHECK(!(fake_read(fake, VPT_MSR_STATUS) & VPT_STATUS_CONTEXTEN), "0 out of context");
    fake_stop(fake);
    fake_close(fake);
    status_enable(VPT_STATUS_CONTEXTEN);
}
static void triggeren(void)
{
    struct fake *fake = begin("skylake", TRACED);

    fake_stop(fake);
    CHECK(!(fake_read(fake, VPT_MSR_STATUS) & VPT_STATUS_TRIGGEREN), "0 without TraceEn");
    fake_close(fake);
    status_enable(VPT_STATUS_TRIGGEREN);
}

static void status_reserved(unsigned low, unsigned high)
{
    for (unsigned bit = low; bit <= high; bit++) {
        struct fake *fake = fake_open("max");

        CHECK(wrmsr(fake, VPT_MSR_STATUS, 1ull << bit) == VPT_GP, "bit %u", bit);
        fake_close(fake);
    }
}

static void status_3(void)
{
    status_reserved(3, 3);
}
static void status_8_31(void)
{
    status_reserved(8, 31);
}
static void status_49_63(void)
{
    status_reserved(49, 63);
}

/* Set by the processor, cleared by software only, and TriggerEn is 0 with it. */
static void status_sticky(uint64_t bit)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_STATUS, bit);
    CHECK(fake_read(fake, VPT_MSR_STATUS) == bit, "software may set it");
    fake_start(fake, TRACED);
    CHECK(!vpt_trigger_en(&fake->cpu) && fake_status(fake, bit), "TriggerEn stays 0");
    CHECK(wrmsr(fake, VPT_MSR_STATUS, 0) == VPT_GP, "not while TraceEn is 1");
    fake_stop(fake);
    CHECK(fake_status(fake, bit), "clearing TraceEn leaves it");
    fake_write(fake, VPT_MSR_STATUS, 0);
    CHECK(fake_read(fake, VPT_MSR_STATUS) == 0, "software clears it");
    fake_close(fake);
}

static void status_error(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x80);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "an error");
    fake_close(fake);
    status_sticky(VPT_STATUS_ERROR);
}

static void status_stopped(void)
{
    status_sticky(VPT_STATUS_STOPPED);
}

static void pendpsb(void)
{
    struct fake *fake = fake_open("skylake");

    CHECK(wrmsr(fake, VPT_MSR_STATUS, VPT_STATUS_PENDPSB) == VPT_GP, "reserved without EBX[6]");
    fake_close(fake);
    fake = fake_open("gracemont");
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_PENDPSB | 5ull << VPT_STATUS_BYTECNT_SHR);
    fake_output(fake);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_INJECT_PSB_PMI | VPT_CTL_TRACEEN);
    CHECK(words_match("PSB+ MODE(16) PGE(401000)", fake_words(fake, false)), "a PSB+: %s",
          fake_words(fake, false));
    CHECK(!fake_status(fake, VPT_STATUS_PENDPSB), "and it is cleared");
    fake_stop(fake);
    fake_close(fake);
    for (unsigned on = 0; on < 2; on++) {
        fake = begin("gracemont", TRACED | (on ? VPT_CTL_INJECT_PSB_PMI : 0));
        while (fake->cpu.bytes_since_psb < 2048 - 7)
            vpt_jmp_indirect(&fake->cpu, fake->cpu.last_ip ^ 0x7f0000000000);
        fake_stop(fake);
        CHECK(fake_status(fake, VPT_STATUS_PENDPSB) == on, "the end of tracing leaves one due");
        fake_close(fake);
    }
}

static void pendpmi(void)
{
    struct fake *fake = fake_open("skylake");

    CHECK(wrmsr(fake, VPT_MSR_STATUS, VPT_STATUS_PENDTOPAPMI) == VPT_GP, "reserved without EBX[6]");
    fake_close(fake);
    inject();
    for (unsigned on = 0; on < 2; on++) {
        const struct vpt_context ctx = context_of(0);

        fake = fake_open("gracemont");
        vpt_set_context(&fake->cpu, &ctx);
        fake_poke(fake, TABLE_GPA, REGION_GPA | VPT_TOPA_INT);
        fake_poke(fake, TABLE_GPA + 8, TABLE_GPA | VPT_TOPA_END);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
        fake_write(fake, VPT_MSR_CTL,
                   TRACED | OUTPUT | VPT_CTL_TRACEEN | (on ? VPT_CTL_INJECT_PSB_PMI : 0));
        fake_noise(fake, 5000);
        fake_stop(fake);
        CHECK(fake->pmis == 1 && fake_status(fake, VPT_STATUS_PENDTOPAPMI) == on,
              "a region with INT was filled");
        fake_close(fake);
    }
}

static uint64_t counted(struct fake *fake)
{
    return fake_read(fake, VPT_MSR_STATUS) >> VPT_STATUS_BYTECNT_SHR;
}
static void bytecnt(void)
{
    struct fake *fake = fake_open("broadwell");

    CHECK(wrmsr(fake, VPT_MSR_STATUS, 1ull << VPT_STATUS_BYTECNT_SHR) == VPT_GP,
          "reserved without EBX[1]");
    fake_close(fake);
    fake = begin("skylake", TRACED);
    fake_noise(fake, 700);
    fake_stop(fake);
    CHECK(counted(fake) == fake->cpu.bytes_since_psb && counted(fake) > 700, "it counts bytes");
    CHECK(fake->tap_len - 16 < counted(fake) + 30 && counted(fake) < fake->tap_len,
          "those since the PSB");
    fake_write(fake, VPT_MSR_STATUS, 2040ull << VPT_STATUS_BYTECNT_SHR);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_TRACEEN);
    SO_FAR(fake, "CBR(26) MODE(64) PGE(401000) PSB+");
    end_quietly(fake);
}

static const struct rule table_7[] = {
    {"0 FilterEn", "says whether the IP is traced; writes are ignored", TEST(filteren)},
    {"1 ContextEn", "says whether the context is traced; writes are ignored", TEST(contexten)},
    {"2 TriggerEn", "says whether tracing is enabled; writes are ignored", TEST(triggeren)},
    {"3", "must be 0", TEST(status_3)},
    {"4 Error", "set by an operational error, which clears TriggerEn; cleared by software only",
     TEST(status_error)},
    {"5 Stopped", "clears TriggerEn; cleared by software only", TEST(status_stopped)},
    {"6 PendPSB", "a PSB+ when tracing is enabled; reserved without EBX[6]", TEST(pendpsb)},
    {"7 PendTopaPMI", "a PMI when tracing is enabled; reserved without EBX[6]", TEST(pendpmi)},
    {"31:8", "must be 0", TEST(status_8_31)},
    {"48:32 PacketByteCnt", "bytes since the last PSB; reserved without EBX[1]", TEST(bytecnt)},
    {"63:49", "must be 0", TEST(status_49_63)},
    {0},
};

/* ---- OUTPUT_BASE and OUTPUT_MASK_PTRS ------------------------------------------------------- */

static void base_low(void)
{
    for (unsigned bit = 0; bit < 7; bit++) {
        struct fake *fake = fake_open("skylake");

        CHECK(wrmsr(fake, VPT_MSR_OUTPUT_BASE, 1ull << bit) == VPT_GP, "bit %u", bit);
        fake_close(fake);
    }
}

static void base_address(void)
{
    struct fake *fake = fake_open("skylake");

    for (unsigned bit = 7; bit < fake->caps.maxphyaddr; bit++)
        CHECK(wrmsr(fake, VPT_MSR_OUTPUT_BASE, 1ull << bit) == VPT_OK, "bit %u", bit);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x800);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "a table that is not on a page");
    fake_close(fake);
    fake = fake_open("skylake");
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA + 0x80);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "a range that its mask overlaps");
    fake_close(fake);
}

static void base_high(void)
{
    struct fake *fake = fake_open("skylake");

    for (unsigned bit = fake->caps.maxphyaddr; bit < 64; bit++)
        CHECK(wrmsr(fake, VPT_MSR_OUTPUT_BASE, 1ull << bit) == VPT_GP, "bit %u", bit);
    fake_close(fake);
}

static void mask_low(void)
{
    struct fake *fake = fake_open("skylake");

    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == 0x7f, "at reset");
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == 0x7f, "forced to 1");
    fake_close(fake);
}

static void mask_middle(void)
{
    const uint64_t bad[] = {0x17f, 0x8000007f};
    struct fake *fake;

    for (size_t i = 0; i < 2; i++) {
        fake = fake_open("skylake");
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, bad[i]);
        fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN);
        CHECK(fake_status(fake, VPT_STATUS_ERROR), "a mask with holes");
        fake_close(fake);
    }
    fake = fake_open("skylake");
    fake_poke(fake, TABLE_GPA + 0x100 * 8, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x100u << 7 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_TRACEEN);
    fake_stop(fake);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR) && fake->stores[0].gpa == REGION_GPA,
          "ToPA: bits 27:3 of the offset into the table");
    fake_close(fake);
}

static void mask_offset(void)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0xfff);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "an offset beyond the mask");
    fake_close(fake);
    fake = fake_open("skylake");
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xf00ull << 32 | 0xfff);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN);
    fake_stop(fake);
    CHECK(fake->stores[0].gpa == REGION_GPA + 0xf00, "where the next byte goes");
    fake_close(fake);
    fake = fake_open("skylake");
    fake_poke(fake, TABLE_GPA, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1000ull << 32 | 0x7f);
    fake_write(fake, VPT_MSR_CTL, TRACED | OUTPUT | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "ToPA: an offset beyond the region");
    fake_close(fake);
}

static const struct rule table_8[] = {
    {"6:0", "must be 0", TEST(base_low)},
    {"MAXPHYADDR-1:7 BasePhysAddr",
     "a range, which its mask must not overlap, or a table, which must be on a page",
     TEST(base_address)},
    {"63:MAXPHYADDR", "must be 0", TEST(base_high)},
    {0},
};

static const struct rule table_9[] = {
    {"6:0 LowerMask", "forced to 1, writes are ignored", TEST(mask_low)},
    {"31:7 MaskOrTableOffset", "a mask without holes, or the offset into the ToPA table",
     TEST(mask_middle)},
    {"63:32 OutputOffset", "where the next byte goes; beyond the mask or the region it is an error",
     TEST(mask_offset)},
    {0},
};

const struct table msr_tables[] = {
    {"33-6", "IA32_RTIT_CTL", 30, table_6},
    {"33-7", "IA32_RTIT_STATUS", 11, table_7},
    {"33-8", "IA32_RTIT_OUTPUT_BASE", 3, table_8},
    {"33-9", "IA32_RTIT_OUTPUT_MASK_PTRS", 3, table_9},
    {0},
};
