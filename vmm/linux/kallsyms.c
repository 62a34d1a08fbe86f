/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads kallsyms. Names are compressed: each is a length and so many bytes, of which each is the
 * number of a token, a piece of text. The first letter of what they make is the symbol's kind. A
 * length of 128 and more has a second byte (since Linux 6.1).
 *
 * Addresses are 32-bit numbers, in one of two forms. With CONFIG_KALLSYMS_ABSOLUTE_PERCPU, which
 * kernels for several processors have, one that is not negative is an address of itself, and others
 * count down from just below the base. Else they count up from the base. Nothing says which: where
 * _stext is, which VMCOREINFO tells too, decides.
 */
#include "linux/kallsyms.h"
#include "linux/look/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_MAX     (1u << 21)
#define NAMES_BYTES_MAX (128u << 20)
#define TOKENS          256u
#define TOKEN_BYTES     128u
#define NAME_BYTES      512u /* KSYM_NAME_LEN, with a letter in front and a zero behind */
#define CHUNK_BYTES     4096u

/* Bytes that are read one after the other. */
struct cursor {
    const struct look_space *space;
    uint64_t at; /* of what comes behind chunk */
    size_t next, count;
    uint8_t chunk[CHUNK_BYTES];
};

struct tokens {
    char text[TOKENS][TOKEN_BYTES];
};

static int wrong(struct reason *why, const char *what)
{
    return reason_set(why, -EINVAL, "the guest's kallsyms: %s", what);
}

/* To the end of a page at a time, so that nothing is asked for that stands behind the table. */
static bool next_byte(struct cursor *cursor, uint8_t *byte)
{
    if (cursor->next == cursor->count) {
        const size_t count = CHUNK_BYTES - (size_t)(cursor->at % CHUNK_BYTES);

        if (!look_read(cursor->space, cursor->at, cursor->chunk, count))
            return false;
        cursor->at += count;
        cursor->count = count;
        cursor->next = 0;
    }
    *byte = cursor->chunk[cursor->next++];
    return true;
}

static bool read_tokens(struct tokens *tokens, const struct look_space *space,
                        const struct vmcoreinfo *info)
{
    uint16_t index[TOKENS];

    if (!look_read(space, info->token_index, index, sizeof(index)))
        return false;
    for (unsigned i = 0; i < TOKENS; i++) {
        tokens->text[i][0] = 0;
        /* A number that no name uses has no text, so that nothing of it can be wrong. */
        if (!look_text(space, info->tokens + index[i], tokens->text[i], TOKEN_BYTES))
            return false;
    }
    return true;
}

static bool read_length(struct cursor *names, uint32_t *length)
{
    uint8_t low, high;

    if (!next_byte(names, &low))
        return false;
    *length = low & 0x7f;
    if (!(low & 0x80))
        return true;
    if (!next_byte(names, &high))
        return false;
    *length |= (uint32_t)high << 7;
    return true;
}

/* The next name, with its letter in front; what is too long is cut off. */
static bool read_name(struct cursor *names, const struct tokens *tokens, char *name, size_t *len)
{
    uint32_t length;
    uint8_t number;

    *len = 0;
    if (!read_length(names, &length))
        return false;
    for (; length > 0; length--) {
        size_t more;

        if (!next_byte(names, &number))
            return false;
        more = strlen(tokens->text[number]);
        if (more > NAME_BYTES - 1 - *len)
            more = NAME_BYTES - 1 - *len;
        memcpy(name + *len, tokens->text[number], more);
        *len += more;
    }
    name[*len] = 0;
    return *len > 0;
}

static int read_names(struct kernel_symbols *symbols, struct cursor *cursor,
                      const struct tokens *tokens, struct reason *why)
{
    char name[NAME_BYTES];
    size_t len;

    for (size_t i = 0; i < symbols->count; i++) {
        if (!read_name(cursor, tokens, name, &len))
            return wrong(why, "names are missing");
        if (symbols->names.len > NAMES_BYTES_MAX)
            return wrong(why, "more names than a kernel has");
        symbols->list[i].name = (uint32_t)symbols->names.len;
        symbols->list[i].letter = name[0];
        if (!bytes_add(&symbols->names, name + 1, len))
            return reason_no_memory(why);
    }
    return 0;
}

/* The numbers of the table as they stand there. */
static int read_offsets(struct kernel_symbols *symbols, struct cursor *cursor, struct reason *why)
{
    for (size_t i = 0; i < symbols->count; i++) {
        uint32_t offset = 0;

        for (unsigned bit = 0; bit < 32; bit += 8) {
            uint8_t byte;

            if (!next_byte(cursor, &byte))
                return wrong(why, "addresses are missing");
            offset |= (uint32_t)byte << bit;
        }
        symbols->list[i].address = offset;
    }
    return 0;
}

static uint64_t address_of(uint64_t offset, uint64_t base, bool is_percpu_absolute)
{
    const int32_t number = (int32_t)(uint32_t)offset;

    if (!is_percpu_absolute)
        return base + offset;
    return number >= 0 ? offset : base - 1 - (uint64_t)(int64_t)number;
}

/* Makes addresses out of the numbers, in the form in which _stext is where it should be. */
static int settle(struct kernel_symbols *symbols, uint64_t base, uint64_t text, struct reason *why)
{
    const uint64_t offset = kallsyms_find(symbols, "_stext");
    const bool is_percpu_absolute = address_of(offset, base, true) == text;

    if (offset == LOOK_NONE || (!is_percpu_absolute && address_of(offset, base, false) != text))
        return wrong(why, "_stext is not where VMCOREINFO says");
    for (size_t i = 0; i < symbols->count; i++)
        symbols->list[i].address = address_of(symbols->list[i].address, base, is_percpu_absolute);
    return 0;
}

static int read_tables(struct kernel_symbols *symbols, const struct look_space *space,
                       const struct vmcoreinfo *info, struct reason *why)
{
    struct tokens *const tokens = malloc(sizeof(*tokens));
    struct cursor cursor = {.space = space, .at = info->names};
    int error = 0;

    if (!tokens)
        return reason_no_memory(why);
    if (!read_tokens(tokens, space, info))
        error = wrong(why, "tokens are missing");
    if (!error)
        error = read_names(symbols, &cursor, tokens, why);
    free(tokens);
    if (error)
        return error;
    cursor = (struct cursor){.space = space, .at = info->offsets};
    return read_offsets(symbols, &cursor, why);
}

int kallsyms_read(struct kernel_symbols *symbols, const struct look_space *space,
                  const struct vmcoreinfo *info, struct reason *why)
{
    uint64_t base;
    uint32_t count;
    int error;

    *symbols = (struct kernel_symbols){0};
    if (!look_u32(space, info->name_count, &count) || !look_u64(space, info->relative_base, &base))
        return wrong(why, "it cannot be read");
    if (count == 0 || count > SYMBOLS_MAX)
        return wrong(why, "no symbols, or more than a kernel has");
    symbols->list = calloc(count, sizeof(*symbols->list));
    if (!symbols->list)
        return reason_no_memory(why);
    symbols->count = count;
    error = read_tables(symbols, space, info, why);
    return error ? error : settle(symbols, base, info->text, why);
}

void kallsyms_free(struct kernel_symbols *symbols)
{
    free(symbols->list);
    bytes_free(&symbols->names);
    *symbols = (struct kernel_symbols){0};
}

const char *kallsyms_name(const struct kernel_symbols *symbols, size_t i)
{
    return (const char *)symbols->names.data + symbols->list[i].name;
}

uint64_t kallsyms_find(const struct kernel_symbols *symbols, const char *name)
{
    for (size_t i = 0; i < symbols->count; i++)
        if (strcmp(kallsyms_name(symbols, i), name) == 0)
            return symbols->list[i].address;
    return LOOK_NONE;
}
