/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of code over an image, and their cache. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/blocks.h"
#include "code/code_log.h"
#include "code/image.h"
#include "code/insn.h"

#define MAX_BLOCK_INSNS 4096u
#define FIRST_ROOM      ((size_t)1 << ROOM_LOG2(10))
/* A hostile trace can ask for the same code in address spaces without end: then start afresh. */
#define MAX_BLOCKS (1u << 20)

/* Where code is, and what was looked up and remembered of it. */
struct code {
    const struct ptd_image *image;
    struct shapes *shapes;
    struct stretch *stretch;
};

/* Copies what is there of an instruction that may lie in several segments. */
static size_t gather(const struct ptd_image *image, uint64_t cr3, uint64_t ip,
                     uint8_t insn_bytes[MAX_INSN_BYTES])
{
    size_t have = 0;

    while (have < MAX_INSN_BYTES) {
        const uint8_t *bytes;
        size_t len;

        if (ptd_image_find(image, cr3, ip + have, &bytes, &len) != PTD_OK)
            break;
        if (len > MAX_INSN_BYTES - have)
            len = MAX_INSN_BYTES - have;
        memcpy(insn_bytes + have, bytes, len);
        have += len;
    }
    return have;
}

static int decode_at(const struct code *code, uint64_t cr3, enum ptd_mode mode, uint64_t ip,
                     struct ptd_insn *insn)
{
    struct stretch *const stretch = code->stretch;
    uint8_t insn_bytes[MAX_INSN_BYTES];

    if (ip - stretch->ip >= stretch->len_bytes) {
        const int status =
            ptd_image_find(code->image, cr3, ip, &stretch->bytes, &stretch->len_bytes);

        if (status != PTD_OK) {
            stretch->len_bytes = 0;
            return status;
        }
        stretch->ip = ip;
    }

    const size_t offset = ip - stretch->ip;
    const size_t left = stretch->len_bytes - offset;

    if (left >= MAX_INSN_BYTES)
        return ptd_shapes_decode(code->shapes, mode, ip, stretch->bytes + offset, MAX_INSN_BYTES,
                                 insn);

    const size_t have = gather(code->image, cr3, ip, insn_bytes);

    return ptd_insn_decode(mode, ip, insn_bytes, have, insn);
}

/* The target of a branch that ends at next_ip, if the base of its segment is known. */
static uint64_t wrap(const struct ptd_image *image, uint64_t next_ip, uint64_t target)
{
    const struct code_log *const log = ptd_image_code_log(image);
    const uint64_t base = log ? ptd_code_log_base(log, next_ip) : 0;

    return base ? base + ((target - base) & 0xffffu) : target;
}

/* At most so many instructions from ip on, as far as they are known. How many; *last: the last. */
static uint32_t run(const struct code *code, enum ptd_mode mode, uint64_t ip, uint32_t most,
                    struct ptd_insn *last)
{
    const struct stretch *const stretch = code->stretch;
    const uint64_t offset = ip - stretch->ip;

    if (mode != PTD_MODE_64 || offset >= stretch->len_bytes)
        return 0;
    return ptd_shapes_run(code->shapes, ip, stretch->bytes + offset,
                          stretch->len_bytes - (size_t)offset, most, last);
}

/*
 * Decodes a block whose key is set, up to its natural end, to the instruction at stop_ip, or to
 * most instructions.
 */
static int build(const struct code *code, struct block *block, const uint64_t *stop_ip,
                 uint32_t most)
{
    const enum ptd_mode mode = (enum ptd_mode)block->mode;
    uint64_t ip = block->ip;

    block->insns = 0;
    do {
        struct ptd_insn insn;
        uint32_t count = stop_ip ? 0 : run(code, mode, ip, most - block->insns, &insn);

        if (count == 0) {
            if (stop_ip && ip == *stop_ip)
                break;

            const int status = decode_at(code, block->cr3, mode, ip, &insn);

            if (status != PTD_OK && block->insns == 0)
                return status;
            if (status != PTD_OK)
                break; /* an event may well come before this instruction */
            count = 1;
        }
        ip = insn.ip + insn.size_bytes;
        block->insns += count;
        block->last_ip = insn.ip;
        block->last_class = insn.iclass;
        block->target = insn.wraps ? wrap(code->image, ip, insn.target) : insn.target;
        block->optional = insn.optional;
    } while (block->last_class == PTD_INSN_OTHER && block->insns < most);
    block->next_ip = ip;
    return PTD_OK;
}

int ptd_block_build(const struct ptd_image *image, struct shapes *shapes, struct stretch *stretch,
                    uint64_t cr3, enum ptd_mode mode, uint64_t ip, struct block *block)
{
    const struct code code = {image, shapes, stretch};

    *block = (struct block){.ip = ip, .cr3 = cr3, .mode = (uint8_t)mode};
    return build(&code, block, NULL, MAX_BLOCK_INSNS);
}

/* ---- The cache ---- */

/* A block is built seldom, and code may have come to the image since the last one. */
static int build_anew(const struct blocks *blocks, struct block *block, const uint64_t *stop_ip,
                      uint32_t most)
{
    struct stretch stretch = {0};
    const struct code code = {blocks->image, blocks->shapes, &stretch};

    return build(&code, block, stop_ip, most);
}

void ptd_blocks_init(struct blocks *blocks, const struct ptd_image *image)
{
    *blocks = (struct blocks){
        .image = image,
        .shapes = ptd_shapes_new(),
        .generation = ptd_image_generation(image),
        .key = ptd_hash_key_new(),
    };
    blocks->seen = *blocks->generation;
}

void ptd_blocks_free(struct blocks *blocks)
{
    ptd_shapes_free(blocks->shapes);
    free(blocks->table);
}

void ptd_blocks_notice(struct blocks *blocks)
{
    free(blocks->table);
    blocks->table = NULL;
    blocks->room = blocks->count = 0;
    blocks->seen = *blocks->generation;
}

/* The block's place, or the free one where it belongs. */
static struct block *place(const struct blocks *blocks, uint64_t ip, uint64_t cr3, uint8_t mode)
{
    size_t i = (size_t)hash_pair(&blocks->key, ip, cr3 ^ mode); /* the low bits of CR3 are flags */

    for (;; i++) {
        struct block *const block = &blocks->table[i & (blocks->room - 1)];

        if (block->insns == 0 || (block->ip == ip && block->cr3 == cr3 && block->mode == mode))
            return block;
    }
}

/* Keeps the table less than half full. */
static bool make_room(struct blocks *blocks)
{
    if (blocks->count >= MAX_BLOCKS) {
        memset(blocks->table, 0, blocks->room * sizeof(*blocks->table));
        blocks->count = 0;
    }
    if (blocks->count < blocks->room / 2)
        return true;

    struct block *const old_table = blocks->table;
    const size_t old_room = blocks->room, room = old_room ? old_room * 2 : FIRST_ROOM;
    struct block *const table = calloc(room, sizeof(*table));

    if (!table)
        return false;
    blocks->table = table;
    blocks->room = room;
    for (size_t i = 0; i < old_room; i++) {
        const struct block *const old = &old_table[i];

        if (old->insns)
            *place(blocks, old->ip, old->cr3, old->mode) = *old;
    }
    free(old_table);
    return true;
}

int ptd_blocks_get(struct blocks *blocks, uint64_t cr3, enum ptd_mode mode, uint64_t ip,
                   const struct block **block)
{
    if (!make_room(blocks))
        return PTD_E_NOMEM;

    struct block *const found = place(blocks, ip, cr3, (uint8_t)mode);

    *block = found;
    if (found->insns)
        return PTD_OK;
    found->ip = ip;
    found->cr3 = cr3;
    found->mode = (uint8_t)mode;

    const int status = build_anew(blocks, found, NULL, MAX_BLOCK_INSNS);

    if (status == PTD_OK)
        blocks->count++;
    return status;
}

int ptd_blocks_cut(const struct blocks *blocks, const struct block *block, uint64_t stop_ip,
                   struct block *part)
{
    *part = *block;
    /* The same bytes decode as before: only the place to stop is new. */
    const int status = build_anew(blocks, part, &stop_ip, MAX_BLOCK_INSNS);

    if (status != PTD_OK)
        return status;
    return part->next_ip == stop_ip ? PTD_OK : PTD_E_MISMATCH;
}

int ptd_blocks_first(const struct blocks *blocks, const struct block *block, uint32_t insns,
                     struct block *part)
{
    *part = *block;
    return build_anew(blocks, part, NULL, insns);
}

int ptd_block_insn(const struct ptd_image *image, const struct ptd_item *block, uint64_t *ip,
                   struct ptd_insn *insn)
{
    struct stretch stretch = {0};
    const struct code code = {.image = image, .stretch = &stretch};

    if (*ip - block->ip > block->last_ip - block->ip)
        return PTD_END;

    const int status = decode_at(&code, block->cr3, (enum ptd_mode)block->mode, *ip, insn);

    if (status == PTD_OK)
        *ip += insn->size_bytes;
    return status;
}
