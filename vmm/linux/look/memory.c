/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a guest's memory through its page tables (SDM vol. 3, 4.5: 4-level and 5-level paging). */
#include "linux/look/memory.h"

#include <string.h>

#define PRESENT       UINT64_C(1)
#define IS_LARGE      (UINT64_C(1) << 7)
#define ENTRY_ADDRESS UINT64_C(0x000ffffffffff000)
#define LARGEST_SHIFT 30u /* 1 GiB */

/* How much of [address, address + len_bytes) its page holds. */
static size_t in_page(uint64_t address, size_t len_bytes)
{
    const size_t left = LOOK_PAGE_BYTES - (size_t)(address & (LOOK_PAGE_BYTES - 1));

    return len_bytes < left ? len_bytes : left;
}

bool look_physical(const struct look_memory *memory, uint64_t paddr, void *into, size_t len_bytes)
{
    while (len_bytes > 0) {
        const size_t part = in_page(paddr, len_bytes);

        if (!memory->read(memory->owner, paddr, into, part))
            return false;
        into = (uint8_t *)into + part;
        paddr += part;
        len_bytes -= part;
    }
    return true;
}

static bool is_canonical(uint64_t vaddr, unsigned bits)
{
    const uint64_t high = vaddr >> (bits - 1);

    return high == 0 || high == UINT64_MAX >> (bits - 1);
}

bool look_translate(const struct look_space *space, uint64_t vaddr, uint64_t *paddr)
{
    uint64_t table = space->root & ENTRY_ADDRESS, entry, in;

    if (!is_canonical(vaddr, space->has_five_levels ? 57 : 48))
        return false;
    for (unsigned shift = space->has_five_levels ? 48 : 39;; shift -= 9) {
        if (!look_physical(space->memory, table + (vaddr >> shift & 0x1ff) * 8, &entry, 8) ||
            !(entry & PRESENT))
            return false;
        table = entry & ENTRY_ADDRESS & ~space->ignored;
        if (shift == 12 || (shift <= LARGEST_SHIFT && entry & IS_LARGE)) {
            in = (UINT64_C(1) << shift) - 1;
            *paddr = (table & ~in) | (vaddr & in);
            return true;
        }
    }
}

bool look_read(const struct look_space *space, uint64_t vaddr, void *into, size_t len_bytes)
{
    while (len_bytes > 0) {
        const size_t part = in_page(vaddr, len_bytes);
        uint64_t paddr;

        if (!look_translate(space, vaddr, &paddr) ||
            !space->memory->read(space->memory->owner, paddr, into, part))
            return false;
        into = (uint8_t *)into + part;
        vaddr += part;
        len_bytes -= part;
    }
    return true;
}

bool look_u8(const struct look_space *space, uint64_t vaddr, uint8_t *value)
{
    return look_read(space, vaddr, value, sizeof(*value));
}

bool look_u32(const struct look_space *space, uint64_t vaddr, uint32_t *value)
{
    uint32_t read;

    if (!look_read(space, vaddr, &read, sizeof(read)))
        return false;
    *value = read;
    return true;
}

bool look_u64(const struct look_space *space, uint64_t vaddr, uint64_t *value)
{
    uint64_t read;

    if (!look_read(space, vaddr, &read, sizeof(read)))
        return false;
    *value = read;
    return true;
}

bool look_text(const struct look_space *space, uint64_t vaddr, char *into, size_t room_bytes)
{
    size_t at = 0;

    while (at < room_bytes - 1) {
        const size_t part = in_page(vaddr + at, room_bytes - 1 - at);

        if (!look_read(space, vaddr + at, into + at, part))
            break;
        if (memchr(into + at, 0, part))
            return true;
        at += part;
    }
    into[at] = 0;
    return at > 0;
}
