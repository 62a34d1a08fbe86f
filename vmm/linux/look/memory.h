/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guest's memory, by physical and by linear address. What stands in it is the guest's and
 * hostile: whoever reads it copies first and checks then, and every walk has a bound.
 *
 * The files of this folder need no library and allocate nothing, so that QEMU can hold them too.
 */
#ifndef LOOK_MEMORY_H
#define LOOK_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOK_PAGE_BYTES 4096u

/* Where physical memory comes from: a dump, or a guest that runs. */
struct look_memory {
    void *owner;
    /* Copies len_bytes that stand in one page of 4 KiB. False: they are not there. */
    bool (*read)(void *owner, uint64_t paddr, void *into, size_t len_bytes);
};

/* An address space of 64-bit mode (SDM vol. 3, 4.5). */
struct look_space {
    const struct look_memory *memory;
    uint64_t root;        /* physical address of its highest table */
    uint64_t ignored;     /* bits of entries that are no address, though they stand in it (SME) */
    bool has_five_levels; /* CR4.LA57 */
};

bool look_physical(const struct look_memory *memory, uint64_t paddr, void *into, size_t len_bytes);
/* Where vaddr is. False: not present, or not canonical. */
bool look_translate(const struct look_space *space, uint64_t vaddr, uint64_t *paddr);
/* Copies from linear addresses, over as many pages as need be; into may hold a part on failure. */
bool look_read(const struct look_space *space, uint64_t vaddr, void *into, size_t len_bytes);
/* Little-endian numbers; *value is as it was on failure. */
bool look_u8(const struct look_space *space, uint64_t vaddr, uint8_t *value);
bool look_u32(const struct look_space *space, uint64_t vaddr, uint32_t *value);
bool look_u64(const struct look_space *space, uint64_t vaddr, uint64_t *value);
/*
 * A text up to its zero, or cut off where room_bytes end; it always ends with a zero. False: there
 * is none, not even a part.
 */
bool look_text(const struct look_space *space, uint64_t vaddr, char *into, size_t room_bytes);

#endif
