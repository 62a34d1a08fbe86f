/* SPDX-License-Identifier: BSD-3-Clause */
/* "Did you mean": distances of words, and which name is nearest. */
#include "suites.h"
#include "cli/suggest.h"

#include <CUnit/Basic.h>
#include <stdint.h>
#include <string.h>

static void test_distance(void)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {
        {"", "", 0},
        {"run", "run", 0},
        {"", "run", 3},
        {"rum", "run", 1},
        {"rn", "run", 1},
        {"runn", "run", 1},
        {"urn", "run", 1},
        {"nru", "run", 2},
        {"dcode", "decode", 1},
        {"edcode", "decode", 1},
        {"kitten", "sitting", 3},
    };
    char longest[100];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        CU_ASSERT_EQUAL(edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    CU_ASSERT_EQUAL(edit_distance(longest, "x"), SIZE_MAX);
    longest[64] = '\0';
    CU_ASSERT_EQUAL(edit_distance(longest, "x"), 63);
    CU_ASSERT_EQUAL(edit_distance(longest, longest), 0);
}

static void test_nearest(void)
{
    static const char *const names[] = {"trace-out", "path-out", "to", "timeout", "threads"};
    static const struct {
        const char *word, *best;
    } cases[] = {
        {"trace-uot", "trace-out"},
        {"pathout", "path-out"},
        {"tiemout", "timeout"},
        {"thr", "threads"},
        {"frobnicate", NULL},
        {"x", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct suggestion suggestion;

        suggest_begin(&suggestion, cases[i].word);
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
            suggest_try(&suggestion, names[j]);
        if (cases[i].best)
            CU_ASSERT_STRING_EQUAL(suggestion.best, cases[i].best);
        if (!cases[i].best)
            CU_ASSERT_PTR_NULL(suggestion.best);
    }
}

void add_suggest_suite(void)
{
    CU_pSuite suite = CU_add_suite("suggestions", NULL, NULL);

    CU_add_test(suite, "distances", test_distance);
    CU_add_test(suite, "the nearest name", test_nearest);
}
