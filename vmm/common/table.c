/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums by key, and numbers for strings: hash tables with open addressing over a list.
 */
#include "common/table.h"
#include "common/list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SLOTS_MIN 64u

static struct table_secret new_secret(void)
{
    struct table_secret secret = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu};

    (void)!getrandom(&secret, sizeof(secret), GRND_NONBLOCK); /* at boot, there is none */
    return secret;
}

/* All bits of the product. */
static uint64_t mix(uint64_t value, uint64_t secret)
{
    __extension__ typedef unsigned __int128 product;

    const product both = (product)value * secret;

    return (uint64_t)both ^ (uint64_t)(both >> 64);
}

/* Products of numbers in a row are in a row too: they are scattered. */
static uint64_t scatter(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static uint64_t hash_key(const struct table_secret *secret, const uint64_t *key)
{
    uint64_t hash = secret->a;

    for (unsigned i = 0; i < 3; i++)
        hash = mix(hash ^ key[i], secret->b);
    return scatter(hash);
}

static uint64_t hash_name(const struct table_secret *secret, const char *name)
{
    const size_t len = strlen(name);
    uint64_t hash = secret->a ^ len;

    for (size_t at = 0; at < len; at += sizeof(hash)) {
        uint64_t word = 0;

        memcpy(&word, name + at, len - at < sizeof(word) ? len - at : sizeof(word));
        hash = mix(hash ^ word, secret->b);
    }
    return scatter(hash);
}

/* Twice the slots; the caller fills them. */
static bool more_slots(uint32_t **slots, size_t *slot_count, struct table_secret *secret)
{
    const size_t wanted = *slot_count ? 2 * *slot_count : SLOTS_MIN;
    uint32_t *const fresh = calloc(wanted, sizeof(*fresh));

    if (!fresh)
        return false;
    if (*slot_count == 0)
        *secret = new_secret();
    free(*slots);
    *slots = fresh;
    *slot_count = wanted;
    return true;
}

/* ---- Sums ---- */

/* The slot that holds a key, or the free one where it belongs. */
static size_t slot_of_key(const struct table *table, const uint64_t *key)
{
    size_t slot = hash_key(&table->secret, key) & (table->slot_count - 1);

    while (table->slots[slot] &&
           memcmp(table->sums[table->slots[slot] - 1].key, key, sizeof(table->sums->key)) != 0)
        slot = (slot + 1) & (table->slot_count - 1);
    return slot;
}

struct sum *table_at(struct table *table, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t key[3] = {a, b, c};
    size_t slot;

    if (2 * table->count >= table->slot_count) {
        if (!more_slots(&table->slots, &table->slot_count, &table->secret))
            return NULL;
        for (size_t i = 0; i < table->count; i++)
            table->slots[slot_of_key(table, table->sums[i].key)] = (uint32_t)i + 1;
    }
    slot = slot_of_key(table, key);
    if (!table->slots[slot]) {
        struct sum *const grown =
            list_grow(table->sums, table->count, &table->capacity, sizeof(*grown));

        if (!grown)
            return NULL;
        table->sums = grown;
        table->sums[table->count] = (struct sum){.key = {a, b, c}};
        table->slots[slot] = (uint32_t)++table->count;
    }
    return &table->sums[table->slots[slot] - 1];
}

const struct sum *table_find(const struct table *table, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t key[3] = {a, b, c};
    const uint32_t found = table->slot_count > 0 ? table->slots[slot_of_key(table, key)] : 0;

    return found ? &table->sums[found - 1] : NULL;
}

void table_free(struct table *table)
{
    free(table->sums);
    free(table->slots);
    *table = (struct table){0};
}

/* ---- Names ---- */

static size_t slot_of_name(const struct names *names, const char *name)
{
    size_t slot = hash_name(&names->secret, name) & (names->slot_count - 1);

    while (names->slots[slot] && strcmp(names->list[names->slots[slot] - 1], name) != 0)
        slot = (slot + 1) & (names->slot_count - 1);
    return slot;
}

uint32_t names_add(struct names *names, const char *name)
{
    size_t slot;

    if (2 * names->count >= names->slot_count) {
        if (!more_slots(&names->slots, &names->slot_count, &names->secret))
            return UINT32_MAX;
        for (size_t i = 0; i < names->count; i++)
            names->slots[slot_of_name(names, names->list[i])] = (uint32_t)i + 1;
    }
    slot = slot_of_name(names, name);
    if (!names->slots[slot]) {
        char *const copy = strdup(name);
        char **const grown = list_grow(names->list, names->count, &names->capacity, sizeof(*grown));

        if (grown)
            names->list = grown;
        if (!copy || !grown) {
            free(copy);
            return UINT32_MAX;
        }
        names->list[names->count] = copy;
        names->slots[slot] = (uint32_t)++names->count;
    }
    return names->slots[slot] - 1;
}

uint32_t names_find(const struct names *names, const char *name)
{
    const uint32_t found = names->slot_count > 0 ? names->slots[slot_of_name(names, name)] : 0;

    return found ? found - 1 : UINT32_MAX;
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
    free(names->slots);
    *names = (struct names){0};
}
