/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page tables of a guest, see code-page.h. They are the guest's and may say anything: each entry is
 * read once, at an address that was looked up.
 */
#include "hostpt/code-page.h"

#include <string.h>

#define PAGE_BYTES 4096u
#define PRESENT    (UINT64_C(1) << 0)
#define USER       (UINT64_C(1) << 2)
#define LARGE      (UINT64_C(1) << 7)
#define NO_EXECUTE (UINT64_C(1) << 63)
#define ADDRESS    UINT64_C(0x000ffffffffff000)

static bool read_entry(const struct ptd_memory *memory, uint64_t paddr, uint64_t *entry)
{
    const uint8_t *bytes;
    size_t len_bytes;

    if (ptd_memory_find(memory, paddr, &bytes, &len_bytes) != PTD_OK || len_bytes < sizeof(*entry))
        return false;
    memcpy(entry, bytes, sizeof(*entry));
    return (*entry & PRESENT) && !(*entry & NO_EXECUTE);
}

const uint8_t *code_page(const struct ptd_memory *memory, bool is_la57, uint64_t cr3,
                         uint64_t address, bool *user)
{
    uint64_t table = cr3 & ADDRESS, rights = USER, entry, in_page;
    unsigned shift = is_la57 ? 48 : 39;
    const uint8_t *bytes;
    size_t len_bytes;

    for (;; shift -= 9) {
        if (!read_entry(memory, table + (address >> shift & 0x1ff) * sizeof(entry), &entry))
            return NULL;
        rights &= entry;
        if (shift == 12 || (shift <= 30 && entry & LARGE))
            break;
        table = entry & ADDRESS;
    }
    in_page = (UINT64_C(1) << shift) - 1;
    if (ptd_memory_find(memory, (entry & ADDRESS & ~in_page) | (address & in_page), &bytes,
                        &len_bytes) != PTD_OK ||
        len_bytes < PAGE_BYTES)
        return NULL;
    *user = rights != 0;
    return bytes;
}
