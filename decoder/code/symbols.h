/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the image: the names of an address space, of which each counts from its addition on. */
#ifndef PTD_SYMBOLS_H
#define PTD_SYMBOLS_H

#include "base/extents.h"

/* The lower rank wins among symbols of one address. */
enum symbol_rank { SYMBOL_GLOBAL, SYMBOL_WEAK, SYMBOL_LOCAL, SYMBOL_LABEL };

/* Begins as zeros. */
struct symbols {
    struct extents names, labels; /* of what is code; what may be a place inside of it */
};

/* is_sized: it was told how long it is; else last is where it must end. */
struct symbol {
    uint64_t first, last;
    const char *name; /* outlives the symbols */
    enum symbol_rank rank;
    bool is_sized;
};

void ptd_symbols_free(struct symbols *symbols);
/* Whether its name would be taken: there is no better one at its address. */
bool ptd_symbols_wants(const struct symbols *symbols, const struct symbol *symbol);
/* One that is wanted. False: no memory. */
bool ptd_symbols_add(struct symbols *symbols, const struct symbol *symbol);
/* Forgets those that begin in [first, last]. */
void ptd_symbols_hide(struct symbols *symbols, uint64_t first, uint64_t last);
/* The name that holds at an address, and where it begins; NULL: none does. */
const char *ptd_symbols_find(const struct symbols *symbols, uint64_t vaddr, uint64_t *first);

#endif
