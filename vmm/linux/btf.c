/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks BTF and looks members up in it. A header is followed by types, each a head of three
 * numbers and what its kind adds, and by the texts of all names.
 *
 * The check has to know every kind, and what it adds; two questions are little more. So no library
 * is asked, which would have to be trusted with the same bytes.
 */
#include "linux/btf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC      0xeb9fu
#define VERSION    1u
#define TYPES_MAX  (1u << 20)
#define NESTED_MAX 16u        /* structures in structures without a name */
#define LOOKED_MAX (1u << 16) /* members that one question looks at */
#define WRAPS_MAX  32u        /* const, volatile and names around a type */

enum kind {
    KIND_INT = 1,
    KIND_PTR,
    KIND_ARRAY,
    KIND_STRUCT,
    KIND_UNION,
    KIND_ENUM,
    KIND_FWD,
    KIND_TYPEDEF,
    KIND_VOLATILE,
    KIND_CONST,
    KIND_RESTRICT,
    KIND_FUNC,
    KIND_FUNC_PROTO,
    KIND_VAR,
    KIND_DATASEC,
    KIND_FLOAT,
    KIND_DECL_TAG,
    KIND_TYPE_TAG,
    KIND_ENUM64,
    KINDS,
};

/* What a kind adds to the head of a type: so many bytes, and so many for each of its elements. */
static const struct extra {
    uint8_t fixed, each;
} extras[KINDS] = {
    [KIND_INT] = {4, 0},     [KIND_ARRAY] = {12, 0},   [KIND_STRUCT] = {0, 12},
    [KIND_UNION] = {0, 12},  [KIND_ENUM] = {0, 8},     [KIND_FUNC_PROTO] = {0, 8},
    [KIND_VAR] = {4, 0},     [KIND_DATASEC] = {0, 12}, [KIND_DECL_TAG] = {4, 0},
    [KIND_ENUM64] = {0, 12},
};

struct head {
    uint32_t magic_version, head_bytes, type_offset, type_bytes, text_offset, text_bytes;
};

struct type {
    uint32_t name, info, size_or_type;
};

struct member {
    uint32_t name, type, offset;
};

struct array {
    uint32_t type, index_type, elements;
};

static enum kind kind_of(const struct type *type)
{
    return (enum kind)(type->info >> 24 & 0x1f);
}

static uint32_t elements_of(const struct type *type)
{
    return type->info & 0xffff;
}

static const uint8_t *bytes_of(const struct btf *btf, uint32_t number)
{
    return btf->types + btf->offsets[number];
}

/* Of a number that is one of a type; 0 is void. */
static struct type type_of(const struct btf *btf, uint32_t number)
{
    struct type type = {0};

    if (number != 0 && number < btf->count)
        memcpy(&type, bytes_of(btf, number), sizeof(type));
    return type;
}

/* ---- The check ---- */

static int wrong(struct reason *why, const char *what)
{
    return reason_set(why, -EINVAL, "the guest's BTF: %s", what);
}

static int check_head(const uint8_t *bytes, size_t len_bytes, struct head *head, struct reason *why)
{
    if (len_bytes < sizeof(*head) || len_bytes > BTF_BYTES_MAX)
        return wrong(why, "too short or too long");
    memcpy(head, bytes, sizeof(*head));
    if ((head->magic_version & 0xffff) != MAGIC || (head->magic_version >> 16 & 0xff) != VERSION)
        return wrong(why, "not BTF of version 1");
    if (head->head_bytes < sizeof(*head) || head->head_bytes > len_bytes ||
        head->type_offset > len_bytes - head->head_bytes ||
        head->type_bytes > len_bytes - head->head_bytes - head->type_offset ||
        head->text_offset > len_bytes - head->head_bytes ||
        head->text_bytes > len_bytes - head->head_bytes - head->text_offset)
        return wrong(why, "its parts are not inside of it");
    if (head->text_bytes == 0 ||
        bytes[head->head_bytes + head->text_offset + head->text_bytes - 1] != 0)
        return wrong(why, "its texts have no end");
    return 0;
}

/* The whole of a type at `left` bytes from the end; 0: it is none. */
static uint32_t type_bytes(const uint8_t *at, uint32_t left)
{
    struct type type;
    uint32_t all;

    if (left < sizeof(type))
        return 0;
    memcpy(&type, at, sizeof(type));
    if (kind_of(&type) == 0 || kind_of(&type) >= KINDS)
        return 0;
    all = (uint32_t)sizeof(type) + extras[kind_of(&type)].fixed +
          extras[kind_of(&type)].each * elements_of(&type);
    return all <= left ? all : 0;
}

/* How many types there are, and where; the second time offsets is there to be filled. */
static int go_over_types(struct btf *btf, uint32_t len_bytes, struct reason *why)
{
    uint32_t at = 0, number = 1;

    while (at < len_bytes) {
        const uint32_t bytes = type_bytes(btf->types + at, len_bytes - at);

        if (bytes == 0 || number == TYPES_MAX)
            return wrong(why, "a type that is none, or too many");
        if (btf->offsets)
            btf->offsets[number] = at;
        at += bytes;
        number++;
    }
    btf->count = number;
    return 0;
}

int btf_open(struct btf *btf, const uint8_t *bytes, size_t len_bytes, struct reason *why)
{
    struct head head = {0};
    int error;

    *btf = (struct btf){0};
    error = check_head(bytes, len_bytes, &head, why);
    if (error)
        return error;
    btf->types = bytes + head.head_bytes + head.type_offset;
    btf->texts = (const char *)bytes + head.head_bytes + head.text_offset;
    btf->text_bytes = head.text_bytes;
    error = go_over_types(btf, head.type_bytes, why);
    if (error)
        return error;
    btf->offsets = calloc(btf->count, sizeof(*btf->offsets));
    return btf->offsets ? go_over_types(btf, head.type_bytes, why) : reason_no_memory(why);
}

void btf_close(struct btf *btf)
{
    free(btf->offsets);
    btf->offsets = NULL;
    btf->count = 0;
}

/* ---- Questions ---- */

/* Whether a name is the first len bytes of text. */
static bool is_named(const struct btf *btf, uint32_t name, const char *text, size_t len)
{
    return name < btf->text_bytes && strncmp(btf->texts + name, text, len) == 0 &&
           btf->texts[name + len] == 0;
}

uint32_t btf_struct(const struct btf *btf, const char *name, uint32_t after)
{
    const size_t len = strlen(name);

    for (uint32_t i = after + 1; i < btf->count; i++) {
        const struct type type = type_of(btf, i);

        if (kind_of(&type) == KIND_STRUCT && is_named(btf, type.name, name, len))
            return i;
    }
    return 0;
}

uint32_t btf_bytes(const struct btf *btf, uint32_t type)
{
    return type_of(btf, type).size_or_type;
}

/* The type itself, without what only wraps it. */
static uint32_t unwrapped(const struct btf *btf, uint32_t number)
{
    for (unsigned i = 0; i < WRAPS_MAX; i++) {
        const struct type type = type_of(btf, number);

        switch (kind_of(&type)) {
        case KIND_TYPEDEF:
        case KIND_VOLATILE:
        case KIND_CONST:
        case KIND_RESTRICT:
        case KIND_TYPE_TAG:
            number = type.size_or_type;
            break;
        default:
            return number;
        }
    }
    return 0;
}

static bool is_compound(const struct type *type)
{
    return kind_of(type) == KIND_STRUCT || kind_of(type) == KIND_UNION;
}

/* A structure in which a member is looked for, and how far that came. */
struct level {
    uint32_t type, bits, next;
};

static struct member member_at(const struct btf *btf, uint32_t type, uint32_t i)
{
    struct member member;

    memcpy(&member, bytes_of(btf, type) + sizeof(struct type) + i * sizeof(member), sizeof(member));
    /* With the highest bit of info, a member's offset has the width of a bit field above it. */
    if (type_of(btf, type).info >> 31)
        member.offset &= 0xffffff;
    return member;
}

/* A member by its name alone: of the structure, and of those without a name in it. */
static bool find_name(const struct btf *btf, uint32_t type, const char *name, size_t len,
                      struct member *found)
{
    struct level levels[NESTED_MAX] = {{.type = type}};
    unsigned depth = 1;

    for (unsigned looked = 0; depth > 0 && looked < LOOKED_MAX; looked++) {
        struct level *const level = &levels[depth - 1];
        const struct type outer = type_of(btf, level->type);
        struct type inner;
        uint32_t number;

        if (!is_compound(&outer) || level->next == elements_of(&outer)) {
            depth--;
            continue;
        }
        *found = member_at(btf, level->type, level->next++);
        found->offset += level->bits;
        if (is_named(btf, found->name, name, len))
            return true;
        number = unwrapped(btf, found->type);
        inner = type_of(btf, number);
        if (is_named(btf, found->name, "", 0) && is_compound(&inner) && depth < NESTED_MAX)
            levels[depth++] = (struct level){number, found->offset, 0};
    }
    return false;
}

static uint32_t array_elements(const struct btf *btf, uint32_t number)
{
    const struct type type = type_of(btf, number);
    struct array array;

    if (kind_of(&type) != KIND_ARRAY)
        return 1;
    memcpy(&array, bytes_of(btf, number) + sizeof(type), sizeof(array));
    return array.elements;
}

int btf_member(const struct btf *btf, uint32_t type, const char *path, struct btf_member *member)
{
    uint32_t bits = 0;

    for (;;) {
        const size_t len = strcspn(path, ".");
        struct member found;

        if (len == 0 || !find_name(btf, type, path, len, &found))
            return -ENOENT;
        bits += found.offset;
        type = unwrapped(btf, found.type);
        if (path[len] == 0)
            break;
        path += len + 1;
    }
    if (bits % 8 != 0)
        return -ENOENT;
    *member = (struct btf_member){bits / 8, type, array_elements(btf, type)};
    return 0;
}
