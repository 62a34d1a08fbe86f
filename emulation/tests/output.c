/* SPDX-License-Identifier: BSD-3-Clause */
/* Single-range output (33.2.7.1) and the trace transport (33.2.7.3). */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define NOISE (VPT_CTL_OS | VPT_CTL_BRANCHEN)

static struct fake *single_range(uint64_t base, uint64_t mask, uint64_t offset)
{
    struct fake *fake = fake_open("max");
    struct vpt_context ctx = context_of(0);

    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, offset << 32 | mask);
    return fake;
}

/* Each stored byte must follow the one before it, modulo the range. */
static bool follows_the_range(const struct fake *fake, uint64_t base, uint64_t mask,
                              uint64_t offset)
{
    for (size_t i = 0; i < fake->store_count; i++) {
        if (fake->stores[i].gpa != base + (offset & mask))
            return false;
        if ((offset & mask) + fake->stores[i].len_bytes > mask + 1)
            return false;
        offset += fake->stores[i].len_bytes;
    }
    return true;
}

static void test_wrap(void)
{
    static const struct {
        uint64_t base, mask, offset;
        size_t noise;
    } cases[] = {
        {0x10000, 0x7f, 0, 1000},     {0x10080, 0x7f, 0x7f, 1000},  {0x10000, 0xff, 3, 1000},
        {0x10000, 0xfff, 0, 20000},   {0x10000, 0xfff, 0xfff, 100}, {0x10000, 0xffff, 0xfff0, 9000},
        {0x100000, 0xfffff, 0, 9000}, {0, 0x3fffff, 0x3ffff0, 300}, {0, 0x3fffff, 0x1ff0, 9000},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t most = 0; most < 8; most += 3) {
            struct fake *fake = single_range(cases[i].base, cases[i].mask, cases[i].offset);
            uint64_t ptrs;

            fake->most_bytes = most;
            fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
            fake_noise(fake, cases[i].noise);
            fake_stop(fake);
            CHECK(fake->tap_total >= cases[i].noise, "case %zu: %" PRIu64 " bytes came", i,
                  fake->tap_total);
            CHECK(follows_the_range(fake, cases[i].base, cases[i].mask, cases[i].offset),
                  "case %zu: a byte is out of place", i);
            ptrs = (cases[i].offset + fake->tap_total) & cases[i].mask;
            CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == (ptrs << 32 | cases[i].mask),
                  "33.2.7.1: case %zu: the pointer is not at the end", i);
            CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == cases[i].base, "the base moved");
            CHECK(!fake_status(fake, VPT_STATUS_ERROR), "case %zu: an error", i);
            fake_close(fake);
        }
    }
}

/*
 * Pieces of guest memory that are no neighbours on the host: each store ends where the owner's
 * answer does, and nothing behind a piece is touched.
 */
static void test_scattered_pages(void)
{
    enum { PIECE = 24, PIECES = 6, APART = 2048 };
    static uint8_t pieces[PIECES][APART];
    struct fake *fake = single_range(0x10000, 0xfff, 0);

    memset(pieces, 0xa5, sizeof(pieces));
    for (unsigned i = 0; i < PIECES; i++)
        fake_map(fake, 0x10000 + (uint64_t)i * PIECE, PIECE, VPT_SPAN_RAM, pieces[PIECES - 1 - i],
                 false);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 400);
    fake_stop(fake);
    CHECK(follows_the_range(fake, 0x10000, 0xfff, 0), "a byte is out of place");
    for (unsigned i = 0; i < PIECES; i++) {
        const uint8_t *const piece = pieces[PIECES - 1 - i];

        CHECK(memcmp(piece, fake->tap + (size_t)i * PIECE, PIECE) == 0, "piece %u", i);
        for (unsigned j = PIECE; j < APART; j++)
            CHECK(piece[j] == 0xa5, "byte %u behind piece %u", j - PIECE, i);
    }
    fake_close(fake);
}

/* A 4-GiB range, and one at the top of the physical address space. */
static void test_far_ranges(void)
{
    uint8_t page[4096];
    struct fake *fake = single_range(0x100000000, 0xffffffff, 0xfffffffe);

    fake_map(fake, 0x100000000, 0x100000000, VPT_SPAN_RAM, page, true);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    fake_noise(fake, 5000);
    fake_stop(fake);
    CHECK(follows_the_range(fake, 0x100000000, 0xffffffff, 0xfffffffe), "4 GiB");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ((fake->tap_total - 2) << 32 | 0xffffffff),
          "4 GiB: the pointer");
    fake_close(fake);

    fake = fake_open("max");
    {
        uint64_t base = (1ull << fake->caps.maxphyaddr) - 4096;
        struct vpt_context ctx = context_of(0);

        vpt_set_context(&fake->cpu, &ctx);
        fake_map(fake, base, 4096, VPT_SPAN_RAM, page, true);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
        fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
        fake_noise(fake, 9000);
        fake_stop(fake);
        CHECK(follows_the_range(fake, base, 0xfff, 0), "the last page");
    }
    fake_close(fake);
}

static void test_errors(void)
{
    static const struct {
        const char *what;
        uint64_t base, mask, offset;
    } cases[] = {
        {"mask with a hole", 0x100000, 0x27f, 0},
        {"mask with a hole at bit 7", 0x100000, 0x17f, 0},
        {"mask with the top bit alone", 0, 0x8000007f, 0},
        {"base overlaps the mask", 0x10080, 0xff, 0},
        {"base overlaps the top of the mask", 0x80000, 0xfffff, 0},
        {"offset above the mask", 0x10000, 0xfff, 0x1000},
        {"offset far above the mask", 0x10000, 0x7f, 0xffffffff},
        {"offset just above the mask", 0x10000, 0x7f, 0x80},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = single_range(cases[i].base, cases[i].mask, cases[i].offset);

        fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
        fake_noise(fake, 5000);
        vpt_flush(&fake->cpu);
        CHECK(fake_status(fake, VPT_STATUS_ERROR), "33.2.7.1: %s is an error", cases[i].what);
        CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN) && !vpt_trigger_en(&fake->cpu) &&
                  !vpt_packet_en(&fake->cpu),
              "33.3.10: %s: TriggerEn stays", cases[i].what);
        CHECK(fake->tap_total == 0, "%s: bytes were stored", cases[i].what);
        fake_stop(fake);
        CHECK(fake_status(fake, VPT_STATUS_ERROR), "only software clears Error");
        fake_close(fake);
    }
}

/* 33.3.10: after the cause is gone and Error is cleared, tracing works; before that it does not. */
static void test_recovery(void)
{
    struct fake *fake = single_range(0x10000, 0x17f, 0);

    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    vpt_flush(&fake->cpu);
    fake_stop(fake);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    CHECK(!vpt_trigger_en(&fake->cpu), "33.2.6.2: Error keeps TriggerEn 0");
    fake_noise(fake, 100);
    fake_stop(fake);
    CHECK(fake->tap_total == 0, "packets though Error is 1");
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "Error is still 1");
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    CHECK(vpt_trigger_en(&fake->cpu), "tracing resumes");
    fake_noise(fake, 100);
    fake_stop(fake);
    CHECK(fake->tap_total > 100, "packets come again");
    fake_close(fake);
}

/* Stopped = 1 has the same effect as Error = 1 (Table 33-7). */
static void test_stopped_keeps_off(void)
{
    struct fake *fake = single_range(0x10000, 0xfff, 0);

    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    CHECK(!vpt_trigger_en(&fake->cpu) && !fake_status(fake, VPT_STATUS_TRIGGEREN), "TriggerEn");
    fake_noise(fake, 100);
    fake_stop(fake);
    CHECK(fake->tap_total == 0, "packets though Stopped is 1");
    fake_close(fake);
}

/* FabricEn: bytes go to the transport, ToPA and the output MSRs are ignored. */
static void test_transport(void)
{
    struct vpt_caps caps = plain_caps("max");

    caps.leaf14_0_ecx |= VPT_CAP_FABRIC;
    for (int topa = 0; topa < 2; topa++) {
        struct fake *fake = fake_open_caps(&caps);
        struct vpt_context ctx = context_of(0);
        char words[512];

        vpt_set_context(&fake->cpu, &ctx);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, 0x10080); /* would be an error for memory */
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x17f);
        fake_write(fake, VPT_MSR_CTL,
                   VPT_CTL_TRACEEN | VPT_CTL_FABRICEN | NOISE | (topa ? VPT_CTL_TOPA : 0));
        vpt_jmp_indirect(&fake->cpu, 0x401234);
        fake_stop(fake);
        CHECK(fake->tap_total == 0, "33.2.7.3: bytes went to memory");
        CHECK(!fake_status(fake, VPT_STATUS_ERROR), "33.2.7.3: output MSRs do not matter");
        CHECK(fake->table_reads == 0, "33.2.7.3: a table was read");
        reader_text(fake->other, fake->other_len, 0, false, words, sizeof(words));
        CHECK(words_match("PSB+ MODE(64) PGE(401000) TIP(401234) FUP(40fff0) PGD()", words),
              "transport: [%s]", words);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == 0x17f, "33.2.7.3: a pointer moved");
        fake_close(fake);
    }
}

/* An owner without transport loses what goes there, and is told how much. */
static void test_no_transport(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct vpt_context ctx = context_of(0);
    struct fake *fake = fake_open_caps(&caps);
    struct vpt_ops ops = *fake->cpu.ops;

    ops.transport = NULL;
    fake->cpu.ops = &ops;
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | VPT_CTL_FABRICEN | NOISE);
    fake_noise(fake, 1000);
    fake_stop(fake);
    CHECK(fake->cpu.dropped_bytes > 1000 && fake->cpu.output_bytes == 0, "%u bytes lost",
          (unsigned)fake->cpu.dropped_bytes);
    fake_close(fake);
}

/* 256 bytes are worth a store, whatever made them. */
static void test_waiting(void)
{
    struct fake *fake = fake_open("max");

    fake_start(fake, NOISE | VPT_CTL_PTWEN);
    for (unsigned n = 0; n < 300; n++) {
        vpt_ptwrite(&fake->cpu, n, 8, 0x401000);
        CHECK(fake->cpu.buf_len < 256, "PTWRITE %u: %u bytes wait", n, fake->cpu.buf_len);
    }
    for (unsigned n = 0; n < 300; n++) {
        fake_noise(fake, 7);
        CHECK(fake->cpu.buf_len < 256, "JMP %u: %u bytes wait", n, fake->cpu.buf_len);
    }
    fake_stop(fake);
    fake_close(fake);
}

/* 33.2.7: nothing is stored while TriggerEn is 0, whatever happens. */
static void test_nothing_while_off(void)
{
    struct fake *fake = single_range(0x10000, 0xfff, 0);
    struct vpt_context ctx = context_of(3);

    fake_write(fake, VPT_MSR_CTL, NOISE);
    fake_noise(fake, 5000);
    vpt_cond_branch(&fake->cpu, 0x401000, true);
    vpt_mov_cr3(&fake->cpu, 0x5000, 0x401003);
    fake_transfer(fake, VPT_INTERRUPT, 0x401000, KERNEL, &ctx);
    vpt_ptwrite(&fake->cpu, 1, 8, 0x401000);
    vpt_time(&fake->cpu);
    vpt_set_core_ratio(&fake->cpu, 11);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == 0, "bytes while TraceEn is 0");
    fake_close(fake);
}

/* Branches that were buffered at an error belong to no later trace (33.3.10). */
static void test_nothing_left_by_an_error(void)
{
    struct vpt_caps caps = plain_caps("max");
    struct fake *fake;

    caps.deferred_tips = true;
    fake = fake_open_caps(&caps);
    fake_start(fake, NOISE);
    vpt_maintenance(&fake->cpu, 1);
    vpt_cond_branch(&fake->cpu, 0x401010, true);
    vpt_jmp_indirect(&fake->cpu, 0x402000);
    fake_map(fake, REGION_GPA, REGION_BYTES, VPT_SPAN_RESTRICTED, NULL, false);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "33.2.7.4");
    fake_unmap(fake);
    fake_write(fake, VPT_MSR_CTL, 0);
    fake_mark(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_CTL, NOISE | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    EXPECT(fake, "PSB+ MODE(64) PGE(401000)", "the next trace");
    fake_close(fake);
}

/* Packets are stored in lumps, also those of events that do not know the next instruction. */
static void test_lumps(void)
{
    struct fake *fake = single_range(0x10000, 0xffff, 0);

    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    for (unsigned i = 0; i < 1000; i++)
        vpt_maintenance(&fake->cpu, i);
    fake_stop(fake);
    CHECK(fake->tap_total > 11000 && fake->store_count < 100, "%zu stores for %" PRIu64 " bytes",
          fake->store_count, fake->tap_total);
    fake_close(fake);
}

void suite_output(void)
{
    static const struct test tests[] = {
        {"wrap and pointers", test_wrap},
        {"memory in pieces", test_scattered_pages},
        {"4 GiB and the last page", test_far_ranges},
        {"errors", test_errors},
        {"recovery after an error", test_recovery},
        {"Stopped keeps TriggerEn 0", test_stopped_keeps_off},
        {"trace transport", test_transport},
        {"no trace transport", test_no_transport},
        {"bytes that wait", test_waiting},
        {"nothing while TraceEn is 0", test_nothing_while_off},
        {"nothing left by an error", test_nothing_left_by_an_error},
        {"stores in lumps", test_lumps},
        {NULL, NULL},
    };

    add_suite("single range, transport (33.2.7.1, 33.2.7.3)", tests);
}
