/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libptdec: the entries of a list of ptdec_coverage.h, found by what they are. */
#ifndef PTD_ENTRIES_H
#define PTD_ENTRIES_H

#include "base/hash.h"
#include "ptdec_coverage.h"

#define ENTRY_NONE UINT32_MAX /* the list is full */

struct entries {
    struct ptd_coverage_entry *list;
    uint32_t *slots; /* open addressing: index of an entry + 1; 0: free. room of them */
    uint32_t count;
    size_t room; /* a power of two, or 0; at most half of it is used */
    struct hash_key key;
};

void ptd_entries_init(struct entries *entries);
void ptd_entries_free(struct entries *entries);
void ptd_entries_clear(struct entries *entries);
/* *index of the entry, which is added with count 0 if need be, or ENTRY_NONE. PTD_OK, _E_NOMEM. */
int ptd_entries_find(struct entries *entries, uint64_t from, uint64_t to, uint64_t cr3,
                     uint32_t *index);

#endif
