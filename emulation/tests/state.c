/* SPDX-License-Identifier: BSD-3-Clause */
/* Reset (33.2.8.1, 33.3.4), and a processor that is copied in the middle of tracing. */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define BOTH (VPT_CTL_OS | VPT_CTL_USER | VPT_CTL_BRANCHEN)

static const uint32_t msrs[] = {VPT_MSR_OUTPUT_BASE, VPT_MSR_OUTPUT_MASK_PTRS, VPT_MSR_CTL,
                                VPT_MSR_STATUS,      VPT_MSR_CR3_MATCH,        VPT_MSR_ADDR0_A,
                                VPT_MSR_ADDR0_A + 1, VPT_MSR_ADDR0_A + 2,      VPT_MSR_ADDR0_A + 3};
#define MSRS (sizeof(msrs) / sizeof(msrs[0]))

/* Every MSR that there is gets a value other than its reset value; tracing is on if asked. */
static void fill(struct fake *fake, bool tracing, uint64_t *values)
{
    struct vpt_context ctx = context_of(0);

    fake_output(fake);
    vpt_set_context(&fake->cpu, &ctx);
    vpt_wrmsr(&fake->cpu, VPT_MSR_CR3_MATCH, 0x5000, IP_ON, IP_START);
    for (uint32_t i = 0; i < 4; i++)
        vpt_wrmsr(&fake->cpu, VPT_MSR_ADDR0_A + i, 0x402000 + i, IP_ON, IP_START);
    if (!tracing)
        fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    fake_write(fake, VPT_MSR_CTL, BOTH | VPT_CTL_TOPA | (tracing ? VPT_CTL_TRACEEN : 0));
    fake_noise(fake, 500);
    vpt_flush(&fake->cpu);
    for (size_t i = 0; i < MSRS; i++)
        vpt_rdmsr(&fake->cpu, msrs[i], &values[i]);
}

static void expect_cleared(struct fake *fake, const char *what)
{
    for (size_t i = 0; i < MSRS; i++) {
        uint64_t value = 0, want = msrs[i] == VPT_MSR_OUTPUT_MASK_PTRS ? 0x7f : 0;

        if (vpt_rdmsr(&fake->cpu, msrs[i], &value) == VPT_OK)
            CHECK(value == want, "%s: %" PRIx32 " is %" PRIx64, what, msrs[i], value);
    }
    CHECK(!vpt_trigger_en(&fake->cpu) && !vpt_packet_en(&fake->cpu), "%s: tracing", what);
}

static void expect_kept(struct fake *fake, const uint64_t *values, const char *what)
{
    for (size_t i = 0; i < MSRS; i++) {
        uint64_t value = 0, want = values[i];

        if (vpt_rdmsr(&fake->cpu, msrs[i], &value) != VPT_OK)
            continue;
        if (msrs[i] == VPT_MSR_CTL)
            want &= ~VPT_CTL_TRACEEN;
        if (msrs[i] == VPT_MSR_STATUS) { /* 33.3.4: some bits may be cleared with TraceEn */
            value &= VPT_STATUS_STOPPED | VPT_STATUS_ERROR;
            want &= VPT_STATUS_STOPPED | VPT_STATUS_ERROR;
        }
        CHECK(value == want, "%s: %" PRIx32 " is %" PRIx64 ", was %" PRIx64, what, msrs[i], value,
              want);
    }
    CHECK(!vpt_trigger_en(&fake->cpu) && !vpt_packet_en(&fake->cpu), "%s: tracing", what);
    CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN), "%s: STATUS.TriggerEn", what);
}

/* Table 33-11, EBX[2]: Intel PT MSRs keep their values, and the others do not. */
static void test_counters_after_reset(void)
{
    static const enum vpt_reset kinds[] = {VPT_RESET_COLD, VPT_RESET_WARM};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fake *fake = fake_open("max");

        fake_write(fake, VPT_MSR_PERF_GLOBAL_CTRL, 1);
        fake->cpu.perf_global_status = VPT_PERF_TOPA_PMI;
        fake_write(fake, VPT_MSR_CR3_MATCH, 0x5000);
        vpt_reset(&fake->cpu, kinds[i]);
        CHECK(fake_read(fake, VPT_MSR_CR3_MATCH) == (kinds[i] == VPT_RESET_WARM ? 0x5000 : 0),
              "%zu: CR3_MATCH", i);
        CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_CTRL) == 0, "%zu: PERF_GLOBAL_CTRL", i);
        CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "%zu: PERF_GLOBAL_STATUS", i);
        fake_close(fake);
    }
}

static void test_reset(void)
{
    for (size_t i = 0; i < vpt_profile_count(); i++) {
        for (int tracing = 0; tracing < 2; tracing++) {
            const char *name = vpt_profile_name(i);
            struct fake *fake = fake_open(name);
            uint64_t values[MSRS] = {0}, stored;

            if (!fake->caps.supported) {
                fake_close(fake);
                continue;
            }

            expect_cleared(fake, "after creation");
            fill(fake, tracing, values);
            stored = fake->tap_total;
            vpt_reset(&fake->cpu, VPT_RESET_WARM);
            if (fake->caps.leaf14_0_ebx & VPT_CAP_IPFILTER)
                expect_kept(fake, values, name);
            else
                expect_cleared(fake, name);
            CHECK(fake->tap_total == stored, "%s: a warm reset stored packets", name);
            vpt_reset(&fake->cpu, VPT_RESET_COLD);
            expect_cleared(fake, name);
            fill(fake, tracing, values);
            stored = fake->tap_total;
            vpt_reset(&fake->cpu, VPT_RESET_COLD);
            expect_cleared(fake, name);
            vpt_flush(&fake->cpu);
            CHECK(fake->tap_total == stored, "%s: a cold reset stored packets", name);
            fake_close(fake);
        }
    }
}

/* After a reset tracing works as after creation. */
static void test_works_after_reset(void)
{
    for (int kind = VPT_RESET_COLD; kind <= VPT_RESET_WARM; kind++) {
        struct fake *fake = fake_open("max");

        fake_start(fake, BOTH);
        vpt_call_direct(&fake->cpu, 0x402000, 0x401005);
        vpt_cond_branch(&fake->cpu, 0x402010, true);
        vpt_reset(&fake->cpu, (enum vpt_reset)kind);
        fake_write(fake, VPT_MSR_STATUS, 0);
        fake_start(fake, BOTH);
        vpt_ret(&fake->cpu, 0x401005);
        EXPECT(fake, "TIP(401005)", "nothing survives in the TNT buffer or the RET stack");
        fake_close(fake);
    }
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* Some events out of a seed; the same for the same seed. */
static void events(struct fake *fake, uint64_t seed, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct vpt_context ctx = context_of(0);
        uint64_t ip;

        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        ip = 0x400000 + (seed >> 40 & 0xffff);
        fake->clocks.tsc += seed >> 60;
        fake->clocks.art = fake->clocks.tsc / 4;
        fake->clocks.cycles = fake->clocks.tsc * 2;
        switch (seed >> 33 & 15) {
        case 0:
            vpt_jmp_indirect(&fake->cpu, ip);
            break;
        case 1:
        case 2:
            vpt_call_direct(&fake->cpu, 0x404000, ip);
            break;
        case 3:
            vpt_ret(&fake->cpu, ip);
            break;
        case 4:
            if (vpt_ret_count(&fake->cpu))
                vpt_ret(&fake->cpu, *vpt_ret_at(&fake->cpu, vpt_ret_youngest(&fake->cpu)));
            break;
        case 5:
            vpt_mov_cr3(&fake->cpu, ip << 12, ip);
            break;
        case 6:
            ctx.cr3 = seed & 0xf000;
            ctx.cpl = seed >> 20 & 3;
            ctx.exec_mode = (uint8_t)(seed >> 22 & 1 ? VPT_EXEC_64 : VPT_EXEC_32);
            fake_transfer(fake, VPT_INTERRUPT, ip, ip + 0x100, &ctx);
            break;
        case 7:
            vpt_ptwrite(&fake->cpu, seed, 8, ip);
            break;
        case 8:
            vpt_time(&fake->cpu);
            break;
        default:
            vpt_cond_branch(&fake->cpu, ip, seed >> 30 & 1);
        }
    }
}

static void test_copy(void)
{
    static const uint64_t ctls[] = {
        BOTH,
        VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_PTWEN | VPT_CTL_FUPONPTW,
        BOTH | VPT_CTL_TSCEN | VPT_CTL_MTCEN | VPT_CTL_CYCEN,
        BOTH | VPT_CTL_DISRETC | (uint64_t)VPT_ADDR_CFG_FILTER << VPT_CTL_ADDR_CFG_SHR,
    };

    for (unsigned round = 0; round < 40; round++) {
        struct vpt_caps caps = plain_caps("max");
        struct fake *first, *second;

        caps.long_tnt = round & 1;
        caps.deferred_tips = round & 2;
        first = fake_open_caps(&caps);
        second = fake_open_caps(&caps);
        fake_write(first, VPT_MSR_ADDR0_A, 0x400000);
        fake_write(first, VPT_MSR_ADDR0_A + 1, 0x407fff);
        fake_start(first, ctls[round % 4]);
        events(first, round, 100 + round * 37);
        if (round & 4)
            vpt_flush(&first->cpu);

        memcpy(second->ram, first->ram, RAM_BYTES);
        memcpy(second->shadow, first->shadow, RAM_BYTES);
        second->clocks = first->clocks;
        second->cpu = first->cpu;
        second->cpu.owner = second;
        first->tap_len = second->tap_len = 0;

        events(first, round + 1000, 2000);
        events(second, round + 1000, 2000);
        fake_stop(first);
        fake_stop(second);
        CHECK(first->tap_len == second->tap_len && first->tap_len > 500 &&
                  memcmp(first->tap, second->tap, first->tap_len) == 0,
              "round %u: the copies differ", round);
        CHECK(memcmp(first->ram, second->ram, RAM_BYTES) == 0, "round %u: memory differs", round);
        for (size_t i = 0; i < MSRS; i++)
            CHECK(fake_read(first, msrs[i]) == fake_read(second, msrs[i]), "round %u: %x", round,
                  msrs[i]);
        fake_close(first);
        fake_close(second);
    }
}

/* Manual context switch (33.3.5.1): save and restore in the middle loses nothing that decodes. */
static void test_manual_switch(void)
{
    struct fake *fake = fake_open("max");
    uint64_t values[MSRS], ctl;

    fake_start(fake, BOTH);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    ctl = fake_read(fake, VPT_MSR_CTL);
    fake_stop(fake);
    for (size_t i = 0; i < MSRS; i++)
        values[i] = fake_read(fake, msrs[i]);
    vpt_reset(&fake->cpu, VPT_RESET_COLD);
    for (size_t i = 0; i < MSRS; i++)
        fake_write(fake, msrs[i], values[i]);
    {
        struct vpt_context ctx = context_of(0);

        vpt_set_context(&fake->cpu, &ctx);
    }
    fake_write(fake, VPT_MSR_CTL, ctl);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    EXPECT(fake, "TNT(T) FUP(40fff0) PGD() CBR(* MODE(64) PGE(401000) TIP(402000)",
           "one stream, no second PSB+");
    fake_close(fake);
}

void suite_state(void)
{
    static const struct test tests[] = {
        {"reset", test_reset},
        {"tracing after a reset", test_works_after_reset},
        {"copies go on alike", test_copy},
        {"manual context switch", test_manual_switch},
        {"counters after a reset", test_counters_after_reset},
        {NULL, NULL},
    };

    add_suite("reset and copies (33.3.4, 33.3.5)", tests);
}
