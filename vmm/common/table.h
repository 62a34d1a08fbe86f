/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums by three numbers, and numbers for strings.
 */
#ifndef VMM_TABLE_H
#define VMM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What nobody can know who writes a file, so that nobody can choose keys of one slot. */
struct table_secret {
    uint64_t a, b;
};

struct sum {
    uint64_t key[3];
    uint64_t count, cost;
};

/* In order of their first appearance. Begins as zeros. */
struct table {
    struct sum *sums;
    size_t count, capacity;
    uint32_t *slots; /* index in sums + 1; 0: free */
    size_t slot_count;
    struct table_secret secret; /* from the first slots on */
};

/* The sum of a key, made if it is not there; valid until the next one is made. NULL: no memory. */
struct sum *table_at(struct table *table, uint64_t a, uint64_t b, uint64_t c);
/* NULL: it is not there. */
const struct sum *table_find(const struct table *table, uint64_t a, uint64_t b, uint64_t c);
void table_free(struct table *table);

/* Strings, each with a number from 0 on. Begins as zeros. */
struct names {
    char **list;
    size_t count, capacity;
    uint32_t *slots;
    size_t slot_count;
    struct table_secret secret;
};

/* The number of a string; UINT32_MAX: no memory. */
uint32_t names_add(struct names *names, const char *name);
/* UINT32_MAX: it is not there. */
uint32_t names_find(const struct names *names, const char *name);
void names_free(struct names *names);

#endif
