/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are written: begun, dropped, kept, and never through a link. */
#include "suites.h"
#include "common/bytes.h"
#include "common/file.h"
#include "common/output.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONG_BYTES 200000u /* more than is held */

static char folder[] = "/tmp/vpt-output-XXXXXX";

static int make_folder(void)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void)
{
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char paths[4][64];
    static unsigned next;
    char *const path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

/* Whether a file has these bytes. */
static bool has(const char *path, const void *data, size_t len)
{
    struct bytes bytes = {0};
    const bool same = read_file(path, &bytes) == 0 && bytes.len == len &&
                      (len == 0 || memcmp(bytes.data, data, len) == 0);

    bytes_free(&bytes);
    return same;
}

static bool is_there(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

static void test_new_file(void)
{
    const char *const path = in_folder("new");
    struct output output;
    struct reason why = {0};
    struct stat status;

    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    CU_ASSERT(output.is_file && output.is_new);
    CU_ASSERT_EQUAL(output_write(&output, "one", 3, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "", 0, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "two", 3, &why), 0);
    CU_ASSERT_EQUAL(output_close(&output, &why), 0);
    CU_ASSERT(has(path, "onetwo", 6));
    CU_ASSERT(stat(path, &status) == 0 && (status.st_mode & 07777 & ~0600u) == 0);
    unlink(path);

    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "one", 3, &why), 0);
    output_drop(&output);
    CU_ASSERT(!is_there(path));
    output_drop(&output); /* as of one that was never opened */
}

static void test_old_file(void)
{
    const char *const path = in_folder("old");
    struct output output;
    struct reason why = {0};

    CU_ASSERT_EQUAL_FATAL(write_file(path, "what was there", 14), 0);
    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    CU_ASSERT(has(path, "what was there", 14));
    output_drop(&output);
    CU_ASSERT(has(path, "what was there", 14));

    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    output_keep(&output);
    CU_ASSERT(has(path, "what was there", 14));

    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "new", 3, &why), 0);
    CU_ASSERT_EQUAL(output_close(&output, &why), 0);
    CU_ASSERT(has(path, "new", 3));

    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    CU_ASSERT_EQUAL(output_close(&output, &why), 0); /* nothing was written: it is empty */
    CU_ASSERT(has(path, "", 0));
    unlink(path);
}

/* Pieces that are held, and those that are not, come out in order. */
static void test_long_file(void)
{
    const char *const path = in_folder("long");
    char *const data = malloc(LONG_BYTES);
    struct output output;
    struct reason why = {0};
    size_t at = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    if (!data)
        return;
    for (size_t i = 0; i < LONG_BYTES; i++)
        data[i] = (char)(i * 7 >> 3);
    CU_ASSERT_EQUAL_FATAL(output_open(&output, path, &why), 0);
    for (size_t len = 1; at + len <= LONG_BYTES; at += len, len = len * 3 + 1)
        CU_ASSERT_EQUAL(output_write(&output, data + at, len, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, data + at, LONG_BYTES - at, &why), 0);
    CU_ASSERT_EQUAL(output_close(&output, &why), 0);
    CU_ASSERT(has(path, data, LONG_BYTES));
    free(data);
    unlink(path);
}

static void test_beside(void)
{
    const char *const path = in_folder("out"), *const part = in_folder("out.part");
    struct output output;
    struct reason why = {0};

    CU_ASSERT_EQUAL_FATAL(write_file(path, "before", 6), 0);
    CU_ASSERT_EQUAL_FATAL(output_open_beside(&output, path, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "after", 5, &why), 0);
    CU_ASSERT(has(path, "before", 6) && is_there(part));
    CU_ASSERT_EQUAL(output_close(&output, &why), 0);
    CU_ASSERT(has(path, "after", 5) && !is_there(part));

    CU_ASSERT_EQUAL_FATAL(output_open_beside(&output, path, &why), 0);
    CU_ASSERT_EQUAL(output_write(&output, "never", 5, &why), 0);
    output_drop(&output);
    CU_ASSERT(has(path, "after", 5) && !is_there(part));
    unlink(path);
}

static void test_refused(void)
{
    const char *const path = in_folder("link"), *const target = in_folder("target");
    struct output output;
    struct reason why = {0};

    CU_ASSERT_EQUAL_FATAL(symlink(target, path), 0);
    CU_ASSERT_EQUAL(output_open(&output, path, &why), -ELOOP);
    CU_ASSERT_EQUAL(output_open_beside(&output, path, &why), -ELOOP);
    CU_ASSERT_EQUAL(write_file(path, "x", 1), -ELOOP);
    CU_ASSERT(strstr(why.text, "symbolic link") != NULL);
    CU_ASSERT(!output.is_open && !is_there(target));
    unlink(path);
    CU_ASSERT_EQUAL(output_open(&output, folder, &why), -EISDIR);
    CU_ASSERT_EQUAL(output_open_beside(&output, folder, &why), -EISDIR);
    CU_ASSERT_EQUAL(output_open(&output, in_folder("none/x"), &why), -ENOENT);
    CU_ASSERT_EQUAL(output_open(&output, "/dev/fd/999", &why), -EBADF);
    CU_ASSERT_EQUAL(output_open(&output, "/dev/full", &why), 0);
    CU_ASSERT(!output.is_file && !output.is_new);
    CU_ASSERT_EQUAL(output_write(&output, "x", 1, &why), 0); /* it is held */
    CU_ASSERT_EQUAL(output_close(&output, &why), -ENOSPC);
    CU_ASSERT(is_there("/dev/full"));
}

void add_output_suite(void)
{
    CU_pSuite suite = CU_add_suite("outputs", make_folder, remove_folder);

    CU_add_test(suite, "a file that was not there", test_new_file);
    CU_add_test(suite, "a file that was there", test_old_file);
    CU_add_test(suite, "a long file", test_long_file);
    CU_add_test(suite, "complete or as it was", test_beside);
    CU_add_test(suite, "what is not written to", test_refused);
}
