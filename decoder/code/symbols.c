/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of code by address. A symbol whose size was told holds for so many bytes; one without a
 * size reaches to the next symbol, and never beyond what it must end with.
 */
#include <string.h>

#include "code/symbols.h"

#define IS_SIZED 0x80u /* of an extent's kind; the rest is the rank */

static uint8_t kind_of(const struct symbol *symbol)
{
    return (uint8_t)(symbol->rank | (symbol->is_sized ? IS_SIZED : 0));
}

static enum symbol_rank rank_of(const struct extent *extent)
{
    return (enum symbol_rank)(extent->kind & ~IS_SIZED);
}

void ptd_symbols_free(struct symbols *symbols)
{
    ptd_extents_free(&symbols->names);
    ptd_extents_free(&symbols->labels);
}

static struct extent *find_same(const struct symbols *symbols, const struct symbol *symbol)
{
    return ptd_extents_at(symbol->rank == SYMBOL_LABEL ? &symbols->labels : &symbols->names,
                          symbol->first);
}

bool ptd_symbols_wants(const struct symbols *symbols, const struct symbol *symbol)
{
    const struct extent *const same = find_same(symbols, symbol);

    if (!same)
        return true;
    if (rank_of(same) != symbol->rank)
        return symbol->rank < rank_of(same);
    if (symbol->is_sized != !!(same->kind & IS_SIZED))
        return symbol->is_sized;
    return strcmp(symbol->name, same->what) < 0;
}

bool ptd_symbols_add(struct symbols *symbols, const struct symbol *symbol)
{
    struct extent *const same = find_same(symbols, symbol);
    const struct extent extent = {
        .first = symbol->first,
        .last = symbol->last,
        .what = (void *)(uintptr_t)symbol->name,
        .kind = kind_of(symbol),
    };

    if (same)
        *same = extent;
    return same || ptd_extents_add(
                       symbol->rank == SYMBOL_LABEL ? &symbols->labels : &symbols->names, extent);
}

void ptd_symbols_hide(struct symbols *symbols, uint64_t first, uint64_t last)
{
    ptd_extents_remove(&symbols->names, first, last);
    ptd_extents_remove(&symbols->labels, first, last);
}

/* Assembly code often lacks types: a label counts unless it is a place inside of a function. */
static bool counts(const struct extent *label, const struct extent *name)
{
    if (!name)
        return true;
    return name->first < label->first && !(name->kind & IS_SIZED && label->first <= name->last);
}

const char *ptd_symbols_find(const struct symbols *symbols, uint64_t vaddr, uint64_t *first)
{
    const struct extent *const name = ptd_extents_below(&symbols->names, vaddr, NULL);
    const struct extent *const label = ptd_extents_below(&symbols->labels, vaddr, NULL);
    const struct extent *const found = label && counts(label, name) ? label : name;

    if (!found || found->last < vaddr)
        return NULL;
    *first = found->first;
    return found->what;
}
