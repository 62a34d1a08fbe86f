/* SPDX-License-Identifier: BSD-3-Clause */
/* Remembers what Zydis said of the first bytes of instructions. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "code/insn.h"
#include "code/shapes.h"

#define SHAPES_LOG2  ROOM_LOG2(12)
#define HEAD_MOST    8u /* longer ones are rare */
#define PREFIXES     4u /* in front of REX; more are rare */
#define OP_TWO_BYTES 0x0fu
#define OP_MAP_38    0x38u /* after 0F */
#define OP_MAP_3A    0x3au
#define OP_3DNOW     0x0fu /* the opcode proper stands at the end */
#define OP_EVEX      0x62u
#define OP_XOP       0x8fu /* or POP */
#define OP_VEX3      0xc4u
#define OP_VEX2      0xc5u
#define OP_REX2      0xd5u

struct shape {
    uint64_t head; /* its bytes */
    uint8_t key;   /* mode and length of the head; 0: free */
    uint8_t size_bytes, iclass, rel_bytes;
    bool far_return, optional, wraps;
};

struct shapes {
    struct shape shape[1u << SHAPES_LOG2];
};

struct shapes *ptd_shapes_new(void)
{
    return calloc(1, sizeof(struct shapes));
}

void ptd_shapes_free(struct shapes *shapes)
{
    free(shapes);
}

/* ---- Heads ---- */

/* By opcode: whether ModRM follows. An error here costs time, and nothing else. */
static const uint64_t modrm_of_one[4] = {0x0f0f0f0f0f0f0f0f, 0x00000a0c00000000, 0x000000000000ffff,
                                         0xc0c00000ff0f00f3};
static const uint64_t modrm_of_two[4] = {0xff00ffffffffa00f, 0xff7fffffffffffff, 0xfffff8f8ffff0000,
                                         0xffffffffffff00ff};

static bool is_in(const uint64_t set[4], uint8_t opcode)
{
    return set[opcode >> 6] >> (opcode & 63) & 1;
}

static bool is_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
        return true;
    default:
        return false;
    }
}

/* Goes behind opcode and VEX or EVEX. False: the rest is not looked at here. */
static bool pass_opcode(enum ptd_mode mode, const uint8_t *bytes, unsigned *at, bool *has_modrm)
{
    const uint8_t opcode = bytes[(*at)++], next = bytes[*at];
    const bool is_vex = mode == PTD_MODE_64 || next >= 0xc0;

    *has_modrm = true;
    switch (opcode) {
    case OP_TWO_BYTES:
        ++*at;
        if (next == OP_MAP_38 || next == OP_MAP_3A)
            ++*at;
        else
            *has_modrm = is_in(modrm_of_two, next);
        return next != OP_3DNOW;
    case OP_VEX2:
        *at += is_vex ? 2 : 0;
        return true;
    case OP_VEX3:
        *at += is_vex ? 3 : 0;
        return true;
    case OP_EVEX:
        *at += is_vex ? 4 : 0;
        return true;
    case OP_XOP:
        return (next & 0x1f) < 8;
    case OP_REX2:
        *has_modrm = false;
        return mode != PTD_MODE_64;
    default:
        *has_modrm = is_in(modrm_of_one, opcode);
        return true;
    }
}

/* How many bytes stand in front of displacement and immediate, of MAX_INSN_BYTES; 0: too many. */
static unsigned head_of(enum ptd_mode mode, const uint8_t *bytes)
{
    bool is_16_bit = mode == PTD_MODE_16, has_modrm;
    unsigned at = 0;

    for (; is_prefix(bytes[at]); at++) {
        if (at == PREFIXES)
            return 0;
        if (bytes[at] == 0x67)
            is_16_bit = mode == PTD_MODE_32;
    }
    if (mode == PTD_MODE_64 && (bytes[at] & 0xf0) == 0x40)
        at++;
    if (!pass_opcode(mode, bytes, &at, &has_modrm))
        return 0;
    if (has_modrm) {
        const uint8_t modrm = bytes[at++];

        at += modrm < 0xc0 && (modrm & 7) == 4 && !is_16_bit;
    }
    return at <= HEAD_MOST ? at : 0;
}

/* ---- Shapes ---- */

static int64_t distance_at(const uint8_t *bytes, const struct shape *shape)
{
    const uint8_t *const from = bytes + shape->size_bytes - shape->rel_bytes;

    switch (shape->rel_bytes) {
    case 1:
        return (int8_t)from[0];
    case 2:
        return (int16_t)little_endian(from, 2);
    default:
        return (int32_t)little_endian(from, 4);
    }
}

static void tell(const struct shape *shape, enum ptd_mode mode, uint64_t ip, const uint8_t *bytes,
                 struct ptd_insn *insn)
{
    *insn = (struct ptd_insn){
        .ip = ip,
        .iclass = shape->iclass,
        .size_bytes = shape->size_bytes,
        .far_return = shape->far_return,
        .optional = shape->optional,
        .wraps = shape->wraps,
    };
    if (shape->rel_bytes)
        insn->target =
            ptd_insn_target(mode, shape->wraps, ip + shape->size_bytes, distance_at(bytes, shape));
}

int ptd_shapes_decode(struct shapes *shapes, enum ptd_mode mode, uint64_t ip, const uint8_t *bytes,
                      size_t available_bytes, struct ptd_insn *insn)
{
    const unsigned head_bytes =
        shapes && available_bytes >= MAX_INSN_BYTES ? head_of(mode, bytes) : 0;
    struct insn_parts parts;
    struct shape *shape;
    uint64_t head;
    uint8_t key;
    int status;

    if (head_bytes == 0)
        return ptd_insn_decode(mode, ip, bytes, available_bytes, insn);
    memcpy(&head, bytes, sizeof(head));
    head &= UINT64_MAX >> (64 - 8 * head_bytes);
    key = (uint8_t)(mode << 4 | head_bytes);
    shape = &shapes->shape[(head ^ key) * 0x9e3779b97f4a7c15u >> (64 - SHAPES_LOG2)];
    if (shape->head == head && shape->key == key) {
        tell(shape, mode, ip, bytes, insn);
        return PTD_OK;
    }
    status = ptd_insn_take_apart(mode, ip, bytes, available_bytes, insn, &parts);
    if (status == PTD_OK && parts.head_bytes == head_bytes)
        *shape = (struct shape){
            .head = head,
            .key = key,
            .size_bytes = insn->size_bytes,
            .iclass = insn->iclass,
            .rel_bytes = parts.rel_bytes,
            .far_return = insn->far_return,
            .optional = insn->optional,
            .wraps = insn->wraps,
        };
    return status;
}
