/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of spans between two points: how long they were, and points as a user writes them. */
#include "report/between.h"
#include "suites.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS 1001u

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Lengths with as many bits as there are levels; the witness sorts them. */
static void test_spread(void)
{
    struct spread *const spread = calloc(1, sizeof(*spread));
    uint64_t lengths[LENGTHS], random = 88172645463325252u, total = 0;

    if (!spread)
        abort();
    CU_ASSERT_EQUAL(spread_median(spread), 0);
    for (unsigned i = 0; i < LENGTHS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        lengths[i] = random >> i % 64;
        total += lengths[i];
        spread_add(spread, lengths[i]);
        qsort(lengths, i + 1, sizeof(lengths[0]), by_value);

        const uint64_t exact = lengths[i / 2], median = spread_median(spread);

        CU_ASSERT_TRUE(median <= exact && exact - median <= exact / 128);
        CU_ASSERT_EQUAL(spread->least, lengths[0]);
        CU_ASSERT_EQUAL(spread->most, lengths[i]);
    }
    CU_ASSERT_EQUAL(spread->count, LENGTHS);
    CU_ASSERT_EQUAL(spread->total, total);
    free(spread);
}

static void test_short_lengths(void)
{
    struct spread *const spread = calloc(1, sizeof(*spread));

    CU_ASSERT_PTR_NOT_NULL_FATAL(spread);
    for (uint64_t i = 0; i < 2 * SPREAD_EXACT - 1; i++) {
        spread_add(spread, i / 2);
        CU_ASSERT_EQUAL(spread_median(spread), i / 4);
    }
    free(spread);
}

static void test_points(void)
{
    static const struct {
        const char *text, *from, *to; /* NULL: they are not two points */
    } cases[] = {
        {"a,b", "a", "b"},
        {"f(int, std::pair<int, int>),g(A<1, 2>)", "f(int, std::pair<int, int>)", "g(A<1, 2>)"},
        {"a[1,2],b{3,4}", "a[1,2]", "b{3,4}"},
        {"operator<(A, B),f(A, B)", "operator<(A, B)", "f(A, B)"},
        {"f(A, B),operator>>(A, B)", "f(A, B)", "operator>>(A, B)"},
        {"operator->,f", "operator->", "f"},
        {"operator()(int, int),operator[](int)", "operator()(int, int)", "operator[](int)"},
        {"operator<(A),operator>(A)", "operator<(A)", "operator>(A)"},
        {"a[1,a[1", "a[1", "a[1"},
        {"0x10,b", "0x10", "b"},
        {"a", NULL, NULL},
        {"", NULL, NULL},
        {"a,", NULL, NULL},
        {",b", NULL, NULL},
        {"f(a,b)", NULL, NULL},
        {"0x10z,b", NULL, NULL},
        {"a,1b", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct between *const between = calloc(1, sizeof(*between));
        char *const text = strdup(cases[i].text);

        if (!between || !text)
            abort();
        CU_ASSERT_EQUAL(between_points(between, text), cases[i].from != NULL);
        if (cases[i].from) {
            CU_ASSERT_STRING_EQUAL(between->from.text, cases[i].from);
            CU_ASSERT_STRING_EQUAL(between->to.text, cases[i].to);
            CU_ASSERT_EQUAL(between->from.is_address, cases[i].text[0] == '0');
        }
        between_free(between);
        free(between);
        free(text);
    }
}

void add_between_suite(void)
{
    const CU_pSuite suite = CU_add_suite("between two points", NULL, NULL);

    CU_add_test(suite, "spread", test_spread);
    CU_add_test(suite, "short lengths", test_short_lengths);
    CU_add_test(suite, "points", test_points);
}
