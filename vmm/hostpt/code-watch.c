/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code that was seen, see code-watch.h. Of each page there is a copy, and a bit for each byte that
 * ran: data on the same page may change.
 */
#include "hostpt/code-watch.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
#define ROOM       8192u /* of pages, a power of two */
#define FULL       (ROOM / 4 * 3)

struct seen_page {
    uint64_t cr3, address;
    const uint8_t *at; /* NULL: the place is free */
    bool user, changed;
    uint64_t ran[PAGE_BYTES / 64];
    uint8_t bytes[PAGE_BYTES];
};

struct code_watch {
    struct guest_memory memory;
    struct seen_page *pages[ROOM]; /* by address */
    struct seen_page *all[FULL];   /* as they came */
    size_t count;
};

struct code_watch *code_watch_new(const struct guest_memory *memory)
{
    struct code_watch *const watch = calloc(1, sizeof(*watch));

    if (watch)
        watch->memory = *memory;
    return watch;
}

void code_watch_forget(struct code_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        free(watch->all[i]);
    if (watch->count > 0)
        memset(watch->pages, 0, sizeof(watch->pages));
    watch->count = 0;
}

void code_watch_free(struct code_watch *watch)
{
    if (watch)
        code_watch_forget(watch);
    free(watch);
}

/* ---- Pages ---- */

/* The page, or the place where it would be. */
static size_t place_of(const struct code_watch *watch, uint64_t cr3, uint64_t address)
{
    size_t at = (size_t)((address / PAGE_BYTES ^ cr3 / PAGE_BYTES * 31) % ROOM);

    while (watch->pages[at] && (watch->pages[at]->cr3 != cr3 ||
                                watch->pages[at]->address != address / PAGE_BYTES * PAGE_BYTES))
        at = (at + 1) % ROOM;
    return at;
}

/* NULL: there is no code, or no room. */
static struct seen_page *page_of(struct code_watch *watch, uint64_t cr3, uint64_t address)
{
    const size_t place = place_of(watch, cr3, address);
    struct seen_page *page = watch->pages[place];
    const uint8_t *at;
    bool user;

    if (page)
        return page;
    at = watch->memory.page(watch->memory.owner, cr3, address / PAGE_BYTES * PAGE_BYTES, &user);
    if (!at || watch->count >= FULL)
        return NULL;
    page = calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    page->cr3 = cr3;
    page->address = address / PAGE_BYTES * PAGE_BYTES;
    page->at = at;
    page->user = user;
    memcpy(page->bytes, at, PAGE_BYTES);
    watch->pages[place] = page;
    watch->all[watch->count++] = page;
    return page;
}

/* What the copy has of bytes that did not run may be old. */
static void see_byte(struct seen_page *page, size_t at)
{
    uint64_t *const ran = &page->ran[at / 64];

    if (!(*ran >> at % 64 & 1))
        page->bytes[at] = page->at[at];
    *ran |= UINT64_C(1) << at % 64;
}

bool code_watch_see(struct code_watch *watch, uint64_t cr3, uint64_t from, uint64_t end)
{
    while (from != end) {
        struct seen_page *const page = page_of(watch, cr3, from);

        if (!page)
            return false;
        do {
            see_byte(page, from % PAGE_BYTES);
            from++;
        } while (from != end && from % PAGE_BYTES != 0);
    }
    return true;
}

bool code_watch_is_user(struct code_watch *watch, uint64_t cr3, uint64_t address, bool *user)
{
    const struct seen_page *const page = page_of(watch, cr3, address);

    if (page)
        *user = page->user;
    return page != NULL;
}

/* ---- Changes ---- */

/* Whether the bytes that ran are the same; others may have changed, and are copied. */
static bool ran_same(struct seen_page *page)
{
    for (unsigned i = 0; i < PAGE_BYTES; i++) {
        if (!page->ran[i / 64])
            i |= 63;
        else if ((page->ran[i / 64] >> i % 64 & 1) && page->bytes[i] != page->at[i])
            return false;
    }
    memcpy(page->bytes, page->at, PAGE_BYTES);
    return true;
}

static bool is_same(const struct code_watch *watch, struct seen_page *page)
{
    bool user;

    if (watch->memory.page(watch->memory.owner, page->cr3, page->address, &user) != page->at ||
        user != page->user)
        return false;
    return memcmp(page->bytes, page->at, PAGE_BYTES) == 0 || ran_same(page);
}

size_t code_watch_compare(struct code_watch *watch)
{
    size_t changed = 0;

    for (size_t i = 0; i < watch->count; i++) {
        struct seen_page *const page = watch->all[i];

        page->changed = page->changed || !is_same(watch, page);
        changed += page->changed;
    }
    return changed;
}

bool code_watch_is_crowded(const struct code_watch *watch)
{
    return watch->count > FULL / 2;
}

bool code_watch_changed(const struct code_watch *watch, uint64_t cr3, uint64_t from, uint64_t end)
{
    for (uint64_t at = from / PAGE_BYTES; at <= (end - 1) / PAGE_BYTES; at++) {
        const struct seen_page *const page = watch->pages[place_of(watch, cr3, at * PAGE_BYTES)];

        if (page && page->changed)
            return true;
    }
    return false;
}
