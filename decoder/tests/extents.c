/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges in order, next to an array that says for each number which range has it. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "base/extents.h"
#include "suites.h"

#define NUMBERS 3000u
#define ROUNDS  20000u

/* The number of the range that has each number; 0: none. Where two adjoin, they differ. */
static uint64_t truth[NUMBERS];

static void check_one(const struct extents *extents, uint64_t number)
{
    const struct extent *const extent = ptd_extents_below(extents, number, NULL);

    if (truth[number] == 0) {
        CU_ASSERT_TRUE(!extent || extent->last < number);
    } else {
        CU_ASSERT_TRUE(extent && extent->last >= number && extent->number == truth[number]);
    }
}

/* All of them, from the first to the last. */
static void check_order(const struct extents *extents)
{
    struct extent_place place;
    const struct extent *each = ptd_extents_first(extents, &place);
    uint64_t behind = 0;

    for (; each; each = ptd_extents_next(extents, &place)) {
        const struct extent *const same =
            behind > 0 ? ptd_extents_above(extents, behind - 1, &(struct extent_place){0}) : each;

        CU_ASSERT_PTR_EQUAL(same, each);
        CU_ASSERT_TRUE(each->first >= behind && each->last >= each->first);
        for (uint64_t i = behind; i < each->first; i++)
            CU_ASSERT_EQUAL(truth[i], 0);
        behind = each->last + 1;
    }
    for (uint64_t i = behind; i < NUMBERS; i++)
        CU_ASSERT_EQUAL(truth[i], 0);
}

static void at_random(void)
{
    struct extents extents = {0};
    uint64_t random = 1;

    memset(truth, 0, sizeof(truth));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        /* Now and then a large one, so that leaves fill and go. */
        const uint64_t most = round % 4000 == 0 ? NUMBERS : 4;
        const uint64_t first = next_random(&random) % NUMBERS;
        uint64_t last = first + next_random(&random) % most;

        last = last < NUMBERS ? last : NUMBERS - 1;
        CU_ASSERT_TRUE_FATAL(ptd_extents_cut(&extents, first, last));
        CU_ASSERT_TRUE_FATAL(ptd_extents_add(
            &extents, (struct extent){.first = first, .last = last, .number = round}));
        for (uint64_t i = first; i <= last; i++)
            truth[i] = round;
        check_one(&extents, next_random(&random) % NUMBERS);
        check_one(&extents, last + 1 < NUMBERS ? last + 1 : last);
        if (round % 500 == 0)
            check_order(&extents);
    }
    ptd_extents_cut(&extents, 0, NUMBERS);
    CU_ASSERT_EQUAL(extents.leaf_count, 0);
    ptd_extents_free(&extents);
}

static void both_ends(void)
{
    struct extents extents = {0};

    CU_ASSERT_PTR_NULL(ptd_extents_below(&extents, UINT64_MAX, NULL));
    CU_ASSERT_TRUE(ptd_extents_add(&extents, (struct extent){.first = 0, .last = UINT64_MAX}));
    CU_ASSERT_TRUE(ptd_extents_cut(&extents, 5, UINT64_MAX - 5));
    CU_ASSERT_EQUAL(ptd_extents_below(&extents, 7, NULL)->last, 4);
    CU_ASSERT_EQUAL(ptd_extents_below(&extents, UINT64_MAX, NULL)->first, UINT64_MAX - 4);
    ptd_extents_remove(&extents, UINT64_MAX - 4, UINT64_MAX);
    CU_ASSERT_EQUAL(ptd_extents_below(&extents, UINT64_MAX, NULL)->last, 4);
    ptd_extents_remove(&extents, 0, 0);
    CU_ASSERT_PTR_NULL(ptd_extents_below(&extents, UINT64_MAX, NULL));
    ptd_extents_free(&extents);
}

void add_extents_suite(void)
{
    CU_pSuite const suite = CU_add_suite("ranges in order", NULL, NULL);

    CU_add_test(suite, "at random", at_random);
    CU_add_test(suite, "both ends", both_ends);
}
