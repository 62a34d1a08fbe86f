/* SPDX-License-Identifier: BSD-3-Clause */
/* Where output goes: a single range (33.2.7.1), tables of regions (33.2.7.2), what may go wrong. */
#include "conformance.h"

#include <string.h>

#define OTHER_GPA 0x300000ull
#define CTL       (TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN)

/* Any writes to the output MSRs were done; tracing begins. */
static void trace(struct fake *fake, uint64_t ctl)
{
    const struct vpt_context ctx = at_cpl(0);

    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, ctl);
}
static void noise(struct fake *fake, size_t bytes)
{
    fake_noise(fake, bytes);
    vpt_flush(&fake->cpu);
}
static bool error(struct fake *fake)
{
    return fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu);
}

/* ---- Schemes -------------------------------------------------------------------------------- */

static void schemes(void)
{
    struct fake *fake = fake_open("max");

    fake_output(fake);
    trace(fake, CTL);
    noise(fake, 100);
    CHECK(fake->store_count > 0 && fake->stores[0].gpa == REGION_GPA, "ToPA: to the region");
    end_quietly(fake);

    fake = fake_open("max");
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    noise(fake, 100);
    CHECK(fake->store_count > 0 && fake->stores[0].gpa == TABLE_GPA, "neither: to the base");
    end_quietly(fake);

    for (unsigned with_topa = 0; with_topa < 2; with_topa++) {
        fake = fake_open("max");
        fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA + 0x80); /* no table could be there */
        trace(fake, TRACED | VPT_CTL_FABRICEN | VPT_CTL_TRACEEN | (with_topa ? VPT_CTL_TOPA : 0));
        noise(fake, 100);
        CHECK(fake->other_len > 100 && fake->store_count == 0, "FabricEn: to the transport");
        CHECK(!fake_status(fake, VPT_STATUS_ERROR), "and ToPA does not count");
        end_quietly(fake);
    }
}

static const struct rule section_schemes[] = {
    {"schemes", "ToPA and FabricEn choose; FabricEn wins", TEST(schemes)},
    {0},
};

/* ---- A single range ------------------------------------------------------------------------- */

static struct fake *single(uint64_t base, uint64_t mask_ptrs)
{
    struct fake *fake = fake_open("skylake");

    fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, mask_ptrs);
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    return fake;
}
static void single_address(void)
{
    for (unsigned bits = 7; bits < 21; bits++) {
        const uint64_t mask = (1ull << bits) - 1, offset = mask - 5;
        struct fake *fake = single(REGION_GPA, offset << 32 | mask);

        noise(fake, 300);
        CHECK(fake->stores[0].gpa == REGION_GPA + offset && fake->stores[0].len_bytes == 6,
              "mask %llx: base and offset", (unsigned long long)mask);
        CHECK(fake->stores[1].gpa == REGION_GPA, "then the base again");
        end_quietly(fake);
    }
}
static void single_pointer(void)
{
    struct fake *fake = single(REGION_GPA, 0xfff);

    noise(fake, 9000);
    fake_stop(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ((fake->tap_total & 0xfff) << 32 | 0xfff),
          "where the next byte goes, and the mask");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == REGION_GPA, "the base stays");
    for (size_t i = 0; i < fake->store_count; i++)
        CHECK(fake->stores[i].gpa >= REGION_GPA &&
                  fake->stores[i].gpa + fake->stores[i].len_bytes <= REGION_GPA + 0x1000,
              "a store outside");
    fake_close(fake);
}
static void single_mmio(void)
{
    struct fake *fake = fake_open("skylake");

    fake_map(fake, 0xf0000000ull, 0x1000, VPT_SPAN_MMIO, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0xf0000000ull);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    noise(fake, 1000);
    CHECK(fake->other_len > 1000 && fake->other_gpa == 0xf0000000ull, "every byte to the device");
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "no error");
    end_quietly(fake);
}
static void single_errors(void)
{
    const struct {
        uint64_t base, mask_ptrs;
        bool good;
    } cases[] = {
        {REGION_GPA, 0xfff, true},
        {REGION_GPA, 0xf7f, false},                   /* a hole in the mask */
        {REGION_GPA, 0xfffeffffull, false},           /* in the middle */
        {REGION_GPA, 0x800000ffull, false},           /* a lone high bit */
        {REGION_GPA + 0x800, 0xfff, false},           /* base and mask overlap */
        {REGION_GPA + 0x80, 0xff, false},             /* in one bit */
        {REGION_GPA + 0x1000, 0xfff, true},           /* side by side */
        {REGION_GPA, 0xfffull << 32 | 0xfff, true},   /* the last byte */
        {REGION_GPA, 0x1000ull << 32 | 0xfff, false}, /* behind it */
        {REGION_GPA, 0x80000000ull << 32 | 0xfff, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = single(cases[i].base, cases[i].mask_ptrs);

        CHECK(error(fake) == !cases[i].good, "case %zu", i);
        vpt_jmp_indirect(&fake->cpu, TARGET);
        vpt_flush(&fake->cpu);
        CHECK((fake->tap_total > 0) == cases[i].good, "case %zu: output", i);
        end_quietly(fake);
    }
}
static void single_restricted(void)
{
    struct fake *fake = fake_open("skylake");

    fake_map(fake, REGION_GPA + 0x1000, 0x1000, VPT_SPAN_RESTRICTED, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x3fff);
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    noise(fake, 3000);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "not before output comes there");
    noise(fake, 3000);
    CHECK(error(fake) && fake->tap_total == 0x1000, "then an error");
    end_quietly(fake);
}

static const struct rule section_single[] = {
    {"address", "base and offset, for every mask; behind the end the base", TEST(single_address)},
    {"pointer", "MASK_PTRS says where the next byte goes; nothing goes elsewhere",
     TEST(single_pointer)},
    {"MMIO", "a device gets every byte", TEST(single_mmio)},
    {"errors", "a mask with holes, one that overlaps the base, an offset beyond it",
     TEST(single_errors)},
    {"restricted", "an error when output comes to restricted memory", TEST(single_restricted)},
    {0},
};

/* ---- Tables --------------------------------------------------------------------------------- */

/* A table with these entries up to a 0, not yet in use. */
static struct fake *table_of(const char *profile, const uint64_t *entries)
{
    struct fake *fake = fake_open(profile);

    for (unsigned i = 0; entries[i]; i++)
        fake_poke(fake, TABLE_GPA + 8 * i, entries[i]);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    return fake;
}

static void table_start(void)
{
    const uint64_t entries[] = {0x280000,   0x281000,
                                0x282000,   OTHER_GPA | 1u << VPT_TOPA_SIZE_SHR,
                                REGION_GPA, TABLE_GPA | VPT_TOPA_END,
                                0};
    struct fake *fake = table_of("skylake", entries);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x1ffdull << 32 | 3u << 7 | 0x7f);
    trace(fake, CTL);
    noise(fake, 100);
    CHECK(fake->stores[0].gpa == OTHER_GPA + 0x1ffd && fake->stores[0].len_bytes == 3,
          "entry 3, at the offset");
    CHECK(fake->stores[1].gpa == REGION_GPA, "then entry 4, at 0");
    fake_stop(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) ==
              ((fake->tap_total - 3) << 32 | 4u << 7 | 0x7f),
          "the pointers of the end");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA, "in the same table");
    fake_close(fake);
}
static void table_any_length(void)
{
    for (unsigned count = 1; count < 9; count++) {
        struct fake *fake = fake_open("skylake");

        for (unsigned i = 0; i < count; i++)
            fake_poke(fake, TABLE_GPA + 8 * i, REGION_GPA + 0x1000 * i);
        fake_poke(fake, TABLE_GPA + 8 * count, 0x5000 | VPT_TOPA_END);
        fake_poke(fake, 0x5000, OTHER_GPA);
        fake_poke(fake, 0x5008, TABLE_GPA | VPT_TOPA_END);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
        trace(fake, CTL);
        noise(fake, 0x1000 * count + 100);
        fake_stop(fake);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0x5000, "the other table");
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) ==
                  ((fake->tap_total - 0x1000 * count) << 32 | 0x7f),
              "entry 0, and what is there");
        fake_close(fake);
    }
}
static void table_unified(void)
{
    const uint64_t entries[] = {REGION_GPA, OTHER_GPA, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);
    struct reader reader;
    struct packet packet;
    bool spans = false;

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    trace(fake, CTL);
    noise(fake, 6000);
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        spans |= packet.offset < 0x1000 && packet.offset + packet.len_bytes > 0x1000;
    CHECK(spans && !reader.bad, "a packet in two regions");
    end_quietly(fake);
}
static void table_wrap(void)
{
    static uint8_t last_page[0x1000];
    const uint64_t last = OTHER_GPA;
    struct fake *fake = fake_open("skylake");

    memcpy(last_page + 0xff8, &last, sizeof(last));
    fake_map(fake, TABLE_GPA + 0x0ffff000, 0x1000, VPT_SPAN_RAM, last_page, false);
    fake_poke(fake, TABLE_GPA, REGION_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xffffffffull);
    trace(fake, CTL);
    noise(fake, 0x1000 + 100);
    fake_stop(fake);
    CHECK(fake->stores[0].gpa == OTHER_GPA, "the last entry that a table can have");
    CHECK(fake->stores[fake->store_count - 1].gpa < REGION_GPA + 0x1000 &&
              fake->stores[fake->store_count - 1].gpa >= REGION_GPA,
          "then the first of the same table");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA &&
              fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) ==
                  ((fake->tap_total - 0x1000) << 32 | 0x7f),
          "both offsets from 0");
    fake_close(fake);
}
/* The MSRs name an END entry, with an offset: neither counts in the table that it leads to. */
static void table_end_first(void)
{
    const uint64_t entries[] = {REGION_GPA, 0x5000 | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);

    fake_poke(fake, 0x5000, OTHER_GPA);
    fake_poke(fake, 0x5008, TABLE_GPA | VPT_TOPA_END);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x234ull << 32 | 1u << 7 | 0x7f);
    trace(fake, CTL);
    noise(fake, 100);
    CHECK(fake->store_count > 0 && fake->stores[0].gpa == OTHER_GPA, "at %llx",
          (unsigned long long)(fake->store_count ? fake->stores[0].gpa : 0));
    fake_stop(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0x5000 &&
              fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == (fake->tap_total << 32 | 0x7f),
          "both offsets from 0");
    fake_close(fake);
}
static void table_one_region(void)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_STOP | VPT_TOPA_INT, TABLE_GPA | VPT_TOPA_END,
                                0};
    const uint64_t no_end[] = {REGION_GPA | VPT_TOPA_STOP, OTHER_GPA, 0};
    struct fake *fake = table_of("broadwell", entries);

    trace(fake, CTL);
    noise(fake, 5000);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !fake_status(fake, VPT_STATUS_ERROR),
          "STOP works where there is one region only");
    CHECK(fake->pmis == 1 && fake->pmi_at < 0x1000, "INT comes early");
    end_quietly(fake);
    fake = table_of("broadwell", no_end);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 1u << 7 | 0x7f);
    trace(fake, CTL);
    CHECK(error(fake), "entry 1 without END");
    end_quietly(fake);
}

static const struct rule section_table[] = {
    {"start",
     "the MSRs say entry and offset; a full region leads to the next entry at 0; at the "
     "end the MSRs say where",
     TEST(table_start)},
    {"length", "the END entry may stand anywhere but first", TEST(table_any_length)},
    {"one buffer", "a packet may lie in two regions", TEST(table_unified)},
    {"END at the start", "leads to the first byte of the other table's first region",
     TEST(table_end_first)},
    {"largest table", "behind offset 0FFFFFF8H comes entry 0 of the same table", TEST(table_wrap)},
    {"one region", "it may have INT and STOP, and END must follow", TEST(table_one_region)},
    {0},
};

/* ---- STOP ----------------------------------------------------------------------------------- */

static void stop_cut(void)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);
    struct reader reader;
    struct packet packet;

    trace(fake, CTL);
    noise(fake, 6000);
    CHECK(fake->tap_total == 0x1000, "every byte of the region");
    fake_stop(fake);
    CHECK(fake->tap_total == 0x1000, "and nothing behind it, the end of tracing included");
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "for the rest is lost, not kept for later");
    reader_open(&reader, fake->tap, fake->tap_len);
    while (reader_next(&reader, &packet))
        CHECK(packet.kind != PACKET_PGD && packet.kind != PACKET_STOP, "a packet of the end");
    CHECK(reader.bad, "the last packet is cut off");
    fake_close(fake);
}
static void stop_where(void)
{
    const uint64_t entries[] = {OTHER_GPA, REGION_GPA | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);
    uint64_t mask_ptrs;

    trace(fake, CTL);
    noise(fake, 10000);
    fake_stop(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA, "the table of the entry");
    mask_ptrs = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
    CHECK((uint32_t)mask_ptrs == (1u << 7 | 0x7f), "its index");
    CHECK(mask_ptrs >> 32 == 0x1000, "the offset is behind the region");
    fake_write(fake, VPT_MSR_STATUS, 0);
    trace(fake, CTL);
    CHECK(error(fake), "so that tracing cannot go on with it");
    end_quietly(fake);
}
/* Stopped is cleared and the output is another: tracing is as ever. */
static void stop_resumed(void)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);
    uint64_t lost;

    trace(fake, CTL);
    noise(fake, 3900);
    vpt_stall(&fake->cpu, true);
    fake_noise(fake, 400);
    vpt_cond_branch(&fake->cpu, TARGET, true);
    vpt_stall(&fake->cpu, false);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED), "STOP");
    fake_stop(fake);
    lost = fake->cpu.dropped_bytes;
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, OTHER_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x3fff);
    fake->mark = fake->tap_len = 0;
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    noise(fake, 9000);
    fake_stop(fake);
    CHECK(!strstr(fake_words(fake, false), "TNT"), "a result from before");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) >> 32 > 9000, "all the pages of the range");
    CHECK(fake->cpu.dropped_bytes == lost, "nothing more is lost");
    fake_close(fake);
}

static const struct rule section_stop[] = {
    {"cut", "output ends with the region's last byte, without TIP.PGD; the rest is lost",
     TEST(stop_cut)},
    {"where", "table, entry and an offset that is no good for enabling again", TEST(stop_where)},
    {"resuming", "Stopped cleared, tracing goes on with another output", TEST(stop_resumed)},
    {0},
};

/* ---- PMI ------------------------------------------------------------------------------------ */

static struct fake *interrupting(const char *profile, uint64_t ctl)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_INT, OTHER_GPA | VPT_TOPA_INT,
                                TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of(profile, entries);

    trace(fake, CTL | ctl);
    return fake;
}
static bool pmi_bit(struct fake *fake)
{
    return (fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) & VPT_PERF_TOPA_PMI) != 0;
}
static void pmi_twice(void)
{
    struct fake *fake = interrupting("skylake", 0);

    noise(fake, 0x1000);
    CHECK(fake->pmis == 1 && pmi_bit(fake), "the first region");
    vpt_jmp_indirect(&fake->cpu, TARGET);
    CHECK(vpt_packet_en(&fake->cpu), "tracing is not frozen");
    noise(fake, 0x1000);
    CHECK(fake->pmis == 2, "the second, whether or not the first was handled");
    CHECK(wrmsr(fake, VPT_MSR_PERF_GLOBAL_RESET, VPT_PERF_TOPA_PMI) == VPT_OK && !pmi_bit(fake),
          "writing 1 clears Trace_ToPA_PMI");
    end_quietly(fake);
}
static void preserve_pends(void)
{
    struct fake *fake = interrupting("gracemont", VPT_CTL_INJECT_PSB_PMI);

    noise(fake, 0x1000);
    CHECK(fake->pmis == 1 && fake_status(fake, VPT_STATUS_PENDTOPAPMI), "PendTopaPMI");
    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_PENDTOPAPMI), "it stays");
    fake_write(fake, VPT_MSR_CTL, CTL | VPT_CTL_INJECT_PSB_PMI);
    CHECK(fake->pmis == 2, "a PMI when TraceEn is set");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_CTL, CTL | VPT_CTL_INJECT_PSB_PMI);
    CHECK(fake->pmis == 2, "none if the handler cleared the bit");
    end_quietly(fake);

    fake = interrupting("gracemont", 0);
    noise(fake, 0x1000);
    CHECK(fake->pmis == 1 && !fake_status(fake, VPT_STATUS_PENDTOPAPMI),
          "not without InjectPsbPmiOnEnable");
    end_quietly(fake);
}
static void preserve_xsaves(void)
{
    struct fake *fake = interrupting("gracemont", VPT_CTL_INJECT_PSB_PMI);
    struct vpt_xsave_area area;
    unsigned before;

    fake_noise(fake, 0xf00);
    while (fake->cpu.buf_len + fake->cpu.output_bytes < 0x1000)
        vpt_jmp_indirect(&fake->cpu, TARGET + fake->cpu.packet_count);
    CHECK(fake->pmis == 0, "the region is full once the buffer is written");
    vpt_xsaves(&fake->cpu, &area, IP_OFF);
    CHECK(fake->pmis == 1 && (area.status & VPT_STATUS_PENDTOPAPMI), "XSAVES writes it, and saves");
    fake_write(fake, VPT_MSR_STATUS, 0); /* another context */
    before = fake->pmis;
    CHECK(vpt_xrstors(&fake->cpu, &area, IP_ON, IP_START) == VPT_OK, "XRSTORS");
    CHECK(fake->pmis == before + 1, "the PMI comes again");
    end_quietly(fake);
}

static const struct rule section_pmi[] = {
    {"each region", "a PMI for each, tracing goes on; software clears Trace_ToPA_PMI",
     TEST(pmi_twice)},
    {"preservation", "PendTopaPMI is set with the PMI, and gives one at enabling",
     TEST(preserve_pends)},
    {"XSAVES", "a PMI in XSAVES comes again with XRSTORS", TEST(preserve_xsaves)},
    {0},
};

/* ---- Errors --------------------------------------------------------------------------------- */

static void entry_fails(const char *profile, uint64_t entry, bool fails)
{
    const uint64_t entries[] = {entry, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of(profile, entries);

    trace(fake, CTL);
    CHECK(error(fake) == fails, "%s: entry %llx", profile, (unsigned long long)entry);
    end_quietly(fake);
}
static void error_reserved(void)
{
    static const unsigned reserved[] = {1, 3, 5, 10, 11};

    for (size_t i = 0; i < 5; i++)
        entry_fails("skylake", REGION_GPA | 1ull << reserved[i], true);
    for (unsigned bit = 39; bit < 64; bit++)
        entry_fails("skylake", REGION_GPA | 1ull << bit, true);
    for (unsigned bit = 39; bit < 46; bit++)
        entry_fails("gracemont", 1ull << bit, false); /* MAXPHYADDR is 46 */
    entry_fails("gracemont", REGION_GPA | 1ull << 46, true);
    entry_fails("skylake", REGION_GPA | VPT_TOPA_INT | VPT_TOPA_STOP, false);
}
static void error_alignment(void)
{
    struct fake *fake = fake_open("skylake");

    for (uint64_t size = 0; size < 16; size++) {
        const uint64_t field = size << VPT_TOPA_SIZE_SHR;

        entry_fails("skylake", 0x8000000ull | field, size > 15);
        if (size > 0)
            entry_fails("skylake", 0x8000000ull | 0x1000ull << (size - 1) | field, true);
    }
    for (unsigned bit = 7; bit < 12; bit++) {
        fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA | 1u << bit);
        fake_write(fake, VPT_MSR_STATUS, 0);
        trace(fake, CTL);
        CHECK(error(fake), "a table that is not on a page: bit %u", bit);
        fake_stop(fake);
    }
    fake_close(fake);
}
static void error_offset(void)
{
    const uint64_t entries[] = {REGION_GPA | 1u << VPT_TOPA_SIZE_SHR, TABLE_GPA | VPT_TOPA_END, 0};

    for (unsigned past = 0; past < 2; past++) {
        struct fake *fake = table_of("skylake", entries);

        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, (uint64_t)(0x1fff + past) << 32 | 0x7f);
        trace(fake, CTL);
        CHECK(error(fake) == past, "offset %x in 8 KiB", 0x1fff + past);
        end_quietly(fake);
    }
}
static void error_when_reached(void)
{
    const uint64_t entries[] = {REGION_GPA, OTHER_GPA | 1u << 1, TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t end_first[] = {TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = table_of("skylake", entries);

    trace(fake, CTL);
    noise(fake, 3500);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "not before the entry is reached");
    noise(fake, 1000);
    CHECK(error(fake) && fake->tap_total == 0x1000, "then it is, and nothing more is sent");
    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "clearing TraceEn does not clear it");
    CHECK((uint32_t)fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == (1u << 7 | 0x7f),
          "the MSRs name the entry");
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_poke(fake, TABLE_GPA + 8, OTHER_GPA);
    fake_start(fake, TRACED);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "mended and cleared, it can be traced again");
    end_quietly(fake);
    fake = table_of("skylake", end_first);
    trace(fake, CTL);
    CHECK(error(fake), "END in entry 0");
    end_quietly(fake);
}
static void error_end_flags(void)
{
    static const uint64_t flags[] = {VPT_TOPA_INT, VPT_TOPA_STOP, 1u << 1, 1u << 3, 1u << 5};

    for (size_t i = 0; i < 5; i++) {
        const uint64_t entries[] = {REGION_GPA, TABLE_GPA | VPT_TOPA_END | flags[i], 0};
        struct fake *fake = table_of("skylake", entries);

        trace(fake, CTL);
        noise(fake, 5000);
        CHECK(error(fake), "END with bits %llx", (unsigned long long)flags[i]);
        end_quietly(fake);
    }
}

static const struct rule section_errors[] = {
    {"reserved bits", "1, 3, 5, 10, 11, and those above MAXPHYADDR", TEST(error_reserved)},
    {"alignment", "a region to its size, a table to a page", TEST(error_alignment)},
    {"offset", "it must be below the size of the region", TEST(error_offset)},
    {"END", "with INT, STOP or a reserved bit", TEST(error_end_flags)},
    {"when", "as soon as the entry is reached: Error, TriggerEn 0, until software clears it",
     TEST(error_when_reached)},
    {0},
};

/* ---- Restricted memory ---------------------------------------------------------------------- */

static void apic_page(void)
{
    struct fake *fake = fake_open("skylake");

    fake_map(fake, 0xfee00000ull, 0x1000, VPT_SPAN_APIC, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, 0xfee00000ull);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0xfff);
    trace(fake, TRACED | VPT_CTL_TRACEEN);
    noise(fake, 6000);
    CHECK(!fake_status(fake, VPT_STATUS_ERROR) && vpt_packet_en(&fake->cpu), "no error");
    CHECK(fake->tap_total == 0, "and nothing is stored");
    end_quietly(fake);
}

static const struct rule section_restricted[] = {
    {"APIC page", "no error is signalled", TEST(apic_page)},
    {0},
};

const struct table topa_tables[] = {
    {"33.2.7", "Trace output", 0, section_schemes},
    {"33.2.7.1", "Single range", 0, section_single},
    {"33.2.7.2", "Tables of regions", 0, section_table},
    {"33.2.7.2 ToPA STOP", "ToPA STOP", 0, section_stop},
    {"33.2.7.2 ToPA PMI", "ToPA PMI and its preservation", 0, section_pmi},
    {"33.2.7.2 ToPA errors", "ToPA errors", 0, section_errors},
    {"33.2.7.4", "Restricted memory", 0, section_restricted},
    {0},
};
