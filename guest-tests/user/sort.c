/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sorting process: each round sorts the same pseudo-random records by several algorithms and
 * orders, through compare-function pointers, and checks each result.
 *
 * Branches on purpose: recursion a few levels deep (quicksort, merge sort), recursion deeper than
 * the 64 CALLs that a processor remembers for RET compression (a degenerate tree), indirect calls
 * (comparisons), an indirect jump (a switch over the algorithms).
 */
#include <stdbool.h>

#include "user.h"

#define RECORDS    112
#define TREE_DEPTH 100

struct record {
    uint32_t key, value;
};

typedef int compare_function(const struct record *a, const struct record *b);

static struct record input[RECORDS], work[RECORDS], scratch[RECORDS];
static uint32_t seed = 12345;

static uint32_t random_number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* ---- Orders ------------------------------------------------------------------------------- */

static int by_key(const struct record *a, const struct record *b)
{
    return a->key < b->key ? -1 : a->key > b->key;
}

static int by_key_descending(const struct record *a, const struct record *b)
{
    return by_key(b, a);
}

static int by_value_then_key(const struct record *a, const struct record *b)
{
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return by_key(a, b);
}

static compare_function *const orders[] = {by_key, by_key_descending, by_value_then_key};

/* ---- Algorithms --------------------------------------------------------------------------- */

static void swap(struct record *a, struct record *b)
{
    struct record t = *a;

    *a = *b;
    *b = t;
}

static void insertion_sort(struct record *r, size_t count, compare_function *compare)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && compare(&r[j - 1], &r[j]) > 0; j--)
            swap(&r[j - 1], &r[j]);
}

static void quick_sort(struct record *r, size_t count, compare_function *compare)
{
    size_t last = 0;

    if (count < 8) {
        insertion_sort(r, count, compare);
        return;
    }
    swap(&r[0], &r[count / 2]);
    for (size_t i = 1; i < count; i++)
        if (compare(&r[i], &r[0]) < 0)
            swap(&r[++last], &r[i]);
    swap(&r[0], &r[last]);
    quick_sort(r, last, compare);
    quick_sort(r + last + 1, count - last - 1, compare);
}

static void merge_sort(struct record *r, size_t count, compare_function *compare)
{
    size_t half = count / 2, a = 0, b = half;

    if (count < 2)
        return;
    merge_sort(r, half, compare);
    merge_sort(r + half, count - half, compare);
    for (size_t i = 0; i < count; i++) {
        bool left = b == count || (a < half && compare(&r[a], &r[b]) <= 0);

        scratch[i] = left ? r[a++] : r[b++];
    }
    for (size_t i = 0; i < count; i++)
        r[i] = scratch[i];
}

static void sift_down(struct record *r, size_t at, size_t count, compare_function *compare)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && compare(&r[child], &r[child + 1]) < 0)
            child++;
        if (compare(&r[at], &r[child]) >= 0)
            return;
        swap(&r[at], &r[child]);
        at = child;
    }
}

static void heap_sort(struct record *r, size_t count, compare_function *compare)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(r, i, count, compare);
    for (size_t end = count; end-- > 1;) {
        swap(&r[0], &r[end]);
        sift_down(r, 0, end, compare);
    }
}

/* Quadratic on a part, and quicksort on what is then half in order. */
static void mixed_sort(struct record *r, size_t count, compare_function *compare)
{
    insertion_sort(r, count / 8, compare);
    quick_sort(r, count, compare);
}

typedef void sort_function(struct record *r, size_t count, compare_function *compare);

static sort_function *const algorithms[] = {quick_sort, merge_sort, heap_sort, mixed_sort};

/* ---- A degenerate tree: deep recursion ---------------------------------------------------- */

struct node {
    uint32_t key;
    struct node *left, *right;
};

static struct node nodes[TREE_DEPTH];

static struct node *insert(struct node *tree, struct node *node)
{
    if (!tree)
        return node;
    if (node->key < tree->key)
        tree->left = insert(tree->left, node);
    else
        tree->right = insert(tree->right, node);
    return tree;
}

static unsigned depth(const struct node *tree)
{
    unsigned left, right;

    if (!tree)
        return 0;
    left = depth(tree->left);
    right = depth(tree->right);
    return 1 + (left > right ? left : right);
}

/* Nodes chained in order: the last one to come goes down the whole chain. */
static bool deep_tree(void)
{
    for (unsigned i = 0; i < TREE_DEPTH; i++)
        nodes[i] = (struct node){i, NULL, i + 2 < TREE_DEPTH ? &nodes[i + 1] : NULL};
    return depth(insert(&nodes[0], &nodes[TREE_DEPTH - 1])) == TREE_DEPTH;
}

/* ---- Rounds ------------------------------------------------------------------------------- */

static bool in_order(const struct record *r, size_t count, compare_function *compare)
{
    for (size_t i = 1; i < count; i++)
        if (compare(&r[i - 1], &r[i]) > 0)
            return false;
    return true;
}

static uint64_t checksum(const struct record *r, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)r[i].key * 31 + r[i].value;
    return sum;
}

static bool one_round(uint64_t round)
{
    compare_function *compare = orders[round % (sizeof(orders) / sizeof(orders[0]))];
    uint64_t want;

    for (size_t i = 0; i < RECORDS; i++)
        input[i] = (struct record){random_number(), random_number() % 16};
    want = checksum(input, RECORDS);
    for (size_t i = 0; i < RECORDS; i++)
        work[i] = input[i];
    algorithms[round % (sizeof(algorithms) / sizeof(algorithms[0]))](work, RECORDS, compare);
    return in_order(work, RECORDS, compare) && checksum(work, RECORDS) == want;
}

int user_main(uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++) {
        if (!one_round(round) || !deep_tree()) {
            print("sort: WRONG result\n");
            return 1;
        }
        if (round == 0)
            emulated_instruction();
        if (round % 4 == 3)
            yield();
    }
    print("sort: every round in order\n");
    return 0;
}
