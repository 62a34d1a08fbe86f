/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of code: instructions one behind the other up to one that matters to a trace. A cache
 * spares decoding them again.
 */
#ifndef PTD_BLOCKS_H
#define PTD_BLOCKS_H

#include "base/hash.h"
#include "code/shapes.h"

/* Code of one address space that was looked up, from an address on. */
struct stretch {
    uint64_t ip;
    const uint8_t *bytes;
    size_t len_bytes; /* 0: nothing was looked up */
};

struct block {
    uint64_t ip, cr3; /* with mode, what it is found by */
    uint64_t last_ip; /* of the last instruction */
    uint64_t next_ip; /* behind it */
    uint64_t target;  /* if it is a direct branch */
    uint32_t insns;   /* 0: a free place in the cache */
    uint8_t mode, last_class;
    bool optional; /* the last instruction is an INTO */
};

static inline uint8_t ptd_block_last_bytes(const struct block *block)
{
    return (uint8_t)(block->next_ip - block->last_ip);
}

struct blocks {
    const struct ptd_image *image;
    struct shapes *shapes; /* NULL: there was no memory, and all is slower */
    struct block *table;   /* open addressing, room is a power of two */
    size_t room, count;
    struct hash_key key;
    const uint64_t *generation; /* of the image, and as of when the blocks were made */
    uint64_t seen;
};

/*
 * Where a RET to this address goes. Addresses are linear (33.3.1.1); in the first 64 KiB CS base is
 * taken to be 0, and 16-bit code wraps.
 */
static inline uint64_t ptd_return_to(uint64_t ip, uint8_t mode)
{
    if (mode == PTD_MODE_64)
        return ip;
    return mode == PTD_MODE_16 && ip == 0x10000u ? 0 : ip & 0xffffffffu;
}

void ptd_blocks_init(struct blocks *blocks, const struct ptd_image *image);
void ptd_blocks_free(struct blocks *blocks);
/* Whether code was added since the blocks were made; and forgets them. */
static inline bool ptd_blocks_are_old(const struct blocks *blocks)
{
    return *blocks->generation != blocks->seen;
}
void ptd_blocks_notice(struct blocks *blocks);
/*
 * The block at ip; valid until the next call. Its last instruction is of a class other than
 * PTD_INSN_OTHER unless code or patience ends there. PTD_OK, _NOMAP, _INSN, _NOMEM.
 */
int ptd_blocks_get(struct blocks *blocks, uint64_t cr3, enum ptd_mode mode, uint64_t ip,
                   const struct block **block);
/*
 * The same without the cache: fills *block. shapes may be NULL. *stretch is of the address space,
 * and of the image as it is now; where it ends, another is looked up. PTD_OK, _NOMAP, _INSN.
 */
int ptd_block_build(const struct ptd_image *image, struct shapes *shapes, struct stretch *stretch,
                    uint64_t cr3, enum ptd_mode mode, uint64_t ip, struct block *block);
/*
 * The part of a block in front of stop_ip, which is in (ip, last_ip]. PTD_OK, or PTD_E_MISMATCH if
 * no instruction begins at stop_ip.
 */
int ptd_blocks_cut(const struct blocks *blocks, const struct block *block, uint64_t stop_ip,
                   struct block *part);
/* Its first instructions: 1 or more, and fewer than it has. PTD_OK. */
int ptd_blocks_first(const struct blocks *blocks, const struct block *block, uint32_t insns,
                     struct block *part);

#endif
