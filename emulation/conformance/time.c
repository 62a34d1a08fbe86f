/* SPDX-License-Identifier: BSD-3-Clause */
/* Software considerations (33.8): tracing SMM code, and time. */
#include "conformance.h"

#include <string.h>

/* ---- 33.8.1 --------------------------------------------------------------------------------- */

/* A processor in SMM, the trace of what it interrupted being off. */
static struct fake *in_smm(void)
{
    struct fake *fake = begin("gracemont", TRACED);
    struct vpt_context smm = at_cr3(0x77000);

    CHECK(vpt_smi(&fake->cpu, SOURCE), "TraceEn is kept for RSM");
    vpt_set_context(&fake->cpu, &smm);
    return fake;
}
static void handler_traces(void)
{
    struct fake *fake = in_smm();

    CHECK(!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN), "SMI clears TraceEn");
    CHECK(fake_read(fake, VPT_MSR_CTL) == (TRACED | VPT_CTL_TOPA), "and nothing else");
    fake_mark(fake);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    END(fake, "CBR(28) MODE(64) PGE(401000) TIP(402000)");
}
static void configuration_restored(void)
{
    const struct vpt_context back = at_cr3(0x1000);
    struct fake *fake = in_smm();
    const uint64_t base = fake_read(fake, VPT_MSR_OUTPUT_BASE);
    const uint64_t pointers = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
    const uint64_t status = fake_read(fake, VPT_MSR_STATUS);

    fake_poke(fake, 0x2000, 0x300000);
    fake_poke(fake, 0x2008, 0x2000 | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x2000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_stop(fake);
    CHECK(fake->stores[fake->store_count - 1].gpa >= 0x300000, "the handler's own output");
    fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, pointers);
    fake_write(fake, VPT_MSR_STATUS, status);
    fake_mark(fake);
    CHECK(vpt_rsm(&fake->cpu, true, SOURCE, &back), "RSM");
    SO_FAR(fake, "CBR(28) MODE(64) PGE(401010)");
    CHECK(fake->stores[fake->store_count - 1].gpa == REGION_GPA + (pointers >> 32),
          "where it stopped");
    end_quietly(fake);
}
static void smrr_refuses(void)
{
    struct fake *fake = in_smm();

    fake_map(fake, 0x300000, 0x1000, VPT_SPAN_RESTRICTED, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x300000);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    fake->tap_total = 0;
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TRACEEN);
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == 0 && fake_status(fake, VPT_STATUS_ERROR), "not even in SMM");
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    fake_close(fake);
}
static void rsm_needs_traceen_0(void)
{
    const struct vpt_context back = at_cr3(0x5000);
    struct fake *fake = in_smm();

    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    fake_mark(fake);
    CHECK(!vpt_rsm(&fake->cpu, true, SOURCE, &back), "TraceEn is 1");
    CHECK(fake->cpu.ctx.cr3 == 0x77000 && vpt_packet_en(&fake->cpu), "nothing changed");
    END(fake, "");
}
static void rsm_restores(void)
{
    for (unsigned traceen = 0; traceen < 2; traceen++) {
        const struct vpt_context back = at_cr3(0x5000);
        struct fake *fake = in_smm();

        fake_mark(fake);
        CHECK(vpt_rsm(&fake->cpu, traceen, SOURCE, &back), "RSM");
        CHECK(!!(fake_read(fake, VPT_MSR_CTL) & VPT_CTL_TRACEEN) == traceen, "as SMRAM has it");
        END(fake, traceen ? "CBR(28) MODE(64) PGE(401010)" : "");
    }
}

static const struct rule smm_code[] = {
    {"enabling", "SMI clears TraceEn and nothing else; a handler may set it and is traced",
     TEST(handler_traces)},
    {"restoring", "what the handler restores, RSM goes on with", TEST(configuration_restored)},
    {"SMRR", "takes no output, in SMM neither", TEST(smrr_refuses)},
    {"RSM", "with TraceEn = 1 is refused", TEST(rsm_needs_traceen_0)},
    {"RSM, TraceEn", "becomes what SMRAM holds", TEST(rsm_restores)},
    {0},
};

/* ---- 33.8.3, 33.8.3.1 ----------------------------------------------------------------------- */

static void leaf_15(void)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct vpt_cpuid regs = {7, 7, 7, 7};
        struct vpt_caps caps;

        CHECK(vpt_profile(vpt_profile_name(i), &caps), "a profile");
        CHECK(vpt_cpuid(&caps, 0x15, 0, &regs) == caps.supported, "%s", vpt_profile_name(i));
        if (!caps.supported)
            continue;
        CHECK(regs.eax == caps.tsc_den && regs.ebx == caps.tsc_num && regs.ecx == caps.crystal_hz &&
                  regs.edx == 0,
              "%s: EBX / EAX, and the crystal's frequency", vpt_profile_name(i));
        regs = (struct vpt_cpuid){2, 0, 0, 0};
        CHECK(vpt_cpuid(&caps, 0, 0, &regs) && regs.eax == (caps.tsc_den ? 0x15 : 0x14),
              "%s: the largest leaf", vpt_profile_name(i));
        regs.eax = 0x1f;
        CHECK(vpt_cpuid(&caps, 0, 0, &regs) && regs.eax == 0x1f, "which may be larger");
        if (caps.tsc_den)
            CHECK(caps.tsc_num > caps.tsc_den, "%s: the crystal is slower", vpt_profile_name(i));
    }
}
/* TSC = ART * P + what has passed since the crystal's edge, which is less than P. */
static void formula(void)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        struct vpt_caps caps;

        vpt_profile(vpt_profile_name(i), &caps);
        for (uint64_t tsc = 1; tsc < 1ull << 50; tsc = tsc * 3 + 1) {
            struct vpt_clocks clocks;
            unsigned __int128 exact;

            vpt_clocks_from_tsc(&caps, tsc, &clocks);
            CHECK(clocks.tsc == tsc && clocks.cycles == tsc, "the TSC itself");
            if (!caps.tsc_den) {
                CHECK(clocks.art == 0 && clocks.fast == 0, "without CPUID.15H");
                continue;
            }
            exact = (unsigned __int128)tsc * caps.tsc_den;
            CHECK((unsigned __int128)clocks.art * caps.tsc_num <= exact &&
                      (unsigned __int128)(clocks.art + 1) * caps.tsc_num > exact,
                  "%s: ART at %llx", vpt_profile_name(i), (unsigned long long)tsc);
            CHECK((exact - (unsigned __int128)clocks.art * caps.tsc_num) / caps.tsc_den ==
                      clocks.fast,
                  "%s: ticks since its edge at %llx", vpt_profile_name(i), (unsigned long long)tsc);
        }
    }
}
/* A processor may leave the ratio out of CPUID.15H: then nothing tells of the crystal. */
static void no_ratio(void)
{
    struct vpt_caps caps = plain_caps("skylake");
    struct vpt_clocks clocks;

    caps.tsc_num = 0;
    vpt_clocks_from_tsc(&caps, 0x123456, &clocks);
    CHECK(clocks.tsc == 0x123456 && clocks.art == 0 && clocks.fast == 0, "the TSC alone");
    caps.tsc_num = 1;
    caps.tsc_den = 1;
    vpt_clocks_from_tsc(&caps, 0x123456, &clocks);
    CHECK(clocks.art == 0x123456 && clocks.fast == 0, "a ratio of 1");
}
static void tsc_bytes(void)
{
    struct fake *fake = begin("skylake", OS | VPT_CTL_TSCEN);

    fake->clocks.tsc = 0x1122334455667788;
    vpt_set_core_ratio(&fake->cpu, 9);
    BYTES(fake, 0x19, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x02, 0x03, 9, 0);
}

static const struct rule clocks[] = {
    {"P", "is EBX / EAX of CPUID.15H, and more than 1", TEST(leaf_15)},
    {"TSC packet", "the lower 7 bytes", TEST(tsc_bytes)},
    {0},
};
static const struct rule relationships[] = {
    {"formula", "the crystal clock and the ticks since its edge make up the TSC", TEST(formula)},
    {"no ratio", "where CPUID.15H:EBX is 0 there is no crystal clock", TEST(no_ratio)},
    {0},
};

/* ---- 33.8.3.2 ------------------------------------------------------------------------------- */

/* A processor whose clocks are those of its TSC. */
static void set_tsc(struct fake *fake, uint64_t tsc)
{
    vpt_clocks_from_tsc(&fake->caps, tsc, &fake->clocks);
}
/* The packet of this kind that comes next. */
static bool next(struct reader *reader, enum packet_kind kind, struct packet *packet)
{
    while (reader_next(reader, packet))
        if (packet->kind == kind)
            return true;
    return false;
}
/* From TSC and TMA to the MTCs behind them: the times that a decoder gets are the real ones. */
static void tma_aligns(void)
{
    for (uint64_t freq = 0; freq < 10; freq += 3) {
        const uint64_t start = 0x123456789a;
        struct vpt_caps caps = rich_caps();
        struct fake *fake = fake_open_caps(&caps);
        struct packet tsc, tma, mtc;
        struct reader reader;
        uint64_t ctc = 0;

        set_tsc(fake, start);
        fake_start(fake, OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN | freq << VPT_CTL_MTCFREQ_SHR);
        for (uint64_t now = start; now < start + 200000; now += 50) {
            set_tsc(fake, now);
            vpt_time(&fake->cpu);
        }
        fake_stop(fake);
        reader_open(&reader, fake->tap, fake->tap_len);
        CHECK(next(&reader, PACKET_TSC, &tsc) && next(&reader, PACKET_TMA, &tma), "the start");
        CHECK(tsc.value == start, "TSC");
        CHECK((uint16_t)tma.value == (uint16_t)(start / 100) && tma.extra == start % 100, "TMA");
        ctc = start / 100 >> freq;
        for (unsigned n = 0; next(&reader, PACKET_MTC, &mtc); n++) {
            ctc += (uint8_t)(mtc.value - ctc);
            CHECK(ctc == (start / 100 >> freq) + n + 1, "MTC %u of period %u", n, (unsigned)freq);
        }
        CHECK(ctc == (start + 199950) / 100 >> freq, "as many as the crystal ticked");
        fake_close(fake);
    }
}
static void cyc_adds_up(void)
{
    struct fake *fake = begin("skylake", TRACED | VPT_CTL_CYCEN);
    struct reader reader;
    struct packet packet;
    uint64_t sum = 0;

    for (unsigned i = 0; i < 50; i++) {
        fake->clocks.cycles += i * i;
        if (i % 3)
            vpt_jmp_indirect(&fake->cpu, TARGET + i);
        else
            vpt_cond_branch(&fake->cpu, TARGET + i, true);
    }
    vpt_jmp_indirect(&fake->cpu, TARGET);
    vpt_flush(&fake->cpu);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (next(&reader, PACKET_CYC, &packet))
        sum += packet.value;
    CHECK(sum == fake->clocks.cycles, "%llu of %llu cycles", (unsigned long long)sum,
          (unsigned long long)fake->clocks.cycles);
    end_quietly(fake);
}
static void cyc_precedes(void)
{
    struct fake *fake = begin("gracemont", TRACED | VPT_CTL_CYCEN | VPT_CTL_TSCEN | VPT_CTL_MTCEN |
                                               VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);

    fake->clocks.cycles += 3;
    vpt_jmp_indirect(&fake->cpu, TARGET);
    fake->clocks.cycles += 3;
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
    fake->clocks.cycles += 3;
    vpt_ptwrite(&fake->cpu, 1, 4, SOURCE);
    fake->clocks.cycles += 3;
    vpt_exec_stop(&fake->cpu, SOURCE);
    fake->clocks.cycles += 3;
    fake->clocks.art++;
    vpt_time(&fake->cpu);
    fake->clocks.cycles += 3;
    vpt_set_core_ratio(&fake->cpu, 9);
    END(fake, "CYC(3) TIP(402000) CYC(3) PIP(5000) CYC(3) PTW4(1) CYC(3) EXSTOP+ FUP(401010) "
              "CYC(3) MTC(1) CYC(3) TSC(0) TMA(1,0) CBR(9)");
}
/* ---- What an MTC precedes ---- */

static void far_jump(struct fake *fake)
{
    transfer(fake, VPT_FAR_BRANCH, at_cr3(0x5000));
}
static void one_branch(struct fake *fake)
{
    vpt_cond_branch(&fake->cpu, TARGET, true);
}
static void direct_jump(struct fake *fake)
{
    vpt_jmp_direct(&fake->cpu, TARGET);
}
static void indirect_call(struct fake *fake)
{
    vpt_call_indirect(&fake->cpu, TARGET, SOURCE);
}
static void near_ret(struct fake *fake)
{
    vpt_ret(&fake->cpu, TARGET);
}
static void other_cr3(struct fake *fake)
{
    vpt_mov_cr3(&fake->cpu, 0x5000, SOURCE);
}
static void sti(struct fake *fake)
{
    vpt_interrupt_flag(&fake->cpu, true, SOURCE);
}
static void ptwrite(struct fake *fake)
{
    vpt_ptwrite(&fake->cpu, 1, 8, SOURCE);
}
static void frequency(struct fake *fake)
{
    vpt_set_core_ratio(&fake->cpu, 9);
}
static void shut_down(struct fake *fake)
{
    vpt_shutdown(&fake->cpu, SOURCE);
}
static void maintenance(struct fake *fake)
{
    vpt_maintenance(&fake->cpu, 1);
}
static void transaction(struct fake *fake)
{
    vpt_tx_begin(&fake->cpu, SOURCE);
}
static void pebs(struct fake *fake)
{
    static const struct vpt_block_item item = {0, 1};
    const struct vpt_block block = {.type = 4, .count = 1, .items = &item};

    vpt_pebs(&fake->cpu, &block, 1, SOURCE);
}
static void sleeps(struct fake *fake)
{
    const struct vpt_power_entry entry = {.ip = SOURCE, .mwait = true, .state = 0x20};

    vpt_power_entry(&fake->cpu, &entry);
}
static void clock_stops(struct fake *fake)
{
    vpt_exec_stop(&fake->cpu, SOURCE);
}
static void pointer(struct fake *fake)
{
    vpt_vmptrld(&fake->cpu, 0x88000);
}
static void entry_of(struct fake *fake, enum vpt_entry outcome)
{
    struct vpt_vm_entry entry = vmx_entry();

    entry.outcome = outcome;
    CHECK(vpt_vm_entry(&fake->cpu, &entry) == outcome, "the VM entry");
}
static void enters(struct fake *fake)
{
    entry_of(fake, VPT_ENTRY_SUCCEEDS);
}
static void fails_early(struct fake *fake)
{
    entry_of(fake, VPT_ENTRY_FAILS_EARLY);
}
static void fails_late(struct fake *fake)
{
    entry_of(fake, VPT_ENTRY_FAILS_LATE);
}
static void leaves(struct fake *fake)
{
    const struct vpt_vm_exit exit = vmx_exit();

    CHECK(vpt_vm_exit(&fake->cpu, &exit), "the VM exit");
}
static void vmx_aborts(struct fake *fake)
{
    vpt_vmx_abort(&fake->cpu, SOURCE);
}
static void smi(struct fake *fake)
{
    vpt_smi(&fake->cpu, SOURCE);
}

/* The crystal ticks, then something happens: the MTC stands first. */
static void mtc_precedes(void)
{
    static const struct {
        const char *name;
        void (*happens)(struct fake *fake);
    } events[] = {
        {"a branch", one_branch},
        {"a direct JMP", direct_jump},
        {"an indirect CALL", indirect_call},
        {"a RET", near_ret},
        {"a far jump", far_jump},
        {"MOV CR3", other_cr3},
        {"STI", sti},
        {"PTWRITE", ptwrite},
        {"a frequency", frequency},
        {"a shutdown", shut_down},
        {"maintenance", maintenance},
        {"a transaction", transaction},
        {"a PEBS record", pebs},
        {"sleep", sleeps},
        {"a stopped clock", clock_stops},
        {"VMPTRLD", pointer},
        {"VM entry", enters},
        {"VM entry, failing early", fails_early},
        {"VM entry, failing late", fails_late},
        {"VM exit", leaves},
        {"a VMX abort", vmx_aborts},
        {"SMI", smi},
        {"WRMSR", fake_stop},
    };

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct vpt_caps caps = rich_caps();
        struct fake *fake;

        caps.tsx = true;
        fake = fake_open_caps(&caps);
        vpt_vmxon(&fake->cpu, SOURCE);
        fake_start(fake,
                   TRACED | VPT_CTL_MTCEN | VPT_CTL_EVENTEN | VPT_CTL_PTWEN | VPT_CTL_PWREVTEN);
        fake->clocks.art++;
        events[i].happens(fake);
        CHECK(strncmp(fake_words(fake, false), "MTC(1)", 6) == 0, "%s: %s", events[i].name,
              fake_words(fake, false));
        vpt_reset(&fake->cpu, VPT_RESET_COLD);
        fake_close(fake);
    }
}
/* What the crystal did before TraceEn was set is no change: the first MTC is that of the next. */
static void mtc_from_enabling(void)
{
    for (uint64_t freq = 0; freq < 16; freq += 3) {
        struct vpt_caps caps = rich_caps();
        struct fake *fake = fake_open_caps(&caps);

        fake->clocks.art = 0x5501ull << freq;
        fake_start(fake, OS | VPT_CTL_MTCEN | freq << VPT_CTL_MTCFREQ_SHR);
        vpt_time(&fake->cpu);
        SO_FAR(fake, "");
        fake->clocks.art += 1ull << freq;
        vpt_time(&fake->cpu);
        END(fake, "MTC(2)");
    }
}
/* While clocks run and are told, no TSC stands alone; it does when they have ceased. */
static void tsc_after_a_pause(void)
{
    const uint64_t ctl = TRACED | VPT_CTL_TSCEN | VPT_CTL_MTCEN;
    const struct vpt_power_exit wake = {.reason = VPT_WAKE_INTERRUPT};
    struct fake *fake = begin("skylake", ctl);

    for (unsigned i = 1; i < 300; i++) {
        set_tsc(fake, 108ull * i);
        vpt_time(&fake->cpu);
    }
    CHECK(!strstr(fake_words(fake, false), "TSC"), "all is told by MTCs");
    fake_mark(fake);
    set_tsc(fake, 1000000);
    vpt_power_exit(&fake->cpu, &wake);
    SO_FAR(fake, "TSC(f4240) TMA(242b,1c) CBR(26)");
    fake_stop(fake);
    fake_mark(fake);
    set_tsc(fake, 2000000);
    fake_write(fake, VPT_MSR_CTL, ctl | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    END(fake, "TSC(1e8480) TMA(4856,38) CBR(26) MODE(64) PGE(401000)");
}

static const struct rule estimating[] = {
    {"MTC and TMA", "give the crystal's ticks from a TSC to each MTC", TEST(tma_aligns)},
    {"CYC", "values add up to the cycles that have passed", TEST(cyc_adds_up)},
    {"CYC, place", "before each packet that is eligible", TEST(cyc_precedes)},
    {"MTC, the first", "tells the first change behind the enabling", TEST(mtc_from_enabling)},
    {"MTC, place", "before the packets of all that happens behind the tick", TEST(mtc_precedes)},
    {"TSC", "alone only when other timing packets had ceased", TEST(tsc_after_a_pause)},
    {0},
};

/* ---- 33.8.3.3 ------------------------------------------------------------------------------- */

static void only_tsc_is_adjusted(void)
{
    static const char *const patterns[] = {"CYC(9) MTC(1) TSC(1000) TMA(1,5) CBR(9)",
                                           "CYC(9) MTC(1) TSC(2345) TMA(1,5) CBR(9)"};

    for (unsigned adjusted = 0; adjusted < 2; adjusted++) {
        struct fake *fake = begin("skylake", OS | VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN);

        fake->clocks = (struct vpt_clocks){
            .tsc = adjusted ? 0x2345 : 0x1000, .art = 1, .fast = 5, .cycles = 9};
        vpt_set_core_ratio(&fake->cpu, 9);
        END(fake, patterns[adjusted]);
    }
}

static const struct rule manipulation[] = {
    {"offset and scale", "are in TSC packets; MTC, CYC and CBR stay as they are",
     TEST(only_tsc_is_adjusted)},
    {0},
};

const struct table time_tables[] = {
    {"33.8.1", "Tracing SMM code", 0, smm_code},
    {"33.8.3", "Tracking time", 0, clocks},
    {"33.8.3.1", "Time domain relationships", 0, relationships},
    {"33.8.3.2", "Estimating TSC", 0, estimating},
    {"33.8.3.3", "VMX TSC manipulation", 0, manipulation},
    {0},
};
