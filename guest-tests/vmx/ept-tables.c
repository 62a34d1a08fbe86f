/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * EPT paging structures: see ept-tables.h.
 */
#include "ept-tables.h"
#include "memory.h"

#define ENTRIES       512
#define LEVELS        4
#define ADDRESS       0x000ffffffffff000ull
#define IDENTITY      (4ull << 30)
#define LEVEL_2_BYTES (2ull << 20)
#define PAGE_KINDS    (EPT_ALL | 0x78ull) /* rights, memory type, "ignore PAT" */

static uint64_t page_bytes(unsigned level)
{
    return PAGE_BYTES << 9 * (level - 1);
}

/* A structure for the next lower level that maps what the entry mapped. */
static void split(uint64_t *entry, unsigned level)
{
    const uint64_t phys = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    const uint64_t large = level > 2 ? EPT_LARGE : 0;
    uint64_t *below = phys_to_virt(phys);

    for (uint64_t i = 0; *entry & EPT_LARGE && i < ENTRIES; i++)
        below[i] = ((*entry & (ADDRESS | PAGE_KINDS)) + i * page_bytes(level - 1)) | large;
    *entry = phys | EPT_ALL;
}

uint64_t *ept_entry(uint64_t eptp, uint64_t gpa, unsigned level)
{
    uint64_t table = eptp & ADDRESS;

    for (unsigned now = LEVELS;; now--) {
        uint64_t *entry = (uint64_t *)phys_to_virt(table) + (gpa / page_bytes(now) & (ENTRIES - 1));

        if (now == level)
            return entry;
        if (!(*entry & EPT_ALL) || *entry & EPT_LARGE)
            split(entry, now);
        table = *entry & ADDRESS;
    }
}

uint64_t ept_identity(void)
{
    const uint64_t eptp = phys_alloc(PAGE_BYTES, PAGE_BYTES) | EPTP_WB | EPTP_LEVELS_4;

    for (uint64_t gpa = 0; gpa < IDENTITY; gpa += LEVEL_2_BYTES)
        *ept_entry(eptp, gpa, 2) = gpa | EPT_ALL | EPT_TYPE_WB | EPT_LARGE;
    return eptp;
}
