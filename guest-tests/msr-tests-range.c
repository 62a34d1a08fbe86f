/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-range output: its operational errors, and where the bytes go (33.2.7.1).
 */
#include "msr-tests.h"
#include "string.h"

#define RANGE_BYTES  0x1000u
#define CANARY       0xa5
#define FEW_BRANCHES 8

/* A range with room of RANGE_BYTES in front of it and behind it. */
static uint64_t range_phys;

static uint64_t range_pointers(uint32_t mask, uint32_t offset)
{
    return (uint64_t)offset << 32 | mask;
}

static struct trace_result run(uint64_t base, uint32_t mask, uint32_t offset, uint64_t branches,
                               uint64_t wait_for)
{
    struct trace_setup setup = {.ctl = CTL_DEFAULT,
                                .base = base,
                                .mask_ptrs = range_pointers(mask, offset),
                                .branches = branches,
                                .wait_for = wait_for};

    return trace_run(&setup);
}

static void test_errors(void)
{
    static const struct {
        uint32_t base_bits, mask, offset;
        const char *name;
    } cases[] = {
        {0, 0x0000017f, 0, "mask with bit 7 clear below bit 8"},
        {0, 0x00000eff, 0, "mask with bit 8 clear"},
        {0, 0x000007ff ^ 0x80, 0, "mask with bit 7 clear below bits 10:8"},
        {0, 0x80000fff, 0, "mask with bits 30:12 clear below bit 31"},
        {0, 0xfffff07f, 0, "mask with bits 11:7 clear"},
        {0x80, 0xfff, 0, "base bit 7 in the mask"},
        {0x100, 0xfff, 0, "base bit 8 in the mask"},
        {0x200, 0xfff, 0, "base bit 9 in the mask"},
        {0x400, 0xfff, 0, "base bit 10 in the mask"},
        {0x800, 0xfff, 0, "base bit 11 in the mask"},
        {0xf80, 0xfff, 0, "base bits 11:7 in the mask"},
        {0x80, 0xff, 0, "base bit 7 in a mask of 256 bytes"},
        {0, 0xfff, 0x1000, "offset one beyond the mask"},
        {0, 0xfff, 0xffffffff, "offset far beyond the mask"},
        {0, 0x7f, 0x80, "offset one beyond a mask of 128 bytes"},
        {0, 0xfff, 0x80000000, "offset with bit 31 set"},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace_result r = run(range_phys | cases[i].base_bits, cases[i].mask, cases[i].offset,
                                    FEW_BRANCHES, STATUS_ERROR);

        report_vector(r.vector, 0, "single range: %s: WRMSR itself succeeds (33.3.10)",
                      cases[i].name);
        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_ERROR,
                     "single range: %s: Error, TriggerEn = 0 (33.2.7.1)", cases[i].name);
    }
}

static void test_legal(void)
{
    static const struct {
        uint32_t base_bits, mask, offset;
        const char *name;
    } cases[] = {
        {0, 0xfff, 0, "4 KiB"},
        {0, 0xfff, 0xfff, "offset equal to the mask"},
        {0, 0x7f, 0, "128 bytes"},
        {0x80, 0x7f, 0x7f, "128 bytes at bit 7, offset equal to the mask"},
        {0xf00, 0xff, 0, "256 bytes at the end of a page"},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace_result r =
            run(range_phys | cases[i].base_bits, cases[i].mask, cases[i].offset, FEW_BRANCHES, 0);

        report_value(r.live & (STATUS_ERROR | STATUS_TRIGGEREN), STATUS_TRIGGEREN,
                     "single range: %s: no error (33.2.7.1)", cases[i].name);
        report(r.end.offset <= cases[i].mask,
               "single range: %s: the offset stays within the mask (Table 33-9)", cases[i].name);
        report_value(r.end.base, range_phys | cases[i].base_bits,
                     "single range: %s: OUTPUT_BASE does not change (33.2.7.1)", cases[i].name);
    }
}

static bool all_canary(const uint8_t *bytes, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++)
        if (bytes[i] != CANARY)
            return false;
    return true;
}

/* A range in the middle of canaries: filled to its last byte, and nothing beside it. */
static void test_wrap(void)
{
    uint8_t *around = phys_to_virt(range_phys - RANGE_BYTES);
    struct trace_result r;

    memset(around, CANARY, 3 * RANGE_BYTES);
    r = run(range_phys, RANGE_BYTES - 1, RANGE_BYTES - 16, FEW_BRANCHES, 0);
    report(around[RANGE_BYTES - 1] == CANARY && around[2 * RANGE_BYTES] == CANARY,
           "single range: wraps at its end, not behind it (33.2.7.1)");
    report(around[2 * RANGE_BYTES - 1] != CANARY && around[RANGE_BYTES] != CANARY,
           "single range: goes on at the base after the end (33.2.7.1)");
    report(r.end.offset > 0 && r.end.offset < RANGE_BYTES - 16,
           "single range: OutputOffset wraps too (33.2.7.1)");

    memset(around, CANARY, 3 * RANGE_BYTES);
    r = run(range_phys, RANGE_BYTES - 1, 0, trace_branches(2 * RANGE_BYTES), 0);
    report(!(r.status & (STATUS_ERROR | STATUS_STOPPED)),
           "single range: no error and no stop however often it wraps (33.2.7.1)");
    report(all_canary(around, RANGE_BYTES) && all_canary(around + 2 * RANGE_BYTES, RANGE_BYTES),
           "single range: memory beside it is untouched");
}

/* Tracing goes on where it stopped. */
static void test_resume(void)
{
    uint8_t *range = phys_to_virt(range_phys);
    struct trace_result first, second;

    memset(range, CANARY, RANGE_BYTES);
    first = run(range_phys, RANGE_BYTES - 1, 0, FEW_BRANCHES, 0);
    report(all_canary(range + first.end.offset, RANGE_BYTES - first.end.offset),
           "single range: nothing behind OutputOffset (33.3.3)");
    second = run(range_phys, RANGE_BYTES - 1, first.end.offset, FEW_BRANCHES, 0);
    report(second.end.offset > first.end.offset && range[first.end.offset] != CANARY,
           "single range: goes on at OutputOffset (33.2.7.1)");
}

void test_single_range(void)
{
    if (!pt_caps()->single_range) {
        report_skip("no single-range output", "single range: errors and contents (33.2.7.1)");
        return;
    }
    range_phys = phys_alloc(3 * RANGE_BYTES, PAGE_BYTES) + RANGE_BYTES;
    test_errors();
    test_legal();
    test_wrap();
    test_resume();
    trace_off();
}
