/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes BTF, by the kernel's description of the format. */
#include "made_btf.h"

#include <stdlib.h>
#include <string.h>

#define KIND_INT    1u
#define KIND_ARRAY  3u
#define KIND_STRUCT 4u

static void put(struct made_btf *btf, uint32_t value)
{
    if (btf->type_bytes + sizeof(value) > MADE_BTF_BYTES)
        abort();
    memcpy(btf->types + btf->type_bytes, &value, sizeof(value));
    btf->type_bytes += sizeof(value);
}

static uint32_t put_text(struct made_btf *btf, const char *text)
{
    const size_t at = btf->text_bytes, len = strlen(text) + 1;

    if (at > 0 && len == 1)
        return 0;
    if (at + len > MADE_BTF_BYTES)
        abort();
    memcpy(btf->texts + at, text, len);
    btf->text_bytes += len;
    return (uint32_t)at;
}

static uint32_t put_head(struct made_btf *btf, const char *name, uint32_t kind, uint32_t count,
                         uint32_t size_or_type)
{
    put(btf, put_text(btf, name));
    put(btf, kind << 24 | count);
    put(btf, size_or_type);
    return ++btf->count;
}

void made_btf_begin(struct made_btf *btf)
{
    memset(btf, 0, sizeof(*btf));
    (void)put_text(btf, "");
    (void)put_head(btf, "long", KIND_INT, 0, 8);
    put(btf, 64);
}

uint32_t made_btf_struct(struct made_btf *btf, const char *name, uint32_t bytes,
                         const struct made_member *members, uint32_t count)
{
    const uint32_t number = put_head(btf, name, KIND_STRUCT, count, bytes);

    for (uint32_t i = 0; i < count; i++) {
        put(btf, put_text(btf, members[i].name));
        put(btf, members[i].type);
        put(btf, members[i].offset * 8);
    }
    return number;
}

uint32_t made_btf_array(struct made_btf *btf, uint32_t type, uint32_t elements)
{
    const uint32_t number = put_head(btf, "", KIND_ARRAY, 0, 0);

    put(btf, type);
    put(btf, 1);
    put(btf, elements);
    return number;
}

uint32_t made_btf_wrap(struct made_btf *btf, const char *name, uint32_t kind, uint32_t type)
{
    return put_head(btf, name, kind, 0, type);
}

size_t made_btf_end(struct made_btf *btf)
{
    const uint32_t head[] = {
        1u << 16 | 0xeb9f,        24, 0, (uint32_t)btf->type_bytes, (uint32_t)btf->type_bytes,
        (uint32_t)btf->text_bytes};

    memcpy(btf->all, head, sizeof(head));
    memcpy(btf->all + sizeof(head), btf->types, btf->type_bytes);
    memcpy(btf->all + sizeof(head) + btf->type_bytes, btf->texts, btf->text_bytes);
    return sizeof(head) + btf->type_bytes + btf->text_bytes;
}
