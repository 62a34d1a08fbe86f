/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the executed path (docs/trace-files.md). */
#include "suites.h"
#include "common/bytes.h"
#include "common/file.h"
#include "run/path.h"

#include <CUnit/CUnit.h>
#include <string.h>

static void expect(const struct bytes *path, const uint64_t *words, size_t count)
{
    CU_ASSERT_EQUAL_FATAL(path->len, count * sizeof(*words));
    CU_ASSERT_EQUAL(memcmp(path->data, words, path->len), 0);
}

static void test_words(void)
{
    static const uint64_t words[] = {
        0x8000000000000001ull,
        0x401000,
        0xffffffff81000000ull,
        0x8000000000000204ull,
        0x401000,
        0x8000000000000001ull,
        0x401003,
        0x800000ffffffffffull,
        0x401006,
    };
    struct bytes path = {0};
    uint64_t cr3 = UINT64_MAX;

    CU_ASSERT_TRUE(path_add(&path, &cr3, 0x1000, 0x401000));
    CU_ASSERT_TRUE(path_add(&path, &cr3, 0x1fff, 0xffffffff81000000ull)); /* PCID: the same space */
    CU_ASSERT_TRUE(path_add(&path, &cr3, 0x204000, 0x401000));
    CU_ASSERT_TRUE(path_add(&path, &cr3, 0x1000, 0x401003));
    CU_ASSERT_TRUE(path_add(&path, &cr3, 0x800ffffffffff000ull, 0x401006));
    expect(&path, words, sizeof(words) / sizeof(words[0]));
    bytes_free(&path);
}

static void test_cr3_zero(void)
{
    static const uint64_t words[] = {0x8000000000000000ull, 0x1000};
    struct bytes path = {0};
    uint64_t cr3 = UINT64_MAX;

    CU_ASSERT_TRUE(path_add(&path, &cr3, 0, 0x1000));
    expect(&path, words, 2);
    bytes_free(&path);
}

static void test_bytes(void)
{
    struct bytes bytes = {0};
    uint8_t chunk[1000];

    CU_ASSERT_TRUE(bytes_add(&bytes, NULL, 0));
    for (unsigned i = 0; i < 100; i++) {
        memset(chunk, (int)i, sizeof(chunk));
        CU_ASSERT_TRUE(bytes_add(&bytes, chunk, sizeof(chunk)));
    }
    CU_ASSERT_EQUAL(bytes.len, 100000);
    CU_ASSERT_EQUAL(bytes.data[99999], 99);
    CU_ASSERT_EQUAL(bytes.data[1000], 1);
    CU_ASSERT_FALSE(bytes_add(&bytes, chunk, SIZE_MAX)); /* and nothing changed */
    CU_ASSERT_EQUAL(bytes.len, 100000);
    bytes_free(&bytes);
    CU_ASSERT_PTR_NULL(bytes.data);
}

static void test_beside(void)
{
    char path[64];

    beside("guests/demo.elf", "sort.elf", path, sizeof(path));
    CU_ASSERT_STRING_EQUAL(path, "guests/sort.elf");
    beside("demo.elf", "sort.elf", path, sizeof(path));
    CU_ASSERT_STRING_EQUAL(path, "./sort.elf");
    beside("guests/demo.elf", "/lib/sort.elf", path, sizeof(path));
    CU_ASSERT_STRING_EQUAL(path, "/lib/sort.elf");
}

void add_path_suite(void)
{
    CU_pSuite suite = CU_add_suite("paths", NULL, NULL);

    CU_add_test(suite, "words of an executed path", test_words);
    CU_add_test(suite, "CR3 0", test_cr3_zero);
    CU_add_test(suite, "growing bytes", test_bytes);
    CU_add_test(suite, "files beside an image", test_beside);
}
