/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of cpio archives. */
#include "suites.h"
#include "common/bytes.h"
#include "common/cpio.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODE_FILE (S_IFREG | 0644)

static void test_round_trip(void)
{
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;

    /* Names and contents of every length modulo 4. */
    static const char *const names[] = {"a", "ab", "abc", "abcd", "folder/file"};
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_TRUE_FATAL(cpio_add(&archive, names[i], MODE_FILE, "01234567", i));
    CU_ASSERT_TRUE_FATAL(cpio_end(&archive));
    CU_ASSERT_EQUAL(archive.len % 4, 0);
    CU_ASSERT_EQUAL(memcmp(archive.data, "070701", 6), 0);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL_FATAL(cpio_next(&archive, &pos, &name, &data, &len), 1);
        CU_ASSERT_STRING_EQUAL(name, names[i]);
        CU_ASSERT_EQUAL(len, i);
        CU_ASSERT_EQUAL(memcmp(data, "01234567", len), 0);
    }
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), 0);
    bytes_free(&archive);
}

/* Every byte of an archive damaged in turn, and every length cut off: values, never a crash. */
static void test_damage(void)
{
    struct bytes archive = {0};

    CU_ASSERT_TRUE_FATAL(cpio_add(&archive, "name", MODE_FILE, "data", 4));
    CU_ASSERT_TRUE_FATAL(cpio_end(&archive));
    for (size_t i = 0; i < archive.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            uint8_t *copy = malloc(archive.len);
            struct bytes damaged = {.data = copy, .len = archive.len};
            const char *name;
            const uint8_t *data;
            size_t len, pos = 0;

            memcpy(copy, archive.data, archive.len);
            copy[i] ^= (uint8_t)(1u << bit);
            for (unsigned n = 0; n < 8 && cpio_next(&damaged, &pos, &name, &data, &len) > 0; n++)
                CU_ASSERT_TRUE(data + len <= copy + archive.len);
            free(copy);
        }
    }
    for (size_t len = 0; len < archive.len; len++) {
        uint8_t *copy = malloc(len); /* exactly: a sanitizer sees a read beyond it */
        struct bytes cut = {.data = copy, .len = len};
        const char *name;
        const uint8_t *data;
        size_t member_len, pos = 0;
        int more;

        if (len)
            memcpy(copy, archive.data, len);
        while ((more = cpio_next(&cut, &pos, &name, &data, &member_len)) > 0)
            ;
        CU_ASSERT_TRUE(more == -EBADMSG || len >= archive.len - 3);
        free(copy);
    }
    bytes_free(&archive);
}

/* Writes a field of eight hexadecimal digits into the header at data. */
static void put_field(uint8_t *data, unsigned index, const char *digits)
{
    memcpy(data + 6 + 8 * index, digits, 8);
}

static void test_hostile_sizes(void)
{
    static const char *const sizes[] = {"ffffffff", "fffffffc", "80000000", "7fffffff",
                                        "0000000g", "-0000001", "        "};
    static const unsigned fields[] = {6, 11}; /* c_filesize, c_namesize */

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < 2; j++) {
            struct bytes archive = {0};
            const char *name;
            const uint8_t *data;
            size_t len, pos = 0;

            CU_ASSERT_TRUE_FATAL(cpio_add(&archive, "name", MODE_FILE, "data", 4));
            put_field(archive.data, fields[j], sizes[i]);
            CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG);
            CU_ASSERT_EQUAL(pos, 0);
            bytes_free(&archive);
        }
    }
}

/* Names of no length, without an end, and a position beyond the archive. */
static void test_hostile_names(void)
{
    struct bytes archive = {0};
    const char *name;
    const uint8_t *data;
    size_t len, pos = 0;

    CU_ASSERT_TRUE_FATAL(cpio_add(&archive, "name", MODE_FILE, "data", 4));
    put_field(archive.data, 11, "00000000");
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG);
    put_field(archive.data, 11, "00000004"); /* "name", and its zero is not part of it */
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG);
    put_field(archive.data, 11, "00000005");
    pos = SIZE_MAX;
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG);
    pos = archive.len + 1;
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG);
    pos = 0;
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), 1);
    CU_ASSERT_EQUAL(cpio_next(&archive, &pos, &name, &data, &len), -EBADMSG); /* no trailer */
    bytes_free(&archive);
}

void add_archive_suite(void)
{
    CU_pSuite suite = CU_add_suite("archives", NULL, NULL);

    CU_add_test(suite, "round trip", test_round_trip);
    CU_add_test(suite, "damage", test_damage);
    CU_add_test(suite, "hostile sizes", test_hostile_sizes);
    CU_add_test(suite, "hostile names", test_hostile_names);
}
