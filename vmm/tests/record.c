/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the result of a run that leaves the lab as an archive. */
#include "suites.h"
#include "common/say.h"
#include "common/file.h"
#include "run/run.h"
#include "run/record.h"
#include "common/cpio.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_FILE   (S_IFREG | 0644)
#define TRAILER_PAD 3u /* bytes of padding behind the name of the last member */

static void test_record(void)
{
    struct run_result out = {.end = RUN_TIMED_OUT,
                             .why = "a \"quoted\" reason",
                             .guest_status = 0xffffffff,
                             .saved = true,
                             .steps = 12345,
                             .cpu_count = 2,
                             .cpus = {{.packets = 1ull << 40,
                                       .interrupts = 7,
                                       .exceptions = 8,
                                       .pmis = 9,
                                       .dropped_bytes = 10,
                                       .output_faults = 11,
                                       .mtc_freq = 3,
                                       .family = 6,
                                       .model = 94,
                                       .stepping = 3,
                                       .deferred_tips = 1},
                                      {.packets = 12, .pmis = 13, .mtc_freq = 14}},
                             .process_count = 1,
                             .processes = {{.cr3 = 0x204000, .name = "sort", .image = "s.elf"}}};
    struct run_result in = {0};
    char path[64];
    int fd = memfd_create("record", MFD_CLOEXEC);

    CU_ASSERT_FATAL(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CU_ASSERT_TRUE(bytes_add(&out.cpus[0].trace, "trace", 5));
    CU_ASSERT_TRUE(bytes_add(&out.cpus[0].path, "path", 4));
    CU_ASSERT_TRUE(bytes_add(&out.cpus[1].handed, "handed", 6));
    CU_ASSERT_EQUAL_FATAL(record_write(path, &out), 0);
    CU_ASSERT_EQUAL_FATAL(record_read(fd, &in), 0);
    CU_ASSERT_EQUAL(in.end, out.end);
    CU_ASSERT_STRING_EQUAL(in.why, out.why);
    CU_ASSERT_EQUAL(in.guest_status, out.guest_status);
    CU_ASSERT_EQUAL(in.saved, out.saved);
    CU_ASSERT_EQUAL(in.steps, out.steps);
    CU_ASSERT_EQUAL_FATAL(in.cpu_count, 2);
    CU_ASSERT_EQUAL(in.cpus[0].packets, 1ull << 40);
    CU_ASSERT_EQUAL(in.cpus[0].interrupts, 7);
    CU_ASSERT_EQUAL(in.cpus[0].exceptions, 8);
    CU_ASSERT_EQUAL(in.cpus[0].pmis, 9);
    CU_ASSERT_EQUAL(in.cpus[0].dropped_bytes, 10);
    CU_ASSERT_EQUAL(in.cpus[0].output_faults, 11);
    CU_ASSERT_EQUAL(in.cpus[0].mtc_freq, 3);
    CU_ASSERT_EQUAL(in.cpus[0].family, 6);
    CU_ASSERT_EQUAL(in.cpus[0].model, 94);
    CU_ASSERT_EQUAL(in.cpus[0].stepping, 3);
    CU_ASSERT_EQUAL(in.cpus[0].deferred_tips, 1);
    CU_ASSERT_EQUAL(in.cpus[1].packets, 12);
    CU_ASSERT_EQUAL(in.cpus[1].pmis, 13);
    CU_ASSERT_EQUAL(in.cpus[1].mtc_freq, 14);
    CU_ASSERT_EQUAL(in.process_count, 1);
    CU_ASSERT_EQUAL(in.processes[0].cr3, 0x204000);
    CU_ASSERT_STRING_EQUAL(in.processes[0].name, "sort");
    CU_ASSERT_STRING_EQUAL(in.processes[0].image, "s.elf");
    CU_ASSERT_EQUAL(in.cpus[0].trace.len, 5);
    CU_ASSERT_EQUAL(in.cpus[0].path.len, 4);
    CU_ASSERT_EQUAL(in.cpus[0].handed.len, 0);
    CU_ASSERT_EQUAL(memcmp(in.cpus[0].trace.data, "trace", 5), 0);
    CU_ASSERT_EQUAL(in.cpus[1].trace.len, 0);
    CU_ASSERT_EQUAL_FATAL(in.cpus[1].handed.len, 6);
    CU_ASSERT_EQUAL(memcmp(in.cpus[1].handed.data, "handed", 6), 0);
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

/* Reads a record of these bytes. What is left in *in is sound, whatever they are. */
static int read_bytes(const uint8_t *data, size_t len)
{
    struct run_result in = {0};
    int fd = memfd_create("record", MFD_CLOEXEC), error;

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(write(fd, data, len), (ssize_t)len);
    error = record_read(fd, &in);
    CU_ASSERT_TRUE(in.process_count <= MAX_PROCESSES);
    CU_ASSERT_TRUE(in.cpu_count <= MAX_CPUS);
    CU_ASSERT_TRUE(strnlen(in.why, sizeof(in.why)) < sizeof(in.why));
    for (unsigned i = 0; i < in.process_count && i < MAX_PROCESSES; i++) {
        CU_ASSERT_TRUE(strnlen(in.processes[i].name, NOTE_NAME + 1) <= NOTE_NAME);
        CU_ASSERT_TRUE(strnlen(in.processes[i].image, NOTE_NAME + 1) <= NOTE_NAME);
    }
    run_result_free(&in);
    close(fd);
    return error;
}

/* A record as a run leaves it, as bytes. */
static struct bytes good_record(void)
{
    struct run_result out = {.why = "why",
                             .cpu_count = 1,
                             .process_count = 2,
                             .processes = {{.cr3 = 0x204000, .name = "sort", .image = "s.elf"},
                                           {.cr3 = UINT64_MAX, .name = "", .image = ""}}};
    struct bytes record = {0};
    char path[64];
    int fd = memfd_create("record", MFD_CLOEXEC);

    CU_ASSERT_FATAL(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CU_ASSERT_TRUE(bytes_add(&out.cpus[0].trace, "trace", 5));
    CU_ASSERT_EQUAL_FATAL(record_write(path, &out), 0);
    CU_ASSERT_EQUAL_FATAL(read_file(path, &record), 0);
    run_result_free(&out);
    close(fd);
    return record;
}

static void test_cut_off(void)
{
    struct bytes record = good_record();

    CU_ASSERT_EQUAL(read_bytes(record.data, record.len), 0);
    for (size_t len = 0; len + TRAILER_PAD < record.len; len++)
        CU_ASSERT_TRUE(read_bytes(record.data, len) < 0);
    bytes_free(&record);
}

static void test_damaged(void)
{
    struct bytes record = good_record();

    for (size_t i = 0; i < record.len; i++) {
        const uint8_t saved = record.data[i];

        record.data[i] ^= (uint8_t)(1u << i % 8);
        (void)read_bytes(record.data, record.len);
        record.data[i] = 0;
        (void)read_bytes(record.data, record.len);
        record.data[i] = saved;
    }
    bytes_free(&record);
}

/* JSON that is well-formed and not what was written. */
static void test_hostile_json(void)
{
    static const struct {
        const char *text;
        bool readable;
    } cases[] = {
        {"", false},
        {"{", false},
        {"{\"processes\": [", false},
        {"{}", true},
        {"{\"code\": \"x\", \"why\": 5, \"guest_status\": -1, \"packets\": {}}", true},
        {"{\"code\": 1e300, \"steps\": 99999999999999999999999}", true},
        {"{\"processes\": [null, 5, [], {}, {\"cr3\": \"x\", \"name\": 7}]}", true},
        {"{\"processes\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}", true},
        {"{\"processes\": [{\"name\": \"0123456789abcdef0123456789abcdef0123456789abcdef\"}]}",
         true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes record = {0};

        CU_ASSERT_TRUE_FATAL(
            cpio_add(&record, "result.json", MODE_FILE, cases[i].text, strlen(cases[i].text)));
        CU_ASSERT_TRUE_FATAL(cpio_end(&record));
        CU_ASSERT_EQUAL(read_bytes(record.data, record.len) == 0, cases[i].readable);
        bytes_free(&record);
    }
}

void add_record_suite(void)
{
    CU_pSuite suite = CU_add_suite("records", NULL, NULL);

    CU_add_test(suite, "round trip", test_record);
    CU_add_test(suite, "none, or rubbish", test_no_record);
    CU_add_test(suite, "cut off", test_cut_off);
    CU_add_test(suite, "damaged", test_damaged);
    CU_add_test(suite, "hostile JSON", test_hostile_json);
}
