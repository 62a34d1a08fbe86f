/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the names of files: which of those told of a content holds an address. */
#include "suites.h"
#include "trace/origins.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>
#include <string.h>

#define FILES 200u

/* Only compared, never looked into. */
static const char contents[3];

static const struct ptd_file *content(unsigned which)
{
    return (const struct ptd_file *)(const void *)&contents[which];
}

static void expect_name(struct origins *origins, unsigned which, uint64_t address, const char *want)
{
    const char *const name = origins_find(origins, content(which), address);

    if (!want)
        CU_ASSERT_PTR_NULL(name);
    if (want && name)
        CU_ASSERT_STRING_EQUAL(name, want);
    CU_ASSERT_EQUAL(name != NULL, want != NULL);
}

static void test_places(void)
{
    struct origins origins = {0};

    expect_name(&origins, 0, 0, NULL);
    CU_ASSERT_TRUE(origins_add(&origins, content(1), 0x2000, "/usr/lib/libc.so.6"));
    CU_ASSERT_TRUE(origins_add(&origins, content(1), 0x1000, "name"));
    CU_ASSERT_TRUE(origins_add(&origins, content(0), 0, "/bin/all/"));
    expect_name(&origins, 1, 0xfff, NULL);
    expect_name(&origins, 1, 0x1000, "name");
    expect_name(&origins, 1, 0x1fff, "name");
    expect_name(&origins, 1, 0x2000, "libc.so.6");
    expect_name(&origins, 1, UINT64_MAX, "libc.so.6");
    expect_name(&origins, 0, UINT64_MAX, "/bin/all/");
    expect_name(&origins, 2, UINT64_MAX, NULL);
    /* Told again, and between two that were there. */
    CU_ASSERT_TRUE(origins_add(&origins, content(1), 0x2000, "other"));
    CU_ASSERT_TRUE(origins_add(&origins, content(1), 0x1800, "/between"));
    expect_name(&origins, 1, 0x2000, "libc.so.6");
    expect_name(&origins, 1, 0x17ff, "name");
    expect_name(&origins, 1, 0x1800, "between");
    origins_free(&origins);
}

static void test_many(void)
{
    struct origins origins = {0};
    char name[32];

    for (unsigned i = 0; i < FILES; i++) {
        const unsigned place = i * 77 % FILES; /* each once, in another order */

        (void)snprintf(name, sizeof(name), "/lib/%u", place);
        CU_ASSERT_TRUE(origins_add(&origins, content(2), place * 16, name));
    }
    for (unsigned i = 0; i < FILES * 16; i++) {
        (void)snprintf(name, sizeof(name), "%u", i / 16);
        expect_name(&origins, 2, i, name);
    }
    origins_free(&origins);
}

void add_origins_suite(void)
{
    const CU_pSuite suite = CU_add_suite("files of code", NULL, NULL);

    CU_add_test(suite, "places", test_places);
    CU_add_test(suite, "many", test_many);
}
