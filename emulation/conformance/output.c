/* SPDX-License-Identifier: BSD-3-Clause */
/* ToPA entries and restricted memory (33.2.7.2, 33.2.7.4). */
#include "conformance.h"

#include <string.h>

/* A table of these entries, ended by 0; tracing is on, output begins at the first. */
static struct fake *topa(const char *profile, const uint64_t *entries)
{
    struct fake *fake = fake_open(profile);
    struct vpt_context ctx = context_of(0);

    for (unsigned i = 0; entries[i]; i++)
        fake_poke(fake, TABLE_GPA + 8 * i, entries[i]);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_OUTPUT_MASK_PTRS, 0x7f);
    vpt_set_context(&fake->cpu, &ctx);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    return fake;
}

static void stop(struct fake *fake)
{
    fake_stop(fake);
    fake_close(fake);
}

static void region_base(void)
{
    const uint64_t good[] = {REGION_GPA, 0x300000, TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t misaligned[] = {(REGION_GPA + 0x1000) | 9u << VPT_TOPA_SIZE_SHR,
                                   TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t other[] = {REGION_GPA, 0x5000 | VPT_TOPA_END, 0};
    struct fake *fake = topa("skylake", good);

    fake_noise(fake, 4200);
    vpt_flush(&fake->cpu);
    CHECK(fake->stores[0].gpa == REGION_GPA, "the first byte goes to the base of the region");
    CHECK(fake->stores[fake->store_count - 1].gpa >= 0x300000, "and then to the next region");
    stop(fake);

    fake = topa("skylake", misaligned);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "a region that is not aligned to its size");
    stop(fake);

    fake = fake_open("skylake");
    fake_poke(fake, 0x5000, 0x300000);
    fake_close(fake);
    fake = topa("broadwell", other);
    fake_noise(fake, 4200);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "one region only: END must point to its own table");
    stop(fake);
}

static void region_size(void)
{
    for (unsigned size = 0; size < 9; size++) {
        const uint64_t entries[] = {REGION_GPA | size << VPT_TOPA_SIZE_SHR | VPT_TOPA_STOP,
                                    TABLE_GPA | 15u << VPT_TOPA_SIZE_SHR | VPT_TOPA_END, 0};
        struct fake *fake = topa("skylake", entries);

        fake_noise(fake, (4096u << size) + 2000);
        vpt_flush(&fake->cpu);
        CHECK(fake_status(fake, VPT_STATUS_STOPPED) && fake->tap_total == 4096u << size,
              "size %u: %llu bytes", size, (unsigned long long)fake->tap_total);
        stop(fake);
    }
}

static void region_stop(void)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t bad[] = {REGION_GPA, TABLE_GPA | VPT_TOPA_END | VPT_TOPA_STOP, 0};
    struct fake *fake = topa("skylake", entries);

    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_STOPPED) && !vpt_trigger_en(&fake->cpu), "Stopped");
    CHECK(fake->tap_total == 4096, "every byte of the region, and no more");
    stop(fake);

    fake = topa("skylake", bad);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "STOP in an END entry");
    stop(fake);
}

static void region_int(void)
{
    const uint64_t entries[] = {REGION_GPA | VPT_TOPA_INT, 0x300000, TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t both[] = {REGION_GPA | VPT_TOPA_INT | VPT_TOPA_STOP, TABLE_GPA | VPT_TOPA_END,
                             0};
    const uint64_t bad[] = {REGION_GPA, TABLE_GPA | VPT_TOPA_END | VPT_TOPA_INT, 0};
    struct fake *fake = topa("skylake", entries);

    fake_noise(fake, 3000);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 0, "not before the region is full");
    fake_noise(fake, 2000);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 1 && fake->pmi_at == 4096, "one PMI, when it is full");
    CHECK(fake_read(fake, VPT_MSR_PERF_GLOBAL_STATUS) & VPT_PERF_TOPA_PMI, "Trace_ToPA_PMI");
    stop(fake);

    fake = topa("skylake", both);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake->pmis == 1 && fake_status(fake, VPT_STATUS_STOPPED), "STOP and INT");
    stop(fake);

    fake = topa("skylake", bad);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "INT in an END entry");
    stop(fake);
}

static void region_end(void)
{
    const uint64_t entries[] = {REGION_GPA, 0x5000 | VPT_TOPA_END, 0};
    const uint64_t first[] = {TABLE_GPA | VPT_TOPA_END, 0};
    const uint64_t two[] = {REGION_GPA, 0x300000, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = topa("skylake", entries);

    fake_poke(fake, 0x5000, 0x300000);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    fake_stop(fake);
    CHECK(fake_read(fake, VPT_MSR_OUTPUT_BASE) == 0x5000, "END leads to the other table");
    fake_close(fake);

    fake = topa("skylake", first);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "END in entry 0");
    stop(fake);

    fake = topa("broadwell", two);
    fake_noise(fake, 5000);
    vpt_flush(&fake->cpu);
    CHECK(fake_status(fake, VPT_STATUS_ERROR), "one region only: entry 1 must be END");
    stop(fake);
}

static void restricted_region(void)
{
    const uint64_t entries[] = {REGION_GPA, TABLE_GPA | VPT_TOPA_END, 0};
    struct fake *fake = topa("skylake", entries);
    uint64_t stored = fake->tap_total;

    fake_map(fake, REGION_GPA, 0x1000, VPT_SPAN_RESTRICTED, NULL, false);
    fake_noise(fake, 2000);
    vpt_flush(&fake->cpu);
    CHECK(fake->tap_total == stored && fake_status(fake, VPT_STATUS_ERROR),
          "nothing is stored, an error is signalled");
    stop(fake);
}

static void restricted_table(void)
{
    struct fake *fake = fake_open("skylake");

    fake_map(fake, TABLE_GPA, 0x1000, VPT_SPAN_RESTRICTED, NULL, false);
    fake_write(fake, VPT_MSR_OUTPUT_BASE, TABLE_GPA);
    fake_write(fake, VPT_MSR_CTL, TRACED | VPT_CTL_TOPA | VPT_CTL_TRACEEN);
    CHECK(fake_status(fake, VPT_STATUS_ERROR) && !vpt_trigger_en(&fake->cpu), "an error");
    stop(fake);
}

static const struct rule table_3[] = {
    {"base address",
     "output goes to the region, which is aligned to its size; of an END entry it is the next "
     "table, or its own where only one region is supported",
     TEST(region_base)},
    {"Size", "a region takes 4 KiB shifted by the field; END entries ignore it", TEST(region_size)},
    {"STOP", "a full region sets Stopped and clears TriggerEn; reserved in END entries",
     TEST(region_stop)},
    {"INT", "a full region signals the PMI, after STOP; reserved in END entries", TEST(region_int)},
    {"END",
     "the entry leads to another table; not in entry 0; required in entry 1 where only one region "
     "is supported",
     TEST(region_end)},
    {0},
};

static const struct rule table_5[] = {
    {"region overlaps SMRR", "stores are dropped; the processor may signal an error",
     TEST(restricted_region)},
    {"table overlaps SMRR", "an error, when the write pointer comes to the table",
     TEST(restricted_table)},
    {0},
};

const struct table output_tables[] = {
    {"33-3", "ToPA table entry fields", 5, table_3},
    {"33-5", "Behaviour on restricted memory access", 2, table_5},
    {0},
};
