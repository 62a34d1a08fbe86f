/* SPDX-License-Identifier: BSD-3-Clause */
/* Output through tables of physical addresses (33.2.7.2, Table 33-3). */
#include "harness.h"

#include <inttypes.h>
#include <string.h>

#define NOISE       (VPT_CTL_OS | VPT_CTL_BRANCHEN | VPT_CTL_TOPA)
#define SIZE(field) ((uint64_t)(field) << VPT_TOPA_SIZE_SHR)
#define WINDOW      0x40000000ull /* 1 GiB of pages that are all one */
#define WINDOW_LEN  0x40000000ull

/* MASK_PTRS for an entry of the table and an offset in its region. */
static uint64_t ptrs(uint64_t entry, uint64_t offset)
{
    return offset << 32 | entry << 7 | 0x7f;
}

static struct fake *topa_caps(const struct vpt_caps *caps, const uint64_t *table, size_t entries)
{
    struct fake *fake = fake_open_caps(caps);
    struct vpt_context ctx = context_of(0);

    vpt_set_context(&fake->cpu, &ctx);
    for (size_t i = 0; i < entries; i++)
        fake_poke(fake, TABLE_GPA + 8 * i, table[i]);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(0, 0));
    return fake;
}

static struct fake *topa(const uint64_t *table, size_t entries)
{
    struct vpt_caps caps = plain_caps("max");

    return topa_caps(&caps, table, entries);
}

static void enable(struct fake *fake)
{
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
}

/* Traces about that much and stops. */
static void trace(struct fake *fake, size_t bytes)
{
    enable(fake);
    fake_noise(fake, bytes);
    fake_stop(fake);
}

struct region {
    uint64_t gpa, len_bytes;
};

/* Whether the stores fill the regions in order, from an offset in the first, round and round. */
static bool fills(const struct fake *fake, const struct region *regions, size_t count,
                  uint64_t offset)
{
    size_t r = 0;

    for (size_t i = 0; i < fake->store_count; i++) {
        if (offset == regions[r].len_bytes) {
            offset = 0;
            r = (r + 1) % count;
        }
        if (fake->stores[i].gpa != regions[r].gpa + offset ||
            offset + fake->stores[i].len_bytes > regions[r].len_bytes)
            return false;
        offset += fake->stores[i].len_bytes;
    }
    return true;
}

/* All 16 sizes: from 64 bytes before the end, into the next region (Table 33-3, Size). */
static void test_sizes(void)
{
    for (unsigned size = 0; size < 16; size++) {
        uint64_t len = 4096ull << size;
        const uint64_t table[] = {WINDOW | SIZE(size), REGION_GPA, TABLE_GPA | VPT_TOPA_END};
        const struct region regions[] = {{WINDOW, len}, {REGION_GPA, 4096}};
        static uint8_t page[4096];
        struct fake *fake = topa(table, 3);

        fake_map(fake, WINDOW, WINDOW_LEN, VPT_SPAN_RAM, page, true);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(0, len - 64));
        trace(fake, 1000);
        CHECK(fills(fake, regions, 2, len - 64), "size %u: a byte is out of place", size);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ptrs(1, fake->tap_total - 64),
              "size %u: the pointers are %" PRIx64, size,
              fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS));
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA, "size %u: the base", size);
        CHECK(!fake_status(fake, VPT_STATUS_ERROR), "size %u: an error", size);
        fake_close(fake);
    }
}

/* One table of regions of several sizes, END to itself: round and round. */
static void test_circular(void)
{
    static const uint64_t table[] = {0x100000, 0x110000 | SIZE(1), 0x102000, 0x120000 | SIZE(3),
                                     TABLE_GPA | VPT_TOPA_END};
    static const struct region regions[] = {
        {0x100000, 0x1000}, {0x110000, 0x2000}, {0x102000, 0x1000}, {0x120000, 0x8000}};
    static const uint64_t ends[] = {0x1000, 0x3000, 0x4000, 0xc000};

    for (size_t bytes = 500; bytes < 200000; bytes = bytes * 3 / 2) {
        struct fake *fake = topa(table, 5);
        uint64_t at, got;
        size_t entry = 0;

        fake->most_bytes = bytes % 5;
        trace(fake, bytes);
        CHECK(fills(fake, regions, 4, 0), "%zu bytes: a byte is out of place", bytes);
        at = fake->tap_total % 0xc000;
        while (at >= ends[entry])
            entry++;
        got = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
        CHECK(got == ptrs(entry, at - (entry ? ends[entry - 1] : 0)),
              "%zu bytes: the pointers are %" PRIx64, bytes, got);
        CHECK(!fake_status(fake, VPT_STATUS_ERROR), "%zu bytes: an error", bytes);
        fake_close(fake);
    }
}

/* Three tables in a ring: OUTPUT_BASE follows the END entries. */
static void test_chain(void)
{
    struct fake *fake = topa(NULL, 0);
    static const struct region regions[] = {
        {0x100000, 0x1000}, {0x101000, 0x1000}, {0x110000, 0x1000}, {0x120000, 0x4000}};
    static const uint64_t bases[] = {TABLE_GPA, TABLE_GPA, 0x5000, 0x9000};
    uint64_t offset = 0;
    size_t r = 0;

    fake_poke(fake, TABLE_GPA, 0x100000);
    fake_poke(fake, TABLE_GPA + 8, 0x101000);
    fake_poke(fake, TABLE_GPA + 16, 0x5000 | VPT_TOPA_END);
    fake_poke(fake, 0x5000, 0x110000);
    fake_poke(fake, 0x5008, 0x9000 | VPT_TOPA_END);
    fake_poke(fake, 0x9000, 0x120000 | SIZE(2));
    fake_poke(fake, 0x9008, TABLE_GPA | VPT_TOPA_END | SIZE(15)); /* Size is ignored */
    for (int i = 0; i < 20; i++) {
        uint64_t entry;

        fake->tap_total = 0;
        trace(fake, 1700);
        offset += fake->tap_total;
        while (offset >= regions[r].len_bytes) {
            offset -= regions[r].len_bytes;
            r = (r + 1) % 4;
        }
        entry = r == 1;
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == bases[r], "stop %d: table %" PRIx64, i,
              fake_read(fake, VPT_MSR_OUTPUT_BASE));
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ptrs(entry, offset),
              "stop %d: pointers %" PRIx64, i, fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS));
    }
    CHECK(fills(fake, regions, 4, 0), "a byte is out of place");
    fake_close(fake);
}

/* Restoring the pointers in the middle of a table (33.3.5.1) goes on there. */
static void test_start_in_the_middle(void)
{
    static const uint64_t table[] = {0x100000, 0x110000 | SIZE(1), TABLE_GPA | VPT_TOPA_END};
    static const struct region regions[] = {{0x110000, 0x2000}, {0x100000, 0x1000}};
    struct fake *fake = topa(table, 3);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(1, 0x1234));
    trace(fake, 9000);
    CHECK(fills(fake, regions, 2, 0x1234), "a byte is out of place");
    fake_close(fake);
}

/* The pointers may stand on an END entry: it is followed, with offset 0. */
static void test_start_at_end_entry(void)
{
    static const uint64_t table[] = {0x100000, TABLE_GPA | VPT_TOPA_END};
    static const struct region regions[] = {{0x100000, 0x1000}};
    struct fake *fake = topa(table, 2);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(1, 0));
    trace(fake, 300);
    CHECK(fills(fake, regions, 1, 0), "a byte is out of place");
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "an error");
    fake_close(fake);
}

/* An offset that was meant for another region does not outlive the END entry. */
static void test_offset_at_end_entry(void)
{
    static const uint64_t table[] = {0x100000 | SIZE(2), TABLE_GPA | VPT_TOPA_END};
    static const struct region regions[] = {{0x100000, 0x4000}};
    struct fake *fake = topa(table, 2);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(1, 0x1230));
    enable(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ptrs(0, 0), "the offset stays");
    fake_noise(fake, 300);
    fake_stop(fake);
    CHECK(fills(fake, regions, 1, 0), "a byte is out of place");
    fake_close(fake);
}

/* The table ends at 256 MiB: after its last entry comes the first, at offset 0. */
static void test_largest_table(void)
{
    static uint8_t first[4096], last[4096];
    static const struct region regions[] = {{0x100000, 0x1000}, {0x110000, 0x1000}};
    const uint64_t base = 0x80000000ull;
    uint64_t entry = 0x100000;
    struct fake *fake = topa(NULL, 0);

    memcpy(last + 4088, &entry, 8);
    entry = 0x110000;
    memcpy(first, &entry, 8);
    entry = base | VPT_TOPA_END;
    memcpy(first + 8, &entry, 8);
    fake_map(fake, base, 4096, VPT_SPAN_READONLY, first, true);
    fake_map(fake, base + 0x0ffff000, 4096, VPT_SPAN_READONLY, last, true);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, base);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(0x1ffffff, 0));
    trace(fake, 5000);
    CHECK(fills(fake, regions, 2, 0), "a byte is out of place");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == base, "the table stays");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ptrs(0, fake->tap_total - 4096),
          "pointers %" PRIx64, fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS));
    CHECK(!fake_status(fake, VPT_STATUS_ERROR), "an error");
    fake_close(fake);
}

/* ---- STOP ----------------------------------------------------------------------------------- */

static void test_stop(void)
{
    static const uint64_t tables[][3] = {
        {0x100000 | VPT_TOPA_STOP, 0x110000, TABLE_GPA | VPT_TOPA_END},
        {0x110000, 0x100000 | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END},
        {0x110000, 0x100000 | VPT_TOPA_STOP | VPT_TOPA_INT, TABLE_GPA | VPT_TOPA_END},
        {0x100000 | VPT_TOPA_STOP | SIZE(2), 0x110000, TABLE_GPA | VPT_TOPA_END},
    };

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct fake *fake = topa(tables[i], 3);
        size_t entry = i == 1 || i == 2;
        uint64_t len = i == 3 ? 0x4000 : 0x1000, total = len + (entry ? 0x1000 : 0), left;
        char words[20000];

        enable(fake);
        fake_noise(fake, 3 * total);
        vpt_flush(&fake->cpu);
        CHECK(fake->tap_total == total, "table %zu: %" PRIu64 " of %" PRIu64 " bytes stored", i,
              fake->tap_total, total);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !fake_status(fake, VPT_STATUS_ERROR),
              "table %zu: STATUS %" PRIx64, i, fake_read(fake, VPT_MSR_STATUS));
        CHECK(!fake_status(fake, VPT_STATUS_TRIGGEREN) && !vpt_packet_en(&fake->cpu),
              "table %zu: TriggerEn", i);
        CHECK(fake->pmis == (i == 2), "table %zu: %u PMIs", i, fake->pmis);
        fake_stop(fake);
        CHECK(fake->tap_total == total, "table %zu: a byte came after the stop", i);
        CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == TABLE_GPA, "table %zu: the base", i);
        left = fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS);
        CHECK(left == ptrs(entry, len - 1) || left == ptrs(entry, len),
              "table %zu: pointers %" PRIx64, i, left);
        reader_text(fake->tap, fake->tap_len, 0, false, words, sizeof(words));
        CHECK(!strstr(words, "PGD"), "table %zu: a TIP.PGD", i);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED), "table %zu: only software clears Stopped", i);
        fake_close(fake);
    }
}

/* After a stop, software sets the pointers and clears Stopped; tracing resumes there. */
static void test_resume_after_stop(void)
{
    static const uint64_t table[] = {0x100000 | VPT_TOPA_STOP, 0x110000, TABLE_GPA | VPT_TOPA_END};
    static const struct region regions[] = {{0x110000, 0x1000}};
    struct fake *fake = topa(table, 3);

    trace(fake, 5000);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(1, 0));
    fake->store_count = 0;
    trace(fake, 500);
    CHECK(fake->store_count > 0 && fills(fake, regions, 1, 0), "tracing goes on");
    fake_close(fake);
}

/* 33.2.7.2, ToPA STOP: the pointers of a stop must not silently work when Stopped is cleared. */
static void test_enable_at_full_region(void)
{
    static const uint64_t table[] = {0x100000 | VPT_TOPA_STOP, 0x110000, TABLE_GPA | VPT_TOPA_END};
    struct fake *fake = topa(table, 3);

    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(0, 0x1000));
    enable(fake);
    fake_noise(fake, 100);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "offset = size is an operational error");
    CHECK(fake->tap_total == 0, "bytes were stored");
    fake_close(fake);
}

/* ---- INT ------------------------------------------------------------------------------------ */

static void test_pmi(void)
{
    static const uint64_t table[] = {0x100000 | VPT_TOPA_INT, 0x101000, 0x102000 | VPT_TOPA_INT,
                                     TABLE_GPA | VPT_TOPA_END};
    struct fake *fake = topa(table, 4);

    enable(fake);
    fake_noise(fake, 3500);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 0, "a PMI before the region is full");
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "bit 55 before the region is full");
    fake_noise(fake, 1000);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 1, "%u PMIs after the first region", fake->pmis);
    CHECK(fake->pmi_at >= 4096, "the PMI came after %" PRIu64 " bytes", fake->pmi_at);
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == VPT_PERF_TOPA_PMI, "bit 55");
    fake_write(fake, VPT_MSR_PERF_GLOBAL_RESET, VPT_PERF_TOPA_PMI);
    fake_noise(fake, 4096);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 1, "region 1 has no INT");
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == 0, "bit 55 stays clear");
    fake_noise(fake, 4096);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 2, "region 2 has INT");
    CHECK(!fake_status(fake, VPT_STATUS_PENDTOPAPMI), "PendTopaPMI without InjectPsbPmiOnEnable");
    CHECK(fake_status(fake, VPT_STATUS_TRIGGEREN), "tracing goes on");
    fake_stop(fake);
    fake_close(fake);
}

/* PMI preservation (Table 33-7 bit 7): set when the PMI comes, injected again when enabled. */
static void test_pmi_preservation(void)
{
    static const uint64_t table[] = {0x100000 | VPT_TOPA_INT, 0x110000 | SIZE(4),
                                     TABLE_GPA | VPT_TOPA_END};
    struct fake *fake = topa(table, 3);
    const uint64_t on = VPT_CTL_TRACEEN | NOISE | VPT_CTL_INJECT_PSB_PMI;

    fake_write(fake, VPT_MSR_CTL, on);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 1 && fake_status(fake, VPT_STATUS_PENDTOPAPMI), "PMI and PendTopaPMI");
    fake_stop(fake);
    CHECK(fake_status(fake, VPT_STATUS_PENDTOPAPMI), "PendTopaPMI survives");
    fake_write(fake, VPT_MSR_PERF_GLOBAL_RESET, VPT_PERF_TOPA_PMI);
    fake_write(fake, VPT_MSR_CTL, on);
    CHECK(fake->pmis == 2, "the PMI is pended again on enabling");
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == VPT_PERF_TOPA_PMI, "with bit 55");
    CHECK(fake_status(fake, VPT_STATUS_PENDTOPAPMI), "software clears PendTopaPMI, not we");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_CTL, VPT_CTL_TRACEEN | NOISE);
    CHECK(fake->pmis == 2, "bit 7 is ignored without InjectPsbPmiOnEnable");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, 0);
    fake_write(fake, VPT_MSR_CTL, on);
    CHECK(fake->pmis == 2, "no PMI without PendTopaPMI");
    fake_stop(fake);
    fake_write(fake, VPT_MSR_STATUS, VPT_STATUS_STOPPED | VPT_STATUS_PENDTOPAPMI);
    fake_write(fake, VPT_MSR_CTL, on);
    CHECK(fake->pmis == 3, "Table 33-7: TraceEn alone decides, even with Stopped = 1");
    fake_stop(fake);
    fake_close(fake);
}

/* ---- Processors with a single output entry -------------------------------------------------- */

static struct fake *single_entry(uint64_t first, uint64_t second)
{
    struct vpt_caps caps = plain_caps("broadwell");
    uint64_t table[2] = {first, second};

    return topa_caps(&caps, table, 2);
}

static void test_single_entry(void)
{
    static const struct region regions[] = {{0x100000, 0x2000}};
    struct fake *fake = single_entry(0x100000 | SIZE(1), TABLE_GPA | VPT_TOPA_END);

    trace(fake, 30000);
    CHECK(fills(fake, regions, 1, 0), "a byte is out of place");
    CHECK(fake->tap_total > 30000 && fake->pmis == 0, "it wraps without PMIs");
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_MASK_PTRS) == ptrs(0, fake->tap_total % 0x2000),
          "pointers");
    fake_close(fake);

    fake = single_entry(0x100000 | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END);
    trace(fake, 30000);
    CHECK(fake->tap_total == 4096 && fake_status(fake, VPT_STATUS_STOPPED), "STOP");
    fake_close(fake);
}

/* The PMI comes before the region is full, once in each pass. */
static void test_single_entry_pmi(void)
{
    struct fake *fake = single_entry(0x100000 | SIZE(2) | VPT_TOPA_INT, TABLE_GPA | VPT_TOPA_END);

    enable(fake);
    for (unsigned pass = 1; pass <= 5; pass++) {
        const uint64_t end = pass * 0x4000ull;

        while (fake->tap_total < end - 200) {
            fake_noise(fake, 50);
            vpt_flush(&fake->cpu);
        }
        while (fake->tap_total <= end + 200) {
            fake_noise(fake, 10);
            vpt_flush(&fake->cpu);
        }
        CHECK(fake->pmis == pass, "pass %u: %u PMIs", pass, fake->pmis);
        CHECK(fake->pmi_at < end && fake->pmi_at >= end - 0x4000,
              "pass %u: PMI after %" PRIu64 " bytes", pass, fake->pmi_at);
        CHECK(fake->pmi_at + fake->caps.topa_pmi_early_bytes + 1024 >= end,
              "pass %u: PMI much too early, after %" PRIu64, pass, fake->pmi_at);
        CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) == VPT_PERF_TOPA_PMI, "bit 55");
    }
    fake_stop(fake);
    fake_close(fake);
}

/* The smallest region, when the PMI is to come earlier than its beginning. */
static void test_single_entry_pmi_small(void)
{
    struct vpt_caps caps = plain_caps("broadwell");
    const uint64_t table[] = {0x100000 | VPT_TOPA_INT, TABLE_GPA | VPT_TOPA_END};
    struct fake *fake;

    caps.topa_pmi_early_bytes = 8192;
    if (vpt_caps_check(&caps))
        return;
    fake = topa_caps(&caps, table, 2);
    enable(fake);
    while (fake->tap_total < 4000) {
        fake_noise(fake, 10);
        vpt_flush(&fake->cpu);
    }
    CHECK(fake->pmis == 1, "%u PMIs before the region is full", fake->pmis);
    fake_stop(fake);
    fake_close(fake);
}

/* ---- Errors --------------------------------------------------------------------------------- */

enum where { AT_ENTRY_0, AT_ENTRY_1, AT_CHAINED };

/* Puts a bad entry somewhere; tracing must end when it is reached, not before. */
static void expect_error(const char *rule, uint64_t bad, enum where where)
{
    struct fake *fake = topa(NULL, 0);
    uint64_t before = where == AT_ENTRY_0 ? 0 : 0x1000;

    fake_poke(fake, TABLE_GPA + 16, TABLE_GPA | VPT_TOPA_END);
    switch (where) {
    case AT_ENTRY_0:
        fake_poke(fake, TABLE_GPA, bad);
        fake_poke(fake, TABLE_GPA + 8, 0x101000);
        break;
    case AT_ENTRY_1:
        fake_poke(fake, TABLE_GPA, 0x100000);
        fake_poke(fake, TABLE_GPA + 8, bad);
        break;
    case AT_CHAINED:
        fake_poke(fake, TABLE_GPA, 0x100000);
        fake_poke(fake, TABLE_GPA + 8, 0x5000 | VPT_TOPA_END);
        fake_poke(fake, 0x5000, bad);
        fake_poke(fake, 0x5008, TABLE_GPA | VPT_TOPA_END);
        break;
    }
    enable(fake);
    fake_noise(fake, 10000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !fake_status(fake, VPT_STATUS_STOPPED),
          "%s, entry %" PRIx64 " at %d: no error", rule, bad, where);
    CHECK(!vpt_trigger_en(&fake->cpu) && !fake_status(fake, VPT_STATUS_TRIGGEREN),
          "%s, entry %" PRIx64 ": TriggerEn", rule, bad);
    CHECK(fake->tap_total == before, "%s, entry %" PRIx64 " at %d: %" PRIu64 " bytes stored", rule,
          bad, where, fake->tap_total);
    fake_stop(fake);
    CHECK(fake->tap_total == before, "%s: bytes after the error", rule);
    fake_close(fake);
}

static void test_errors(void)
{
    static const struct {
        const char *rule;
        uint64_t entry;
        bool at_0; /* also an error in entry 0 for the reason named */
    } cases[] = {
        {"reserved bit 1", 0x100000 | 1u << 1, true},
        {"reserved bit 3", 0x100000 | 1u << 3, true},
        {"reserved bit 5", 0x100000 | 1u << 5, true},
        {"reserved bit 10", 0x100000 | 1u << 10, true},
        {"reserved bit 11", 0x100000 | 1u << 11, true},
        {"8 KiB, misaligned", 0x101000 | SIZE(1), true},
        {"64 KiB, misaligned", 0x108000 | SIZE(4), true},
        {"2 MiB, misaligned", 0x100000 | SIZE(9), true},
        {"128 MiB, misaligned", 0x4000000 | SIZE(15), true},
        {"STOP with END", TABLE_GPA | VPT_TOPA_END | VPT_TOPA_STOP, false},
        {"INT with END", TABLE_GPA | VPT_TOPA_END | VPT_TOPA_INT, false},
        {"reserved bit 1 with END", TABLE_GPA | VPT_TOPA_END | 1u << 1, false},
        {"reserved bit 3 with END", TABLE_GPA | VPT_TOPA_END | 1u << 3, false},
        {"reserved bit 5 with END", TABLE_GPA | VPT_TOPA_END | 1u << 5, false},
        {"reserved bit 10 with END", TABLE_GPA | VPT_TOPA_END | 1u << 10, false},
        {"reserved bit 11 with END", TABLE_GPA | VPT_TOPA_END | 1u << 11, false},
        {"all ones", ~0ull, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_error(cases[i].rule, cases[i].entry, AT_ENTRY_1);
        if (!cases[i].at_0)
            continue;
        expect_error(cases[i].rule, cases[i].entry, AT_ENTRY_0);
        expect_error(cases[i].rule, cases[i].entry, AT_CHAINED);
    }
    expect_error("END in entry 0", TABLE_GPA | VPT_TOPA_END, AT_ENTRY_0);
    expect_error("END in entry 0 of another table", TABLE_GPA | VPT_TOPA_END, AT_CHAINED);
}

/* ToPA Errors 2c: bits of the address at and above MAXPHYADDR. */
static void test_physical_width(void)
{
    struct vpt_caps caps = plain_caps("max");

    for (unsigned bit = caps.maxphyaddr; bit < 64; bit++) {
        expect_error("address width", 0x100000 | 1ull << bit, AT_ENTRY_0);
        expect_error("address width", 0x100000 | 1ull << bit, AT_ENTRY_1);
        expect_error("address width, END", TABLE_GPA | VPT_TOPA_END | 1ull << bit, AT_ENTRY_1);
    }
}

/* Errors of the MSRs: 2a and 3. */
static void test_errors_of_msrs(void)
{
    static const struct {
        const char *what;
        uint64_t base, ptrs;
    } cases[] = {
        {"table base not 4-KiB aligned", TABLE_GPA | 0x80, 0x7f},
        {"table base not 4-KiB aligned", TABLE_GPA | 0x800, 0x7f},
        {"offset = size", TABLE_GPA, 0x10000000007f},
        {"offset > size", TABLE_GPA, 0xffffffff0000007f},
        {"offset > size of entry 1", TABLE_GPA, 0x2000000000ff},
    };
    static const uint64_t table[] = {0x100000, 0x110000 | SIZE(1), TABLE_GPA | VPT_TOPA_END};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = topa(table, 3);

        for (size_t j = 0; j < 512; j++) /* whichever entry is read, it is a good one */
            fake_poke(fake, TABLE_GPA + 0x18 + 8 * j, 0x120000);
        fake_write(fake, VPT_MSR_OUTPUT_BASE, cases[i].base);
        fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, cases[i].ptrs);
        enable(fake);
        fake_noise(fake, 3000);
        vpt_flush(&fake->cpu);
        CHECK(fake_status(fake, VPT_STATUS_ERROR), "%s: no error", cases[i].what);
        CHECK(fake->tap_total == 0, "%s: bytes were stored", cases[i].what);
        fake_close(fake);
    }
}

/* No address at or above 2^MAXPHYADDR is ever used (fake_close() checks), not even for a table. */
static void test_table_at_the_end_of_memory(void)
{
    struct fake *fake = topa(NULL, 0);

    fake_write(fake, VPT_MSR_OUTPUT_BASE, (1ull << fake->caps.maxphyaddr) - 4096);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, ptrs(512, 0));
    enable(fake);
    fake_noise(fake, 1000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "no error");
    fake_stop(fake);
    fake_close(fake);
}

/* ToPA Errors 4c, for processors with a single output entry. */
static void test_single_entry_errors(void)
{
    static const struct {
        const char *what;
        uint64_t entry_1;
    } cases[] = {
        {"entry 1 with END = 0", 0x101000},
        {"entry 1 to another table", 0x5000 | VPT_TOPA_END},
        {"entry 1 with reserved bits", TABLE_GPA | VPT_TOPA_END | 2},
        {"entry 1 all zeros", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake *fake = single_entry(0x100000, cases[i].entry_1);

        fake_poke(fake, 0x5000, 0x120000);
        fake_poke(fake, 0x5008, 0x5000 | VPT_TOPA_END);
        enable(fake);
        fake_noise(fake, 20000);
        vpt_flush(&fake->cpu);
        CHECK(fake_status(fake, VPT_STATUS_ERROR), "%s: no error", cases[i].what);
        CHECK(fake->tap_total <= 4096, "%s: bytes beyond entry 0", cases[i].what);
        fake_close(fake);
    }
}

/* A ring of END entries cannot exist (END in entry 0 is an error), and must not hang anyone. */
static void test_hostile_loops(void)
{
    static const uint64_t self_in_region[] = {TABLE_GPA & ~0xfffull, TABLE_GPA | VPT_TOPA_END};
    struct fake *fake = topa(self_in_region, 2); /* output lands on the table itself */

    trace(fake, 100000);
    CHECK(fake->table_reads < 1000, "%u table reads", fake->table_reads);
    fake_close(fake);
}

void suite_topa(void)
{
    static const struct test tests[] = {
        {"all sizes", test_sizes},
        {"circular table", test_circular},
        {"chain of tables", test_chain},
        {"start in the middle", test_start_in_the_middle},
        {"start at an END entry", test_start_at_end_entry},
        {"an offset at an END entry", test_offset_at_end_entry},
        {"the largest table wraps", test_largest_table},
        {"STOP", test_stop},
        {"resuming after STOP", test_resume_after_stop},
        {"enabling at the end of a region", test_enable_at_full_region},
        {"INT", test_pmi},
        {"PMI preservation", test_pmi_preservation},
        {"single entry", test_single_entry},
        {"single entry: PMI", test_single_entry_pmi},
        {"single entry: PMI of a small region", test_single_entry_pmi_small},
        {"errors in entries", test_errors},
        {"errors: MAXPHYADDR", test_physical_width},
        {"errors in the MSRs", test_errors_of_msrs},
        {"a table at the end of memory", test_table_at_the_end_of_memory},
        {"single entry: errors", test_single_entry_errors},
        {"a table that is overwritten", test_hostile_loops},
        {NULL, NULL},
    };

    add_suite("ToPA (33.2.7.2)", tests);
}
