/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of cpio archives and of the result that leaves the lab in one. */
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
        uint8_t *copy = malloc(len + 1);
        struct bytes cut = {.data = copy, .len = len};
        const char *name;
        const uint8_t *data;
        size_t member_len, pos = 0;
        int more;

        memcpy(copy, archive.data, len);
        while ((more = cpio_next(&cut, &pos, &name, &data, &member_len)) > 0)
            ;
        CU_ASSERT_TRUE(more == -EBADMSG || len >= archive.len - 3);
        free(copy);
    }
    bytes_free(&archive);
}

static void test_record(void)
{
    struct run_result out = {.code = EXIT_CODE_GUEST_FAILED,
                             .why = "a \"quoted\" reason",
                             .guest_status = 0xffffffff,
                             .packets = 1ull << 40,
                             .steps = 12345,
                             .interrupts = 7,
                             .exceptions = 8,
                             .pmis = 9,
                             .dropped_bytes = 10,
                             .mtc_freq = 3,
                             .process_count = 1,
                             .processes = {{.cr3 = 0x204000, .name = "sort", .image = "s.elf"}}};
    struct run_result in = {0};
    char path[64];
    int fd = memfd_create("record", MFD_CLOEXEC);

    CU_ASSERT_FATAL(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CU_ASSERT_TRUE(bytes_add(&out.trace, "trace", 5));
    CU_ASSERT_TRUE(bytes_add(&out.path, "path", 4));
    CU_ASSERT_EQUAL_FATAL(record_write(path, &out), 0);
    CU_ASSERT_EQUAL_FATAL(record_read(fd, &in), 0);
    CU_ASSERT_EQUAL(in.code, out.code);
    CU_ASSERT_STRING_EQUAL(in.why, out.why);
    CU_ASSERT_EQUAL(in.guest_status, out.guest_status);
    CU_ASSERT_EQUAL(in.packets, out.packets);
    CU_ASSERT_EQUAL(in.steps, out.steps);
    CU_ASSERT_EQUAL(in.interrupts, out.interrupts);
    CU_ASSERT_EQUAL(in.exceptions, out.exceptions);
    CU_ASSERT_EQUAL(in.pmis, out.pmis);
    CU_ASSERT_EQUAL(in.dropped_bytes, out.dropped_bytes);
    CU_ASSERT_EQUAL(in.mtc_freq, out.mtc_freq);
    CU_ASSERT_EQUAL(in.process_count, 1);
    CU_ASSERT_EQUAL(in.processes[0].cr3, 0x204000);
    CU_ASSERT_STRING_EQUAL(in.processes[0].name, "sort");
    CU_ASSERT_STRING_EQUAL(in.processes[0].image, "s.elf");
    CU_ASSERT_EQUAL(in.trace.len, 5);
    CU_ASSERT_EQUAL(in.path.len, 4);
    CU_ASSERT_EQUAL(memcmp(in.trace.data, "trace", 5), 0);
    run_result_free(&in);
    run_result_free(&out);
    close(fd);
}

/* What QEMU leaves when the guest in the lab wrote nothing, or rubbish. */
static void test_no_record(void)
{
    static const char *const contents[] = {"", "rubbish", "0707010000000000000000"};

    for (size_t i = 0; i < 3; i++) {
        struct run_result in = {0};
        int fd = memfd_create("record", MFD_CLOEXEC);

        CU_ASSERT_FATAL(fd >= 0);
        CU_ASSERT_EQUAL(write(fd, contents[i], strlen(contents[i])), (ssize_t)strlen(contents[i]));
        CU_ASSERT_TRUE(record_read(fd, &in) < 0);
        CU_ASSERT_EQUAL(ftruncate(fd, 1 << 20), 0);
        CU_ASSERT_TRUE(record_read(fd, &in) < 0);
        run_result_free(&in);
        close(fd);
    }
}

void add_archive_suite(void)
{
    CU_pSuite suite = CU_add_suite("archives", NULL, NULL);

    CU_add_test(suite, "round trip", test_round_trip);
    CU_add_test(suite, "damage", test_damage);
    CU_add_test(suite, "result of a run", test_record);
    CU_add_test(suite, "no result of a run", test_no_record);
}
