/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of the guests of a hostile VMM: an arena between guards, the paging structures that
 * are in it, and EPT that stands outside of it. Merciful, EPT gives the arena only, whatever its
 * entries are: a leaf maps a page of the arena or none that there is, and the others point to the
 * next level.
 */
#include "apic.h"
#include "cpu.h"
#include "memory.h"
#include "pt.h"
#include "string.h"
#include "trap.h"
#include "vmx-hostile.h"
#include "vmx/ept-tables.h"
#include "vmx/vm.h"

#define GUARD_WORD     0x5aa5c33c0ff00ff1ull
#define WORDS_PER_PAGE (PAGE_BYTES / 8)
#define LEVELS         4u
#define PAGES_A_LEVEL  2u
#define BEYOND_MEMORY  (1ull << 33)
#define GATE_INTERRUPT 0x8e00ull
#define IST_1          (1ull << 32)
#define CODE_64        0x00af9b000000ffffull
#define CODE_32        0x00cf9b000000ffffull
#define DATA           0x00cf93000000ffffull

uint64_t arena;

/* EPT: PAGES_A_LEVEL pages for each level, those of level 1 first. Never aligned as a large page
 * is. */
static uint64_t pool;

static uint64_t pool_page(unsigned level, unsigned which)
{
    return pool + ((level - 1) * PAGES_A_LEVEL + which) * PAGE_BYTES;
}

static uint64_t *arena_words(unsigned page)
{
    return phys_to_virt(arena + page * PAGE_BYTES);
}

static void fill_guards(uint64_t phys)
{
    uint64_t *words = phys_to_virt(phys);

    for (uint64_t i = 0; i < ARENA_BYTES / 8; i++)
        words[i] = GUARD_WORD;
}

static bool guard_holds(uint64_t phys)
{
    const uint64_t *words = phys_to_virt(phys);

    for (uint64_t i = 0; i < ARENA_BYTES / 8; i++)
        if (words[i] != GUARD_WORD)
            return false;
    return true;
}

bool memory_guards_hold(void)
{
    return guard_holds(arena - ARENA_BYTES) && guard_holds(arena + ARENA_BYTES);
}

void memory_make(void)
{
    const uint64_t pages = LEVELS * PAGES_A_LEVEL + 1;

    arena = phys_alloc(3 * ARENA_BYTES, ARENA_BYTES) + ARENA_BYTES;
    pool = phys_alloc(pages * PAGE_BYTES, 16 * PAGE_BYTES) + PAGE_BYTES;
    fill_guards(arena - ARENA_BYTES);
    fill_guards(arena + ARENA_BYTES);
}

/* ---- What a guest needs ------------------------------------------------------------------- */

/* Four levels, one to one. */
static void fill_paging(void)
{
    const uint64_t flags = PTE_PRESENT | PTE_WRITE | PTE_USER;

    for (unsigned page = PAGE_PAGING; page < PAGE_PAGING + 3; page++) {
        memset(arena_words(page), 0, PAGE_BYTES);
        arena_words(page)[0] = (page + 1) * PAGE_BYTES | flags;
    }
    for (uint64_t i = 0; i < ARENA_PAGES; i++)
        arena_words(PAGE_PAGING + 3)[i] = i * PAGE_BYTES | flags;
}

static void fill_descriptors(void)
{
    uint64_t *gates = arena_words(PAGE_IDT), *gdt = arena_words(PAGE_GDT);
    const uint64_t tss = PAGE_TSS * PAGE_BYTES, stack = (PAGE_STACK + 1) * PAGE_BYTES - 1024;

    for (unsigned vector = 0; vector < 256; vector++) {
        const uint64_t entry = code_place();

        /* With a stack of its own, an exception mostly arrives. */
        gates[2 * vector] = (entry & 0xffff) | 8ull << 16 | GATE_INTERRUPT << 32 |
                            (entry & 0xffff0000) << 32 | (once_in(8) ? 0 : IST_1);
        gates[2 * vector + 1] = 0;
    }
    memset(gdt, 0, PAGE_BYTES);
    gdt[1] = CODE_64;
    gdt[2] = DATA;
    gdt[3] = CODE_32;
    gdt[4] = DATA | 3ull << 45;
    gdt[5] = CODE_64 | 3ull << 45;
    gdt[6] = (sizeof(struct tss) - 1) | tss << 16 | 0x89ull << 40;
    *(struct tss *)arena_words(PAGE_TSS) = (struct tss){
        .rsp = {stack, stack, stack},
        .ist = {stack},
    };
}

/* Output at guest-physical addresses. */
static void fill_topa(void)
{
    for (unsigned page = PAGE_TOPA; page < PAGE_TOPA + TOPA_PAGES; page++)
        for (unsigned i = 0; i < 4; i++)
            arena_words(page)[i] = (PAGE_TOPA + below(TOPA_PAGES)) * PAGE_BYTES |
                                   (once_in(4) ? TOPA_END : sparse() & (TOPA_INT | TOPA_STOP)) |
                                   (once_in(16) ? sparse() & 0xfff : 0);
}

static void fill_ept(void)
{
    for (unsigned level = LEVELS; level > 0; level--)
        for (unsigned which = 0; which < PAGES_A_LEVEL; which++) {
            uint64_t *entries = phys_to_virt(pool_page(level, which));

            memset(entries, 0, PAGE_BYTES);
            if (level > 1)
                entries[0] = pool_page(level - 1, which) | EPT_ALL;
            for (uint64_t i = 0; level == 1 && i < WORDS_PER_PAGE; i++)
                entries[i] = (arena + i * PAGE_BYTES) | EPT_ALL | EPT_TYPE_WB;
        }
}

void memory_fill(void)
{
    fill_paging();
    fill_descriptors();
    fill_topa();
    for (unsigned page = PAGE_CODE; page < PAGE_CODE + CODE_PAGES; page++)
        code_fill(page);
    fill_ept();
}

/* ---- EPT that is not as it should be ------------------------------------------------------ */

uint64_t memory_eptp(void)
{
    return pool_page(LEVELS, (unsigned)below(PAGES_A_LEVEL)) | EPTP_LEVELS_4 | EPTP_WB |
           (once_in(2) ? EPTP_AD : 0);
}

static uint64_t nowhere(void)
{
    return (BEYOND_MEMORY | number()) & ((1ull << pt_caps()->phys_bits) - PAGE_BYTES);
}

static uint64_t ept_address(unsigned level)
{
    if (merciless && once_in(4))
        return some_page();
    if (once_in(16))
        return nowhere();
    if (level > 1 && !(level == 2 && once_in(2)))
        return pool_page(level - 1, (unsigned)below(PAGES_A_LEVEL));
    return arena + (level == 1 ? below(ARENA_PAGES) * PAGE_BYTES : 0);
}

static uint64_t ept_flags(unsigned level, uint64_t address)
{
    const uint64_t odd = once_in(4) ? sparse() & 0xfff0000000000fff : 0;
    const bool large = level == 2 && address == arena;

    return (once_in(3) ? below(8) : EPT_ALL) | (level == 1 || large ? EPT_TYPE_WB : 0) |
           (large ? EPT_LARGE : odd);
}

void memory_change_ept(void)
{
    const unsigned level = 1 + (unsigned)below(LEVELS);
    uint64_t *entries = phys_to_virt(pool_page(level, (unsigned)below(PAGES_A_LEVEL)));
    const uint64_t address = ept_address(level);

    entries[once_in(2) ? below(32) : below(WORDS_PER_PAGE)] = address | ept_flags(level, address);
    if (!once_in(8))
        invept(below(3), (const uint64_t[2]){memory_eptp(), once_in(16)});
}

/* ---- Places ------------------------------------------------------------------------------- */

static const uint64_t devices[] = {
    APIC_PHYS,  0xfec00000, /* I/O APIC */
    0xfed00000,             /* HPET */
    0xfffc0000,             /* flash */
    0xf0000,                /* shadowed firmware */
    0xa0000,                /* display */
    0xe0000000, 0x100000000,
};

/* Merciless, of so many places one: a run that ends at once finds little. */
#define OWN_PAGES 64
#define DEVICES   8

static uint64_t own_page(void)
{
    char stack_byte = 0;

    switch (below(4)) {
    case 0:
        return virt_to_phys(&stack_byte) & ~(PAGE_BYTES - 1);
    case 1:
        return 0x100000 + below(64) * PAGE_BYTES;
    case 2:
        return pool_page(1 + (unsigned)below(LEVELS), 0);
    default:
        return read_cr3() + below(4) * PAGE_BYTES;
    }
}

uint64_t some_page(void)
{
    if (merciless && once_in(OWN_PAGES))
        return own_page();
    if (merciless && once_in(DEVICES))
        return devices[below(sizeof(devices) / sizeof(devices[0]))];
    return once_in(8) ? nowhere() : arena + below(ARENA_PAGES) * PAGE_BYTES;
}

uint64_t some_region(void)
{
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        return vm_pages.vmcs;
    case 3:
        return vm_pages.other_vmcs;
    case 4:
        return vm_pages.vmxon;
    case 5:
        return some_page() | sparse();
    default:
        return some_page();
    }
}
