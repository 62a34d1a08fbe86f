/* SPDX-License-Identifier: BSD-3-Clause */
/* Code logs laid out in pages: what is told first stays, and logs that are none. */
#include "trace/flat-code.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE  0x1000u
#define UPPER UINT64_C(0xffffffff81000000)
#define ALL   UINT64_MAX       /* space of bytes */
#define BASE  (UINT64_MAX - 1) /* of a base of CS */
#define PAGES 32u
#define MAGIC "vptcode1"

static void put_record(struct bytes *log, uint64_t space, uint64_t address, uint64_t value)
{
    const uint64_t words[] = {0, space, address, value}; /* as they stand in a file */

    if (log->len == 0)
        CU_ASSERT_TRUE_FATAL(bytes_add(log, MAGIC, strlen(MAGIC)));
    CU_ASSERT_TRUE_FATAL(bytes_add(log, words, sizeof(words)));
}

static void put_text(struct bytes *log, uint64_t physical, const char *text)
{
    const size_t len = strlen(text);
    char padded[16] = "";

    (void)snprintf(padded, sizeof(padded), "%s", text);
    put_record(log, ALL, physical, len);
    CU_ASSERT_TRUE_FATAL(bytes_add(log, padded, (len + 7) / 8 * 8));
}

struct pages {
    uint8_t bytes[PAGES][PAGE];
    size_t count;
};

static int put_page(void *owner, const void *page)
{
    struct pages *const pages = owner;

    if (pages->count == PAGES)
        return -ENOSPC;
    memcpy(pages->bytes[pages->count++], page, PAGE);
    return 0;
}

/* "OWNER:ADDRESS+PAGES " of each run, and the pages, which are in the order of the runs. */
static const char *laid_out(struct flat_code *code, struct pages *pages, struct flat_sums *sums)
{
    static char text[512];
    const struct flat_run *runs;
    size_t count, len = 0;

    text[0] = 0;
    pages->count = 0;
    *sums = (struct flat_sums){0};
    CU_ASSERT_EQUAL_FATAL(flat_code_lay_out(code, &runs, &count), 0);
    for (size_t i = 0; i < count && len < sizeof(text) - 64; i++) {
        len += (size_t)snprintf(text + len, 64, "%d:%llx+%llu ", (int)runs[i].owner,
                                (unsigned long long)runs[i].address,
                                (unsigned long long)runs[i].len_bytes / PAGE);
        CU_ASSERT_EQUAL(flat_code_write(code, &runs[i], put_page, pages, sums), 0);
    }
    return text;
}

static void test_pages(void)
{
    static struct pages pages;
    struct bytes log = {0};
    struct flat_code *const code = flat_code_new();
    struct flat_sums sums;

    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    put_record(&log, 0x5000, 0x401000, 0x8000);
    put_text(&log, 0x8010, "abc");
    put_text(&log, 0x8ffc, "last");
    put_record(&log, BASE, 0x1234, 0);
    put_record(&log, 0x5000, 0x403000, 0x9000); /* two pages on */
    put_text(&log, 0x9000, "third");
    put_record(&log, 0x5000, 0x800000, 0xa000); /* far away */
    put_record(&log, 0x5000, UPPER, 0xb000);
    put_text(&log, 0xb000, "kernel");
    put_record(&log, 0x6000, UPPER, 0xb000); /* in each space */
    CU_ASSERT_EQUAL(flat_code_add(code, &log, 7), 0);
    CU_ASSERT_STRING_EQUAL(laid_out(code, &pages, &sums),
                           "7:401000+3 7:800000+1 -1:ffffffff81000000+1 ");
    CU_ASSERT_EQUAL(sums.pages, 4);
    CU_ASSERT_EQUAL(sums.unclear, 0);
    CU_ASSERT_EQUAL_FATAL(pages.count, 5);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[0] + 0xf, "\0abc", 5), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[0] + 0xffc, "last", 4), 0);
    CU_ASSERT_EQUAL(pages.bytes[1][0], 0); /* nobody told of it */
    CU_ASSERT_EQUAL(memcmp(pages.bytes[2], "third", 6), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[4], "kernel", 7), 0);
    flat_code_free(code);
    bytes_free(&log);
}

/* Code that changed, and other code in another space; what only adds to it is clear. */
static void test_unclear(void)
{
    static struct pages pages;
    struct bytes log = {0}, other = {0};
    struct flat_code *const code = flat_code_new();
    struct flat_sums sums;

    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    put_record(&log, 0x5000, 0x401000, 0x8000);
    put_text(&log, 0x8000, "abc");
    put_text(&log, 0x8002, "cde"); /* more of it */
    put_record(&log, 0x5000, 0x402000, 0x9000);
    put_text(&log, 0x9000, "first");
    put_text(&log, 0x9001, "I");                /* "fIrst", later */
    put_record(&log, 0x6000, 0x403000, 0xa000); /* one page of two spaces, */
    put_text(&log, 0xa000, "one");
    put_record(&log, 0x7000, 0x403000, 0xb000);
    put_text(&log, 0xb000, "two");
    put_record(&log, 0x6000, 0x404000, 0xc000); /* which may add to each other */
    put_text(&log, 0xc000, "lower");
    put_record(&log, 0x7000, 0x404000, 0xd000);
    put_text(&log, 0xd800, "upper");
    put_record(&log, 0x5000, UPPER, 0xe000);
    put_text(&log, 0xe000, "same");
    put_record(&other, 0x5000, 0x401000, 0x8000); /* of another process, and another log's page */
    put_text(&other, 0x8000, "xyz");
    put_record(&other, 0x5000, UPPER, 0xe000);
    put_text(&other, 0xe000, "same kernel");
    CU_ASSERT_EQUAL(flat_code_add(code, &log, 1), 0);
    CU_ASSERT_EQUAL(flat_code_add(code, &other, 2), 0);
    CU_ASSERT_STRING_EQUAL(laid_out(code, &pages, &sums),
                           "1:401000+4 2:401000+1 -1:ffffffff81000000+1 ");
    CU_ASSERT_EQUAL(sums.pages, 6);
    CU_ASSERT_EQUAL(sums.unclear, 2);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[0], "abcde", 6), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[1], "first", 6), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[2], "one", 4), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[3], "lower", 6), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[3] + 0x800, "upper", 6), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[4], "xyz", 4), 0);
    CU_ASSERT_EQUAL(memcmp(pages.bytes[5], "same kernel", 12), 0);
    flat_code_free(code);
    bytes_free(&log);
    bytes_free(&other);
}

static int status_of(const struct bytes *log)
{
    struct flat_code *const code = flat_code_new();
    const int status = code ? flat_code_add(code, log, 1) : -ENOMEM;

    flat_code_free(code);
    return status;
}

static void test_malformed(void)
{
    static const struct {
        uint64_t space, address, value;
    } wrong[] = {
        {0x5000, 0x401001, 0x8000},
        {0x5000, 0x401000, 0x8001},
        {ALL, 0x8000, 0},
        {ALL, 0x8000, 0x1001},
        {ALL, 0x8ff9, 8},
        {ALL, 0x8000, 8},
        {ALL, 0x8000, UINT64_MAX - 0x7fff},
    };
    struct bytes log = {0};

    CU_ASSERT_EQUAL(status_of(&log), -EBADMSG);
    CU_ASSERT_TRUE_FATAL(bytes_add(&log, "vptcode2", 8));
    CU_ASSERT_EQUAL(status_of(&log), -EBADMSG);
    bytes_free(&log);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct bytes one = {0};

        put_record(&one, wrong[i].space, wrong[i].address, wrong[i].value);
        CU_ASSERT_EQUAL(status_of(&one), -EBADMSG);
        bytes_free(&one);
    }
    memset(&log, 0, sizeof(log));
    put_record(&log, 0x5000, 0x401000, 0x8000);
    for (size_t len = strlen(MAGIC) + 1; len < log.len; len++) {
        const struct bytes part = {.data = log.data, .len = len};

        CU_ASSERT_EQUAL(status_of(&part), -EBADMSG);
    }
    CU_ASSERT_EQUAL(status_of(&log), 0);
    bytes_free(&log);
}

static int refuse(void *owner, const void *page)
{
    (void)owner;
    (void)page;
    return -ENOSPC;
}

/* More pages than anybody's code has, and a page that cannot be written. */
static void test_limits(void)
{
    struct bytes log = {0};
    struct flat_code *code = flat_code_new();
    const struct flat_run *runs;
    struct flat_sums sums = {0};
    size_t count;

    put_record(&log, 0x5000, 0x401000, 0x8000);
    put_text(&log, 0x8000, "abc");
    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    CU_ASSERT_EQUAL(flat_code_add(code, &log, 1), 0);
    CU_ASSERT_EQUAL(flat_code_lay_out(code, &runs, &count), 0);
    CU_ASSERT_EQUAL_FATAL(count, 1);
    CU_ASSERT_EQUAL(flat_code_write(code, runs, refuse, NULL, &sums), -ENOSPC);
    flat_code_free(code);

    code = flat_code_new();
    CU_ASSERT_PTR_NOT_NULL_FATAL(code);
    for (uint64_t i = 1; i <= 65537; i++)
        put_record(&log, 0x5000, i * PAGE, 0x8000);
    CU_ASSERT_EQUAL(flat_code_add(code, &log, 1), 0);
    CU_ASSERT_EQUAL(flat_code_lay_out(code, &runs, &count), -EFBIG);
    flat_code_free(code);
    bytes_free(&log);
}

void add_flat_code_suite(void)
{
    CU_pSuite const suite = CU_add_suite("code logs in files", NULL, NULL);

    CU_add_test(suite, "pages", test_pages);
    CU_add_test(suite, "code that is not one thing only", test_unclear);
    CU_add_test(suite, "logs that are none", test_malformed);
    CU_add_test(suite, "limits", test_limits);
}
