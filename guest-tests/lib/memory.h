/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory and page tables. Memory is handed out and never taken back: a guest image runs
 * once.
 */
#ifndef GUEST_MEMORY_H
#define GUEST_MEMORY_H

#include <stdint.h>

#define PAGE_BYTES       4096ull
#define DIRECT_MAP       0xffff800000000000ull /* the first DIRECT_MAP_BYTES of physical memory */
#define DIRECT_MAP_BYTES 0x100000000ull
#define KERNEL_BASE      0xffffffff80000000ull /* link address of the image, less its load address */
#define USER_END         0x0000800000000000ull

#define PTE_PRESENT (1ull << 0)
#define PTE_WRITE   (1ull << 1)
#define PTE_USER    (1ull << 2)

static inline void *phys_to_virt(uint64_t phys)
{
    return (void *)(DIRECT_MAP + phys);
}

/* For addresses in the image or in the direct map. */
static inline uint64_t virt_to_phys(const void *virt)
{
    uint64_t addr = (uint64_t)virt;

    return addr >= KERNEL_BASE ? addr - KERNEL_BASE : addr - DIRECT_MAP;
}

/* Hands [begin, end) of physical memory to the allocator. */
void memory_init(uint64_t begin, uint64_t end);
/* The physical address after the last byte of that memory. */
uint64_t memory_end(void);

/*
 * Zeroed physical memory, aligned to align_bytes (a power of two, at least a page); size_bytes is
 * rounded up to pages. Ends the guest if there is none left.
 */
uint64_t phys_alloc(uint64_t size_bytes, uint64_t align_bytes);

/* A new address space, with the kernel's half mapped for the supervisor; gives its CR3. */
uint64_t address_space_new(void);
/* Maps one 4 KiB page of address space cr3, or maps it anew. */
void map_page(uint64_t cr3, uint64_t virt, uint64_t phys, uint64_t pte_flags);
/* The page-table entry of virt, 0 if there is none. */
uint64_t lookup_page(uint64_t cr3, uint64_t virt);

#endif
