/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory and page tables: see memory.h.
 */
#include "memory.h"
#include "console.h"
#include "exit.h"

#define PTE_ADDR        0x000ffffffffff000ull
#define TABLE_ENTRIES   512
#define FIRST_HIGH_HALF 256

extern uint64_t boot_pml4[];

static uint64_t next_free, end_of_memory;

void memory_init(uint64_t begin, uint64_t end)
{
    next_free = begin;
    end_of_memory = end;
}

uint64_t memory_end(void)
{
    return end_of_memory;
}

/* Quadwords: the stepping of a page's worth of single bytes would show. */
static void zero(void *to, uint64_t len_bytes)
{
    uint64_t count = len_bytes / 8;

    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0) : "memory");
}

uint64_t phys_alloc(uint64_t size_bytes, uint64_t align_bytes)
{
    uint64_t begin = (next_free + align_bytes - 1) & ~(align_bytes - 1);
    uint64_t size = (size_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

    if (begin + size > end_of_memory) {
        printf("out of memory: %lu KiB more needed\n", size / 1024);
        guest_exit(1);
    }
    next_free = begin + size;
    zero(phys_to_virt(begin), size);
    return begin;
}

uint64_t address_space_new(void)
{
    /* boot_pml4 is linked where it is loaded; the upper half of it serves everyone. */
    const uint64_t *kernel = phys_to_virt((uint64_t)boot_pml4);
    uint64_t cr3 = phys_alloc(PAGE_BYTES, PAGE_BYTES);
    uint64_t *pml4 = phys_to_virt(cr3);

    for (unsigned i = FIRST_HIGH_HALF; i < TABLE_ENTRIES; i++)
        pml4[i] = kernel[i];
    return cr3;
}

static unsigned table_index(uint64_t virt, unsigned level)
{
    return virt >> (12 + 9 * level) & (TABLE_ENTRIES - 1);
}

void map_page(uint64_t cr3, uint64_t virt, uint64_t phys, uint64_t pte_flags)
{
    uint64_t table = cr3;

    for (unsigned level = 3; level > 0; level--) {
        uint64_t *entry = (uint64_t *)phys_to_virt(table) + table_index(virt, level);

        if (!(*entry & PTE_PRESENT))
            *entry = phys_alloc(PAGE_BYTES, PAGE_BYTES) | PTE_PRESENT | PTE_WRITE | PTE_USER;
        table = *entry & PTE_ADDR;
    }
    ((uint64_t *)phys_to_virt(table))[table_index(virt, 0)] = phys | pte_flags | PTE_PRESENT;
    __asm__ volatile("invlpg (%0)" : : "r"(virt) : "memory");
}

uint64_t lookup_page(uint64_t cr3, uint64_t virt)
{
    uint64_t table = cr3, entry;

    for (unsigned level = 3;; level--) {
        entry = ((uint64_t *)phys_to_virt(table))[table_index(virt, level)];
        if (!(entry & PTE_PRESENT))
            return 0;
        if (level == 0)
            return entry;
        table = entry & PTE_ADDR;
    }
}
