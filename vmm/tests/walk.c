/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the page-table walk: rights, page sizes, and tables that mean harm. */
#include "suites.h"
#include "kvm/walk.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#define P    (1ull << 0)
#define W    (1ull << 1)
#define U    (1ull << 2)
#define PS   (1ull << 7)
#define NX   (1ull << 63)
#define ALL  (P | W | U)
#define PAGE 0x20000ull /* the page that is looked at */

#define CR0_WP   (1ull << 16)
#define CR4_LA57 (1ull << 12)
#define CR4_SMEP (1ull << 20)
#define CR4_SMAP (1ull << 21)
#define AC       (1ull << 18)

/* One row: rights of the page, how it is accessed, and the error code of the fault (-1: none). */
struct rights_case {
    const char *what;
    uint64_t rights, cr4, rflags;
    bool no_wp;
    enum walk_access access;
    unsigned cpl;
    int error;
};

static const struct rights_case rights_cases[] = {
    {"supervisor reads", P, 0, 0, false, WALK_READ, 0, -1},
    {"user reads a supervisor page", P | W, 0, 0, false, WALK_READ, 3, 5},
    {"user reads", P | U, 0, 0, false, WALK_READ, 3, -1},
    {"user writes a read-only page", P | U, 0, 0, false, WALK_WRITE, 3, 7},
    {"user writes", ALL, 0, 0, false, WALK_WRITE, 3, -1},
    {"supervisor writes a read-only page", P, 0, 0, false, WALK_WRITE, 0, 3},
    {"the same without CR0.WP", P, 0, 0, true, WALK_WRITE, 0, -1},
    {"user writes a read-only page without CR0.WP", P | U, 0, 0, true, WALK_WRITE, 3, 7},
    {"nothing there", 0, 0, 0, false, WALK_READ, 0, 0},
    {"nothing there, user write", 0, 0, 0, false, WALK_WRITE, 3, 6},
    {"nothing there, fetch", 0, 0, 0, false, WALK_FETCH, 0, 16},
    {"fetch", P, 0, 0, false, WALK_FETCH, 0, -1},
    {"fetch from NX", P | NX, 0, 0, false, WALK_FETCH, 0, 17},
    {"read of NX", P | NX, 0, 0, false, WALK_READ, 0, -1},
    {"user fetch from NX", P | U | NX, 0, 0, false, WALK_FETCH, 3, 21},
    {"SMEP: supervisor fetches from a user page", P | U, CR4_SMEP, 0, false, WALK_FETCH, 0, 17},
    {"SMEP: user fetches from a user page", P | U, CR4_SMEP, 0, false, WALK_FETCH, 3, -1},
    {"SMAP: supervisor reads a user page", P | U, CR4_SMAP, 0, false, WALK_READ, 0, 1},
    {"SMAP with AC", P | U, CR4_SMAP, AC, false, WALK_READ, 0, -1},
    {"SMAP does not concern fetches", P | U, CR4_SMAP, 0, false, WALK_FETCH, 0, -1},
};

static void test_rights(void)
{
    struct fake *fake = fake_new();

    fake_identity_map(fake, ALL);
    for (size_t i = 0; i < sizeof(rights_cases) / sizeof(rights_cases[0]); i++) {
        const struct rights_case *row = &rights_cases[i];
        struct kvm_sregs *sregs = vcpu_sregs(fake->cpu);
        uint64_t gpa = 0;
        uint32_t error = 0;

        fake_put(fake, 0x4000 + PAGE / PAGE_BYTES * 8, PAGE | row->rights);
        sregs->cr4 = 0x20 | row->cr4;
        sregs->cr0 = row->no_wp ? sregs->cr0 & ~CR0_WP : sregs->cr0 | CR0_WP;
        vcpu_regs(fake->cpu)->rflags = 2 | row->rflags;
        const bool ok = walk(fake->cpu, PAGE + 0x123, row->access, row->cpl, &gpa, &error);
        if (ok != (row->error < 0) || (ok && gpa != PAGE + 0x123) ||
            (!ok && error != (uint32_t)row->error)) {
            CU_FAIL("rights");
            printf("\n    %s: %s, error code %u", row->what, ok ? "allowed" : "fault", error);
        }
    }
    fake_free(fake);
}

static void test_upper_levels_restrict(void)
{
    struct fake *fake = fake_new();
    uint64_t gpa;
    uint32_t error;

    fake_identity_map(fake, ALL);
    fake_put(fake, 0x3000, 0x4000 | P | U); /* not writable one level up */
    CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_WRITE, 3, &gpa, &error));
    fake_put(fake, 0x3000, 0x4000 | ALL | NX);
    CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_FETCH, 3, &gpa, &error));
    fake_put(fake, 0x3000, 0x4000 | P | W);
    CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_TRUE(walk(fake->cpu, PAGE, WALK_READ, 0, &gpa, &error));
    fake_free(fake);
}

/* At each level: an entry that is not present, and one that leads outside memory. */
static void test_missing_tables(void)
{
    static const uint64_t entries[] = {0x1000, 0x2000, 0x3000, 0x4000 + PAGE / PAGE_BYTES * 8};
    static const uint64_t outside[] = {FAKE_RAM_BYTES, 0xfee00000ull, 0x000ffffffffff000ull};

    for (size_t i = 0; i < 4; i++) {
        struct fake *fake = fake_new();
        uint64_t gpa = 0;
        uint32_t error = 0;

        fake_identity_map(fake, ALL);
        for (size_t j = 0; j < 3; j++) {
            fake_put(fake, entries[i], outside[j] | ALL);
            /* What is mapped there is not the walk's concern; a table is. */
            CU_ASSERT_EQUAL(walk(fake->cpu, PAGE, WALK_READ, 0, &gpa, &error), i == 3);
        }
        CU_ASSERT_EQUAL(gpa, i == 3 ? outside[2] : 0);
        fake_put(fake, entries[i], outside[0] | W | U); /* not present */
        CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_READ, 0, &gpa, &error));
        CU_ASSERT_EQUAL(error, 0);
        CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_WRITE, 3, &gpa, &error));
        CU_ASSERT_EQUAL(error, 6);
        CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_FETCH, 3, &gpa, &error));
        CU_ASSERT_EQUAL(error, 20);
        fake_free(fake);
    }
}

/* The top level maps itself: the walk ends after four levels, at the top level as a page. */
static void test_table_maps_itself(void)
{
    struct fake *fake = fake_new();
    const uint64_t slot = 0x1ed;
    const uint64_t self = 0xffffull << 48 | slot << 39 | slot << 30 | slot << 21 | slot << 12;
    uint64_t gpa = 0, value = 0;
    uint32_t error;

    fake_identity_map(fake, ALL);
    fake_put(fake, 0x1000 + 8 * slot, 0x1000 | ALL);
    CU_ASSERT_TRUE(walk(fake->cpu, self + 8 * slot, WALK_READ, 0, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0x1000 + 8 * slot);
    CU_ASSERT_TRUE(linear_read(fake->cpu, self + 8 * slot, &value, sizeof(value)));
    CU_ASSERT_EQUAL(value, 0x1000 | ALL);
    /* Overwritten through itself: the next access is gone. */
    value = 0;
    CU_ASSERT_TRUE(linear_write(fake->cpu, self + 8 * slot, &value, sizeof(value)));
    CU_ASSERT_FALSE(linear_read(fake->cpu, self + 8 * slot, &value, sizeof(value)));
    fake_free(fake);
}

/* Rights of large pages, and the bits of CR3 that are no address. */
static void test_rights_of_large_pages(void)
{
    struct fake *fake = fake_new();
    uint64_t gpa = 0;
    uint32_t error = 0;

    fake_put(fake, 0x1000, 0x2000 | ALL);
    fake_put(fake, 0x2000, 0x3000 | ALL);
    fake_put(fake, 0x2008, P | PS | NX);     /* 1 GiB: supervisor, read-only, not executable */
    fake_put(fake, 0x3000, P | U | PS | NX); /* 2 MiB: read-only, not executable */
    vcpu_sregs(fake->cpu)->cr3 = 0x8000000000001fffull;
    CU_ASSERT_TRUE(walk(fake->cpu, 0x1ff000, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0x1ff000);
    CU_ASSERT_FALSE(walk(fake->cpu, 0x1ff000, WALK_WRITE, 3, &gpa, &error));
    CU_ASSERT_EQUAL(error, 7);
    CU_ASSERT_FALSE(walk(fake->cpu, 0x1ff000, WALK_FETCH, 3, &gpa, &error));
    CU_ASSERT_EQUAL(error, 21);
    CU_ASSERT_TRUE(walk(fake->cpu, 0x7fffffff, WALK_READ, 0, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0x3fffffff);
    CU_ASSERT_FALSE(walk(fake->cpu, 0x7fffffff, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_EQUAL(error, 5);
    CU_ASSERT_FALSE(walk(fake->cpu, 0x7fffffff, WALK_WRITE, 0, &gpa, &error));
    CU_ASSERT_EQUAL(error, 3);
    fake_free(fake);
}

static void test_large_pages(void)
{
    struct fake *fake = fake_new();
    uint64_t gpa;
    uint32_t error;

    fake_put(fake, 0x1000, 0x2000 | ALL);
    fake_put(fake, 0x2000, 0x3000 | ALL);
    fake_put(fake, 0x2008, 0xc0000000ull | ALL | PS); /* 1 GiB */
    fake_put(fake, 0x3008, 0x12200000ull | ALL | PS); /* 2 MiB */
    CU_ASSERT_TRUE(walk(fake->cpu, 0x345678, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0x12345678);
    CU_ASSERT_TRUE(walk(fake->cpu, 0x52345678, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0xd2345678);
    /* The bits below a large page's frame are attributes (PAT), not address. */
    fake_put(fake, 0x3008, 0x12200000ull | 1u << 12 | ALL | PS);
    CU_ASSERT_TRUE(walk(fake->cpu, 0x345678, WALK_READ, 3, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, 0x12345678);
    fake_free(fake);
}

static void test_five_levels(void)
{
    struct fake *fake = fake_new();
    uint64_t gpa;
    uint32_t error;

    vcpu_sregs(fake->cpu)->cr4 |= CR4_LA57;
    vcpu_sregs(fake->cpu)->cr3 = 0x6000;
    fake_identity_map(fake, ALL);
    fake_put(fake, 0x6000 + 8 * 3, 0x1000 | ALL);
    CU_ASSERT_TRUE(walk(fake->cpu, (3ull << 48) + PAGE, WALK_READ, 0, &gpa, &error));
    CU_ASSERT_EQUAL(gpa, PAGE);
    CU_ASSERT_FALSE(walk(fake->cpu, PAGE, WALK_READ, 0, &gpa, &error));
    fake_free(fake);
}

/* Tables that point at themselves, outside memory, at its end, everywhere. */
static void test_hostile_tables(void)
{
    static const uint64_t entries[] = {0x1000,
                                       0x2000,
                                       FAKE_RAM_BYTES,
                                       FAKE_RAM_BYTES - PAGE_BYTES,
                                       0x000ffffffffff000ull,
                                       0xfee00000ull,
                                       1ull << 51};
    static const uint64_t linears[] = {
        0, PAGE, 0x7fffffffffffull, 0xffff800000000000ull, UINT64_MAX, 0x0123456789abcdefull};
    struct fake *fake = fake_new();
    uint8_t data[32];
    uint64_t gpa;
    uint32_t error;

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        for (size_t j = 0; j < FAKE_RAM_BYTES / 8; j++)
            fake_put(fake, 8 * j, entries[i] | ALL);
        for (size_t j = 0; j < sizeof(linears) / sizeof(linears[0]); j++) {
            for (size_t k = 0; k < sizeof(entries) / sizeof(entries[0]); k++) {
                vcpu_sregs(fake->cpu)->cr3 = entries[k];
                if (walk(fake->cpu, linears[j], WALK_READ, 0, &gpa, &error))
                    CU_ASSERT_EQUAL(gpa % PAGE_BYTES, linears[j] % PAGE_BYTES);
                (void)linear_read(fake->cpu, linears[j], data, sizeof(data));
            }
        }
    }
    fake_free(fake);
}

static void test_copies(void)
{
    struct fake *fake = fake_new();
    uint8_t data[64];

    fake_identity_map(fake, ALL);
    /* Two pages that are not neighbours in physical memory. */
    fake_put(fake, 0x4000 + 8 * (PAGE / PAGE_BYTES + 1), 0x50000 | ALL);
    memset(data, 0x5a, sizeof(data));
    CU_ASSERT_TRUE(linear_write(fake->cpu, PAGE + PAGE_BYTES - 10, data, 20));
    CU_ASSERT_EQUAL(fake->ram[PAGE + PAGE_BYTES - 1], 0x5a);
    CU_ASSERT_EQUAL(fake->ram[PAGE + PAGE_BYTES], 0);
    CU_ASSERT_EQUAL(fake->ram[0x50009], 0x5a);
    CU_ASSERT_EQUAL(fake->ram[0x5000a], 0);
    memset(data, 0, sizeof(data));
    CU_ASSERT_TRUE(linear_read(fake->cpu, PAGE + PAGE_BYTES - 10, data, 20));
    CU_ASSERT_EQUAL(data[19], 0x5a);
    /* Mapped, but not to memory; and not mapped at all. */
    fake_put(fake, 0x4000 + 8 * (PAGE / PAGE_BYTES + 1), 0x7fff0000 | ALL);
    CU_ASSERT_FALSE(linear_read(fake->cpu, PAGE + PAGE_BYTES - 10, data, 20));
    CU_ASSERT_FALSE(linear_write(fake->cpu, 0x40000000, data, 1));
    fake_free(fake);
}

void add_walk_suite(void)
{
    CU_pSuite suite = CU_add_suite("page walk", NULL, NULL);

    CU_add_test(suite, "rights of a page", test_rights);
    CU_add_test(suite, "upper levels restrict", test_upper_levels_restrict);
    CU_add_test(suite, "large pages", test_large_pages);
    CU_add_test(suite, "rights of large pages", test_rights_of_large_pages);
    CU_add_test(suite, "missing tables", test_missing_tables);
    CU_add_test(suite, "a table maps itself", test_table_maps_itself);
    CU_add_test(suite, "five levels", test_five_levels);
    CU_add_test(suite, "hostile tables", test_hostile_tables);
    CU_add_test(suite, "copies across pages", test_copies);
}
