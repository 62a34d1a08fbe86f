/* SPDX-License-Identifier: BSD-3-Clause */
/* Remembers what Zydis said of the first bytes of instructions. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "code/insn.h"
#include "code/shapes.h"

#define SHAPES_LOG2  ROOM_LOG2(12)
#define HEAD_MOST    8u /* longer ones are rare */
#define PREFIXES     4u /* in front of REX; more are rare */
#define REX_W        8u
#define REX_R        4u
#define REX_X        2u
#define REX_B        1u
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

/* What follows an opcode of 64-bit code without a prefix but REX. */
enum follows {
    NOTHING, /* but displacement and immediate */
    MODRM,
    REGISTERS, /* ModRM, and length and class depend neither on registers nor on REX.W */
    SPECIAL,   /* it is no such opcode, or one of another map */
};

/* What a ModRM says of a head. */
struct form {
    uint16_t ignored; /* bits of ModRM and, in the upper byte, of SIB */
    uint8_t size_bytes;
    uint8_t ignored_rex;
};

struct shapes {
    struct shape shape[1u << SHAPES_LOG2];
    uint8_t follows[2][256]; /* of the first two maps */
    struct form form[SPECIAL][256];
};

/* ---- Heads ---- */

/* By opcode: whether ModRM follows. An error here costs time, and nothing else. */
static const uint64_t modrm_of_one[4] = {0x0f0f0f0f0f0f0f0f, 0x00000a0c00000000, 0x000000000000ffff,
                                         0xc0c00000ff0f00f3};
static const uint64_t modrm_of_two[4] = {0xff00ffffffffa00f, 0xff7fffffffffffff, 0xfffff8f8ffff0000,
                                         0xffffffffffff00ff};

/* What stands in place of the opcode in 64-bit code and is looked at by head_of(). */
static const uint64_t is_special[4] = {0x4040404000008000, 0x000000f400000000, 0x0000000000008000,
                                       0x000d000000200030};

static unsigned is_in(const uint64_t set[4], unsigned opcode)
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

/* What tells length and class of an instruction. */
struct head {
    uint64_t bytes;
    unsigned count; /* of bytes in front of displacement and immediate; 0: too many */
};

/* Of MAX_INSN_BYTES. */
static struct head head_of(enum ptd_mode mode, const uint8_t *bytes)
{
    const struct head none = {0};
    uint64_t head;
    bool is_16_bit = mode == PTD_MODE_16, has_modrm;
    unsigned at = 0;

    for (; is_prefix(bytes[at]); at++) {
        if (at == PREFIXES)
            return none;
        if (bytes[at] == 0x67)
            is_16_bit = mode == PTD_MODE_32;
    }
    if (mode == PTD_MODE_64 && (bytes[at] & 0xf0) == 0x40)
        at++;
    if (!pass_opcode(mode, bytes, &at, &has_modrm))
        return none;
    if (has_modrm) {
        const uint8_t modrm = bytes[at++];

        at += modrm < 0xc0 && (modrm & 7) == 4 && !is_16_bit;
    }
    if (at > HEAD_MOST)
        return none;
    memcpy(&head, bytes, sizeof(head));
    return (struct head){head & UINT64_MAX >> (64 - 8 * at), at};
}

/*
 * By opcode, without a prefix but REX: whether length and class depend on no register. Elsewhere
 * ModRM.reg selects the instruction, or a register that there may not be. An error here is one:
 * build/tests/shapes goes over all of them.
 */
static const uint64_t registers_of_one[4] = {0x0f0f0f0f0f0f0f0f, 0x00000a0800000000,
                                             0x0000000000002ffb, 0x00000000110f0003};
static const uint64_t registers_of_two[4] = {0x0000ff00f3ff200c, 0xc371cfffffffffff,
                                             0xfaffb838ffff0000, 0xfffeffbfffbe007f};

static enum follows follows_one(unsigned opcode)
{
    if (is_in(is_special, opcode))
        return SPECIAL;
    return is_in(registers_of_one, opcode) ? REGISTERS
           : is_in(modrm_of_one, opcode)   ? MODRM
                                           : NOTHING;
}

static enum follows follows_two(unsigned opcode)
{
    if (opcode == OP_MAP_38 || opcode == OP_MAP_3A || opcode == OP_3DNOW)
        return SPECIAL;
    return is_in(registers_of_two, opcode) ? REGISTERS
           : is_in(modrm_of_two, opcode)   ? MODRM
                                           : NOTHING;
}

/*
 * The registers that make up the address of an operand in memory say nothing of length and class,
 * but for those of ModRM and SIB that stand for something else.
 */
static struct form form_of(enum follows follows, unsigned modrm)
{
    const bool in_memory = modrm < 0xc0, has_sib = in_memory && (modrm & 7) == 4;
    const bool is_address = modrm < 0x40 && (modrm & 7) == 5; /* a displacement alone */
    struct form form = {.size_bytes = 1 + has_sib};

    if (follows == NOTHING)
        return (struct form){0};
    if (has_sib)
        form.ignored = modrm < 0x40 ? 0xf800 : 0xff00; /* a base of 5 is a displacement */
    else if (in_memory && !is_address)
        form.ignored = 7;
    if (in_memory)
        form.ignored_rex = REX_X | REX_B;
    if (follows == REGISTERS) {
        form.ignored |= in_memory ? 0x38 : 0x3f;
        form.ignored_rex = REX_W | REX_R | REX_X | REX_B;
    }
    return form;
}

/*
 * The same of 64-bit code as nearly all is: without prefixes but REX, and of the first two maps.
 * Whether there are REX, ModRM and SIB is nothing that a processor foresees, and no branch here.
 */
static struct head plain_head_of(const struct shapes *shapes, const uint8_t *bytes)
{
    uint64_t head;
    unsigned at, opcode, has_rex, is_two;
    enum follows follows;
    struct form form;

    memcpy(&head, bytes, sizeof(head));
    head = le64toh(head);
    has_rex = (head & 0xf0) == 0x40;
    at = has_rex;
    is_two = (head >> 8 * at & 0xff) == OP_TWO_BYTES;
    at += is_two;
    opcode = head >> 8 * at++ & 0xff;
    follows = shapes->follows[is_two][opcode];
    if (follows == SPECIAL)
        return head_of(PTD_MODE_64, bytes);
    form = shapes->form[follows][head >> 8 * at & 0xff];
    head &= ~((uint64_t)form.ignored << 8 * at | (form.ignored_rex & -has_rex));
    at += form.size_bytes;
    return (struct head){head & UINT64_MAX >> (64 - 8 * at), at};
}

/* ---- Shapes ---- */

struct shapes *ptd_shapes_new(void)
{
    struct shapes *const shapes = calloc(1, sizeof(*shapes));

    for (unsigned i = 0; shapes && i < 256; i++) {
        shapes->follows[0][i] = (uint8_t)follows_one(i);
        shapes->follows[1][i] = (uint8_t)follows_two(i);
        for (enum follows follows = NOTHING; follows < SPECIAL; follows++)
            shapes->form[follows][i] = form_of(follows, i);
    }
    return shapes;
}

void ptd_shapes_free(struct shapes *shapes)
{
    free(shapes);
}

static uint8_t key_of(enum ptd_mode mode, struct head head)
{
    return (uint8_t)(mode << 4 | head.count);
}

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

/* Asks Zydis, and remembers what it says of the head. */
static __attribute__((noinline)) int learn(struct shape *shape, struct head head,
                                           enum ptd_mode mode, uint64_t ip, const uint8_t *bytes,
                                           struct ptd_insn *insn)
{
    struct insn_parts parts;
    const int status = ptd_insn_take_apart(mode, ip, bytes, MAX_INSN_BYTES, insn, &parts);

    if (status == PTD_OK && parts.head_bytes == head.count)
        *shape = (struct shape){
            .head = head.bytes,
            .key = key_of(mode, head),
            .size_bytes = insn->size_bytes,
            .iclass = insn->iclass,
            .rel_bytes = parts.rel_bytes,
            .far_return = insn->far_return,
            .optional = insn->optional,
            .wraps = insn->wraps,
        };
    return status;
}

/* What was remembered of this head, or where that would be. */
static struct shape *find(struct shapes *shapes, enum ptd_mode mode, struct head head)
{
    return &shapes->shape[hash_slot(head.bytes ^ key_of(mode, head), SHAPES_LOG2)];
}

static bool is_known(const struct shape *shape, enum ptd_mode mode, struct head head)
{
    return shape->head == head.bytes && shape->key == key_of(mode, head);
}

int ptd_shapes_decode(struct shapes *shapes, enum ptd_mode mode, uint64_t ip, const uint8_t *bytes,
                      size_t available_bytes, struct ptd_insn *insn)
{
    struct shape *shape;
    struct head head;

    if (!shapes || available_bytes < MAX_INSN_BYTES)
        return ptd_insn_decode(mode, ip, bytes, available_bytes, insn);
    head = mode == PTD_MODE_64 ? plain_head_of(shapes, bytes) : head_of(mode, bytes);
    if (head.count == 0)
        return ptd_insn_decode(mode, ip, bytes, available_bytes, insn);
    shape = find(shapes, mode, head);
    if (!is_known(shape, mode, head))
        return learn(shape, head, mode, ip, bytes, insn);
    tell(shape, mode, ip, bytes, insn);
    return PTD_OK;
}

unsigned ptd_shapes_run(struct shapes *shapes, uint64_t ip, const uint8_t *bytes, size_t len_bytes,
                        unsigned most, struct ptd_insn *last)
{
    const struct shape *shape = NULL;
    size_t from = 0, to = 0; /* of the last one */
    unsigned count = 0;

    while (shapes && count < most && len_bytes - to >= MAX_INSN_BYTES) {
        const struct head head = plain_head_of(shapes, bytes + to);
        const struct shape *const found = find(shapes, PTD_MODE_64, head);

        if (!is_known(found, PTD_MODE_64, head))
            break;
        shape = found;
        from = to;
        to += shape->size_bytes;
        count++;
        if (shape->iclass != PTD_INSN_OTHER)
            break;
    }
    if (shape)
        tell(shape, PTD_MODE_64, ip + from, bytes + from, last);
    return count;
}
