/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of perf-PID.map: what run times write, and what they do not. */
#include "trace/perf-map.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CR3 0x5000u

static int add(struct ptd_image *image, const char *text, struct reason *why)
{
    return perf_map_add("map", text, strlen(text), image, CR3, why);
}

static void is_named(const struct ptd_image *image, uint64_t ip, const char *wanted)
{
    const char *const name = ptd_image_symbol(image, CR3, ip, NULL);

    CU_ASSERT_STRING_EQUAL(name ? name : "none", wanted);
}

static void names(void)
{
    struct ptd_image *const image = ptd_image_new();
    struct reason why;

    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    CU_ASSERT_EQUAL(add(image,
                        "400000 10 first\n"
                        "7F0000001000 20 void a::b(int, long)\n"
                        "0x500000 0x8 LazyCompile:~x /a/b.js:1\n"
                        "400008 10 second\n"
                        "600000 0 empty\n"
                        "700000 10 cut off",
                        &why),
                    0);
    is_named(image, 0x400000, "first");
    is_named(image, 0x400007, "first");
    is_named(image, 0x400008, "second"); /* in place of a part of the first */
    is_named(image, 0x400017, "second");
    is_named(image, 0x400018, "none");
    is_named(image, 0x7f000000101f, "void a::b(int, long)");
    is_named(image, 0x500007, "LazyCompile:~x /a/b.js:1");
    is_named(image, 0x600000, "none");
    is_named(image, 0x700000, "none");
    CU_ASSERT_EQUAL(add(image, "", &why), 0);
    ptd_image_free(image);
}

static void other_lines(void)
{
    static const char *const cases[] = {
        "\n",
        "x\n",
        "400000\n",
        "400000 10\n",
        "400000 10 \n",
        " 400000 10 f\n",
        "400000  10 f\n",
        "400000 -1 f\n",
        "0x 10 f\n",
        "11111111111111111 10 f\n",
        "ffffffff81000000 10 f\n",
        "7fffffffffffffff ffffffffffffffff f\n",
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ptd_image *const image = ptd_image_new();
        char text[128];
        struct reason why;

        CU_ASSERT_PTR_NOT_NULL_FATAL(image);
        (void)snprintf(text, sizeof(text), "400000 10 f\n%s500000 10 g\n", cases[i]);
        CU_ASSERT_EQUAL(add(image, text, &why), -EBADMSG);
        CU_ASSERT_STRING_EQUAL(why.text, "map:2: no address, length and name of code; names behind "
                                         "it are not used");
        is_named(image, 0x400000, "f");
        is_named(image, 0x500000, "none");
        ptd_image_free(image);
    }
}

static void long_names(void)
{
    struct ptd_image *const image = ptd_image_new();
    static const char head[] = "400000 10 ";
    const size_t len = 2 * PERF_MAP_NAME_MAX;
    char *const text = malloc(len + 1);
    struct reason why;
    const char *name;

    CU_ASSERT_TRUE_FATAL(image && text);
    (void)snprintf(text, len + 1, "%-*s\n", (int)len - 1, head);
    memset(text + sizeof(head) - 1, 'n', len - sizeof(head));
    CU_ASSERT_EQUAL(add(image, text, &why), 0);
    name = ptd_image_symbol(image, CR3, 0x400000, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(name);
    CU_ASSERT_EQUAL(name ? strlen(name) : 0, PERF_MAP_NAME_MAX - 1);
    free(text);
    ptd_image_free(image);
}

void add_perf_map_suite(void)
{
    CU_pSuite suite = CU_add_suite("perf map", NULL, NULL);

    CU_add_test(suite, "names", names);
    CU_add_test(suite, "lines that are none", other_lines);
    CU_add_test(suite, "long names", long_names);
}
